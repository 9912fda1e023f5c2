import { POST_HEADERS } from '../http/post-headers.ts'
import type { SessionRecord } from '../session-record.ts'
import type { RequestIds } from './request-ids.ts'

/** The revisions with sessions that this transport speaks; newest first. */
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26']

/** Refusals in a row after which a session is given up. */
const MAX_REFUSALS = 2

export interface LegacySessionOptions {
  readonly id: string | undefined
  readonly epoch: number
  readonly protocolVersion: string | undefined
  /** Opened by another process, or by one before this. */
  readonly isResumed: boolean
  readonly ids: RequestIds
  readonly lastEventId?: string | undefined
  /** See {@link LegacySession.unstored}. */
  readonly unstored?: SessionRecord | undefined
}

/** One session with the server, from the answer to `initialize` until it is lost, ended or left. */
export class LegacySession {
  /** Absent where the server has no sessions: then it cannot be lost either. */
  readonly id: string | undefined
  readonly epoch: number
  readonly protocolVersion: string | undefined
  readonly isResumed: boolean
  readonly ids: RequestIds
  /** The headers of every request in this session, as a flat list. */
  readonly headers: readonly string[]
  /** Those of every POST: one list for all, so that it is put together once. */
  readonly postHeaders: readonly string[]
  /** Cursor of the listening stream. */
  lastEventId: string | undefined
  /**
   * Record of a half-open session: the server has not accepted `notifications/initialized` yet. It is stored
   * after that, so that nobody can resume a session in which a strict server refuses every request.
   */
  unstored: SessionRecord | undefined
  /** A request has succeeded with this id. */
  isProven: boolean
  /** It replaced a lost session, and no request has succeeded in it: a refusal proves nothing. */
  isDoubtful = false
  /** Refusals in a row, without a success between them. Requests that were in flight together count once. */
  refusals = 0
  /** Set once it is over; resolves when the store has forgotten it. */
  lost: Promise<void> | undefined
  /** While the listening stream waits for long: has it opened soon. */
  wakeListening: (() => void) | undefined
  /** It was this side that ended it. */
  isEnded = false
  /** The listening stream was asked for, which is done once; a controller while it goes on. */
  #listening: AbortController | 'over' | undefined

  constructor(options: LegacySessionOptions) {
    const { id, epoch, protocolVersion, isResumed, ids, lastEventId, unstored } = options
    this.id = id
    this.epoch = epoch
    this.protocolVersion = protocolVersion
    this.isResumed = isResumed
    this.ids = ids
    this.lastEventId = lastEventId
    this.unstored = unstored
    this.isProven = !isResumed
    const session = id === undefined ? [] : ['mcp-session-id', id]
    const version = protocolVersion === undefined ? [] : ['mcp-protocol-version', protocolVersion]
    this.headers = session.concat(version) // not spread, which reserves more than it needs
    this.postHeaders = POST_HEADERS.concat(this.headers)
  }

  /** A request has been answered with a result. */
  succeeded(): void {
    this.isProven = true
    this.isDoubtful = false
    this.refusals = 0
    this.wakeListening?.()
  }

  /**
   * Counts the refusal of a request. Returns true where the session is to be given up: a client whose
   * requests are all refused would be stuck in a session that the server has forgotten.
   *
   * @param before Value of `refusals` when the request was made
   */
  refused(before: number): boolean {
    if (this.id !== undefined && before === this.refusals) this.refusals++
    return this.refusals >= MAX_REFUSALS
  }

  /** What ends the listening stream; `undefined` where there shall be none, or was one already. */
  beginListening(): AbortSignal | undefined {
    if (this.#listening !== undefined) return undefined
    this.#listening = new AbortController()
    return this.#listening.signal
  }

  /** There is no listening stream any more, and will be none. */
  endListening(): void {
    const listening = this.#listening
    this.#listening = 'over'
    if (listening !== 'over') listening?.abort()
  }
}
