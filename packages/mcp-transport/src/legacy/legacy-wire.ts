import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isRequest, isResponse } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import type { SessionKeeper, StoredSession } from '../session-keeper.ts'
import type { InitializeResult } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import type { Reconnect, Timeouts } from '../transport-options.ts'
import { errorAnswer } from './error-answer.ts'
import { openEventStream } from './event-stream.ts'
import { followStream } from './follow-stream.ts'
import type { HandshakeOutcome } from './handshake.ts'
import { handshake, initializeParamsHash } from './handshake.ts'
import { LEGACY_VERSIONS, LegacySession } from './legacy-session.ts'
import { Lingering } from './lingering.ts'
import { PendingCall } from './pending-call.ts'
import type { CallHost, CallOptions } from './pending-call.ts'
import { postAndForget, deleteSession } from './one-way.ts'
import { RequestIds } from './request-ids.ts'

export interface LegacyWireOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  readonly listen: boolean
  /** Hands a message to the client. */
  readonly deliver: (message: JsonRpcMessage) => void
  /** Trouble that belongs to no message. */
  readonly report: (error: TransportError) => void
  readonly random?: () => number
}

/** The client's `initialize`, while it is on its way. */
interface Initializing {
  readonly id: RequestId
  exchange?: Exchange
  isAbandoned: boolean
}

type Opened = Extract<HandshakeOutcome, { kind: 'opened' }>

/** How often the cursor of the listening stream is stored while it moves. */
const CURSOR_MS = 5000

/**
 * The revisions with sessions (2025-03-26 … 2025-11-25): routes the client's messages, keeps the one
 * current session, and answers the handshake from the record where there is one.
 */
export class LegacyWire implements CallHost {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  readonly #options: LegacyWireOptions
  readonly #keeper: SessionKeeper
  readonly #random: () => number
  readonly #calls = new Map<RequestId, PendingCall>()
  readonly #lingering = new Lingering()
  /** Requests of the server that the client has not replied to yet, and the session they came in. */
  readonly #serverRequests = new Map<RequestId, LegacySession>()
  #stored: StoredSession = {}
  #session: LegacySession | undefined
  #initializing: Initializing | undefined
  #cursorStoredAt = 0

  constructor(options: LegacyWireOptions) {
    const { http, keeper, timeouts, reconnect, random = Math.random } = options
    this.http = http
    this.timeouts = timeouts
    this.reconnect = reconnect
    this.#options = options
    this.#keeper = keeper
    this.#random = random
  }

  get session(): LegacySession | undefined {
    return this.#session
  }

  /** Reads the store. No request is made. */
  async load(): Promise<void> {
    this.#stored = await this.#keeper.load()
  }

  async send(message: JsonRpcMessage, options: CallOptions): Promise<void> {
    if (isRequest(message)) {
      if (message.method === 'initialize') return this.#initialize(message)
      return this.#call(message, options)
    }
    if (isResponse(message)) return this.#reply(message)
    switch (message.method) {
      case 'notifications/initialized':
        return this.#initialized(message)
      case 'notifications/cancelled':
        return this.#cancel(message)
      default:
        return this.#notify(message, this.#current())
    }
  }

  /** Ends the session on the server. In-flight calls are answered first: their outcome is unknown. */
  async terminate(): Promise<void> {
    const session = this.#session ?? this.#adopt()
    this.#failCalls('The session was ended by this side')
    session.listening.abort()
    if (session.id === undefined || session.lost !== undefined) return
    session.lost = Promise.resolve()
    await deleteSession(this.http, session)
    await this.#keeper.lost(session.id)
  }

  /** Leaves everything: answers the calls in flight, ends streams and timers, keeps the session. */
  async close(): Promise<void> {
    this.#failCalls('The transport was closed')
    this.#initializing?.exchange?.abort(closed('The transport was closed'))
    this.#initializing = undefined
    this.#lingering.close()
    this.#serverRequests.clear()
    const session = this.#session
    this.#session = undefined
    session?.listening.abort()
    if (session?.lastEventId !== undefined)
      await this.#keeper.moved(session.id, session.lastEventId)
  }

  // What a call needs of us.

  received(message: JsonRpcMessage, session: LegacySession): void {
    if (isResponse(message)) {
      this.#answerOf(message, session)
      return
    }
    if (isRequest(message)) this.#serverRequests.set(message.id, session)
    const own = session.ids.progress(message)
    if (own !== undefined) this.#options.deliver(own)
  }

  sessionLost(session: LegacySession): Promise<void> {
    session.listening.abort()
    return (session.lost ??= this.#keeper.lost(session.id))
  }

  settled(call: PendingCall, answer: JsonRpcResponse | undefined): void {
    if (this.#calls.get(call.request.id) === call) this.#calls.delete(call.request.id)
    if (answer !== undefined) this.#options.deliver(answer)
  }

  linger(exchange: Exchange): void {
    this.#lingering.add(exchange)
  }

  over(exchange: Exchange): void {
    this.#lingering.remove(exchange)
  }

  // What the client sends.

  async #initialize(request: JsonRpcRequest): Promise<void> {
    const replayed = this.#resume(request)
    if (replayed !== undefined) {
      // As if it had come over the wire: never before send() has returned.
      queueMicrotask(() =>
        this.#options.deliver({ jsonrpc: '2.0', id: request.id, result: replayed }),
      )
      return
    }
    const current: Initializing = { id: request.id, isAbandoned: false }
    this.#initializing = current
    const outcome = await this.#handshake(request, current)
    const isWanted = (): boolean => this.#initializing === current && !current.isAbandoned
    const session =
      outcome.kind === 'opened' && isWanted() ? await this.#open(request, outcome) : undefined
    if (!isWanted()) return
    this.#initializing = undefined
    this.#session = session
    switch (outcome.kind) {
      case 'opened':
        this.#options.deliver({ jsonrpc: '2.0', id: request.id, result: outcome.result })
        return
      case 'answered':
        this.#options.deliver({ ...outcome.answer, id: request.id })
        return
      case 'failed':
        this.#options.deliver(errorAnswer(request.id, outcome.error))
    }
  }

  async #open(request: JsonRpcRequest, { sessionId, result }: Opened): Promise<LegacySession> {
    const { protocolVersion } = result
    const record = await this.#keeper.opened({
      sessionId,
      protocolVersion,
      initializeResult: result,
      initializeParamsHash: initializeParamsHash(request),
      lastEventId: undefined,
    })
    return new LegacySession({
      id: sessionId,
      epoch: record.epoch,
      protocolVersion,
      isResumed: false,
      ids: RequestIds.asTheyAre(),
    })
  }

  /** The stored answer to `initialize`, if the stored session fits this client. */
  #resume(request: JsonRpcRequest): InitializeResult | undefined {
    const { record } = this.#stored
    const result = record?.initializeResult
    if (record === undefined || result === undefined || record.protocolVersion === undefined) return
    if (!LEGACY_VERSIONS.includes(record.protocolVersion)) return
    if (record.initializeParamsHash !== initializeParamsHash(request)) return
    this.#session = this.#adopt()
    return result
  }

  /** The stored session as it is, without a handshake. */
  #adopt(): LegacySession {
    const { record, bareId } = this.#stored
    return new LegacySession({
      id: record?.sessionId ?? bareId,
      epoch: record?.epoch ?? 0,
      protocolVersion: record?.protocolVersion,
      lastEventId: record?.lastEventId,
      isResumed: true,
      ids: RequestIds.inRandomBlock(this.#random),
    })
  }

  /** A bare stored id is tried once; else, and when it is refused, a session is opened. */
  async #handshake(
    request: JsonRpcRequest,
    current: { exchange?: Exchange },
  ): Promise<HandshakeOutcome> {
    const options = {
      http: this.http,
      request,
      headersMs: this.timeouts.headersMs,
      onMessage: (message: JsonRpcMessage): void => this.#options.deliver(message),
      onExchange: (exchange: Exchange): void => {
        current.exchange = exchange
      },
    }
    const { bareId } = this.#stored
    this.#stored = {}
    if (bareId === undefined) return handshake(options)
    const outcome = await handshake({ ...options, sessionId: bareId })
    const isRefused =
      outcome.kind === 'answered' || (outcome.kind === 'failed' && outcome.refusal !== undefined)
    if (outcome.kind === 'opened') return { ...outcome, sessionId: outcome.sessionId ?? bareId }
    if (!isRefused) {
      this.#stored = { bareId } // trouble with the connection says nothing about the session
      return outcome
    }
    await this.#keeper.lost(bareId)
    void deleteSession(this.http, bareSession(bareId)).catch(() => {}) // best effort
    return handshake(options)
  }

  async #initialized(message: JsonRpcNotification): Promise<void> {
    const session = this.#current()
    // A resumed session had it from the process that opened it.
    if (!session.isResumed) await this.#notify(message, session)
    if (this.#options.listen) void this.#listen(session)
  }

  async #call(request: JsonRpcRequest, options: CallOptions): Promise<void> {
    const session = this.#current()
    const call = new PendingCall({ request, session, host: this, options })
    this.#calls.set(request.id, call)
    if (session.lost === undefined) return call.start()
    await session.lost
    call.fail(
      new TransportError('SESSION_LOST', 'The session was lost before; nothing was sent', {
        certain: true,
        epoch: session.epoch,
        url: this.http.url.display,
      }),
    )
  }

  async #cancel(message: JsonRpcNotification): Promise<void> {
    const id = message.params?.['requestId']
    if (typeof id !== 'string' && typeof id !== 'number') return
    if (this.#initializing?.id === id) {
      // `initialize` must not be cancelled on the wire (2025-11-25, cancellation).
      this.#initializing.isAbandoned = true
      this.#initializing.exchange?.abort(closed('The client gave up initialize'))
      return
    }
    const call = this.#calls.get(id)
    if (call === undefined) return // answered meanwhile: there is nothing to cancel
    call.abandon()
    const { session } = call
    const params = { ...message.params, requestId: session.ids.toWire(id) }
    try {
      if (session.lost === undefined) await this.#notify({ ...message, params }, session)
    } finally {
      call.release(closed('The client cancelled the request'))
    }
  }

  /** Replies go where the question came from: a later session does not know it. */
  async #reply(message: JsonRpcResponse): Promise<void> {
    const { id } = message
    const session = id === undefined || id === null ? undefined : this.#serverRequests.get(id)
    if (session === undefined || id === undefined || id === null) return
    this.#serverRequests.delete(id)
    if (session.lost === undefined) await this.#post(message, session)
  }

  async #notify(message: JsonRpcNotification, session: LegacySession): Promise<void> {
    if (session.lost !== undefined) return
    await this.#post(message, session)
  }

  async #post(
    message: JsonRpcNotification | JsonRpcResponse,
    session: LegacySession,
  ): Promise<void> {
    try {
      await postAndForget(this.http, message, session)
    } catch (error) {
      if (TransportError.is(error) && error.code === 'SESSION_LOST') await this.sessionLost(session)
      throw error
    }
  }

  // What the server sends on its own.

  async #listen(session: LegacySession): Promise<void> {
    const cursor = { lastEventId: session.lastEventId }
    const { signal } = session.listening
    const outcome = await followStream({
      cursor,
      reconnect: this.reconnect,
      signal,
      isBroken: false,
      random: this.#random,
      open: (attempt) =>
        openEventStream({
          http: this.http,
          session,
          cursor,
          signal,
          attempt,
          headersMs: LISTEN_HEAD_MS,
          idleMs: this.timeouts.idleMs,
          onMessage: (message) => this.received(message, session),
          onCursor: (id) => this.#cursorMoved(session, id),
        }),
    })
    if (outcome.kind === 'stopped') return
    if (outcome.kind === 'refused') {
      // Servers need not offer a stream; only a question of credentials is worth a word.
      if (outcome.error.code === 'UNAUTHORIZED') this.#options.report(outcome.error)
      return
    }
    const message = `The listening stream of ${this.http.url.display} broke ${outcome.attempts} times in a row and is given up`
    this.#options.report(
      new TransportError('UNREACHABLE', message, {
        url: this.http.url.display,
        cause: outcome.error,
      }),
    )
  }

  #cursorMoved(session: LegacySession, id: string): void {
    session.lastEventId = id === '' ? undefined : id
    const now = performance.now()
    if (id === '' || now - this.#cursorStoredAt < CURSOR_MS) return
    this.#cursorStoredAt = now
    void this.#keeper.moved(session.id, id)
  }

  /** An answer that came on another stream than its request's own: a resumed one, or the listening one. */
  #answerOf(message: JsonRpcResponse, session: LegacySession): void {
    const { id } = message
    const own = id === undefined || id === null ? undefined : session.ids.fromWire(id)
    const call =
      own === undefined ? undefined : (this.#calls.get(own) ?? this.#calls.get(Number(own)))
    if (call?.session === session) call.answered(message)
  }

  #current(): LegacySession {
    return (this.#session ??= this.#adopt())
  }

  #failCalls(why: string): void {
    for (const call of this.#calls.values()) call.fail(closed(why))
  }
}

const LISTEN_HEAD_MS = 30_000

function closed(why: string): TransportError {
  return new TransportError('CLOSED', why)
}

function bareSession(id: string): LegacySession {
  return new LegacySession({
    id,
    epoch: 0,
    protocolVersion: undefined,
    isResumed: true,
    ids: RequestIds.asTheyAre(),
  })
}
