import { untilAborted } from '@x/internal'
import type { Era, TransportError } from '@x/mcp-transport'
import type { McpClientErrorCode } from './errors.ts'
import type { McpClientEvents } from './events.ts'
import { shortIdOf } from './generation.ts'
import type { Generation } from './generation.ts'
import { recoveryDelayMs } from './retry.ts'
import type { RetryTiming } from './retry.ts'
import type { SessionScope } from './session-scope.ts'
import type { LeftOutTool } from './tool-list.ts'

/** State of a session. Only `nextState` changes it, and every change emits the event `state`. */
export type SessionState =
  /** Nothing is open. */
  | { readonly phase: 'created' }
  /** Phase 1: finding the server, creating the dispatcher and the session store. */
  | { readonly phase: 'connecting' }
  /** Phase 2: the MCP handshake. `isFirst` is false when a lost session is replaced. */
  | { readonly phase: 'handshaking'; readonly isFirst: boolean }
  | { readonly phase: 'active'; readonly generation: Generation }
  /** Phase 1 is done, and no session is open. The next operation opens one. */
  | { readonly phase: 'idle' }
  | { readonly phase: 'disposing' }

export type SessionEvent =
  /** An operation needs a session. */
  | { readonly type: 'needed' }
  /** Phase 1 has succeeded. */
  | { readonly type: 'connected' }
  /** Phase 2 has succeeded. */
  | { readonly type: 'opened'; readonly generation: Generation }
  /** The current phase has failed. */
  | { readonly type: 'failed' }
  /** The server refused the session, or the connection was closed. */
  | { readonly type: 'ended'; readonly generation: Generation }
  | { readonly type: 'disposing' }
  | { readonly type: 'disposed' }

/** Returns the state after an event. An event that does not fit the state changes nothing. Does no I/O. */
export function nextState(state: SessionState, event: SessionEvent): SessionState {
  switch (event.type) {
    case 'needed':
      if (state.phase === 'created') return { phase: 'connecting' }
      return state.phase === 'idle' ? { phase: 'handshaking', isFirst: false } : state
    case 'connected':
      return state.phase === 'connecting' ? { phase: 'handshaking', isFirst: true } : state
    case 'opened':
      return state.phase === 'handshaking'
        ? { phase: 'active', generation: event.generation }
        : state
    case 'failed':
      if (state.phase === 'connecting') return { phase: 'created' }
      if (state.phase !== 'handshaking') return state
      return state.isFirst ? { phase: 'created' } : { phase: 'idle' }
    case 'ended':
      // A late event of an older generation must not end the one that replaced it.
      return state.phase === 'active' && state.generation === event.generation
        ? { phase: 'idle' }
        : state
    case 'disposing':
      return state.phase === 'created' || state.phase === 'disposing'
        ? state
        : { phase: 'disposing' }
    case 'disposed':
      return state.phase === 'disposing' ? { phase: 'created' } : state
  }
}

/** State of a session. */
export interface SessionStatus {
  readonly state: SessionState['phase']
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

/**
 * Records which generation was the last one, why it ended, and how many were lost in a row without a successful
 * call. Does no I/O and emits no events.
 */
export class RecoveryHistory {
  #last: Generation | undefined
  #reason = ''
  #loss: TransportError | undefined
  #lossesInRow = 0

  /** The last generation. Undefined before the first one. */
  get last(): Generation | undefined {
    return this.#last
  }

  /** Error with which the server refused the last session. Undefined as soon as there is a new session. */
  get loss(): TransportError | undefined {
    return this.#loss
  }

  /** Records that the server no longer knew the session. */
  addLoss(loss: TransportError): void {
    this.#loss = loss
    this.#reason = 'The server no longer knew the session'
    this.#lossesInRow++
  }

  /** Records that the server or the network closed the connection. */
  addDisconnect(reason: string): void {
    this.#reason = reason
    this.#lossesInRow++
  }

  /** Records a successful call. */
  addSuccess(generation: Generation): void {
    if (this.#lossesInRow === 0) return
    this.#lossesInRow = 0
    generation.isUnproven = false
  }

  /**
   * Returns the loss, but no longer as certain if the session itself replaced a lost one and has not answered any
   * call. A tool that answers an empty 404 after it has run looks the same on every attempt. A refusal that names the
   * session does not come from a tool.
   */
  assess(generation: Generation, loss: TransportError): TransportError {
    const wasSent = loss.status !== undefined
    if (loss.certain !== true || loss.isNamed || !wasSent || !generation.isUnproven) return loss
    const message = `${loss.message}, although the session was opened just before`
    return loss.with({ message, certain: false, outcome: 'unknown' })
  }

  /** Milliseconds to wait before the next session is opened. The first recovery starts at once. */
  delayMs(timing: RetryTiming): number {
    return recoveryDelayMs(this.#lossesInRow, timing)
  }

  /** Records a new generation. Returns the event that describes the replacement, or undefined for the first one. */
  addGeneration(generation: Generation): McpClientEvents['sessionReplaced'] | undefined {
    const old = this.#last
    this.#last = generation
    generation.isUnproven = this.#loss !== undefined
    this.#loss = undefined
    if (old === undefined) return undefined
    return {
      oldEpoch: old.number,
      newEpoch: generation.number,
      oldSessionId: shortIdOf(old),
      newSessionId: shortIdOf(generation),
      reason: this.#reason,
    }
  }
}

/** Number of calls that are sent at once while it is unknown whether the session still exists. */
const FIRST_CALLS = 64
/** Longest time that further calls wait for the result of one of them, in milliseconds. */
const HOLD_MS = 200

/**
 * Lets the first 64 calls of a burst through. The other calls wait until one of the 64 has ended, because that shows
 * whether the session still exists. So a lost session costs at most 64 refused requests and one handshake. Without
 * the gate, every call of the burst would be sent twice. A call that waits was not sent. If the session is lost, it is
 * sent in the next session.
 *
 * The gate does not limit concurrency: a call waits at most 200 ms, even if the first 64 are slow. Once open, the
 * gate stays open until no call is in flight, so sequential calls never wait.
 */
export class RecoveryGate {
  #isOpen = true
  #held: HeldCalls | undefined

  /** Returns true if one more call must wait while `inFlight` calls are in progress. */
  holds(inFlight: number): boolean {
    return !this.#isOpen && inFlight >= FIRST_CALLS
  }

  /**
   * Waits until the gate opens. Call it at most once per call, so that the limit of 200 ms holds.
   *
   * @throws the reason of `signal`
   */
  opened(signal: AbortSignal): Promise<void> {
    this.#held ??= this.#hold()
    return untilAborted(this.#held.released, signal)
  }

  /** Lets all calls through. Called when a call ends, with or without success. */
  open(): void {
    this.#isOpen = true
    this.#held?.release()
    this.#held = undefined
  }

  /** Called when no call is in flight: from then on it is unknown whether the session still exists. */
  close(): void {
    this.#isOpen = false
  }

  #hold(): HeldCalls {
    let resolve: (() => void) | undefined
    const released = new Promise<void>((done) => (resolve = done))
    let immediate: NodeJS.Immediate | undefined
    const timer = setTimeout(() => {
      // Lets the event loop read responses that arrived while this thread was busy.
      immediate = setImmediate(() => this.open())
    }, HOLD_MS).unref()
    const release = (): void => {
      clearTimeout(timer)
      clearImmediate(immediate)
      resolve?.()
    }
    return { released, release }
  }
}

/** The promise that the waiting calls share. */
interface HeldCalls {
  readonly released: Promise<void>
  readonly release: () => void
}
