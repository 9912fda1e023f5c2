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
import { getSessionLoss } from './session-healer.ts'
import type { Replacement, SessionHealer } from './session-healer.ts'

export interface LegacyCallsOptions {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
}

/** What the calls need of the wire that they belong to. */
export interface CallsHost {
  /** Given where lost sessions are to be replaced here. */
  readonly healer: SessionHealer | undefined
  /** Hands an answer to the client. */
  deliver(answer: JsonRpcResponse): void
  /** A request or notification of the server. */
  receive(message: JsonRpcRequest | JsonRpcNotification, session: LegacySession): void
  /** Resolves when the store has forgotten the session. */
  forgetSession(session: LegacySession): Promise<void>
  /** Sends a request again to a server that has no sessions any more; false if it was sent again before. */
  sendStateless(request: JsonRpcRequest, options: CallOptions): Promise<boolean>
}

/** Ids of our own requests: far above any that a client counts up to, and still safe integers. */
const OWN_IDS = 2 ** 52

/** Calls in no client's name: their answers go nowhere. */
const ownCalls = new WeakSet<PendingCall>()

/** Calls that have been sent again once: there is no third time. */
const replays = new WeakSet<PendingCall>()

/**
 * The client's requests that have no answer yet. Each gets one, once: the server's, on the response to the
 * request or on the listening stream; or the reason why there is none. With a healer, a call that lost its
 * session waits for another one, and is sent again once at most.
 */
export class LegacyCalls implements CallHost {
  readonly #host: CallsHost
  readonly #options: LegacyCallsOptions
  readonly #calls: PendingCall[] = []
  /** Made with the first call: many clients make none for a long time. */
  #watch: SilenceWatch | undefined
  #isClosed = false
  #ownId = 0

  constructor(host: CallsHost, options: LegacyCallsOptions) {
    this.#host = host
    this.#options = options
  }

  /** Resolves when the request is on its way, or answered here. */
  start(request: JsonRpcRequest, session: LegacySession, options: CallOptions): Promise<void> {
    const call = new PendingCall({ request, session, host: this, options })
    this.#calls.push(call)
    this.#watch ??= this.#makeWatch(session)
    this.#watch.start()
    return session.lost === undefined ? call.start() : this.#failLost(call)
  }

  /** A request in no client's name: nobody is told its answer. */
  async startOwn(message: JsonRpcRequest, session: LegacySession): Promise<void> {
    const request = { ...message, id: OWN_IDS + ++this.#ownId }
    const call = new PendingCall({ request, session, host: this, options: {} })
    ownCalls.add(call)
    await call.start()
  }

  /** The client no longer waits for the answer. What is open of the call is the caller's to release. */
  giveUp(id: RequestId): PendingCall | undefined {
    const call = this.#calls.findLast(({ request }) => request.id === id)
    if (call === undefined) return undefined // answered meanwhile
    call.abandon()
    removeFrom(this.#calls, call)
    return call
  }

  /** Answers all of them, at once. */
  failAll(why: string): void {
    for (const call of this.#calls.slice()) {
      if (!this.#calls.includes(call)) continue // given up meanwhile
      call.fail(this.#closed(why))
      // One that waits for another session has failed before, and told nobody.
      if (!removeFrom(this.#calls, call)) continue
      this.#host.deliver(errorAnswer(call.request.id, this.#closed(why)))
    }
  }

  /** The same, and from now on no call waits for another session. */
  close(why: string): void {
    this.#isClosed = true
    this.#watch?.stop()
    this.failAll(why)
  }

  /**
   * The listening stream has brought a message. It belongs to no request, so that an answer there may be for
   * any call: servers use it for a call whose own stream is gone (rmcp does). No other response may answer
   * another call than its own.
   */
  receiveFromStream(message: JsonRpcMessage, session: LegacySession): void {
    if (isResponse(message)) this.findCall(message, session)?.answered(message)
    else this.receive(message, session)
  }

  // What a call needs of us.

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
      this.#host.healer?.succeeded(call.request, answer)
    }
    removeFrom(this.#calls, call)
    if (answer !== undefined) this.#host.deliver(answer)
  }

  async #failLost(call: PendingCall): Promise<void> {
    const { session } = call
    await session.lost // with a healer, the answer below makes it open another one
    call.fail(
      session.isEnded
        ? closedError(
            'The session was ended by this side; nothing was sent',
            this.http.url.display,
            'not-executed',
          )
        : new TransportError('SESSION_LOST', 'The session was lost before; nothing was sent', {
            certain: true,
            epoch: session.epoch,
            url: this.http.url.display,
          }),
    )
  }

  #makeWatch(session: LegacySession): SilenceWatch {
    const { http, timeouts } = this.#options
    return new SilenceWatch({
      http,
      timeouts,
      calls: () => {
        if (this.#calls.length === 0) this.#watch = undefined // a client that waits shall weigh little
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
        isLongLived: true, // not behind calls that use all connections
      }),
    })
  }

  #heals(call: PendingCall, answer: JsonRpcResponse): boolean {
    const loss = getSessionLoss(answer)
    if (this.#host.healer === undefined || loss === undefined || this.#isClosed) return false
    if (!this.#calls.includes(call)) return false // given up meanwhile
    call.inContext(() => void this.#heal(call, answer, loss))
    return true
  }

  /** Opens a session in any case. What the server may have executed is answered with the loss itself. */
  async #heal(call: PendingCall, answer: JsonRpcResponse, loss: TransportError): Promise<void> {
    const give = (last: JsonRpcResponse): void => {
      if (removeFrom(this.#calls, call)) this.#host.deliver(last)
    }
    let session: Replacement | undefined
    try {
      session = await this.#host.healer?.replacementOf(call.session)
    } catch (error) {
      if (loss.certain !== true) return give(answer)
      // However the handshake has failed: this request was refused before it.
      const failure = toTransportError(error)
      const code = failure.code === 'OUTCOME_UNKNOWN' ? 'UNREACHABLE' : failure.code
      const told = failure.with({ code, outcome: loss.outcome })
      return give(errorAnswer(call.request.id, told))
    }
    if (session === undefined || loss.certain !== true || replays.has(call)) return give(answer)
    if (!removeFrom(this.#calls, call)) return
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

  #closed(why: string): TransportError {
    return closedError(why, this.http.url.display)
  }
}

/** Servers give a number back as text now and then. */
function isSameId(own: RequestId, given: RequestId): boolean {
  return own === given || own === Number(given)
}
