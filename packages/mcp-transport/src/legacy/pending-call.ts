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

/** The parts of `LegacyCalls` that a call uses. */
export interface CallHost {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  /** Takes a request or notification of the server. */
  receive(message: JsonRpcRequest | JsonRpcNotification, session: LegacySession): void
  /** Returns the call that waits for this answer. */
  findCall(answer: JsonRpcResponse, session: LegacySession): PendingCall | undefined
  /** Resolves when the session is removed from the store. */
  forgetSession(session: LegacySession): Promise<void>
  /** The call has ended, with an answer for the client unless the client cancelled it. */
  settled(call: PendingCall, answer: JsonRpcResponse | undefined): void
}

export interface PendingCallOptions {
  readonly request: JsonRpcRequest
  readonly session: LegacySession
  readonly host: CallHost
  readonly options: CallOptions
}

/**
 * One request of the client, from its POST until it has an answer of the server or a failure. It is its own
 * event handler, because one is created for every call.
 */
export class PendingCall implements AnswerHandlers, WaitingCall {
  readonly request: JsonRpcRequest
  readonly session: LegacySession
  readonly options: CallOptions
  quietTicks = 0
  readonly #host: CallHost
  readonly #cursor: StreamCursor
  /** A connection emits in the async context of the request that opened it, possibly of another call. */
  readonly #context = new AsyncResource('McpCall') // 40 times as fast as AsyncLocalStorage.snapshot()
  #phase: 'open' | 'losing' | 'answered' | 'settled' = 'open'
  #exchange: Exchange | undefined
  #resuming: AbortController | undefined
  /** Last answer on this response with the id of another request. It is dropped. */
  #misrouted: JsonRpcResponse | undefined
  readonly #refusalsBefore: number
  /** A message for this request arrived: the server has begun to execute it. */
  #isStarted = false

  constructor({ request, session, host, options }: PendingCallOptions) {
    this.request = request
    this.session = session
    this.#refusalsBefore = session.refusals
    this.#host = host
    this.options = options
    this.#cursor = { lastEventId: options.resumptionToken }
  }

  /** True if the server may have received the request. */
  get isSent(): boolean {
    return this.#exchange !== undefined || this.#resuming !== undefined
  }

  get isAwaited(): boolean {
    return this.#resuming !== undefined || this.#exchange?.isAwaited === true
  }

  /** Sends the request, or resumes its stream at `resumptionToken`. */
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

  /** Takes the answer from the listening stream. */
  answered(message: JsonRpcResponse): void {
    if (this.#phase === 'open') this.#answer(message)
  }

  /** Runs `send` in the async context of the caller, which header functions read credentials from. */
  inContext<T>(send: () => T): T {
    return this.#context.runInAsyncScope(send)
  }

  /** The client cancelled the call: later messages are dropped. */
  abandon(): void {
    this.#settle()
  }

  /** Closes the open streams of the call. */
  release(reason: TransportError): void {
    this.#resuming?.abort()
    this.#exchange?.abort(reason)
  }

  /** Answers the client with an error. */
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

  // Methods of AnswerHandlers

  activity(): void {
    this.quietTicks = 0
  }

  message(message: JsonRpcMessage): void {
    if (this.#phase !== 'open') return
    if (isResponse(message)) {
      if (this.#isMine(message)) return this.#answer(message)
      // Only the listening stream may answer other calls. The answer to this call may still follow.
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
    // The SDK's client handles notifications one turn later than answers, and an answer removes its progress
    // handler: progress in the same piece of data would be lost.
    this.#phase = 'answered'
    queueMicrotask(() => this.#settle(answer))
  }

  #isMine(answer: JsonRpcResponse): boolean {
    if (isAnswerTo(this.#wireId, answer)) return true
    // On a resumed stream, the answer has the original id of the request.
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

  /** Returns whether a 2xx body or event refuses the session. If so, the call fails. */
  #isLoss(text: string): boolean {
    const error = this.#toError({ status: 200, headers: {}, text })
    if (error.code !== 'SESSION_LOST') return false
    void this.#lose(error)
    return true
  }

  /** A stream with a cursor is resumed; any other break ends the call. */
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

  /** The request fails with its own error, even if the session is abandoned. */
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

/** The refusal is about load or credentials, not about the session. */
function isAboutSomethingElse({ status, headers }: Refusal): boolean {
  return (
    status === 429 ||
    headerValue(headers, 'retry-after') !== undefined ||
    headerValue(headers, 'www-authenticate') !== undefined
  )
}
