import { sessionChannel } from '../diagnostics.ts'
import type { SessionEvent } from '../diagnostics.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { InFlight } from '../in-flight.ts'
import { isRequest, isResponse } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import { shortSessionId } from '../session-id.ts'
import type { CallOptions } from '../send-options.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { TransportError, transportErrorFrom } from '../transport-error.ts'
import type { Reconnect, Timeouts } from '../transport-options.ts'
import { errorAnswer } from '../error-answer.ts'
import type { LegacySession } from './legacy-session.ts'
import { listen } from './listening.ts'
import { deleteSession, postAndForget } from './one-way.ts'
import { PendingCall } from './pending-call.ts'
import type { CallHost } from './pending-call.ts'
import { lossIn, SessionHealer } from './session-healer.ts'
import type { SessionReplaced } from './session-healer.ts'
import { Initializing, SessionOpener } from './session-opener.ts'

export interface LegacyWireOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  readonly listen: boolean
  /** Given where lost sessions are to be replaced here; told of each replacement. */
  readonly onSessionReplaced?: ((event: SessionReplaced) => void) | undefined
  /** Hands a message to the client. */
  readonly deliver: (message: JsonRpcMessage) => void
  /** Trouble that belongs to no message. */
  readonly report: (error: TransportError) => void
  readonly random?: () => number
}

/** How long a new session waits for its listening stream. */
const LISTEN_READY_MS = 100

/** Ids of our own requests: far above any that a client counts up to, and still safe integers. */
const OWN_IDS = 2 ** 52

/** Calls of the wires themselves, in no client's name: their answers go nowhere. */
const ownCalls = new WeakSet<PendingCall>()

/** Calls that have been sent again once: there is no third time. */
const replays = new WeakSet<PendingCall>()

/**
 * The revisions with sessions (2025-03-26 … 2025-11-25): routes the client's messages and the server's,
 * and keeps the one current session. Lives from `load` to `close`, once.
 */
export class LegacyWire implements CallHost {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  readonly #options: LegacyWireOptions
  readonly #keeper: SessionKeeper
  readonly #random: () => number
  readonly #opener: SessionOpener
  readonly #healer: SessionHealer | undefined
  readonly #calls = new InFlight<PendingCall>()
  /** Requests of the server that the client has not replied to yet, and the session they came in. */
  #serverRequests: Map<RequestId, LegacySession> | undefined
  #session: LegacySession | undefined
  #initializing: Initializing | undefined
  #loading: Promise<void> | undefined
  #terminating: Promise<void> | undefined
  #isClosed = false
  #ownId = 0

  constructor(options: LegacyWireOptions) {
    const { http, keeper, timeouts, reconnect, random = Math.random } = options
    this.http = http
    this.timeouts = timeouts
    this.reconnect = reconnect
    this.#options = options
    this.#keeper = keeper
    this.#random = random
    this.#opener = new SessionOpener({
      http,
      keeper,
      headersMs: timeouts.headersMs,
      random,
      onMessage: options.deliver,
    })
    this.#healer = options.onSessionReplaced && this.#makeHealer(options.onSessionReplaced)
  }

  get session(): LegacySession | undefined {
    return this.#session
  }

  /** Whether the store holds a session, with or without the answer to its `initialize`. */
  get hasStoredSession(): boolean {
    return this.#opener.hasStoredSession
  }

  /** Reads the store, once. No request is made. */
  load(): Promise<void> {
    return (this.#loading ??= this.#opener.load())
  }

  /** @throws TransportError for a notification or reply that was not accepted, and after `close`. */
  async send(message: JsonRpcMessage, options: CallOptions): Promise<void> {
    await this.load() // also if that is long done: nothing reaches a client while it is still sending
    if (this.#isClosed) throw this.#closed('The transport is closed')
    if (isRequest(message)) {
      if (message.method === 'initialize') {
        const answer = await this.initialize(message)
        if (answer !== undefined) this.#options.deliver(answer)
        return
      }
      await this.#call(message, options)
      return
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

  /**
   * Ends the session on the server. In-flight calls are answered first: their outcome is unknown.
   *
   * @throws TransportError if the session may still be there.
   */
  terminate(): Promise<void> {
    return (this.#terminating ??= this.#terminate().finally(() => {
      this.#terminating = undefined
    }))
  }

  /**
   * Leaves everything: answers the calls in flight, ends streams and timers, keeps the session. All
   * calls are answered when it returns; a DELETE that is on its way is waited for.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#failCalls('The transport was closed')
    this.#initializing?.abandon(this.#closed('The transport was closed'))
    this.#initializing = undefined
    this.#healer?.close(this.#closed('The transport was closed'))
    this.#serverRequests = undefined
    const session = this.#session
    session?.endListening()
    await this.#opener.close()
    await this.#terminating?.catch(() => {}) // told to whoever asked for it
    this.#session = undefined
    if (session?.lastEventId !== undefined && session.lost === undefined) {
      await this.#keeper.moved(session.id, session.lastEventId)
    }
    await this.http.close()
  }

  // What a call needs of us.

  received(message: JsonRpcMessage, session: LegacySession): void {
    if (isResponse(message)) {
      this.#answerOf(message, session)
      return
    }
    if (isRequest(message)) (this.#serverRequests ??= new Map()).set(message.id, session)
    else if (message.method === 'notifications/cancelled') this.#forgetRequest(message)
    const own = session.ids.progress(message)
    if (own !== undefined) this.#options.deliver(own)
  }

  sessionLost(session: LegacySession): Promise<void> {
    session.endListening()
    if (session.lost === undefined) this.#tell('lost', session)
    return (session.lost ??= this.#keeper.lost(session.id))
  }

  settled(call: PendingCall, answer: JsonRpcResponse | undefined): void {
    if (ownCalls.delete(call)) return
    if (answer !== undefined) {
      if (this.#heals(call, answer)) return
      this.#healer?.succeeded(call.request, answer)
    }
    this.#calls.remove(call)
    if (answer !== undefined) this.#options.deliver(answer)
  }

  linger(exchange: Exchange): void {
    this.http.lingering.add(exchange)
  }

  over(exchange: Exchange): void {
    this.http.lingering.remove(exchange)
  }

  // What the client sends.

  /** The answer to the client's `initialize`; none where the client gave it up. */
  async initialize(request: JsonRpcRequest): Promise<JsonRpcResponse | undefined> {
    await this.load()
    this.#healer?.sent(request)
    this.#session?.endListening() // one listening stream at a time
    const initializing = new Initializing(request.id)
    this.#initializing = initializing
    const outcome = await this.#opener.open(request, initializing)
    if (this.#initializing !== initializing || initializing.isAbandoned) return undefined
    this.#initializing = undefined
    this.#session = outcome.kind === 'opened' ? outcome.session : undefined
    switch (outcome.kind) {
      case 'opened':
        this.#tell(outcome.session.isResumed ? 'resumed' : 'opened', outcome.session)
        return { jsonrpc: '2.0', id: request.id, result: outcome.result }
      case 'answered':
        return { ...outcome.answer, id: request.id }
      case 'failed':
        return errorAnswer(request.id, outcome.error)
    }
  }

  async #initialized(message: JsonRpcNotification): Promise<void> {
    const session = this.#current()
    // A resumed session had it from the process that opened it.
    if (!session.isResumed) await this.#notify(message, session)
    await this.#listenIn(session)
  }

  /**
   * Opens the listening stream. Resolves when it stands, so that nothing that a call makes the server say
   * there is said to nobody; or after a moment, because some servers accept a stream with its first event.
   */
  #listenIn(session: LegacySession): Promise<void> {
    if (!this.#options.listen || this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LISTEN_READY_MS).unref()
      void listen({
        http: this.http,
        keeper: this.#keeper,
        session,
        reconnect: this.reconnect,
        idleMs: this.timeouts.idleMs,
        random: this.#random,
        onReady: () => {
          clearTimeout(timer)
          resolve()
        },
        onMessage: (incoming) => this.received(incoming, session),
        report: this.#options.report,
      })
    })
  }

  #call(request: JsonRpcRequest, options: CallOptions): Promise<void> {
    const session = this.#current()
    const call = new PendingCall({ request, session, host: this, options })
    this.#calls.add(call)
    return session.lost === undefined ? call.start() : this.#failLost(call)
  }

  async #failLost(call: PendingCall): Promise<void> {
    const { session } = call
    await session.lost // with a healer, the answer below makes it open another one
    call.fail(
      session.isEnded
        ? this.#closed('The session was ended by this side; nothing was sent')
        : new TransportError('SESSION_LOST', 'The session was lost before; nothing was sent', {
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
      this.#initializing.abandon(this.#closed('The client gave up initialize'))
      this.#initializing = undefined
      return
    }
    const call = this.#calls.find(({ request }) => request.id === id)
    if (call === undefined) return // answered meanwhile: there is nothing to cancel
    call.abandon()
    this.#calls.remove(call)
    const { session } = call
    const params = { ...message.params, requestId: session.ids.toWire(id) }
    try {
      if (call.isSent) await this.#notify({ ...message, params }, session)
    } finally {
      call.release(this.#closed('The client cancelled the request'))
    }
  }

  /** Replies go where the question came from: a later session does not know it. */
  async #reply(message: JsonRpcResponse): Promise<void> {
    const { id } = message
    const session = id === undefined || id === null ? undefined : this.#serverRequests?.get(id)
    if (session === undefined || id === undefined || id === null) return
    this.#serverRequests?.delete(id)
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

  async #terminate(): Promise<void> {
    const session = this.#session ?? (await this.load(), this.#session ?? this.#opener.adopt())
    this.#failCalls('The session was ended by this side')
    session.endListening()
    if (session.id === undefined || session.lost !== undefined) return
    session.isEnded = true
    session.lost = Promise.resolve()
    // Another process may have replaced a stored session meanwhile, and have ended it in its own way.
    if (session.isResumed && (await this.#keeper.isReplaced(session.id))) return
    try {
      await deleteSession(this.http, session)
    } catch (error) {
      session.lost = undefined // it may be there still: asking again shall try again
      throw error
    }
    this.#tell('ended', session)
    await this.#keeper.lost(session.id)
  }

  /** An answer that came on another stream than its request's own: a resumed one, or the listening one. */
  #answerOf(message: JsonRpcResponse, session: LegacySession): void {
    const { id } = message
    const own = id === undefined || id === null ? undefined : session.ids.fromWire(id)
    if (own === undefined) return
    const call = this.#calls.find(({ request }) => isSameId(request.id, own))
    if (call?.session === session) call.answered(message)
  }

  /** The server no longer wants a reply. */
  #forgetRequest({ params }: JsonRpcNotification): void {
    const id = params?.['requestId']
    if (typeof id === 'string' || typeof id === 'number') this.#serverRequests?.delete(id)
  }

  #current(): LegacySession {
    return (this.#session ??= this.#opener.adopt())
  }

  /** With a healer, a call that lost its session waits for another one, and is sent again once at most. */
  #heals(call: PendingCall, answer: JsonRpcResponse): boolean {
    const loss = lossIn(answer)
    if (this.#healer === undefined || loss === undefined || this.#isClosed) return false
    if (!this.#calls.has(call)) return false // given up meanwhile
    void this.#heal(call, answer, loss.certain === true && !replays.has(call))
    return true
  }

  async #heal(call: PendingCall, answer: JsonRpcResponse, mayReplay: boolean): Promise<void> {
    const give = (last: JsonRpcResponse): void => {
      if (this.#calls.remove(call)) this.#options.deliver(last)
    }
    let session: LegacySession | undefined
    try {
      session = await this.#healer?.replacementOf(call.session)
    } catch (error) {
      return give(errorAnswer(call.request.id, transportErrorFrom(error)))
    }
    if (session === undefined || !mayReplay) return give(answer)
    if (!this.#calls.remove(call)) return
    const { request, options } = call
    const again = new PendingCall({ request, session, host: this, options })
    replays.add(again)
    this.#calls.add(again)
    await again.start()
  }

  #makeHealer(onReplaced: (event: SessionReplaced) => void): SessionHealer {
    return new SessionHealer({
      opener: this.#opener,
      initialized: async (session) => {
        try {
          await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' }, session)
        } catch (error) {
          await this.sessionLost(session) // else the next one would find it stored, and half open
          throw error
        }
      },
      onReplaced: async (session, old) => {
        if (this.#isClosed) return
        this.#session = session
        this.#tell(session.isResumed ? 'resumed' : 'opened', session)
        await this.#listenIn(session)
        if (this.#isClosed) return
        onReplaced({
          oldEpoch: old.epoch,
          newEpoch: session.epoch,
          oldSessionId: old.id && shortSessionId(old.id),
          newSessionId: session.id && shortSessionId(session.id),
        })
      },
      repeat: async (message, session) => {
        const request = { ...message, id: OWN_IDS + ++this.#ownId }
        const call = new PendingCall({ request, session, host: this, options: {} })
        ownCalls.add(call)
        await call.start()
      },
    })
  }

  #failCalls(why: string): void {
    for (const call of this.#calls.all()) {
      if (!this.#calls.has(call)) continue // given up meanwhile
      call.fail(this.#closed(why))
      // One that waits for another session has failed before, and told nobody.
      if (!this.#calls.remove(call)) continue
      this.#options.deliver(errorAnswer(call.request.id, this.#closed(why)))
    }
  }

  #tell(type: SessionEvent['type'], { epoch, id }: LegacySession): void {
    if (!sessionChannel.hasSubscribers) return
    const sessionId = id === undefined ? undefined : shortSessionId(id)
    const event: SessionEvent = {
      type,
      url: this.http.url.display,
      era: 'legacy',
      epoch,
      sessionId,
    }
    sessionChannel.publish(event)
  }

  #closed(why: string): TransportError {
    return new TransportError('CLOSED', why, { url: this.http.url.display })
  }
}

/** Servers give a number back as text now and then. */
function isSameId(own: RequestId, given: RequestId): boolean {
  return own === given || own === Number(given)
}
