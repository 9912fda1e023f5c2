import { AsyncResource } from 'node:async_hooks'
import { headerValue } from '../headers.ts'
import type { AnswerHandlers, AnswerOutcome, Refusal } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import { followStream, parseCursor } from '../http/follow-stream.ts'
import type { StreamCursor } from '../http/follow-stream.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { WaitingCall } from '../http/silence.ts'
import { isAnswerTo, isResponse } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import { TransportError, errorAnswer } from '../transport-error.ts'
import type { TransportErrorCode } from '../transport-error.ts'
import type { CallOptions, Reconnect, Timeouts } from '../transport-options.ts'
import { openEventStream } from './event-stream.ts'
import type { LegacySession } from './legacy-session.ts'
import { misroutedError, toRefusalError } from './session-loss.ts'

/** What a call needs of the wire it belongs to. */
export interface CallHost {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  /** The server has sent a request or a notification. */
  receive(message: JsonRpcRequest | JsonRpcNotification, session: LegacySession): void
  /** The call that waits for this answer. */
  findCall(answer: JsonRpcResponse, session: LegacySession): PendingCall | undefined
  /** Resolves when the store has forgotten the session. */
  forgetSession(session: LegacySession): Promise<void>
  /** The call is over; with an answer for the client, unless the client gave it up. */
  settled(call: PendingCall, answer: JsonRpcResponse | undefined): void
}

export interface PendingCallOptions {
  readonly request: JsonRpcRequest
  readonly session: LegacySession
  readonly host: CallHost
  readonly options: CallOptions
}

/**
 * One request of the client, from its POST until it has an answer: the server's, or the reason why
 * there is none. Handles what comes for it by itself: there is one of these for every call.
 */
export class PendingCall implements AnswerHandlers, WaitingCall {
  readonly request: JsonRpcRequest
  readonly session: LegacySession
  readonly options: CallOptions
  quietTicks = 0
  readonly #host: CallHost
  readonly #cursor: StreamCursor
  /** A connection delivers in the context of whoever opened it, which may be another call. */
  readonly #context = new AsyncResource('McpCall') // a snapshot of the storage takes forty times as long to make
  #phase: 'open' | 'losing' | 'answered' | 'settled' = 'open'
  #exchange: Exchange | undefined
  #resuming: AbortController | undefined
  /** The last answer on our own response that has the id of another request. Nobody gets it. */
  #misrouted: JsonRpcResponse | undefined
  readonly #refusalsBefore: number
  /** Something for this request has come: the server has begun to run it. */
  #isStarted = false

  constructor({ request, session, host, options }: PendingCallOptions) {
    this.request = request
    this.session = session
    this.#refusalsBefore = session.refusals
    this.#host = host
    this.options = options
    this.#cursor = { lastEventId: options.resumptionToken }
  }

  /** Whether the server may know of it. */
  get isSent(): boolean {
    return this.#exchange !== undefined || this.#resuming !== undefined
  }

  get isAwaited(): boolean {
    return this.#resuming !== undefined || this.#exchange?.isAwaited === true
  }

  /** Sends the request, or picks up its stream where `resumptionToken` says. */
  async start(): Promise<void> {
    if (this.options.resumptionToken !== undefined) {
      void this.#resume()
      return
    }
    try {
      await this.#post()
    } catch (error) {
      this.fail(TransportError.is(error) ? error : this.#unsendable(error))
    }
  }

  /** The answer came on the listening stream. */
  answered(message: JsonRpcResponse): void {
    if (this.#phase === 'open') this.#answer(message)
  }

  /** Runs `send` in the async context of the caller, from which headers take the caller's credentials. */
  inContext<T>(send: () => T): T {
    return this.#context.runInAsyncScope(send)
  }

  /** The client no longer waits: whatever comes is dropped from now on. */
  abandon(): void {
    this.#settle()
  }

  /** Cuts what is still open of it. */
  release(reason: TransportError): void {
    this.#resuming?.abort()
    this.#exchange?.abort(reason)
  }

  /** Answers the client with the reason why there is no answer. */
  fail(error: TransportError): void {
    this.#settle(errorAnswer(this.request.id, error))
    this.release(error)
  }

  #post(): Promise<void> {
    const { session } = this
    return this.#host.http.send(
      {
        method: 'POST',
        rpcMethod: this.request.method,
        isOfCaller: true,
        era: 'legacy',
        sessionId: session.id,
        headers: session.postHeaders,
        body: JSON.stringify(session.ids.request(this.request)),
        headersMs: this.#host.timeouts.headersMs,
        idleMs: 0,
        onStart: (exchange) => {
          if (this.#phase !== 'open') return false
          this.#exchange = exchange
          return true
        },
      },
      this,
    )
  }

  // What the exchange tells.

  activity(): void {
    this.quietTicks = 0
  }

  message(message: JsonRpcMessage): void {
    if (this.#phase !== 'open') return
    if (isResponse(message)) {
      if (this.#isMine(message)) return this.#answer(message)
      // Only the listening stream may answer any call. The own answer may still follow.
      this.#misrouted = message
      this.#isStarted = true
      return
    }
    this.#isStarted = true
    this.#context.runInAsyncScope(() => this.#host.receive(message, this.session))
  }

  stray(text: string): void {
    if (this.#phase === 'open') this.#isLoss(text)
  }

  cursor(id: string): void {
    if (this.#phase !== 'open') return
    const cursor = parseCursor(id)
    this.#cursor.lastEventId = cursor
    if (cursor !== undefined) this.options.onresumptiontoken?.(cursor)
  }

  retry(ms: number): void {
    this.#cursor.retryMs = ms
  }

  outcome(outcome: AnswerOutcome): void {
    if (this.#phase !== 'open') {
      if (this.#exchange !== undefined) this.#host.http.lingering.remove(this.#exchange)
      return
    }
    switch (outcome.kind) {
      case 'ended':
        if (this.#misrouted !== undefined) this.#failMisrouted(this.#misrouted)
        else if (outcome.isStream) this.#broken(this.#noAnswer('OUTCOME_UNKNOWN'))
        else this.#refused(this.#noAnswer('UNEXPECTED_RESPONSE'))
        return
      case 'refused': {
        const error = this.#toError(outcome.refusal)
        if (error.code === 'SESSION_LOST') void this.#lose(error)
        else if (isAboutSomethingElse(outcome.refusal)) this.fail(error)
        else this.#refused(error)
        return
      }
      case 'failed':
        if (outcome.error.code === 'OUTCOME_UNKNOWN') this.#broken(outcome.error)
        else this.fail(outcome.error)
    }
  }

  #answer(message: JsonRpcResponse): void {
    if ('result' in message) this.session.succeeded()
    else if (this.#isLoss(JSON.stringify(message))) return
    const { id } = this.request
    const answer = message.id === id ? message : { ...message, id }
    if (!this.#isStarted) return this.#settle(answer)
    // The SDK's client hears of notifications a turn later than of answers, and with the answer it forgets
    // who wants progress: what came in one piece with it would be lost.
    this.#phase = 'answered'
    queueMicrotask(() => this.#settle(answer))
  }

  #isMine(answer: JsonRpcResponse): boolean {
    if (isAnswerTo(this.#wireId, answer)) return true
    // On a stream picked up by a token, the answer carries the id that the request had then.
    const isOfAnotherId = this.options.resumptionToken !== undefined
    return isOfAnotherId && this.#host.findCall(answer, this.session) === undefined
  }

  get #wireId(): RequestId {
    return this.session.ids.toWire(this.request.id)
  }

  /** The response has ended, and its only answer has the id of another request. */
  #failMisrouted(answer: JsonRpcResponse): void {
    const { display: url } = this.#host.http.url
    const error = misroutedError({ url }, this.#wireId, answer)
    if (!('error' in answer)) this.fail(error)
    else if (!this.#isLoss(JSON.stringify(answer))) this.#refused(error)
  }

  /** Whether a 2xx body or event refuses the session; if so, the call ends with that. */
  #isLoss(text: string): boolean {
    const error = this.#toError({ status: 200, headers: {}, text })
    if (error.code !== 'SESSION_LOST') return false
    void this.#lose(error)
    return true
  }

  /** A stream that gave us a cursor can be picked up; every other break is the end. */
  #broken(error: TransportError): void {
    if (this.#cursor.lastEventId === undefined) this.fail(error)
    else this.inContext(() => void this.#resume(error))
  }

  async #resume(broken?: TransportError): Promise<void> {
    const { http, timeouts, reconnect } = this.#host
    const resuming = (this.#resuming ??= new AbortController())
    const outcome = await followStream({
      cursor: this.#cursor,
      reconnect,
      signal: resuming.signal,
      isBroken: broken !== undefined,
      open: async (attempt) => {
        const end = await openEventStream({
          http,
          session: this.session,
          cursor: this.#cursor,
          signal: resuming.signal,
          attempt,
          headersMs: timeouts.headersMs,
          idleMs: 0,
          isPolled: true,
          onActivity: () => this.activity(),
          onMessage: (message) => this.message(message),
          onCursor: (id) => this.cursor(id),
        })
        const isWhole = end.kind === 'ended' && end.error === undefined
        if (isWhole && this.#phase === 'open' && this.#misrouted !== undefined) {
          this.#failMisrouted(this.#misrouted)
        }
        return end
      },
    })
    if (outcome.kind === 'stopped') return
    const cause = outcome.error ?? broken
    this.fail(
      new TransportError(
        'OUTCOME_UNKNOWN',
        `The stream of ${http.url.display} broke before the answer and could not be resumed`,
        { url: http.url.display, status: cause?.status, cause },
      ),
    )
  }

  /** The request fails with its own error, also where the session is given up with it. */
  #refused(error: TransportError): void {
    if (this.session.refused(this.#refusalsBefore)) void this.#lose(error)
    else this.fail(error)
  }

  async #lose(error: TransportError): Promise<void> {
    this.#phase = 'losing'
    await this.#host.forgetSession(this.session)
    this.fail(error)
  }

  #settle(answer?: JsonRpcResponse): void {
    if (this.#phase === 'settled') return
    this.#phase = 'settled'
    this.#resuming?.abort()
    if (this.#exchange?.isDone === false) this.#host.http.lingering.add(this.#exchange)
    this.#host.settled(this, answer)
  }

  #toError(refusal: Refusal): TransportError {
    const { url, limits } = this.#host.http
    return toRefusalError(refusal, {
      url: url.display,
      session: this.session,
      requestId: this.#wireId,
      errorTextBytes: limits.errorTextBytes,
      isStarted: this.#isStarted,
    })
  }

  #unsendable(cause: unknown): TransportError {
    const { display } = this.#host.http.url
    const message = `The request cannot be written as JSON: nothing was sent to ${display}`
    return new TransportError('CONFIG', message, { url: display, cause })
  }

  #noAnswer(code: TransportErrorCode): TransportError {
    const { display } = this.#host.http.url
    return new TransportError(code, `${display} ended its response without an answer`, {
      url: display,
    })
  }
}

/** Too many requests, overload that will pass, or credentials: the session is not refused. */
function isAboutSomethingElse({ status, headers }: Refusal): boolean {
  return (
    status === 429 ||
    headerValue(headers, 'retry-after') !== undefined ||
    headerValue(headers, 'www-authenticate') !== undefined
  )
}
