import { untilAborted } from '@x/internal'
import type { HttpClient } from '../http/http-client.ts'
import { OpenCalls } from '../http/open-calls.ts'
import type { CallRecovery } from '../http/open-calls.ts'
import { isRequest, isResponse, repairedAnswer } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { modernEvidence, shortSessionId } from '../session-record.ts'
import { refusedSessionError, toTransportError, TransportError } from '../transport-error.ts'
import type { CallOptions, Reconnect, SessionReplaced, Timeouts } from '../transport-options.ts'
import { asksForMessages, listen, mayBeAsked, mayHearUnasked } from './event-stream.ts'
import { provesSession } from './handshake.ts'
import { ServerRequests } from './legacy-session.ts'
import type { LegacySession } from './legacy-session.ts'
import { deleteSession, postOneWay } from './one-way.ts'
import { PendingCall } from './pending-call.ts'
import { SessionOpener } from './session-opener.ts'
import type { OpenOptions, OpenOutcome } from './session-opener.ts'

/** Replacement of a lost session. `stateless` if the server no longer has sessions. */
export type Replacement = LegacySession | 'stateless'

/** Ids of the transport's own requests: far above those of clients, and still safe integers. */
const OWN_IDS = 2 ** 52

const INITIALIZED = { jsonrpc: '2.0', method: 'notifications/initialized' } as const

/** Time limit for the notification that cancels a request. */
const CANCEL_MS = 1000

/** Routes messages to the server as it is now, with or without sessions. */
export interface Router extends Pick<CallRecovery<unknown>, 'streak' | 'test'> {
  /**
   * Called if the server no longer has sessions: changes to the stateless revision.
   *
   * @throws TransportError if the server does not support that revision
   */
  changeToStateless(signal: AbortSignal): Promise<void>
  /** Sends a request that was refused to the server as it is now. Starts at once: see `LegacyProtocol.start()`. */
  sendAgain(request: JsonRpcRequest, options: CallOptions): Promise<void>
}

export interface LegacyProtocolOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  /** Undefined: only for a server that may send messages without a request. */
  readonly listen: boolean | undefined
  /** Called after a lost session was replaced. Set if the transport sends lost requests again. */
  readonly onReplaced: ((event: SessionReplaced) => void) | undefined
  readonly deliver: (message: JsonRpcMessage) => void
  /** Reports a failure that belongs to no message. */
  readonly report: (error: TransportError) => void
}

/**
 * The revisions with sessions (2025-03-26 to 2025-11-25). Routes messages of the client and the server, and
 * holds the current session. Used once, from `load` to `close`.
 */
export class LegacyProtocol {
  readonly options: LegacyProtocolOptions
  /** The client's requests without an answer. */
  readonly calls: OpenCalls<PendingCall>
  readonly #router: Router
  readonly #opener: SessionOpener
  #ownId = 0
  /** Created on demand, because most servers send no requests. */
  #serverRequests: ServerRequests | undefined
  #session: LegacySession | undefined
  #initialize: JsonRpcRequest | undefined
  #initializing: { readonly id: RequestId; readonly controller: AbortController } | undefined
  #replacing: AbortController | undefined
  /** Successful requests of the client that a new session needs to know: log level and subscriptions. */
  #settings: Map<string, JsonRpcRequest> | undefined
  #loading: Promise<void> | undefined
  #terminating: Promise<void> | undefined
  /** Resolves when the last call of each lost or replaced session has ended. */
  #stopping: Promise<void> | undefined
  #isClosed = false

  constructor(options: LegacyProtocolOptions, router: Router) {
    this.options = options
    this.#router = router
    this.#opener = new SessionOpener(options)
    const { http, timeouts, deliver, onReplaced } = options
    const isRecovering = onReplaced !== undefined
    this.calls = new OpenCalls({
      http,
      timeouts,
      deliver: (answer, request) => {
        if (isRecovering && 'result' in answer) this.#succeeded(request)
        deliver(repairedAnswer(request, answer))
      },
      check: ({ session }) => ({
        era: 'legacy',
        sessionId: session.id,
        headers: session.postHeaders,
        body: session.ids.request({ jsonrpc: '2.0', id: this.#nextOwnId(), method: 'ping' }),
      }),
      recovery: isRecovering
        ? {
            replace: ({ session }) => this.replacementOf(session),
            sendAgain: (request, sent) => router.sendAgain(request, sent),
            streak: router.streak,
            test: () => router.test(),
          }
        : undefined,
    })
  }

  get session(): LegacySession | undefined {
    return this.#session
  }

  /** True if the store holds a session, with or without its InitializeResult. */
  get hasStoredSession(): boolean {
    return this.#opener.hasStoredSession
  }

  /** Reads the store once; `isAgain` reads it again, because its content has changed. Sends no request. */
  load(isAgain = false): Promise<void> {
    if (isAgain) this.#loading = undefined
    return (this.#loading ??= this.#opener.load())
  }

  /**
   * Sends a message of the client, except `initialize` and cancellations, which have methods of their own.
   *
   * @throws TransportError for a notification or response that was not accepted, and after `close`.
   */
  async send(message: JsonRpcMessage, options: CallOptions): Promise<void> {
    await this.load() // awaited even if done, so that no answer arrives while the client is still sending
    this.#assertOpen()
    if (isRequest(message)) return this.start(message, options)
    if (isResponse(message)) return this.#reply(message)
    if (message.method === 'notifications/initialized') return this.#initialized(message)
    const session = this.#current()
    if (session.lost === undefined) return this.#post(message, session)
  }

  /**
   * Starts a request in the current session. Call it after `load`. From the return on, `cancel` finds the request, also
   * between two attempts.
   */
  async start(request: JsonRpcRequest, options: CallOptions): Promise<void> {
    this.#assertOpen()
    const session = this.#current()
    const call = new PendingCall(this, { request, session, options })
    this.calls.add(call)
    if (session.lost === undefined) {
      const sent = call.start()
      if (asksForMessages(request) && session.unstored === undefined) void this.#listen(session)
      return sent
    }
    await session.lost // the failure below may open another session
    call.fail(
      session.isTerminated
        ? this.options.http.closed('The session was terminated; nothing was sent', 'not-executed')
        : this.#alreadyLost(session, 'The session was lost before the request; nothing was sent'),
    )
  }

  /**
   * Terminates the session on the server. First answers the calls in flight: their outcome is unknown.
   *
   * @throws TransportError if the session may still exist on the server.
   */
  terminate(): Promise<void> {
    return (this.#terminating ??= this.#terminate().finally(() => {
      this.#terminating = undefined
    }))
  }

  /**
   * Answers the calls in flight, ends streams and timers, and keeps the session. All calls are answered when it
   * returns. Terminates unused sessions. Waits for that and for a late answer to `initialize`, at most 2 s.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    const closed = this.#closed('The transport was closed')
    this.calls.close('The transport was closed')
    this.#initializing?.controller.abort(closed)
    this.#initializing = undefined
    this.#replacing?.abort(closed)
    this.#serverRequests = undefined
    const session = this.#session
    session?.endListening()
    this.#opener.discardAll()
    await Promise.all([this.options.http.settled(), this.#stopping])
    await this.#terminating?.catch(() => {}) // the caller of terminate() gets the error
    this.#session = undefined
    await this.options.http.close()
  }

  // Methods for PendingCall

  /** Returns the call that waits for this answer. Some servers return a number as text. */
  findCall({ id }: JsonRpcResponse, session: LegacySession): PendingCall | undefined {
    const own = id === undefined || id === null ? undefined : session.ids.fromWire(id)
    if (own === undefined) return undefined
    const call = this.calls.find(own) ?? this.calls.find(Number(own))
    return call?.session === session ? call : undefined
  }

  /** Takes a request or notification of the server. `call` is set if the response stream of that call delivered it. */
  receive(
    message: JsonRpcRequest | JsonRpcNotification,
    session: LegacySession,
    call?: PendingCall,
  ): void {
    if (isRequest(message)) {
      const requests = (this.#serverRequests ??= new ServerRequests())
      return this.options.deliver(requests.asked(message, session, call))
    }
    if (message.method === 'notifications/cancelled') {
      const cancelled = this.#serverRequests?.cancelled(message, session)
      // An unknown id may be that of a request in another session.
      if (cancelled !== undefined) this.options.deliver(cancelled)
      return
    }
    // Notifications of a session that another one replaced are out of date, except the progress of its calls.
    if (session !== this.#session && message.method !== 'notifications/progress') return
    const own = session.ids.progress(message)
    if (own !== undefined) this.options.deliver(own)
  }

  /** Called for each request that succeeded, if the transport replaces lost sessions. */
  #succeeded(request: JsonRpcRequest): void {
    const { method, params } = request
    const settings = (this.#settings ??= new Map())
    const uri = params?.['uri']
    if (method === 'logging/setLevel') settings.set(method, request)
    else if (typeof uri !== 'string') return
    else if (method === 'resources/subscribe') settings.set(uri, request)
    else if (method === 'resources/unsubscribe') settings.delete(uri)
  }

  /**
   * Resolves when the session is removed from the store. `isCertain` is false if the server may still have the session:
   * it is then terminated after its last call.
   */
  loseSession(session: LegacySession, isCertain: boolean): Promise<void> {
    session.endListening()
    this.#opener.removeHalfOpen(session)
    if (isCertain) session.mayBeOpen = false
    if (session.lost === undefined) this.#stopUsing(session)
    return (session.lost ??=
      session.unstored === undefined ? this.options.keeper.lost(session.id) : Promise.resolve())
  }

  /**
   * Returns what replaces a session, which is normally lost. All callers share one handshake. `limits` is set if the
   * caller limits the handshake itself.
   *
   * @throws TransportError if no session could be opened. The next call tries again.
   */
  replacementOf(
    old: LegacySession,
    limits?: { readonly signal: AbortSignal },
  ): Promise<Replacement> {
    if (old.replacement !== undefined) return old.replacement
    const { signal } = (this.#replacing = new AbortController())
    const options: OpenOptions = {
      signal: limits === undefined ? signal : AbortSignal.any([signal, limits.signal]),
      limitMs: limits === undefined ? this.options.timeouts.probeMs : undefined,
      isReplacement: old.lost !== undefined,
    }
    const replacement = this.options.http.asOwner(() => this.#replace(old, options))
    old.replacement = replacement
    const isOver = (): void => void (old.replacement = undefined)
    // The store may still have the same session. The callers get the error.
    replacement.then((session) => session === old && isOver(), isOver)
    return replacement
  }

  async #replace(old: LegacySession, options: OpenOptions): Promise<Replacement> {
    await old.lost // the lost id must be removed from the store first
    const request = this.#initialize
    if (request === undefined) {
      throw this.#alreadyLost(old, 'The session cannot be replaced: the client sent no initialize')
    }
    const outcome = await this.#repeatHandshake(request, options)
    if (outcome.kind === 'failed') {
      const { answer } = outcome
      if (modernEvidence(answer) === undefined)
        throw refusedSessionError(answer, this.options.http.url.display)
      await this.#router.changeToStateless(options.signal)
      return 'stateless'
    }
    const { session } = outcome
    if (old.lost === undefined && old.id !== session.id) this.#stopUsing(old)
    this.options.onReplaced?.({
      oldEpoch: old.epoch,
      newEpoch: session.epoch,
      oldSessionId: old.id && shortSessionId(old.id),
      newSessionId: session.id && shortSessionId(session.id),
    })
    await this.#repeatSettings(session)
    return session
  }

  async #repeatSettings(session: LegacySession): Promise<void> {
    const settings = [...(this.#settings?.values() ?? [])]
    await Promise.all(
      settings.map((message) => {
        const own = { ...message, id: this.#nextOwnId() } // its answer is dropped
        return new PendingCall(this, { request: own, session, options: {} }).start()
      }),
    )
  }

  /**
   * Opens a session for a client that has sent its `initialize` before. The session is the current one as soon as the
   * server has accepted `notifications/initialized`, and not before.
   *
   * @throws TransportError if the server did not accept it. The session is then terminated.
   */
  async #repeatHandshake(request: JsonRpcRequest, options: OpenOptions): Promise<OpenOutcome> {
    const { signal, limitMs, isReplacement, isFresh } = options
    const outcome = await this.#opener.open(request, options)
    if (outcome.kind === 'failed') return outcome
    const { session } = outcome
    const current = this.#session
    const isCurrent = session.id !== undefined && session.id === current?.id
    if (isCurrent && current?.lost === undefined) return { ...outcome, session: current }
    session.isDoubtful = isReplacement || isFresh === true
    if (session.unstored !== undefined) {
      try {
        await untilAborted(this.#post(INITIALIZED, session, limitMs), signal)
      } catch (error) {
        this.#opener.discard(session)
        throw toTransportError(error)
      }
      await this.#opener.opened(session)
    }
    if (this.#isClosed) throw this.#closed('The transport was closed')
    this.#session = session
    await this.#listenIfNeeded(session)
    return outcome
  }

  /**
   * Returns whether the server answers a `ping` in the current session with a result.
   *
   * @throws TransportError `UNREACHABLE` if it cannot be asked
   */
  async isProven(signal: AbortSignal): Promise<boolean> {
    const session = this.#session
    if (session === undefined || session.lost !== undefined) return false
    const { http, timeouts, deliver } = this.options
    return provesSession({ http, timeouts, deliver, signal, limitMs: undefined }, session)
  }

  /** Another session, or a server without sessions, has taken the place of this session. */
  retire(session: LegacySession): void {
    if (session.lost !== undefined) return
    session.lost = Promise.resolve()
    this.#stopUsing(session)
  }

  /** The session is lost or replaced: no other request is sent in it. */
  #stopUsing(session: LegacySession): void {
    session.endListening()
    const ended = this.#terminateAfterLastCall(session).catch((error: unknown) => {
      this.options.report(toTransportError(error))
    })
    const before = this.#stopping
    this.#stopping = ended.then(() => before)
  }

  /**
   * Waits for the last call of a session. Then cancels its requests to the client, and terminates it if this transport
   * opened it and the server may have it: no store holds its id any more.
   */
  async #terminateAfterLastCall(session: LegacySession): Promise<void> {
    await this.calls.ended((call) => call.session === session)
    for (const cancelled of this.#serverRequests?.ended(session) ?? []) {
      this.options.deliver(cancelled)
    }
    if (session.isResumed || session.id === undefined || !session.mayBeOpen) return
    session.mayBeOpen = false
    session.lost ??= Promise.resolve()
    await deleteSession(this.options.http, session)
  }

  // Messages of the client

  /** Returns the answer to the client's `initialize`; undefined if the client cancelled it. */
  async initialize(request: JsonRpcRequest): Promise<JsonRpcResponse | undefined> {
    await this.load()
    this.#initialize = request
    this.#session?.endListening() // one listening stream at a time
    if (this.#session !== undefined) this.#opener.discard(this.#session)
    this.#initializing?.controller.abort(this.#closed('The client sent initialize again'))
    const initializing = { id: request.id, controller: new AbortController() }
    const { signal } = initializing.controller
    this.#initializing = initializing
    const options = { signal, limitMs: undefined, isReplacement: false }
    const outcome = await this.#opener.open(request, options)
    if (this.#initializing !== initializing) return undefined
    this.#initializing = undefined
    if (outcome.kind === 'failed') {
      this.#session = undefined
      return outcome.answer
    }
    const { session, result } = outcome
    this.#session = session
    return { jsonrpc: '2.0', id: request.id, result }
  }

  /**
   * Repeats the client's handshake after a change of the era, or to start from nothing (`isFresh`). Returns the answer
   * to `initialize`.
   */
  async repeatHandshake(
    request: JsonRpcRequest,
    { signal, isFresh }: Pick<OpenOptions, 'signal' | 'isFresh'>,
  ): Promise<JsonRpcResponse> {
    await this.load()
    this.#initialize = request
    const limitMs = this.options.timeouts.probeMs
    const options = { signal, limitMs, isReplacement: false, isFresh }
    const outcome = await this.#repeatHandshake(request, options)
    if (outcome.kind === 'failed') return outcome.answer
    if (isFresh === true) await this.#repeatSettings(outcome.session)
    return { jsonrpc: '2.0', id: request.id, result: outcome.result }
  }

  async #initialized(message: JsonRpcNotification): Promise<void> {
    const session = this.#current()
    // For an open session, the process that opened it has sent the notification.
    if (session.unstored !== undefined && session.lost === undefined) {
      await this.#post(message, session)
      await this.#opener.opened(session)
    }
    const declared = this.#initialize?.params?.['capabilities']
    const isFirst = !session.isResumed || this.options.listen !== undefined || mayBeAsked(declared)
    if (isFirst) return this.#listenIfNeeded(session)
    // In the next process of an agent, a call is the first request.
    session.onSuccess = () => {
      session.onSuccess = undefined
      void this.options.http.asOwner(() => this.#listenIfNeeded(session))
    }
  }

  /** Opens the listening stream of a session, unless nothing would arrive there. */
  async #listenIfNeeded(session: LegacySession): Promise<void> {
    const { keeper, listen: given } = this.options
    const capabilities = keeper.record?.initializeResult?.capabilities
    const declared = this.#initialize?.params?.['capabilities']
    if (given ?? mayHearUnasked(capabilities, declared)) await this.#listen(session)
  }

  #listen(session: LegacySession): Promise<void> {
    if (this.options.listen === false || this.#isClosed) return Promise.resolve()
    return listen(this.options, session, (incoming) => {
      // An answer on this stream may belong to any call: some servers use it if the response stream of the call is
      // gone (rmcp). On other responses, only the answer to their own request is accepted.
      if (isResponse(incoming)) this.findCall(incoming, session)?.answered(incoming)
      else this.receive(incoming, session)
    })
  }

  /** Removes a request that was not sent, and is then never sent. Returns false if the server may have received it. */
  withdraw(id: RequestId): boolean {
    if (this.calls.find(id)?.isSent !== false) return false
    this.#remove(id)?.closeStreams(this.#closed('The client cancelled the request'))
    return true
  }

  /** Cancels a request, or the client's `initialize`. Does nothing for an unknown id. */
  async cancel(message: JsonRpcNotification): Promise<void> {
    const id = message.params?.['requestId']
    if (typeof id !== 'string' && typeof id !== 'number') return
    if (this.#initializing?.id === id) {
      this.#initializing.controller.abort(this.#closed('The client cancelled initialize'))
      this.#initializing = undefined
      this.#opener.discardAll()
      return
    }
    const call = this.withdraw(id) ? undefined : this.#remove(id)
    if (call === undefined) return // not sent, or already answered
    const { session } = call
    const params = { ...message.params, requestId: session.ids.toWire(id) }
    try {
      if (session.lost !== undefined) return
      await call.inContext(() => this.#post({ ...message, params }, session, CANCEL_MS))
    } finally {
      call.closeStreams(this.#closed('The client cancelled the request'))
    }
  }

  /**
   * Sends a response in the session of the request, because another session does not know the request. If that fails,
   * the call that the request belongs to fails too: the server may wait for the response until the call times out.
   */
  async #reply(message: JsonRpcResponse): Promise<void> {
    const asked = this.#serverRequests?.take(message)
    if (asked === undefined) return
    const { id, session, call } = asked
    if (session.lost !== undefined) {
      const text = 'The session of the request was lost before; nothing was sent'
      call?.failUnanswered(this.#alreadyLost(session, text))
      return
    }
    try {
      await this.#post({ ...message, id }, session)
    } catch (error) {
      call?.failUnanswered(error)
      throw error
    }
  }

  async #post(
    message: JsonRpcNotification | JsonRpcResponse,
    session: LegacySession,
    limitMs?: number,
  ): Promise<void> {
    try {
      await postOneWay(this.options.http, message, { session, limitMs })
    } catch (error) {
      if (TransportError.is(error) && error.code === 'SESSION_LOST')
        await this.loseSession(session, error.certain === true)
      throw error
    }
  }

  async #terminate(): Promise<void> {
    const why = 'The session was terminated'
    this.#replacing?.abort(this.#closed(why))
    await this.#session?.replacement?.catch(() => {}) // it may have opened a session
    const session = this.#session ?? (await this.load(), this.#session ?? this.#opener.adopt())
    this.calls.failAll(why)
    session.endListening()
    if (session.id === undefined || session.lost !== undefined) return
    session.isTerminated = true
    session.mayBeOpen = false
    session.lost = Promise.resolve()
    this.#opener.removeHalfOpen(session)
    // Another process may have replaced and terminated the stored session.
    if (session.isResumed && (await this.options.keeper.isReplaced(session.id))) return
    try {
      await deleteSession(this.options.http, session)
    } catch (error) {
      session.lost = undefined // the session may still exist, so that a second call tries again
      throw error
    }
    await this.options.keeper.lost(session.id)
  }

  /** Removes a call that the client cancelled. The caller closes its streams. */
  #remove(id: RequestId): PendingCall | undefined {
    const call = this.calls.find(id)
    if (call === undefined) return undefined // already answered
    call.end()
    this.calls.remove(call)
    return call
  }

  #nextOwnId(): RequestId {
    return OWN_IDS + ++this.#ownId
  }

  #assertOpen(): void {
    if (!this.#isClosed) return
    throw this.options.http.closed('The transport is closed', 'not-executed')
  }

  #current(): LegacySession {
    return (this.#session ??= this.#opener.adopt())
  }

  #closed(why: string): TransportError {
    return this.options.http.closed(why)
  }

  #alreadyLost({ epoch }: LegacySession, why: string): TransportError {
    return this.options.http.error('SESSION_LOST', why, { certain: true, epoch })
  }
}
