import { removeFrom } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { SilenceWatch } from '../http/silence.ts'
import { isResponse } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import { closedError, errorAnswer, TransportError, toTransportError } from '../transport-error.ts'
import type { CallOptions, Reconnect, Timeouts } from '../transport-options.ts'
import type { LegacySession } from './legacy-session.ts'
import { PendingCall } from './pending-call.ts'
import type { CallHost } from './pending-call.ts'
import { getSessionLoss } from './session-loss.ts'

export interface LegacyCallsOptions {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
}

/** The parts of `LegacyProtocol` that the calls use. */
export interface CallsHost {
  /** True if the transport replaces lost sessions, and sends again what was certainly not executed. */
  readonly isHealing: boolean
  /** Returns what replaces a lost session. @throws TransportError if no session could be opened */
  replacementOf(lost: LegacySession): Promise<LegacySession | 'stateless'>
  /** Called for each request that succeeded, if the transport replaces lost sessions. */
  succeeded(request: JsonRpcRequest): void
  /** Passes an answer to the client. */
  deliver(answer: JsonRpcResponse): void
  /** Takes a request or notification of the server. */
  receive(message: JsonRpcRequest | JsonRpcNotification, session: LegacySession): void
  /** Resolves when the session is removed from the store. */
  forgetSession(session: LegacySession): Promise<void>
  /**
   * Sends a request again to a server that no longer has sessions. Returns false if it was sent again before.
   */
  sendStateless(request: JsonRpcRequest, options: CallOptions): Promise<boolean>
}

/** Ids of the transport's own requests: far above those of clients, and still safe integers. */
const OWN_IDS = 2 ** 52

/** Calls of the transport itself. Their answers are dropped. */
const ownCalls = new WeakSet<PendingCall>()

/** Calls that were sent again once. They are not sent a third time. */
const replays = new WeakSet<PendingCall>()

/**
 * Requests of the client without an answer. Each gets exactly one: from the server, on the response or on the
 * listening stream, or a failure. If the transport
 * replaces lost sessions, a call that lost its session waits for the next one, and is sent again at most once.
 */
export class LegacyCalls implements CallHost {
  readonly #host: CallsHost
  readonly #options: LegacyCallsOptions
  readonly #calls: PendingCall[] = []
  /** Created with the first call, because many clients are idle for a long time. */
  #watch: SilenceWatch | undefined
  #onEnded: Map<LegacySession, () => void> | undefined
  #isClosed = false
  #ownId = 0

  constructor(host: CallsHost, options: LegacyCallsOptions) {
    this.#host = host
    this.#options = options
  }

  /** Resolves when the request is sent or answered locally. */
  start(request: JsonRpcRequest, session: LegacySession, options: CallOptions): Promise<void> {
    const call = new PendingCall({ request, session, host: this, options })
    this.#calls.push(call)
    this.#watch ??= this.#makeWatch(session)
    this.#watch.start()
    return session.lost === undefined ? call.start() : this.#failLost(call)
  }

  /** Sends a request of the transport itself. Its answer is dropped. */
  async startOwn(message: JsonRpcRequest, session: LegacySession): Promise<void> {
    const request = { ...message, id: OWN_IDS + ++this.#ownId }
    const call = new PendingCall({ request, session, host: this, options: {} })
    ownCalls.add(call)
    await call.start()
  }

  /** Removes a call that the client cancelled. The caller releases its connection. */
  giveUp(id: RequestId): PendingCall | undefined {
    const call = this.#calls.findLast(({ request }) => request.id === id)
    if (call === undefined) return undefined // already answered
    call.abandon()
    this.#remove(call)
    return call
  }

  /** Answers all calls immediately. */
  failAll(why: string): void {
    for (const call of this.#calls.slice()) {
      if (!this.#calls.includes(call)) continue // cancelled meanwhile
      call.fail(this.#closed(why))
      // A call that waits for another session has failed without an answer.
      if (!this.#remove(call)) continue
      this.#host.deliver(errorAnswer(call.request.id, this.#closed(why)))
    }
  }

  /** Answers all calls. From now on no call waits for another session. */
  close(why: string): void {
    this.#isClosed = true
    this.#watch?.stop()
    this.failAll(why)
  }

  /**
   * Takes a message of the listening stream. An answer on this stream may belong to any call: some servers use
   * it if the response stream of the call is gone (rmcp). On other responses, only the answer to their own
   * request is accepted.
   */
  receiveFromStream(message: JsonRpcMessage, session: LegacySession): void {
    if (isResponse(message)) this.findCall(message, session)?.answered(message)
    else this.receive(message, session)
  }

  /** Resolves when no call is in progress in a session in which no more are started. */
  async ended(session: LegacySession): Promise<void> {
    if (!this.#isBusy(session)) return
    const waiting = (this.#onEnded ??= new Map())
    await new Promise<void>((resolve) => waiting.set(session, resolve))
    waiting.delete(session)
  }

  // Methods of CallHost

  get http(): HttpClient {
    return this.#options.http
  }

  get timeouts(): Timeouts {
    return this.#options.timeouts
  }

  get reconnect(): Reconnect {
    return this.#options.reconnect
  }

  receive(message: JsonRpcRequest | JsonRpcNotification, session: LegacySession): void {
    this.#host.receive(message, session)
  }

  findCall({ id }: JsonRpcResponse, session: LegacySession): PendingCall | undefined {
    const own = id === undefined || id === null ? undefined : session.ids.fromWire(id)
    if (own === undefined) return undefined
    const call = this.#calls.findLast(({ request }) => isSameId(request.id, own))
    return call?.session === session ? call : undefined
  }

  forgetSession(session: LegacySession): Promise<void> {
    return this.#host.forgetSession(session)
  }

  settled(call: PendingCall, answer: JsonRpcResponse | undefined): void {
    if (ownCalls.delete(call)) return
    if (answer !== undefined) {
      if (this.#heals(call, answer)) return
      if (this.#host.isHealing && 'result' in answer) this.#host.succeeded(call.request)
    }
    this.#remove(call)
    if (answer !== undefined) this.#host.deliver(answer)
  }

  async #failLost(call: PendingCall): Promise<void> {
    const { session } = call
    await session.lost // the failure below may open another session
    call.fail(
      session.isEnded
        ? closedError(
            'The session was terminated; nothing was sent',
            this.http.url.display,
            'not-executed',
          )
        : new TransportError(
            'SESSION_LOST',
            'The session was lost before the request; nothing was sent',
            {
              certain: true,
              epoch: session.epoch,
              url: this.http.url.display,
            },
          ),
    )
  }

  #makeWatch(session: LegacySession): SilenceWatch {
    const { http, timeouts } = this.#options
    return new SilenceWatch({
      http,
      timeouts,
      calls: () => {
        if (this.#calls.length === 0) this.#watch = undefined // saves memory while the client is idle
        return this.#calls
      },
      check: () => ({
        method: 'POST',
        rpcMethod: 'ping',
        era: 'legacy',
        sessionId: session.id,
        headers: session.postHeaders,
        body: JSON.stringify(
          session.ids.request({ jsonrpc: '2.0', id: OWN_IDS + ++this.#ownId, method: 'ping' }),
        ),
        headersMs: 0,
        idleMs: 0,
        isLongLived: true, // must not wait behind calls that use all connections
      }),
    })
  }

  #heals(call: PendingCall, answer: JsonRpcResponse): boolean {
    const loss = getSessionLoss(answer)
    if (!this.#host.isHealing || loss === undefined || this.#isClosed) return false
    if (!this.#calls.includes(call)) return false // cancelled meanwhile
    call.inContext(() => void this.#heal(call, answer, loss))
    return true
  }

  /** Opens a session in any case. A request that the server may have executed fails with the loss. */
  async #heal(call: PendingCall, answer: JsonRpcResponse, loss: TransportError): Promise<void> {
    const give = (last: JsonRpcResponse): void => {
      if (this.#remove(call)) this.#host.deliver(last)
    }
    let session: LegacySession | 'stateless'
    try {
      session = await this.#host.replacementOf(call.session)
    } catch (error) {
      if (loss.certain !== true) return give(answer)
      // This request was refused before the handshake, so it was not executed.
      const failure = toTransportError(error)
      const code = failure.code === 'OUTCOME_UNKNOWN' ? 'UNREACHABLE' : failure.code
      const refused = failure.with({ code, outcome: loss.outcome })
      return give(errorAnswer(call.request.id, refused))
    }
    if (loss.certain !== true || replays.has(call)) return give(answer)
    if (!this.#remove(call)) return
    const { request, options } = call
    if (session === 'stateless') {
      if (!(await this.#host.sendStateless(request, options))) this.#host.deliver(answer)
      return
    }
    const again = new PendingCall({ request, session, host: this, options })
    replays.add(again)
    this.#calls.push(again)
    await again.start()
  }

  /** Returns false if the call has ended before. */
  #remove(call: PendingCall): boolean {
    const wasOpen = removeFrom(this.#calls, call)
    const onEnded = this.#onEnded?.get(call.session)
    if (onEnded !== undefined && !this.#isBusy(call.session)) onEnded()
    return wasOpen
  }

  #isBusy(session: LegacySession): boolean {
    return this.#calls.some((call) => call.session === session)
  }

  #closed(why: string): TransportError {
    return closedError(why, this.http.url.display)
  }
}

/** Some servers return a number as text. */
function isSameId(own: RequestId, given: RequestId): boolean {
  return own === given || own === Number(given)
}
