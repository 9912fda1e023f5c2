import type { Era } from '@x/mcp-transport'
import type { McpClientErrorCode } from './errors.ts'
import type { SessionScope } from './session-scope.ts'
import type { SessionState } from './session-state.ts'

/** State of a session. */
export interface SessionStatus {
  readonly state: SessionState['phase']
  /** As negotiated. Undefined without a session. */
  readonly era?: Era | undefined
  readonly protocolVersion?: string | undefined
  /** Number of the session with this server, also over processes if the store outlives them. */
  readonly epoch?: number | undefined
  /** Shortened. Undefined on servers without sessions. */
  readonly sessionId?: string | undefined
  /** Number of tools in the last list. Undefined before the first list. */
  readonly tools?: number | undefined
}

/** State of a client, for health checks. Can be sent as JSON; contains no complete session id. */
export interface McpClientStatus extends SessionStatus {
  /** Slug, name or URL of the server, as configured; without query. */
  readonly server: string
  /** Error of the last operation that failed, in any scope, at any time. */
  readonly lastError?: LastError | undefined
  /** Sessions of all scopes, in the order of their last use. */
  readonly sessions: readonly ScopeStatus[]
}

/** State of the session of one scope. */
export interface ScopeStatus extends SessionStatus {
  /** Undefined for a client without a scope. */
  readonly scope: SessionScope | undefined
}

export interface LastError {
  readonly code: McpClientErrorCode
  readonly at: Date
}
