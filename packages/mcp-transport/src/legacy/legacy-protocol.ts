import { sessionChannel } from '../diagnostics.ts'
import type { SessionEvent, SessionReplaced } from '../diagnostics.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isRequest, isResponse } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
} from '../json-rpc.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { shortSessionId } from '../session-record.ts'
import { closedError, TransportError, errorAnswer } from '../transport-error.ts'
import type { CallOptions, Reconnect, Timeouts } from '../transport-options.ts'
import { listen } from './event-stream.ts'
import { LegacyCalls } from './legacy-calls.ts'
import type { CallsHost } from './legacy-calls.ts'
import { ServerRequests } from './legacy-session.ts'
import type { LegacySession } from './legacy-session.ts'
import { deleteSession, postAndForget } from './one-way.ts'
import { SessionHealer } from './session-healer.ts'
import { Initializing, SessionOpener } from './session-opener.ts'

/** Handles lost sessions. */
interface SessionReplacement {
  /** Called after a lost session was replaced. */
  onReplaced(event: SessionReplaced): void
  /**
   * The server no longer has sessions: changes to the stateless revision.
   *
   * @throws TransportError if the server does not support that revision
   */
  changeEra(): Promise<void>
  /** Sends a request again in the stateless revision. Returns false if it was sent again before. */
  sendAgain(request: JsonRpcRequest, options: CallOptions): Promise<boolean>
}

const INITIALIZED = { jsonrpc: '2.0', method: 'notifications/initialized' } as const

/** Time limit for the notification that cancels a request. */
const CANCEL_MS = 1000

export interface LegacyProtocolOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  readonly listen: boolean
  /** Set if the transport replaces lost sessions. */
  readonly replacement?: SessionReplacement | undefined
  /** Passes a message to the client. */
  readonly deliver: (message: JsonRpcMessage) => void
  /** Reports a failure that belongs to no message. */
  readonly report: (error: TransportError) => void
  readonly random?: () => number
}

/**
 * The revisions with sessions (2025-03-26 to 2025-11-25). Routes messages of the client and the server, and
 * holds the current session. Used once, from `load` to `close`.
 */
export class LegacyProtocol implements CallsHost {
  readonly healer: SessionHealer | undefined
  readonly #options: LegacyProtocolOptions
  readonly #opener: SessionOpener
  readonly #calls: LegacyCalls
  /** Created on demand, because most servers send no requests. */
  #serverRequests: ServerRequests | undefined
  #session: LegacySession | undefined
  #initializing: Initializing | undefined
  #loading: Promise<void> | undefined
  #terminating: Promise<void> | undefined
  #isClosed = false

  constructor(options: LegacyProtocolOptions) {
    this.#options = options
    this.#opener = new SessionOpener(options)
    this.healer = options.replacement && this.#makeHealer(options.replacement)
    this.#calls = new LegacyCalls(this, options)
  }

  get session(): LegacySession | undefined {
    return this.#session
  }

  /** True if the store holds a session, with or without its InitializeResult. */
  get hasStoredSession(): boolean {
    return this.#opener.hasStoredSession
  }

  /** Reads the store once. Sends no request. */
  load(): Promise<void> {
    return (this.#loading ??= this.#opener.load())
  }

  /** Reads the store again, because its content has changed. */
  reload(): Promise<void> {
    return (this.#loading = this.#opener.load())
  }

  /** @throws TransportError for a notification or response that was not accepted, and after `close`. */
  async send(message: JsonRpcMessage, options: CallOptions): Promise<void> {
    await this.load() // awaited even if done, so that no answer arrives while the client is still sending
    if (this.#isClosed) {
      throw closedError('The transport is closed', this.#options.http.url.display, 'not-executed')
    }
    if (isRequest(message)) {
      if (message.method === 'initialize') {
        const answer = await this.initialize(message)
        if (answer !== undefined) this.#options.deliver(answer)
        return
      }
      await this.#calls.start(message, this.#current(), options)
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
   * returns. Waits for a DELETE in progress.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#calls.close('The transport was closed')
    this.#initializing?.abandon(this.#closed('The transport was closed'))
    this.#initializing = undefined
    this.healer?.close(this.#closed('The transport was closed'))
    this.#serverRequests = undefined
    const session = this.#session
    session?.endListening()
    await this.#opener.close()
    await this.#terminating?.catch(() => {}) // the caller of terminate() gets the error
    this.#session = undefined
    if (session?.lastEventId !== undefined && session.lost === undefined) {
      await this.#options.keeper.moved(session.id, session.lastEventId)
    }
    await this.#options.http.close()
  }

  // Methods of CallsHost

  deliver(answer: JsonRpcResponse): void {
    this.#options.deliver(answer)
  }

  receive(message: JsonRpcRequest | JsonRpcNotification, session: LegacySession): void {
    if (isRequest(message)) (this.#serverRequests ??= new ServerRequests()).asked(message, session)
    else if (message.method === 'notifications/cancelled') this.#serverRequests?.cancelled(message)
    const own = session.ids.progress(message)
    if (own !== undefined) this.#options.deliver(own)
  }

  async sendStateless(request: JsonRpcRequest, options: CallOptions): Promise<boolean> {
    return (await this.#options.replacement?.sendAgain(request, options)) ?? false
  }

  forgetSession(session: LegacySession): Promise<void> {
    session.endListening()
    if (session.lost === undefined) this.#publish('lost', session)
    return (session.lost ??=
      session.unstored === undefined ? this.#options.keeper.lost(session.id) : Promise.resolve())
  }

  // Messages of the client

  /**
   * Returns the answer to the client's `initialize`; undefined if the client abandoned it. `limitMs` limits
   * each request if the transport repeats an `initialize`, which the client has no timer for.
   */
  async initialize(
    request: JsonRpcRequest,
    limitMs?: number,
  ): Promise<JsonRpcResponse | undefined> {
    await this.load()
    this.healer?.sent(request)
    this.#session?.endListening() // one listening stream at a time
    if (this.#session !== undefined) this.#opener.abandon(this.#session)
    const initializing = new Initializing(request.id, limitMs)
    this.#initializing = initializing
    const outcome = await this.#opener.open(request, initializing)
    initializing.ended()
    if (this.#initializing !== initializing || initializing.isAbandoned) {
      if (outcome.kind === 'opened') this.#opener.abandon(outcome.session)
      return undefined
    }
    this.#initializing = undefined
    this.#session = outcome.kind === 'opened' ? outcome.session : undefined
    switch (outcome.kind) {
      case 'opened':
        this.#publish(outcome.session.isResumed ? 'resumed' : 'opened', outcome.session)
        return { jsonrpc: '2.0', id: request.id, result: outcome.result }
      case 'answered':
        return { ...outcome.answer, id: request.id }
      case 'failed':
        return errorAnswer(request.id, outcome.error)
    }
  }

  /** Tells the server that the client is ready, after the transport has repeated the handshake. */
  async repeatInitialized(limitMs: number): Promise<void> {
    await this.#initialized(INITIALIZED, limitMs)
  }

  async #initialized(message: JsonRpcNotification, limitMs?: number): Promise<void> {
    const session = this.#current()
    // For an open session, the process that opened it has sent the notification.
    if (session.unstored !== undefined && session.lost === undefined) {
      await this.#post(message, session, limitMs)
      await this.#opener.opened(session)
    }
    await this.#listenIn(session)
  }

  #listenIn(session: LegacySession): Promise<void> {
    const { http, keeper, reconnect, timeouts, random = Math.random, report } = this.#options
    if (!this.#options.listen || this.#isClosed) return Promise.resolve()
    return listen({
      http,
      keeper,
      session,
      reconnect,
      idleMs: timeouts.idleMs,
      random,
      onMessage: (incoming) => this.#calls.receiveFromStream(incoming, session),
      report,
    })
  }

  async #cancel(message: JsonRpcNotification): Promise<void> {
    const id = message.params?.['requestId']
    if (typeof id !== 'string' && typeof id !== 'number') return
    if (this.#initializing?.id === id) {
      this.#initializing.abandon(this.#closed('The client abandoned initialize'))
      this.#initializing = undefined
      return
    }
    const call = this.#calls.giveUp(id)
    if (call === undefined) return // already answered
    const { session } = call
    const params = { ...message.params, requestId: session.ids.toWire(id) }
    const release = (): void => call.release(this.#closed('The client cancelled the request'))
    // A silent server must not keep the connection of a cancelled request.
    const late = setTimeout(release, CANCEL_MS).unref()
    try {
      if (call.isSent) {
        await call.inContext(() => this.#notify({ ...message, params }, session, CANCEL_MS))
      }
    } finally {
      clearTimeout(late)
      release()
    }
  }

  /** Sends a response in the session of the request, because another session does not know the request. */
  async #reply(message: JsonRpcResponse): Promise<void> {
    const session = this.#serverRequests?.take(message)
    if (session !== undefined && session.lost === undefined) await this.#post(message, session)
  }

  async #notify(
    message: JsonRpcNotification,
    session: LegacySession,
    limitMs?: number,
  ): Promise<void> {
    if (session.lost !== undefined) return
    await this.#post(message, session, limitMs)
  }

  async #post(
    message: JsonRpcNotification | JsonRpcResponse,
    session: LegacySession,
    limitMs?: number,
  ): Promise<void> {
    try {
      await postAndForget(this.#options.http, message, { session, limitMs })
    } catch (error) {
      if (TransportError.is(error) && error.code === 'SESSION_LOST')
        await this.forgetSession(session)
      throw error
    }
  }

  async #terminate(): Promise<void> {
    const session = this.#session ?? (await this.load(), this.#session ?? this.#opener.adopt())
    this.#calls.failAll('The session was terminated')
    session.endListening()
    if (session.id === undefined || session.lost !== undefined) return
    session.isEnded = true
    session.lost = Promise.resolve()
    // Another process may have replaced and terminated the stored session.
    if (session.isResumed && (await this.#options.keeper.isReplaced(session.id))) return
    try {
      await deleteSession(this.#options.http, session)
    } catch (error) {
      session.lost = undefined // the session may still exist, so that a second call tries again
      throw error
    }
    this.#publish('ended', session)
    await this.#options.keeper.lost(session.id)
  }

  #current(): LegacySession {
    return (this.#session ??= this.#opener.adopt())
  }

  #makeHealer(replacement: SessionReplacement): SessionHealer {
    const limitMs = this.#options.timeouts.probeMs
    return new SessionHealer({
      opener: this.#opener,
      limitMs,
      asOwner: (run) => this.#options.http.asOwner(run),
      changeEra: () => replacement.changeEra(),
      initialized: async (session) => {
        try {
          await this.#post(INITIALIZED, session, limitMs)
        } catch (error) {
          this.#opener.abandon(session)
          throw error
        }
        await this.#opener.opened(session)
      },
      onReplaced: async (session, old) => {
        if (this.#isClosed) return
        this.#session = session
        this.#publish(session.isResumed ? 'resumed' : 'opened', session)
        await this.#listenIn(session)
        if (this.#isClosed) return
        replacement.onReplaced({
          oldEpoch: old.epoch,
          newEpoch: session.epoch,
          oldSessionId: old.id && shortSessionId(old.id),
          newSessionId: session.id && shortSessionId(session.id),
        })
      },
      repeat: (message, session) => this.#calls.startOwn(message, session),
    })
  }

  #publish(type: SessionEvent['type'], { epoch, id }: LegacySession): void {
    if (!sessionChannel.hasSubscribers) return
    const sessionId = id === undefined ? undefined : shortSessionId(id)
    const event: SessionEvent = {
      type,
      url: this.#options.http.url.display,
      era: 'legacy',
      epoch,
      sessionId,
    }
    sessionChannel.publish(event)
  }

  #closed(why: string): TransportError {
    return closedError(why, this.#options.http.url.display)
  }
}
