import type { JsonRpcRequest } from '../json-rpc.ts'
import type { StoredSession } from '../session-keeper.ts'
import { LEGACY_VERSIONS } from '../session-record.ts'
import type { InitializeResult } from '../session-record.ts'
import type { OpeningError } from '../transport-error.ts'
import { describeLiveSession, initialize, initializeParamsHash, pingSession } from './handshake.ts'
import type { Opening, StoredId } from './handshake.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import { LegacySession } from './legacy-session.ts'
import { discardSession } from './one-way.ts'

export interface OpenOptions {
  /**
   * Aborts the opening by closing its connections, because `initialize` must not be cancelled by a message. A session
   * that the server has opened by then is terminated.
   */
  readonly signal: AbortSignal
  /**
   * Time limit for each request of the handshake, in milliseconds. Needed if the transport repeats the handshake
   * and no caller limits it.
   */
  readonly limitMs: number | undefined
  /**
   * The session replaces a lost one. A session that another process stored meanwhile must then answer a `ping`:
   * the server may have forgotten it too.
   */
  readonly isReplacement: boolean
  /** Opens a new session in any case: the stored one fails. */
  readonly isFresh: boolean
}

/** Number of stored sessions that are tried, one after another, before a new one is opened. */
const MAX_STORED = 3

export type OpenOutcome =
  | {
      readonly kind: 'opened'
      readonly session: LegacySession
      readonly result: InitializeResult
    }
  | { readonly kind: 'failed'; readonly error: OpeningError }

/**
 * Opens a session for the client's `initialize`: the stored one, answered from its record without a request, or
 * a new one by a handshake.
 */
export class SessionOpener {
  readonly #options: ConnectionParts
  /** Result of `load` until it is used: a session is used only once. */
  #stored: StoredSession | undefined
  /** Ids of sessions that were opened here and are not stored. No other process can terminate them. */
  #halfOpen: Set<string> | undefined

  constructor(options: ConnectionParts) {
    this.#options = options
  }

  get hasStoredSession(): boolean {
    const { id, record } = this.#stored ?? NOTHING
    return id !== undefined || record?.initializeResult !== undefined
  }

  /** Reads the store. Sends no request. */
  async load(): Promise<void> {
    this.#stored = await this.#options.keeper.load()
  }

  async open(request: JsonRpcRequest, options: OpenOptions): Promise<OpenOutcome> {
    const { keeper, http, timeouts, onNotification, guard } = this.#options
    const { signal } = options
    const opening = { ...options, http, timeouts, onNotification, guard, request }
    let stored = options.isFresh ? NOTHING : (this.#stored ?? (await keeper.load()))
    this.#stored = undefined
    for (let attempt = 1; ; attempt++) {
      const { id } = stored
      const outcome = await this.#tryStored(stored, opening)
      if (outcome !== 'refused') {
        if (!signal.aborted || outcome.kind === 'failed') return outcome
        this.discard(outcome.session)
        return { kind: 'failed', error: http.closed('The opening of the session was aborted') }
      }
      // Not terminated, because another client may be using it.
      await keeper.lost(id)
      stored = await keeper.load()
      const isOther = (stored.id ?? id) !== id
      if (!isOther || attempt === MAX_STORED) stored = NOTHING
    }
  }

  /** The server has accepted `notifications/initialized`: stores the open session. */
  async opened(session: LegacySession): Promise<void> {
    const { state } = session
    if (state.kind !== 'half-open') return
    session.change({ kind: 'open' })
    this.removeHalfOpen(session)
    await this.#options.keeper.opened(state.record)
  }

  /** Returns true if the session was half-open. From now on it is not discarded here. */
  removeHalfOpen({ id }: LegacySession): boolean {
    const wasHalfOpen = id !== undefined && this.#halfOpen?.delete(id) === true
    if (this.#halfOpen?.size === 0) this.#halfOpen = undefined // saves memory
    return wasHalfOpen
  }

  /** Terminates an unused half-open session. Does nothing for an open one. */
  discard(session: LegacySession): void {
    if (this.removeHalfOpen(session) && session.id !== undefined) this.#terminate(session.id)
  }

  /** Terminates the half-open sessions. */
  discardAll(): void {
    const ids = [...(this.#halfOpen ?? [])]
    this.#halfOpen = undefined
    for (const id of ids) this.#terminate(id)
  }

  /** Returns the stored session for a client that sends another message before `initialize`. */
  adopt(): LegacySession {
    return resumed(this.#stored ?? NOTHING)
  }

  /** Resumes the stored session, or opens a new one if none is stored. */
  async #tryStored(stored: StoredSession, opening: Opening): Promise<OpenOutcome | 'refused'> {
    const { id: sessionId, record } = stored
    const result = this.#fittingResult(record, opening.request)
    if (result !== undefined) {
      const session = resumed(stored)
      const alive = opening.isReplacement ? await pingSession(opening, session) : 'live'
      if (alive === 'live') return { kind: 'opened', session, result }
      if (alive.kind === 'refused') return 'refused'
      return alive
    }
    if (sessionId === undefined || record?.initializeResult !== undefined) {
      return this.#openByHandshake(opening)
    }
    const known = { sessionId, protocolVersion: record?.protocolVersion }
    const outcome = await this.#openByHandshake(opening, known)
    // This failure says nothing about the session.
    if (outcome !== 'refused' && outcome.kind === 'failed') this.#stored = stored
    return outcome
  }

  /** Returns the stored InitializeResult, if the stored session was opened by a client like this one. */
  #fittingResult(
    record: StoredSession['record'],
    request: JsonRpcRequest,
  ): InitializeResult | undefined {
    const { keeper } = this.#options
    if (record?.initializeResult === undefined || record.protocolVersion === undefined) return
    if (!LEGACY_VERSIONS.includes(record.protocolVersion)) {
      return keeper.ignoreRecord('has a protocol version that is not supported')
    }
    const hash = record.initializeParamsHash
    // Without a digest, the capabilities of the client that opened the session are unknown.
    if (hash !== undefined && hash !== initializeParamsHash(request)) {
      return keeper.ignoreRecord('was opened by a client with another name or other capabilities')
    }
    return record.initializeResult
  }

  /**
   * Sends `initialize`. With `stored`, in a session whose InitializeResult is unknown. A server that has the
   * session open refuses it.
   */
  async #openByHandshake(opening: Opening, stored?: StoredId): Promise<OpenOutcome | 'refused'> {
    const { signal, request } = opening
    const { keeper } = this.#options
    const outcome = await initialize(opening, stored, (id, isOpen) => {
      if (!isOpen || signal.aborted) return this.#terminate(id)
      this.#halfOpen ??= new Set()
      this.#halfOpen.add(id)
    })
    if (outcome.kind === 'opened') {
      const { sessionId = stored?.sessionId, result } = outcome
      // A session that the server has just opened, or initialized again (`isResumed`).
      const isResumed = sessionId !== undefined && sessionId === stored?.sessionId
      const { protocolVersion } = result
      const record = await keeper.next({
        sessionId,
        protocolVersion,
        initializeResult: result,
        initializeParamsHash: initializeParamsHash(request),
      })
      const { epoch } = record
      const part = { id: sessionId, epoch, protocolVersion, isResumed, record }
      return { kind: 'opened', session: new LegacySession(part), result }
    }
    if (stored === undefined || outcome.verdict === 'unknown') return outcome
    if (outcome.verdict === 'refused') return 'refused'
    const live = await describeLiveSession(opening, stored)
    if (live.kind === 'refused') return 'refused'
    if (live.kind === 'failed') return live
    // Another client opened the session and still uses it.
    const { sessionId } = stored
    const { result } = live
    const { protocolVersion } = result
    const record = await keeper.next({ sessionId, protocolVersion, initializeResult: result })
    await keeper.opened(record)
    return { kind: 'opened', session: resumed({ id: sessionId, record }), result }
  }

  #terminate(id: string): void {
    discardSession(this.#options.http, id)
  }
}

const NOTHING: StoredSession = { id: undefined, record: undefined }

function resumed({ id, record }: StoredSession): LegacySession {
  const { epoch = 0, protocolVersion } = record ?? {}
  return new LegacySession({ id, epoch, protocolVersion, isResumed: true })
}
