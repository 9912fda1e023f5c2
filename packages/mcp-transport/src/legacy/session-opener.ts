import { within } from '@x/internal'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import type { SessionKeeper, StoredSession } from '../session-keeper.ts'
import { LEGACY_VERSIONS } from '../session-record.ts'
import type { InitializeResult } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import type { Timeouts } from '../transport-options.ts'
import { handshake, initializeParamsHash, describeLiveSession, pingSession } from './handshake.ts'
import type { HandshakeOutcome } from './handshake.ts'
import { LegacySession, RequestIds } from './legacy-session.ts'
import { deleteSession } from './one-way.ts'
import { parseEvidence, lossVerdict } from './session-loss.ts'

export interface SessionOpenerOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly timeouts: Timeouts
  /** 0 … 1 */
  readonly random?: (() => number) | undefined
  /** Passes on messages that arrive before the answer to `initialize`. */
  readonly deliver: (message: JsonRpcMessage) => void
}

/** Time limit for terminating an unused session. */
const END_MS = 2000

/** Number of stored sessions that are tried, one after another, before a new one is opened. */
const MAX_STORED = 3

type FailedHandshake = Exclude<HandshakeOutcome, { kind: 'opened' }>

export type OpenOutcome =
  | {
      readonly kind: 'opened'
      readonly session: LegacySession
      /** Result for the client's `initialize`. */
      readonly result: InitializeResult
    }
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | { readonly kind: 'failed'; readonly error: TransportError }

/** The client's `initialize` in progress. */
export class Initializing {
  readonly id: RequestId
  readonly #limitMs: number | undefined
  readonly #exchanges: Exchange[] = []
  readonly #timers: NodeJS.Timeout[] = []
  #isAbandoned = false
  #endSession: (() => void) | undefined

  /**
   * @param limitMs Time limit for each request of the handshake, in milliseconds. Needed if the transport
   * repeats the handshake, because no caller limits it.
   */
  constructor(id: RequestId, limitMs?: number) {
    this.id = id
    this.#limitMs = limitMs
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /**
   * The client no longer waits. Closes the connections, because `initialize` must not be cancelled by a
   * message. Terminates the session if its id is known; otherwise the server's own limit ends it.
   */
  abandon(reason: TransportError): void {
    this.#isAbandoned = true
    this.ended()
    for (const exchange of this.#exchanges) exchange.abort(reason)
    this.#endSession?.()
    this.#endSession = undefined
  }

  /** Returns false if it was abandoned before it was sent. */
  started(exchange: Exchange): boolean {
    this.#exchanges.push(exchange)
    if (!this.#isAbandoned && this.#limitMs !== undefined) this.#limit(exchange, this.#limitMs)
    return !this.#isAbandoned
  }

  /** Stops the timers after the handshake. */
  ended(): void {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer)
  }

  /** The server has opened a session. Calls `end` if the session stays unused. */
  assigned(end: () => void): void {
    if (this.#isAbandoned) end()
    else this.#endSession = end
  }

  /** The session is in use and must not be terminated here. */
  handedOver(): void {
    this.#endSession = undefined
  }

  /** Time that a user needs to sign in does not count. */
  #limit(exchange: Exchange, limitMs: number): void {
    const stop = (): void => {
      if (exchange.isDone) return
      if (!exchange.isAwaited) return this.#limit(exchange, limitMs)
      const message = `The server did not answer the handshake of a new session in ${limitMs} ms`
      exchange.abort(new TransportError('TIMEOUT', message))
    }
    this.#timers.push(setTimeout(stop, limitMs).unref())
  }
}

/**
 * Opens a session for the client's `initialize`: the stored one, answered from its record without a request, or
 * a new one by a handshake.
 */
export class SessionOpener {
  readonly #options: SessionOpenerOptions
  /** Result of `load` until it is used: a session is used only once. */
  #stored: StoredSession | undefined
  /** Sessions that were opened here and are not stored. No other process can terminate them. */
  #halfOpen: Set<LegacySession> | undefined
  /** Unused sessions that are being terminated. */
  #ending: Set<Promise<void>> | undefined

  constructor(options: SessionOpenerOptions) {
    this.#options = options
  }

  get #random(): () => number {
    return this.#options.random ?? Math.random
  }

  get hasStoredSession(): boolean {
    const { record, bareId } = this.#stored ?? {}
    return (
      bareId !== undefined ||
      record?.sessionId !== undefined ||
      record?.initializeResult !== undefined
    )
  }

  /** Reads the store. Sends no request. */
  async load(): Promise<void> {
    this.#stored = await this.#options.keeper.load()
  }

  /**
   * @param isReplacement The session replaces a lost one. A session that another process stored meanwhile must
   * then answer a `ping`: the server may have forgotten it too.
   */
  async open(
    request: JsonRpcRequest,
    initializing: Initializing,
    isReplacement = false,
  ): Promise<OpenOutcome> {
    const stored = this.#stored ?? (await this.#options.keeper.load())
    this.#stored = undefined
    return this.#open(stored, { request, initializing, isReplacement })
  }

  /** The server has accepted `notifications/initialized`: stores the open session. */
  async opened(session: LegacySession): Promise<void> {
    const { unstored } = session
    if (session.lost !== undefined) return
    session.unstored = undefined
    this.#removeHalfOpen(session)
    if (unstored !== undefined) await this.#options.keeper.opened(unstored)
  }

  /** Terminates an unused half-open session. Does nothing for an open one. */
  abandon(session: LegacySession): void {
    if (this.#removeHalfOpen(session) && session.lost === undefined) this.#end(session)
  }

  /** Returns the stored session for a client that sends another message before `initialize`. */
  adopt(): LegacySession {
    return this.#resumed(this.#stored ?? {})
  }

  /** Terminates half-open sessions, and waits at most 2 s for all unused ones. */
  async close(): Promise<void> {
    for (const session of this.#halfOpen ?? []) this.abandon(session)
    if (this.#ending) await Promise.all(this.#ending)
  }

  /** Returns the stored InitializeResult, if the stored session was opened by a client like this one. */
  #fittingResult({ record }: StoredSession, request: JsonRpcRequest): InitializeResult | undefined {
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

  #resumed({ record, bareId }: StoredSession): LegacySession {
    return new LegacySession({
      id: record?.sessionId ?? bareId,
      epoch: record?.epoch ?? 0,
      protocolVersion: record?.protocolVersion,
      lastEventId: record?.lastEventId,
      isResumed: true,
      ids: RequestIds.inRandomBlock(this.#random),
    })
  }

  async #open(stored: StoredSession, opening: Opening, attempt = 1): Promise<OpenOutcome> {
    const { keeper } = this.#options
    const { record, bareId } = stored
    const result = this.#fittingResult(stored, opening.request)
    const storedId = record?.sessionId ?? bareId
    let outcome: OpenOutcome | 'refused'
    if (result !== undefined) {
      outcome = await this.#resume(stored, result, opening)
    } else {
      const isUnknown = record?.initializeResult === undefined
      if (storedId === undefined || !isUnknown) return this.#openByHandshake(opening)
      const version = record?.protocolVersion
      outcome = await this.#openByHandshake(opening, { sessionId: storedId, version })
      // This failure says nothing about the session.
      if (outcome !== 'refused' && outcome.kind !== 'opened') this.#stored = stored
    }
    if (outcome !== 'refused') return outcome
    // Not terminated, because another client may be using it.
    await keeper.lost(storedId)
    const now = await keeper.load()
    const isOther = (now.record?.sessionId ?? now.bareId ?? storedId) !== storedId
    return isOther && attempt < MAX_STORED
      ? this.#open(now, opening, attempt + 1)
      : this.#openByHandshake(opening)
  }

  async #resume(
    stored: StoredSession,
    result: InitializeResult,
    { initializing, isReplacement }: Opening,
  ): Promise<OpenOutcome | 'refused'> {
    const session = this.#resumed(stored)
    const { id: sessionId, protocolVersion } = session
    if (isReplacement && sessionId !== undefined && protocolVersion !== undefined) {
      const { http, timeouts, deliver: onMessage } = this.#options
      const onStart = (exchange: Exchange): boolean => initializing.started(exchange)
      const asked = { http, headersMs: timeouts.headersMs, onMessage, onStart }
      const random = this.#random
      const alive = await pingSession({ ...asked, sessionId, protocolVersion, random })
      if (alive !== 'live') return alive.kind === 'refused' ? 'refused' : alive
    }
    return { kind: 'opened', session, result }
  }

  #openByHandshake(opening: Opening): Promise<OpenOutcome>
  #openByHandshake(opening: Opening, known: KnownSession): Promise<OpenOutcome | 'refused'>
  /**
   * Sends `initialize` in a session whose InitializeResult is unknown. A server that has the session open
   * refuses it.
   */
  async #openByHandshake(opening: Opening, known?: KnownSession): Promise<OpenOutcome | 'refused'> {
    const { request, initializing } = opening
    const { http, timeouts, deliver: onMessage } = this.#options
    const { headersMs } = timeouts
    const { sessionId: knownId, version: protocolVersion } = known ?? {}
    const onStart = (exchange: Exchange): boolean => initializing.started(exchange)
    const asked = { http, headersMs, onMessage, onStart, sessionId: knownId, protocolVersion }
    const outcome = await handshake({
      ...asked,
      request,
      onAssigned: (id) => initializing.assigned(() => this.#end(this.#resumed({ bareId: id }))),
      onUnused: (id) => this.#end(this.#resumed({ bareId: id })),
    })
    if (outcome.kind === 'opened') {
      const { sessionId = knownId, result } = outcome
      const isResumed = sessionId !== undefined && sessionId === knownId
      return this.#halfOpened({ sessionId, result, isResumed }, opening)
    }
    if (knownId === undefined || !refusesInitialize(outcome)) return outcome
    if (refusesSession(outcome)) return 'refused'
    const live = await describeLiveSession({ ...asked, sessionId: knownId, random: this.#random })
    if (live.kind === 'refused') return 'refused'
    return live.kind === 'live' ? this.#joined(knownId, live.result) : live
  }

  /** A session that the server has just opened, or initialized again. */
  async #halfOpened(
    { sessionId, result, isResumed }: NewSession,
    { request, initializing }: Opening,
  ): Promise<OpenOutcome> {
    const { protocolVersion } = result
    const record = await this.#options.keeper.next({
      sessionId,
      protocolVersion,
      initializeResult: result,
      initializeParamsHash: initializeParamsHash(request),
    })
    const session = new LegacySession({
      id: sessionId,
      epoch: record.epoch,
      protocolVersion,
      isResumed,
      // Other processes may have used the small request ids of an earlier session.
      ids: isResumed ? RequestIds.inRandomBlock(this.#random) : RequestIds.asTheyAre(),
      unstored: record,
    })
    initializing.handedOver()
    if (!isResumed && sessionId !== undefined && !initializing.isAbandoned) {
      this.#halfOpen ??= new Set()
      this.#halfOpen.add(session)
    }
    return { kind: 'opened', session, result }
  }

  /** Returns false if the session was not half-open. Removes an empty set, to save memory. */
  #removeHalfOpen(session: LegacySession): boolean {
    const wasThere = this.#halfOpen?.delete(session) ?? false
    if (this.#halfOpen?.size === 0) this.#halfOpen = undefined
    return wasThere
  }

  /** A session that another client opened and still uses. */
  async #joined(sessionId: string, result: InitializeResult): Promise<OpenOutcome> {
    const { protocolVersion } = result
    const part = { sessionId, protocolVersion, initializeResult: result }
    const record = await this.#options.keeper.next(part)
    await this.#options.keeper.opened(record)
    return { kind: 'opened', session: this.#resumed({ record }), result }
  }

  /** Best effort: the server ends unused sessions after a while. */
  #end(session: LegacySession): void {
    const ending = within(
      deleteSession(this.#options.http, session).catch(() => {}),
      END_MS,
      () => {},
    )
    const all = (this.#ending ??= new Set())
    all.add(ending)
    void ending.then(() => all.delete(ending))
  }
}

interface Opening {
  /** The client's `initialize`. */
  readonly request: JsonRpcRequest
  readonly initializing: Initializing
  /** The session replaces a lost one. */
  readonly isReplacement: boolean
}

/** A stored session without a record. */
interface KnownSession {
  readonly sessionId: string
  readonly version: string | undefined
}

interface NewSession {
  readonly sessionId: string | undefined
  readonly result: InitializeResult
  /** The session existed before. */
  readonly isResumed: boolean
}

/**
 * Returns whether the server refuses `initialize` in a stored session. Other failures say nothing about the
 * session.
 */
function refusesInitialize(outcome: FailedHandshake): boolean {
  if (outcome.kind === 'answered') return true
  const { status } = outcome.refusal ?? {}
  return status === 400 || (status !== undefined && refusesSession(outcome))
}

/**
 * Returns whether the server refuses the session. A session that is already initialized refuses only
 * `initialize`.
 */
function refusesSession(outcome: FailedHandshake): boolean {
  const { status, text } =
    outcome.kind === 'answered'
      ? { status: 200, text: JSON.stringify(outcome.answer) }
      : (outcome.refusal ?? { status: 0, text: '' })
  if (/already.initiali[sz]ed/i.test(text)) return false
  return lossVerdict({ status, ...parseEvidence(text) }) !== 'not-lost'
}
