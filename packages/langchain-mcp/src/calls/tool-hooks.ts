import { approvalInterceptor, type Approve } from './tool-approval.ts'
import type { ToolInterceptor } from './tool-interceptor.ts'
import { mockInterceptor, type ToolMock } from './tool-mock.ts'
import { pinInterceptor, ToolPins, type PinnedTools } from '../catalogue/tool-pins.ts'
import type { McpToolSource } from '../catalogue/tool-source.ts'

/** What stands between a tool and its server. */
export interface ToolHooks {
  /** Stand around every call, the first one outermost. @default none */
  readonly interceptors?: readonly ToolInterceptor[] | undefined
  /**
   * Which calls a person has to approve: the graph is interrupted before anything is sent, and goes on with
   * `new Command({ resume: { decisions: [{ type: 'approve' }] } })`, or with `edit` or `reject`. It sees a
   * call as the interceptors leave it. @default none
   */
  readonly approve?: Approve | undefined
  /**
   * Refuses tools whose definition is not the one that was agreed to: by hashes, where a tool of a server
   * that has some and is not among them is refused as well, or by what was seen first in this process.
   * Such tools are left out of lists, and calls of older ones are not sent (`TOOL_REDEFINED`). Definitions
   * that are stored with an agent are what was agreed to, whole. @default no pins
   */
  readonly pin?: 'first-use' | PinnedTools | ToolPins | undefined
  /** For evaluations: may answer in place of the server. @default none */
  readonly mock?: ToolMock | undefined
}

/** From the caller inwards: pins, what the user brings, the mock, approval. */
export function interceptorsFrom(hooks: ToolHooks, source: McpToolSource): ToolInterceptor[] {
  const { interceptors = [], approve, mock } = hooks
  const pins = toolPinsFrom(hooks.pin)
  return [
    ...(pins === undefined ? [] : [pinInterceptor(pins, source)]),
    ...interceptors,
    ...(mock === undefined ? [] : [mockInterceptor(mock)]),
    ...(approve === undefined ? [] : [approvalInterceptor(approve)]),
  ]
}

/** One that remembers what it saw first has to be made once. */
export function toolPinsFrom(pin: ToolHooks['pin']): ToolPins | undefined {
  return pin === undefined || isToolPins(pin) ? pin : new ToolPins(pin)
}

/** Also an object of another copy of this package: taken for a list of pins, it would pin nothing. */
function isToolPins(pin: 'first-use' | PinnedTools | ToolPins): pin is ToolPins {
  return typeof pin === 'object' && typeof pin['redefinition'] === 'function'
}
