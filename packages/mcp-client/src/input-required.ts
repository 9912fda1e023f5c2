import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '@x/internal'
import type { InputAnswers, InputRequest } from '@x/mcp-transport'

/**
 * A call that the server cannot finish without answers (2026-07-28, basic/patterns/mrtr). Plain data: it may be
 * stored, and any client of the same server may continue the call with `resume`.
 */
export interface InputRequired {
  readonly type: 'input_required'
  /** Requests of the server, by its own keys. Undefined if the client need only repeat the call. */
  readonly inputRequests: Readonly<Record<string, InputRequest>> | undefined
  /** Opaque state that the client returns unchanged. Do not show it to users. */
  readonly requestState: string | undefined
  /** The task that waits for the answers, if the call has become one. */
  readonly task: TaskReference | undefined
}

/**
 * Continues a call that returned `InputRequired`: the unchanged state or task, and an answer for each request. Further
 * questions of a task return later, so that some may be answered first.
 */
export interface InputResume extends InputAnswers {
  readonly task?: TaskReference | undefined
}

/**
 * Data with which any process continues a task of a server. Plain JSON without credentials. It belongs to one server and
 * one principal, and is refused for others.
 */
export interface TaskReference {
  /** Version of the format. */
  readonly v: 1
  /** The endpoint of the server. A digest replaces the query. */
  readonly server: string
  /** Principal of the scope in which the task was started. */
  readonly principal: string | null
  readonly taskId: string
  readonly tool: string
  /** Revision of MCP that created the task. */
  readonly protocolVersion: string
  /** Time when this client received the task, by its own clock, ISO 8601. */
  readonly createdAt: string
  /** End of the time for which the server keeps the task, ISO 8601. `null`: no end. */
  readonly expiresAt: string | null
  /** Key that the call was sent with. */
  readonly idempotencyKey: string | null
  /** Questions of the server that were answered. They are not asked again. */
  readonly answeredKeys: readonly string[]
}

/**
 * Returns true if a call needs answers before it has a result.
 *
 * @example
 * ```ts
 * import { isInputRequired, McpClient } from '@x/mcp-client'
 *
 * await using client = new McpClient('https://hotel.example/mcp', {
 *   capabilities: { elicitation: { form: {} } },
 * })
 * const answer = await client.callTool('book', { room: 7 }, { inputRequired: 'surface' })
 * if (isInputRequired(answer)) console.log(answer.inputRequests) // answered with the option `resume`
 * ```
 */
export function isInputRequired(result: CallToolResult | InputRequired): result is InputRequired {
  return 'type' in result && result.type === 'input_required'
}

/** Returns the requests of the server if the transport returned them instead of a result. */
export function toInputRequired(result: CallToolResult): InputRequired | undefined {
  if (result['resultType'] !== 'input_required') return undefined
  const { inputRequests, requestState } = result
  return {
    type: 'input_required',
    inputRequests: isRequests(inputRequests) ? inputRequests : undefined,
    requestState: typeof requestState === 'string' ? requestState : undefined,
    task: undefined,
  }
}

/** For the compiler only: the transport has checked the requests. */
function isRequests(value: unknown): value is Readonly<Record<string, InputRequest>> {
  return isRecord(value)
}
