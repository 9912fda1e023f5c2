import type { Era } from '@x/mcp-transport'
import type { SessionState } from '../session-state.ts'
import type { McpClientErrorCode } from '../mcp-client-error.ts'
import type { SessionScope } from '../session-scope.ts'

/** Where a session of a client stands. */
export interface SessionStatus {
  readonly state: SessionState['phase']
  /** As negotiated; undefined while there is no session. */
  readonly era?: Era | undefined
  readonly protocolVersion?: string | undefined
  /** Counts the sessions with this server, also over processes where the store outlives them. */
  readonly epoch?: number | undefined
  /** Shortened. Undefined on servers without sessions. */
  readonly sessionId?: string | undefined
  /** How many tools the last list had; undefined if there was none in this life. */
  readonly tools?: number | undefined
}

/** Where a client stands, for health checks. Fit for JSON; holds no whole session id. */
export interface McpClientStatus extends SessionStatus {
  /** Slug, name or URL of the server, as configured; without query. */
  readonly server: string
  /** Of the last operation that came to no answer, in whatever scope, however long ago. */
  readonly lastError?: LastError | undefined
  /** Of all scopes, whichever is asked in; the ones that were used last come last. */
  readonly sessions: readonly ScopeStatus[]
}

/** Where the session of one scope stands. */
export interface ScopeStatus extends SessionStatus {
  /** As it was given; undefined for a client without one. */
  readonly scope: SessionScope | undefined
}

export interface LastError {
  readonly code: McpClientErrorCode
  readonly at: Date
}
