import { untilAborted } from '@x/internal'
import type { Attempt, Call } from '../calls/call.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import { isRequest, isResponse } from '../json-rpc.ts'
import type {
  Answer,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import { toTransportError, TransportError } from '../transport-error.ts'
import { asksForMessages, listen, mayBeAsked, mayHearUnasked } from './event-stream.ts'
import { provesSession } from './handshake.ts'
import { LegacyAttempt } from './legacy-attempt.ts'
import type { LegacySession, SessionState } from './legacy-session.ts'
import { deleteSession, postOneWay } from './one-way.ts'
import { SessionOpener } from './session-opener.ts'
import type { OpenOptions, OpenOutcome } from './session-opener.ts'

const INITIALIZED = { jsonrpc: '2.0', method: 'notifications/initialized' } as const

/** Time limit for the notification that cancels a request. */
const CANCEL_MS = 1000

/** A request of the server without an answer. */
interface Question {
  readonly id: RequestId
  readonly session: LegacySession
  /** The call whose response stream delivered the request. Undefined for a request on the listening stream. */
  readonly call: Call | undefined
  readonly controller: AbortController
}

/**
 * A server of the revisions with sessions (2025-03-26 to 2025-11-25): its current session, and the messages of both
 * sides in it. Used once, from `load` to `close`.
 */
export class LegacyServer {
  readonly parts: ConnectionParts
  readonly #opener: SessionOpener
  /**
   * Requests of the server without an answer. An answer is sent in the session of its request, because another session
   * does not know it, or knows another request by that id: each session counts from the start.
   */
  readonly #questions = new Set<Question>()
  #session: LegacySession | undefined
  #initialize: JsonRpcRequest | undefined
  #initializing: AbortController | undefined
  #loading: Promise<void> | undefined
  #terminating: Promise<void> | undefined
  /** Resolves when the last call of each lost or replaced session has ended. */
  #stopping: Promise<void> | undefined
  #isClosed = false

  constructor(parts: ConnectionParts) {
    this.parts = parts
    this.#opener = new SessionOpener(parts)
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

  // Messages of the client.

  /** Starts a call in the current session. Resolves when the call is on its way. */
  start(call: Call): Promise<void> | undefined {
    const session = this.#session
    if (session === undefined) return this.#startFirst(call)
    const attempt = new LegacyAttempt(this, call, session)
    call.attempt = attempt
    if (!session.isLive) return this.#failLost(attempt, session)
    const sent = attempt.start()
    if (session.state.kind === 'open' && asksForMessages(call)) void this.#listen(session)
    return sent
  }

  /** Starts a call in the stored session, without a handshake of this client. */
  async #startFirst(call: Call): Promise<void> {
    await this.load()
    if (!this.parts.calls.has(call)) return
    this.#current()
    await this.start(call)
  }

  async #failLost(attempt: LegacyAttempt, session: LegacySession): Promise<void> {
    const { state } = session
    if (state.kind === 'ended') await state.removed // the failure below may open another session
    attempt.fail(
      state.kind === 'ended' && state.why === 'terminated'
        ? this.parts.http.closed('The session was terminated; nothing was sent', 'not-executed')
        : this.#alreadyLost(session, 'The session was lost before the request; nothing was sent'),
    )
  }

  /** @throws TransportError if the notification was not accepted, and after `close` */
  async notify(notification: JsonRpcNotification): Promise<void> {
    await this.load()
    if (this.#isClosed) {
      throw this.parts.http.closed('The transport is closed', 'not-executed')
    }
    if (notification.method === 'notifications/initialized') return this.#initialized(notification)
    const session = this.#current()
    if (session.isLive) return this.#post(notification, session)
  }

  /**
   * Tells the server that the client cancelled a call that was sent. The call has been removed.
   *
   * @throws TransportError if the server did not take that
   */
  async cancel(
    call: Call,
    attempt: LegacyAttempt,
    params: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const { session } = attempt
    attempt.end()
    const method = 'notifications/cancelled'
    const requestId = session.wireId(call.id)
    try {
      if (!session.isLive) return
      const message = { jsonrpc: '2.0', method, params: { ...params, requestId } } as const
      await call.inContext(() => this.#post(message, session, { call, limitMs: CANCEL_MS }))
    } finally {
      attempt.close(this.#closed('The client cancelled the request'))
    }
  }

  // Messages of the server.

  /** Returns the attempt that waits for this answer. */
  attemptOf({ id }: JsonRpcResponse, session: LegacySession): LegacyAttempt | undefined {
    if (id === undefined || id === null) return undefined
    const attempt = this.parts.calls.find(session.callOf(id))?.attempt
    return attempt instanceof LegacyAttempt && attempt.session === session ? attempt : undefined
  }

  /** Takes a request or notification of the server. `call` is set if the response stream of that call delivered it. */
  receive(
    message: JsonRpcRequest | JsonRpcNotification,
    session: LegacySession,
    call?: Call,
  ): void {
    if (isRequest(message)) return this.#asked(message, session, call)
    const { method, params } = message
    if (method === 'notifications/cancelled') {
      // An unknown id may be that of a request in another session.
      for (const question of this.#questions) {
        if (question.session === session && question.id === params?.['requestId'])
          this.#withdrawn(question, params['reason'])
      }
    } else if (method === 'notifications/progress') {
      const token = params?.['progressToken']
      const isToken = typeof token === 'number' || typeof token === 'string'
      const of = isToken ? this.parts.calls.find(session.callOf(token)) : undefined
      if (of?.attempt?.session === session)
        this.parts.guard(() => of.options.onProgress?.(params ?? {}))
    } else if (session === this.#session) {
      // Notifications of a session that another one replaced are out of date.
      const { onNotification = this.parts.onNotification } = call?.options ?? {}
      this.parts.guard(() => onNotification(message))
    }
  }

  #asked({ id, method, params }: JsonRpcRequest, session: LegacySession, call?: Call): void {
    const question: Question = { id, session, call, controller: new AbortController() }
    this.#questions.add(question)
    const { onServerRequest = this.parts.onServerRequest } = call?.options ?? {}
    const { signal } = question.controller
    const respond = (answer: Answer): Promise<void> => this.#respond(question, answer)
    this.parts.guard(() => onServerRequest({ id, method, params, signal, respond }))
  }

  #withdrawn(question: Question, reason: unknown): void {
    this.#questions.delete(question)
    question.controller.abort(reason)
  }

  /**
   * Sends an answer in the session of the request, and once more if the connection breaks: a server takes one answer to
   * its request, so a second one has no effect. If that fails too, the call that the request belongs to fails: the server
   * may wait for the answer until the call times out.
   */
  async #respond(question: Question, answer: Answer): Promise<void> {
    if (!this.#questions.delete(question)) return
    const { id, session, call } = question
    const attempt = call?.attempt instanceof LegacyAttempt ? call.attempt : undefined
    if (!session.isLive) {
      const text = 'The session of the request was lost before; nothing was sent'
      attempt?.failUnanswered(this.#alreadyLost(session, text))
      return
    }
    const post = (): Promise<void> =>
      this.#post({ jsonrpc: '2.0', id, ...answer }, session, { call })
    try {
      await post().catch((error: unknown) => {
        if (!isBrokenConnection(error)) throw error
        return post()
      })
    } catch (error) {
      attempt?.failUnanswered(error)
      throw error
    }
  }

  // Sessions.

  /** Opens a session for the client's `initialize`. Returns undefined if `signal` aborted. */
  async open(request: JsonRpcRequest, signal: AbortSignal): Promise<OpenOutcome | undefined> {
    await this.load()
    this.#initialize = request
    this.#session?.endListening() // one listening stream at a time
    if (this.#session !== undefined) this.#opener.discard(this.#session)
    this.#initializing?.abort(this.#closed('The client sent initialize again'))
    const initializing = new AbortController()
    this.#initializing = initializing
    const either = AbortSignal.any([signal, initializing.signal])
    const options = { signal: either, limitMs: undefined, isReplacement: false, isFresh: false }
    const outcome = await this.#opener.open(request, options)
    if (either.aborted) return undefined
    this.#initializing = undefined
    this.#session = outcome.kind === 'opened' ? outcome.session : undefined
    return outcome
  }

  /**
   * Resolves when the session is removed from the store. `isCertain` is false if the server may still have the session:
   * it is then terminated after its last call.
   */
  loseSession(session: LegacySession, isCertain: boolean): Promise<void> {
    const { state } = session
    this.#opener.removeHalfOpen(session)
    const removed =
      state.kind === 'ended'
        ? state.removed
        : state.kind === 'half-open'
          ? Promise.resolve()
          : this.parts.keeper.lost(session.id)
    this.#leave(session, { kind: 'ended', why: 'lost', mayBeOpen: !isCertain, removed })
    return removed
  }

  /**
   * Opens a session for a client that has sent its `initialize` before. The session is the current one as soon as the
   * server has accepted `notifications/initialized`, and not before.
   *
   * @throws TransportError if the server did not accept it. The session is then terminated.
   */
  async repeatHandshake(request: JsonRpcRequest, options: OpenOptions): Promise<OpenOutcome> {
    await this.load()
    this.#initialize = request
    const { signal, limitMs, isReplacement, isFresh } = options
    const outcome = await this.#opener.open(request, options)
    if (outcome.kind === 'failed') return outcome
    const { session } = outcome
    const current = this.#session
    const isCurrent = session.id !== undefined && session.id === current?.id
    if (isCurrent && current?.isLive) return { ...outcome, session: current }
    session.isDoubtful = isReplacement || isFresh
    if (session.state.kind === 'half-open') {
      try {
        await untilAborted(this.#post(INITIALIZED, session, { limitMs }), signal)
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

  /** Cheap request that shows whether the server responds. */
  pingOf(session: LegacySession): ReturnType<NonNullable<Attempt['check']>> {
    const id = session.wireId(this.parts.calls.nextId())
    return {
      era: 'legacy',
      sessionId: session.id,
      headers: session.postHeaders,
      body: { jsonrpc: '2.0', id, method: 'ping' },
    }
  }

  /**
   * Returns whether the server answers a `ping` in the current session with a result.
   *
   * @throws TransportError `UNREACHABLE` if it cannot be asked
   */
  async isProven(signal: AbortSignal): Promise<boolean> {
    const session = this.#session
    if (session?.isLive !== true) return false
    const isProven = await provesSession({ ...this.parts, signal, limitMs: undefined }, session)
    // A session that the client ended meanwhile must not be replaced.
    return isProven || (session.state.kind === 'ended' && session.state.why === 'terminated')
  }

  /** Another session, or a server without sessions, has taken the place of this one. `isFresh`: because it fails. */
  retire(session: LegacySession, isFresh: boolean): void {
    if (!session.isLive) return
    const removed = Promise.resolve()
    const ended = { kind: 'ended', why: 'replaced', mayBeOpen: true, removed } as const
    this.#leave(session, isFresh ? ended : { kind: 'replaced' })
  }

  /** The session is lost or replaced: no other call starts in it. */
  #leave(session: LegacySession, next: SessionState): void {
    const { kind } = session.state
    session.change(next)
    if (kind === 'replaced' || kind === 'ended') return
    const ended = this.#terminateAfterLastCall(session).catch((error: unknown) => {
      this.parts.report(toTransportError(error))
    })
    const before = this.#stopping
    this.#stopping = ended.then(() => before)
  }

  /**
   * Waits for the last call of a session. Then cancels its requests to the client, and terminates it if this transport
   * opened it and the server may have it: no store holds its id any more.
   */
  async #terminateAfterLastCall(session: LegacySession): Promise<void> {
    await this.parts.calls.ended(({ attempt }) => attempt?.session === session)
    for (const question of this.#questions) {
      if (question.session === session) this.#withdrawn(question, 'The session has ended')
    }
    const { state } = session
    const isGone = state.kind === 'ended' && !state.mayBeOpen
    if (session.isResumed || session.id === undefined || isGone) return
    const removed = Promise.resolve()
    session.change({ kind: 'ended', why: 'replaced', mayBeOpen: false, removed })
    await deleteSession(this.parts.http, session)
  }

  async #initialized(message: JsonRpcNotification): Promise<void> {
    const session = this.#current()
    // For an open session, the process that opened it has sent the notification.
    if (session.state.kind === 'half-open') {
      await this.#post(message, session)
      await this.#opener.opened(session)
    }
    const declared = this.#initialize?.params?.['capabilities']
    const isFirst = !session.isResumed || this.parts.listen !== undefined || mayBeAsked(declared)
    if (isFirst) return this.#listenIfNeeded(session)
    // In the next process of an agent, a call is the first request.
    session.onSuccess = () => {
      session.onSuccess = undefined
      void this.parts.http.asOwner(() => this.#listenIfNeeded(session))
    }
  }

  /** Opens the listening stream of a session, unless nothing would arrive there. */
  async #listenIfNeeded(session: LegacySession): Promise<void> {
    const { keeper, listen: given } = this.parts
    const capabilities = keeper.record?.initializeResult?.capabilities
    const declared = this.#initialize?.params?.['capabilities']
    if (given ?? mayHearUnasked(capabilities, declared)) await this.#listen(session)
  }

  #listen(session: LegacySession): Promise<void> {
    if (this.parts.listen === false || this.#isClosed) return Promise.resolve()
    return listen(this.parts, session, (incoming) => {
      // An answer on this stream may belong to any call: some servers use it if the response stream of the call is
      // gone (rmcp). On other responses, only the answer to their own request is accepted.
      if (isResponse(incoming)) this.attemptOf(incoming, session)?.answered(incoming)
      else this.receive(incoming, session)
    })
  }

  async #post(
    message: JsonRpcNotification | JsonRpcResponse,
    session: LegacySession,
    {
      call,
      limitMs,
    }: { readonly call?: Call | undefined; readonly limitMs?: number | undefined } = {},
  ): Promise<void> {
    const callHeaders = call?.options.headers
    try {
      await postOneWay(this.parts.http, message, { session, limitMs, callHeaders })
    } catch (error) {
      if (TransportError.is(error) && error.code === 'SESSION_LOST')
        await this.loseSession(session, error.certain === true)
      throw error
    }
  }

  // The end.

  /**
   * Terminates the session on the server. First ends the calls in flight: their outcome is unknown.
   *
   * @throws TransportError if the session may still exist on the server.
   */
  terminate(): Promise<void> {
    return (this.#terminating ??= this.#terminate().finally(() => {
      this.#terminating = undefined
    }))
  }

  async #terminate(): Promise<void> {
    const why = 'The session was terminated'
    const session = this.#session ?? (await this.load(), this.#session ?? this.#opener.adopt())
    this.parts.calls.failAll(why)
    session.endListening()
    if (session.id === undefined || !session.isLive) return
    const { state } = session
    const removed = Promise.resolve()
    session.change({ kind: 'ended', why: 'terminated', mayBeOpen: false, removed })
    this.#opener.removeHalfOpen(session)
    // Another process may have replaced and terminated the stored session.
    if (session.isResumed && (await this.parts.keeper.isReplaced(session.id))) return
    try {
      await deleteSession(this.parts.http, session)
    } catch (error) {
      session.change(state) // the session may still exist, so that a second call tries again
      throw error
    }
    await this.parts.keeper.lost(session.id)
  }

  /**
   * Ends streams and timers, and keeps the session. Call it when all calls have ended. Terminates unused sessions. Waits
   * for that and for a late answer to `initialize`, at most 2 s.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    const closed = this.#closed('The transport was closed')
    this.#initializing?.abort(closed)
    for (const question of this.#questions) this.#withdrawn(question, closed.message)
    this.#session?.endListening()
    this.#opener.discardAll()
    await Promise.all([this.parts.http.settled(), this.#stopping])
    await this.#terminating?.catch(() => {}) // the caller of terminate() gets the error
    this.#session = undefined
    await this.parts.http.close()
  }

  #current(): LegacySession {
    return (this.#session ??= this.#opener.adopt())
  }

  #closed(why: string): TransportError {
    return this.parts.http.closed(why)
  }

  #alreadyLost({ epoch }: LegacySession, why: string): TransportError {
    return this.parts.http.error('SESSION_LOST', why, { certain: true, epoch })
  }
}

function isBrokenConnection(error: unknown): boolean {
  if (!TransportError.is(error)) return false
  return error.code === 'UNREACHABLE' || error.code === 'OUTCOME_UNKNOWN'
}
