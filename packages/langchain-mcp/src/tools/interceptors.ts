import type { ToolMessage } from '@langchain/core/messages'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import {
  serverTitle,
  type JsonSchema,
  type McpServerLabel,
  type McpToolSource,
  type ToolDefinition,
  type ToolResult,
} from '../base/tool-source.ts'
import { approvalInterceptor, type Approve } from './tool-approval.ts'
import { pinInterceptor, ToolPins, type PinnedTools } from './tool-pins.ts'

/** A call on its way to a server. */
export interface ToolCallRequest {
  /** The name that the model used. */
  readonly name: string
  readonly server: McpServerLabel
  /** As the server describes it; `tool.name` is the name on the wire. */
  readonly tool: ToolDefinition
  readonly args: Readonly<Record<string, unknown>>
  /** A copy of arguments for people and logs: without the sensitive values of `argumentProperties`. */
  readonly withoutSecrets: (
    args: Readonly<Record<string, unknown>>,
  ) => Readonly<Record<string, unknown>>
  /**
   * Sent with this call alone, over those of the server's config. Programs (stdio) and clients that were
   * handed in have none.
   */
  readonly headers: Readonly<Record<string, string>>
  /** Sent as `_meta` of the call. */
  readonly meta: Readonly<Record<string, unknown>>
  /** What the tool was called with: `configurable`, `signal`, `toolCall`, … */
  readonly config: ToolRunnableConfig
}

/** What an interceptor may change of a request; what is not named stays as it is. */
export interface ToolCallChange {
  readonly args?: Readonly<Record<string, unknown>> | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}

/** An answer that goes to the graph as it is: a message, or a `Command` of LangGraph. */
export type DirectAnswer =
  | ToolMessage
  | { readonly lg_name: 'Command'; readonly lc_direct_tool_output: boolean }

export type ToolCallAnswer = ToolResult | DirectAnswer

/**
 * Stands around a call. Looks at the request; changes it by what it gives to `next`; answers without the
 * server by not calling `next`; looks at the result, and may return another. What it throws, and what
 * `next()` rejects with, is treated like any failure of a call. Where a graph goes on after an interrupt,
 * it is asked again: its own effects must bear that.
 */
export type ToolInterceptor = (
  request: ToolCallRequest,
  next: (change?: ToolCallChange) => Promise<ToolCallAnswer>,
) => ToolCallAnswer | Promise<ToolCallAnswer>

/** The first is the outermost: it sees a request first, and a result last. */
export function intercepted(
  interceptors: readonly ToolInterceptor[],
  request: ToolCallRequest,
  call: (request: ToolCallRequest) => Promise<ToolCallAnswer>,
): Promise<ToolCallAnswer> {
  const [first, ...others] = interceptors
  if (first === undefined) return call(request)
  // An async function, so that one that throws at once rejects like one that throws later.
  return (async () => {
    const next = (change: ToolCallChange = {}): Promise<ToolCallAnswer> =>
      intercepted(others, changed(request, change), call)
    return answerOf(first, await first(request, next))
  })()
}

/** The compiler sees a `return` that was forgotten; JavaScript does not. */
function answerOf({ name }: ToolInterceptor, answer: unknown): ToolCallAnswer {
  if (isAnswer(answer)) return answer
  const who = name === '' ? 'An interceptor' : `The interceptor ${name}`
  throw new TypeError(
    `${who} returned ${answer === null ? 'null' : typeof answer}: return what next() gives, a result, a ToolMessage or a Command`,
  )
}

function isAnswer(answer: unknown): answer is ToolCallAnswer {
  return typeof answer === 'object' && answer !== null
}

/** Whether an answer is not the result of a server: that is plain data, whatever it says of itself. */
export function isDirectAnswer(answer: ToolCallAnswer): answer is DirectAnswer {
  return Object.getPrototypeOf(answer) !== Object.prototype && 'lc_direct_tool_output' in answer
}

function changed(request: ToolCallRequest, change: ToolCallChange): ToolCallRequest {
  const { args = request.args, headers = request.headers, meta = request.meta } = change
  return { ...request, args, headers, meta }
}

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

/** A call that an evaluation may answer in place of the server. */
export interface MockedCall {
  /** Its slug, else its name. */
  readonly server: string
  /** The name on the wire. */
  readonly name: string
  /** `''` where the server has none. */
  readonly description: string
  readonly args: Readonly<Record<string, unknown>>
  /** @default { type: 'object', properties: {} } */
  readonly inputSchema: JsonSchema
  /** @default { type: 'object', properties: {} } */
  readonly outputSchema: JsonSchema
}

/** Answers in place of the server, with a result or just its text; `undefined` lets the server answer. */
export type ToolMock = (
  call: MockedCall,
) => ToolResult | string | undefined | Promise<ToolResult | string | undefined>

const ANYTHING: JsonSchema = { type: 'object', properties: {} }

/** Nothing is sent, and nobody asked for approval, where the mock answers. */
function mockInterceptor(mock: ToolMock): ToolInterceptor {
  return async function mocked({ server, tool, args }, next) {
    const { name, description = '', inputSchema = ANYTHING, outputSchema = ANYTHING } = tool
    const call = { server: serverTitle(server), name, description, args, inputSchema, outputSchema }
    const answer = await mock(call)
    if (typeof answer === 'string') return { content: [{ type: 'text', text: answer }] }
    return answer ?? next()
  }
}
