import type { McpServerLabel } from './tool-origin.ts'

/**
 * Why a tool call failed. Stable: callers switch on it. "Handle errors" in the README says what each of
 * them means, and what to do.
 */
export type McpToolErrorCode =
  | 'TOOL_FAILED' // the tool ran and reported an error (`isError`)
  | 'SERVER_ERROR' // the server answered with a JSON-RPC error
  | 'SESSION_LOST' // the session ended and could not be opened again
  | 'OUTCOME_UNKNOWN' // sent, never answered: it may have been executed
  | 'TIMEOUT' // no answer in time: it may have been executed
  | 'UNREACHABLE' // no connection: it was not executed
  | 'UNAUTHORIZED' // the server refused the credentials
  | 'INVALID_OUTPUT' // it ran, but its structured result does not fit its own schema
  | 'HTTP_ERROR' // an HTTP answer that is not MCP
  | 'CONFIG' // the server is not set up correctly on this side
  | 'NO_RUN' // it was called outside runInSessionScope(), with `session: 'run'`: it was not executed
  | 'CLOSED' // the client was disposed of meanwhile
  | 'TOOL_REDEFINED' // its definition is not the one that was pinned: it was not executed
  | 'APPROVAL_REQUIRED' // a person has to approve it and cannot be asked: it was not executed
  | 'SCHEMA_CHANGED' // its parameters are others than the model was told; it was not executed
  | 'TOOL_REMOVED' // the server does not offer it any more; it was not executed
  | 'INVALID_STATIC_ARGUMENT' // what is configured for its arguments cannot be used
  | 'INPUT_REQUIRED' // the server wants a person or a model where there is none to ask
  | 'NAME_COLLISION' // two tools want one name, and `onNameCollision` is 'throw'

/** Who can do something about it: `user` whoever configured the agent, `system` time or an operator. */
export type McpToolErrorCategory = 'user' | 'system'

/** Whether the tool was executed, where that is not obvious from the code. */
export type ToolOutcome = 'unknown' | 'not-executed' | 'executed'

export interface McpToolErrorOptions extends ErrorOptions {
  readonly server: McpServerLabel
  /** The name on the wire. */
  readonly toolName: string
  /** @default 'system' */
  readonly category?: McpToolErrorCategory | undefined
  /** @default undefined, where the code says it */
  readonly outcome?: ToolOutcome | undefined
  /** What the server sent. @default undefined */
  readonly artifact?: unknown
}

const BRAND = Symbol.for('langchain-mcp.McpToolError')

/**
 * A call of an MCP tool failed. The message is written for a model: it says what happened and what to
 * do next, and holds no session id, token or query string of ours.
 */
export class McpToolError extends Error {
  override readonly name = 'McpToolError'
  readonly code: McpToolErrorCode
  readonly category: McpToolErrorCategory
  /** Undefined for a server that has none: one that is given by URL, or a client that was handed in. */
  readonly serverSlug: string | undefined
  /** The name on the wire. */
  readonly toolName: string
  /** Undefined where the code says it, or nobody can. */
  readonly outcome: ToolOutcome | undefined
  /** What the server sent, where it sent something: the same artifact that a `ToolMessage` carries. */
  readonly artifact: unknown

  constructor(code: McpToolErrorCode, message: string, options: McpToolErrorOptions) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.category = options.category ?? 'system'
    this.serverSlug = options.server.slug
    this.toolName = options.toolName
    this.outcome = options.outcome
    this.artifact = options.artifact
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** `instanceof` that also knows errors made by another copy of this package. */
  static is(value: unknown): value is McpToolError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}
