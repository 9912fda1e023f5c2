import { FailureStreak } from '@x/internal'
import type { Era, TransportError } from '@x/mcp-transport'
import type { McpClientErrorCode } from './errors.ts'
import type { McpSession } from './mcp-session.ts'
import { recoveryDelayMs } from './retry.ts'
import type { RetryTiming } from './retry.ts'
import type { SessionScope } from './session-scope.ts'
import type { LeftOutTool } from './tool-list.ts'

/** State of the slot of a scope. Only `nextState` changes it, and every change of the phase emits the event `state`. */
export type SlotState =
  /** Nothing is open. */
  | { readonly phase: 'created' }
  /** Phase 1: finding the server, creating the dispatcher and the session store. */
  | { readonly phase: 'connecting' }
  /** Phase 2: the MCP handshake. `before` is undefined for the first session. */
  | { readonly phase: 'handshaking'; readonly before: EndedSession | undefined }
  | { readonly phase: 'active'; readonly session: McpSession }
  /** Phase 1 is done, and no session is open. The next operation opens one. */
  | { readonly phase: 'idle'; readonly before: EndedSession }
  | { readonly phase: 'disposing' }

/** The last session, and why it ended. */
export interface EndedSession {
  readonly session: McpSession
  readonly reason: string
  /** Error with which the server refused the session. */
  readonly loss?: TransportError
  /** Only failures in a row speak against the session. It is used again if the server answers a ping in it. */
  readonly isSuspect?: boolean
  /** The server may speak another era: the next session starts from nothing. */
  readonly isOfOtherEra?: boolean
}

export type SlotEvent =
  /** An operation needs a session. */
  | { readonly type: 'needed' }
  /** Phase 1 has succeeded. */
  | { readonly type: 'connected' }
  /** Phase 2 has succeeded. */
  | { readonly type: 'opened'; readonly session: McpSession }
  /** The current phase has failed. */
  | { readonly type: 'failed' }
  /** The server refused the session, the connection was closed, or too many requests have failed. */
  | ({ readonly type: 'ended' } & EndedSession)
  | { readonly type: 'disposing' }
  | { readonly type: 'disposed' }

/** Returns the state after an event. An event that does not fit the state changes nothing. Does no I/O. */
export function nextState(state: SlotState, event: SlotEvent): SlotState {
  switch (event.type) {
    case 'needed':
      if (state.phase === 'created') return { phase: 'connecting' }
      return state.phase === 'idle' ? { phase: 'handshaking', before: state.before } : state
    case 'connected':
      return state.phase === 'connecting' ? { phase: 'handshaking', before: undefined } : state
    case 'opened':
      return state.phase === 'handshaking' ? { phase: 'active', session: event.session } : state
    case 'failed':
      if (state.phase === 'connecting') return { phase: 'created' }
      if (state.phase !== 'handshaking') return state
      return state.before === undefined
        ? { phase: 'created' }
        : { phase: 'idle', before: state.before }
    case 'ended': {
      const { type: _type, ...before } = event
      // A late event of an older session must not end the one that replaced it.
      return state.phase === 'active' && state.session === before.session
        ? { phase: 'idle', before }
        : state
    }
    case 'disposing':
      return state.phase === 'created' || state.phase === 'disposing'
        ? state
        : { phase: 'disposing' }
    case 'disposed':
      return state.phase === 'disposing' ? { phase: 'created' } : state
  }
}

/** Recent failures of a server, in all sessions of a slot. */
export class ServerHealth extends FailureStreak {
  /** Time of the last connection problem, by `performance.now()`. Undefined if the server has answered since. */
  troubleAt: number | undefined
  /** Number of sessions that ended without the will of this side, without a successful call between them. */
  lossesInRow = 0
  #lastFailure: unknown

  /** Records the failure of a request once, also if several callers share the request. */
  failed(error: unknown): void {
    if (error !== this.#lastFailure) this.add()
    this.#lastFailure = error
  }

  /** Milliseconds to wait before the next session is opened. The first recovery starts at once. */
  delayMs(timing: RetryTiming): number {
    return recoveryDelayMs(this.lossesInRow, timing)
  }
}

/** State of a session. */
export interface SessionStatus {
  readonly state: SlotState['phase']
  /** As negotiated. Undefined without a session. */
  readonly era: Era | undefined
  readonly protocolVersion: string | undefined
  /** Number of the session with this server, also over processes if the store outlives them. */
  readonly epoch: number | undefined
  /** Shortened. Undefined on servers without sessions. */
  readonly sessionId: string | undefined
  /** Number of tools in the last list. Undefined before the first list. */
  readonly tools: number | undefined
  /** Tools of the last list that cannot be used, with the reasons. Undefined if there are none. */
  readonly leftOutTools: readonly LeftOutTool[] | undefined
}

/** A question of the server that was refused, because it may have been for several calls. */
export interface DeclinedQuestion {
  readonly method: string
  readonly scope: SessionScope | undefined
  readonly why: string
  /** ISO 8601. */
  readonly at: string
}

/** State of a client, for health checks. Plain JSON, without complete session ids and tokens. */
export interface McpClientStatus extends SessionStatus {
  /** Slug, name or URL of the server, as configured; without query. */
  readonly server: string
  /** Error of the last operation that failed, in any scope, at any time. */
  readonly lastError: LastError | undefined
  /** The last question of the server that was refused, in any scope, because it may have been for several calls. */
  readonly lastDeclined: DeclinedQuestion | undefined
  /** Sessions of all scopes, in the order of their last use. */
  readonly sessions: readonly ScopeStatus[]
}

/** State of the session of one scope. */
export interface ScopeStatus extends SessionStatus {
  /** Undefined for a client without a scope. */
  readonly scope: SessionScope | undefined
}

/** What a status says of an error. Plain JSON, which an `Error` is not. */
export interface LastError {
  readonly code: McpClientErrorCode
  readonly message: string
  /** ISO 8601. */
  readonly at: string
}
