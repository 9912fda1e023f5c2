import { POST_HEADERS } from '../headers.ts'
import type { RequestId } from '../json-rpc.ts'
import type { SessionRecord } from '../session-record.ts'
import { MAX_REFUSALS } from './session-loss.ts'

/** Headers of every request in a session, as a flat list. */
export function sessionHeaders(
  id: string | undefined,
  protocolVersion: string | undefined,
): readonly string[] {
  const session = id === undefined ? [] : ['mcp-session-id', id]
  const version = protocolVersion === undefined ? [] : ['mcp-protocol-version', protocolVersion]
  return session.concat(version) // a spread would allocate more
}

/** How far a session has come. Only `LegacySession.change()` changes it. */
export type SessionState =
  /**
   * The server has not accepted `notifications/initialized` yet. The record is stored after that, because a strict server
   * refuses every other request in such a session.
   */
  | { readonly kind: 'half-open'; readonly record: SessionRecord }
  | { readonly kind: 'open' }
  /** Another session has taken its place. Only the calls in flight go on in it. */
  | { readonly kind: 'replaced' }
  /** No request is sent in it any more. */
  | {
      readonly kind: 'ended'
      readonly why: 'lost' | 'replaced' | 'terminated'
      /** False if the server has refused the session, or was asked to terminate it. */
      readonly mayBeOpen: boolean
      /** Resolves when the session is removed from the store. */
      readonly removed: Promise<void>
    }

const OPEN: SessionState = { kind: 'open' }

/** One session with the server, from the answer to `initialize` until it is lost, terminated or replaced. */
export class LegacySession {
  /** Undefined if the server has no sessions. Then it cannot be lost. */
  readonly id: string | undefined
  readonly epoch: number
  readonly protocolVersion: string | undefined
  /** Opened by another process or an earlier one. */
  readonly isResumed: boolean
  readonly headers: readonly string[]
  /** Headers of every POST. Built once. */
  readonly postHeaders: readonly string[]
  /** A request has succeeded in this session. */
  isProven: boolean
  /** The session replaced a lost one, and no request has succeeded in it: a refusal proves nothing. */
  isDoubtful = false
  /** Number of refusals since the last success. Refusals of requests that were in flight together count as one. */
  refusals = 0
  /** Called when a request has succeeded. Set while the listening stream waits for that. */
  onSuccess: (() => void) | undefined
  /**
   * Id of the call with number 0. In a resumed session, other processes have used the small numbers, and servers store
   * requests by id. Ids are numbers, because some servers mishandle text ids (rust-sdk #1017).
   */
  readonly #firstId: number
  #state: SessionState = OPEN
  /** State of the listening stream, which is opened at most once. */
  #listening: AbortController | 'over' | undefined

  constructor({
    id,
    epoch,
    protocolVersion,
    isResumed,
    record,
  }: Pick<LegacySession, 'id' | 'epoch' | 'protocolVersion' | 'isResumed'> & {
    /** Of a session that the server has just opened. */
    readonly record?: SessionRecord | undefined
  }) {
    if (record !== undefined) this.#state = { kind: 'half-open', record }
    this.id = id
    this.epoch = epoch
    this.protocolVersion = protocolVersion
    this.isResumed = isResumed
    this.#firstId = isResumed ? randomBlock() : 0
    this.isProven = !isResumed
    this.headers = sessionHeaders(id, protocolVersion)
    this.postHeaders = POST_HEADERS.concat(this.headers)
  }

  get state(): SessionState {
    return this.#state
  }

  /** False if no request is sent in the session any more. */
  get isLive(): boolean {
    return this.#state.kind !== 'ended'
  }

  /** Changes the state. A session ends once: a later end can only show that the server does not have it any more. */
  change(next: SessionState): void {
    const now = this.#state
    const isAgain = now.kind === 'ended' && next.kind === 'ended'
    this.#state = isAgain ? { ...now, mayBeOpen: now.mayBeOpen && next.mayBeOpen } : next
    if (next.kind === 'replaced' || next.kind === 'ended') this.endListening()
  }

  /** Id of a call in this session. */
  wireId(call: number): number {
    return this.#firstId + call
  }

  /** Number of the call with this id. Some servers return "5" for 5 (python-sdk PR #1720). */
  callOf(id: RequestId): number {
    return Number(id) - this.#firstId
  }

  succeeded(): void {
    this.isProven = true
    this.isDoubtful = false
    this.refusals = 0
    this.onSuccess?.()
  }

  /**
   * Counts the refusal of a request. Returns true if the session counts as lost: otherwise a client could
   * stay in a session that the server has forgotten.
   *
   * @param before Value of `refusals` when the request was created
   */
  refused(before: number): boolean {
    if (this.id !== undefined && before === this.refusals) this.refusals++
    return this.refusals >= MAX_REFUSALS
  }

  /** Returns the signal that ends the listening stream; `undefined` if there was one already. */
  beginListening(): AbortSignal | undefined {
    if (this.#listening !== undefined) return undefined
    this.#listening = new AbortController()
    return this.#listening.signal
  }

  /** Ends the listening stream. No other is opened. */
  endListening(): void {
    const listening = this.#listening
    this.#listening = 'over'
    if (listening !== 'over') listening?.abort()
  }
}

const BLOCK_SIZE = 2 ** 20

/** `random` is 0 to 1. The block is a 31-bit number, so that every id is a safe integer. */
export function randomBlock(random: number = Math.random()): number {
  return (1 + Math.floor(random * (2 ** 31 - 1))) * BLOCK_SIZE
}
