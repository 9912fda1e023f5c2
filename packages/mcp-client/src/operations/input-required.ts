import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { INPUT_META_KEY } from '@x/mcp-transport'
import type { InputAnswers, InputRequest } from '@x/mcp-transport'

/**
 * A call that is not over: the server needs answers first (2026-07-28, basic/patterns/mrtr). Plain data:
 * it may be stored, and the call continued with `resume`, by any client of the same server.
 */
export interface InputRequired {
  readonly type: 'input_required'
  /** What the server asks, by keys of its own. Absent where it only wants to be asked again. */
  readonly inputRequests?: Readonly<Record<string, InputRequest>> | undefined
  /** Opaque; goes back as it is. Not for people. */
  readonly requestState?: string | undefined
}

/** Continues a call that was surfaced: the state as it came, and an answer for each request. */
export type InputResume = InputAnswers

/** Whether a call came back with questions instead of a result. */
export function isInputRequired(result: CallToolResult | InputRequired): result is InputRequired {
  return 'type' in result && result.type === 'input_required'
}

/** What the transport hands up in place of a result. */
export function inputRequiredFrom(result: CallToolResult): InputRequired | undefined {
  if (result['resultType'] !== 'input_required') return undefined
  const { inputRequests, requestState } = result
  return {
    type: 'input_required',
    ...(isRequests(inputRequests) ? { inputRequests } : {}),
    ...(typeof requestState === 'string' ? { requestState } : {}),
  }
}

interface Asked {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

/** The request, continued with the round that failed, where there is one. */
export function continuedFrom<Request extends Asked>(
  asked: Request,
  resume: InputResume | undefined,
): Request {
  if (resume === undefined) return asked
  const meta = isObject(asked.params['_meta']) ? asked.params['_meta'] : {}
  const instructions = isObject(meta[INPUT_META_KEY]) ? meta[INPUT_META_KEY] : {}
  const continued = { ...meta, [INPUT_META_KEY]: { ...instructions, answers: resume } }
  return { ...asked, params: { ...asked.params, _meta: continued } }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

/** The transport has checked it already; this is for the compiler. */
function isRequests(value: unknown): value is Readonly<Record<string, InputRequest>> {
  return typeof value === 'object' && value !== null
}
