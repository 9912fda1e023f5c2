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
  /** What the server says before it answers `initialize`. */
  readonly deliver: (message: JsonRpcMessage) => void
}

/** Limit for ending a session that nobody uses. */
const END_MS = 2000

/** Stored sessions that are tried, one after the other, before a new one is opened. */
const MAX_STORED = 3

type FailedHandshake = Exclude<HandshakeOutcome, { kind: 'opened' }>

export type OpenOutcome =
  | {
      readonly kind: 'opened'
      readonly session: LegacySession
      /** What the client's `initialize` is answered with. */
      readonly result: InitializeResult
    }
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | { readonly kind: 'failed'; readonly error: TransportError }

/** The client's `initialize`, while it is on its way. */
export class Initializing {
  readonly id: RequestId
  readonly #limitMs: number | undefined
  readonly #exchanges: Exchange[] = []
  readonly #timers: NodeJS.Timeout[] = []
  #isAbandoned = false
  #endSession: (() => void) | undefined

  /**
   * @param limitMs Limit for each request of the handshake, in milliseconds. Needed where no caller has a timer: when
   * the transport repeats the handshake.
   */
  constructor(id: RequestId, limitMs?: number) {
    this.id = id
    this.#limitMs = limitMs
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /**
   * Nobody waits any more. Its connections are cut: `initialize` must not be cancelled by a message. If the
   * server has told the session's id by then, the session is ended; if not, it is left to the server's own
   * limit, for nobody can name it.
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

  /** The handshake is over: stops its timers. */
  ended(): void {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer)
  }

  /** The server has opened a session for it; `end` is called if nobody waits for the session. */
  assigned(end: () => void): void {
    if (this.#isAbandoned) end()
    else this.#endSession = end
  }

  /** From now on somebody else answers for the session. */
  handedOver(): void {
    this.#endSession = undefined
  }

  /** A user may need longer to sign in than a server may take to answer: that time does not count. */
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
 * Gets a session for the client's `initialize`: the stored one, answered from its record without a
 * request, or a new one by a handshake.
 */
export class SessionOpener {
  readonly #options: SessionOpenerOptions
  /** What `load` found, until it is used: a session that was given out is never given out again. */
  #stored: StoredSession | undefined
  /** Sessions that were opened here and are not stored: nobody else can end them. */
  #halfOpen: Set<LegacySession> | undefined
  /** Sessions of no use to anybody, while they are ended. */
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

  /** Reads the store. No request is made. */
  async load(): Promise<void> {
    this.#stored = await this.#options.keeper.load()
  }

  /**
   * @param isReplacement The session replaces a lost one. A session that another process has stored meanwhile must
   * then answer a `ping` first: the server may have forgotten that session too.
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

  /** The server has accepted `notifications/initialized`: the session is open, and stored. */
  async opened(session: LegacySession): Promise<void> {
    const { unstored } = session
    if (session.lost !== undefined) return
    session.unstored = undefined
    this.#removeHalfOpen(session)
    if (unstored !== undefined) await this.#options.keeper.opened(unstored)
  }

  /** Ends a half-open session that nobody will use; an open one stays. */
  abandon(session: LegacySession): void {
    if (this.#removeHalfOpen(session) && session.lost === undefined) this.#end(session)
  }

  /** The stored session as it is, for a client that sends something else before `initialize`. */
  adopt(): LegacySession {
    return this.#resumed(this.#stored ?? {})
  }

  /** Ends half-open sessions, and waits for the end of all that are of no use; at most 2 s. */
  async close(): Promise<void> {
    for (const session of this.#halfOpen ?? []) this.abandon(session)
    if (this.#ending) await Promise.all(this.#ending)
  }

  /** The stored answer to `initialize`, if the stored session fits this client. */
  #fittingResult({ record }: StoredSession, request: JsonRpcRequest): InitializeResult | undefined {
    const { keeper } = this.#options
    if (record?.initializeResult === undefined || record.protocolVersion === undefined) return
    if (!LEGACY_VERSIONS.includes(record.protocolVersion)) {
      return keeper.ignoreRecord('is of a revision that is not spoken here')
    }
    const hash = record.initializeParamsHash
    // Without a digest another client opened the session, and nobody knows what it said of itself.
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
      // Its trouble says nothing about the session.
      if (outcome !== 'refused' && outcome.kind !== 'opened') this.#stored = stored
    }
    if (outcome !== 'refused') return outcome
    // Not ended: another client may have opened it, and may know how to use it.
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
  /** A session whose `initialize` nobody knows is asked for it; a server that has it open refuses. */
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

  /** A session that the server has just opened, or has just initialized again. */
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
      // Other processes may have used the small request ids of a session that was there before.
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

  /** Returns false if it was not there. An empty set is not kept: a client that waits has no use for it. */
  #removeHalfOpen(session: LegacySession): boolean {
    const wasThere = this.#halfOpen?.delete(session) ?? false
    if (this.#halfOpen?.size === 0) this.#halfOpen = undefined
    return wasThere
  }

  /** A session that another client has opened, and keeps using. */
  async #joined(sessionId: string, result: InitializeResult): Promise<OpenOutcome> {
    const { protocolVersion } = result
    const part = { sessionId, protocolVersion, initializeResult: result }
    const record = await this.#options.keeper.next(part)
    await this.#options.keeper.opened(record)
    return { kind: 'opened', session: this.#resumed({ record }), result }
  }

  /** Best effort: what the server does not end now, it will end when it has not been used for long. */
  #end(session: LegacySession): void {
    const ending = settledWithin(deleteSession(this.#options.http, session))
    const all = (this.#ending ??= new Set())
    all.add(ending)
    void ending.then(() => all.delete(ending))
  }
}

interface Opening {
  /** The client's `initialize`. */
  readonly request: JsonRpcRequest
  readonly initializing: Initializing
  /** It takes the place of a lost session. */
  readonly isReplacement: boolean
}

/** A stored session of which only this is known. */
interface KnownSession {
  readonly sessionId: string
  readonly version: string | undefined
}

interface NewSession {
  readonly sessionId: string | undefined
  readonly result: InitializeResult
  /** It was there before. */
  readonly isResumed: boolean
}

async function settledWithin(promise: Promise<unknown>, ms: number = END_MS): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms).unref()
  })
  await Promise.race([promise.catch(() => {}), late])
  clearTimeout(timer)
}

/** Whether the server refuses `initialize` in a stored session: trouble of other kinds says nothing about it. */
function refusesInitialize(outcome: FailedHandshake): boolean {
  if (outcome.kind === 'answered') return true
  const { status } = outcome.refusal ?? {}
  return status === 400 || (status !== undefined && refusesSession(outcome))
}

/** Whether it refuses the session itself; one that is initialized already refuses `initialize` only. */
function refusesSession(outcome: FailedHandshake): boolean {
  const { status, text } =
    outcome.kind === 'answered'
      ? { status: 200, text: JSON.stringify(outcome.answer) }
      : (outcome.refusal ?? { status: 0, text: '' })
  if (/already.initiali[sz]ed/i.test(text)) return false
  return lossVerdict({ status, ...parseEvidence(text) }) !== 'not-lost'
}
