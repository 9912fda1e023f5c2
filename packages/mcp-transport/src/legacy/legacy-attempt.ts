import type { Attempt, Call } from '../calls/call.ts'
import { headerValue } from '../headers.ts'
import type { AnswerHandlers, AnswerOutcome, Refusal } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import { followStream, parseCursor } from '../http/follow-stream.ts'
import type { StreamCursor } from '../http/follow-stream.ts'
import type { HttpClient } from '../http/http-client.ts'
import {
  INVALID_PARAMS,
  isAnswerTo,
  isResponse,
  localError,
  repairedAnswer,
  withProgressToken,
} from '../json-rpc.ts'
import type { Answer, JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import type { TransportError } from '../transport-error.ts'
import { openEventStream } from './event-stream.ts'
import type { LegacyServer } from './legacy-server.ts'
import type { LegacySession } from './legacy-session.ts'
import { misroutedError, okRefusal, toRefusalError } from './session-loss.ts'

/**
 * A call in one session, from its POST until it has an answer of the server or a failure. It is its own event handler,
 * because one is created for every call.
 */
export class LegacyAttempt implements AnswerHandlers, Attempt {
  readonly session: LegacySession
  readonly #call: Call
  readonly #server: LegacyServer
  /** Id of the request in the session. */
  readonly #wireId: number
  readonly #cursor: StreamCursor
  /** `ending`: the answer is known, and no other is accepted. */
  #phase: 'open' | 'ending' | 'over' = 'open'
  #exchange: Exchange | undefined
  #resuming: AbortController | undefined
  /** Last answer on this response with the id of another request. It is dropped. */
  #misrouted: JsonRpcResponse | undefined
  readonly #refusalsBefore: number
  /** A message for this request arrived: the server has begun to execute it. */
  #isStarted = false

  constructor(server: LegacyServer, call: Call, session: LegacySession) {
    this.session = session
    this.#call = call
    this.#server = server
    this.#wireId = session.wireId(call.id)
    this.#refusalsBefore = session.refusals
    this.#cursor = { lastEventId: call.options.resumptionToken }
  }

  get isSent(): boolean {
    return this.#exchange?.isSent === true || this.#resuming !== undefined
  }

  get isAwaited(): boolean {
    return this.#resuming !== undefined || this.#exchange?.isAwaited === true
  }

  check(): ReturnType<NonNullable<Attempt['check']>> {
    return this.#server.pingOf(this.session)
  }

  /** Sends the request, or resumes its stream at `resumptionToken`. Resolves when it is on its way. */
  start(): Promise<void> | undefined {
    const { session } = this
    const { request, options } = this.#call
    if (options.inputs?.answers !== undefined) {
      const message = `${request.method} cannot be continued: this server is not of 2026-07-28. Start the call again`
      this.#settle(localError(INVALID_PARAMS, message))
      return undefined
    }
    if (options.resumptionToken !== undefined) {
      void this.#resume()
      return undefined
    }
    const { http, timeouts } = this.#server.parts
    this.#exchange = http.send(
      {
        method: 'POST',
        isOfCaller: true,
        era: 'legacy',
        sessionId: session.id,
        headers: session.postHeaders,
        callHeaders: options.headers,
        body: this.#message(),
        headersMs: timeouts.headersMs,
      },
      this,
    )
    return this.#exchange.starting
  }

  /** Takes the answer from the listening stream. */
  answered(message: JsonRpcResponse): void {
    if (this.#phase === 'open') this.#answer(message)
  }

  /** Drops what still arrives. Returns false if nothing was awaited any more. The server may end its streams itself. */
  end(): boolean {
    if (this.#phase === 'over') return false
    this.#phase = 'over'
    this.#resuming?.abort()
    this.#http.answered(this.#exchange)
    return true
  }

  close(reason: TransportError): void {
    this.end()
    this.#exchange?.abort(reason)
  }

  fail(error: TransportError): void {
    this.#settle(error)
    this.close(error)
  }

  /** Fails the call, unless it has ended: the server did not take the client's response to a request of this call. */
  failUnanswered(cause: unknown): void {
    if (this.#phase !== 'open') return
    const why = cause instanceof Error ? cause.message : String(cause)
    const message = `The server did not take the client's response to a request during this call: ${why}. The call may have been executed: find out before you send it again`
    const error = this.#http.error('OUTCOME_UNKNOWN', message, { cause })
    this.#call.inContext(() => this.fail(error))
  }

  activity(): void {
    this.#call.quietTicks = 0
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
    this.#call.inContext(() => this.#server.receive(message, this.session, this.#call))
  }

  stray(text: string): void {
    if (this.#phase === 'open') this.#isLoss(text)
  }

  cursor(id: string): void {
    if (this.#phase !== 'open') return
    const cursor = parseCursor(id)
    this.#cursor.lastEventId = cursor
    if (cursor === undefined) return
    this.#server.parts.guard(() => this.#call.options.onresumptiontoken?.(cursor))
  }

  retry(ms: number): void {
    this.#cursor.retryMs = ms
  }

  outcome(outcome: AnswerOutcome): void {
    if (this.#phase !== 'open') return
    if (outcome.kind === 'failed') {
      if (outcome.error.code === 'OUTCOME_UNKNOWN') this.#broken(outcome.error)
      else this.fail(outcome.error)
    } else if (outcome.kind === 'refused') {
      const error = this.#toError(outcome.refusal)
      if (error.code === 'SESSION_LOST') void this.#lose(error)
      else if (isAboutSomethingElse(outcome.refusal)) this.fail(error)
      else this.#refused(error)
    } else if (this.#misrouted !== undefined) {
      this.#failMisrouted(this.#misrouted)
    } else {
      const message = `${this.#http.url.display} ended its response without an answer`
      const { isStream } = outcome
      const code = isStream ? 'OUTCOME_UNKNOWN' : 'UNEXPECTED_RESPONSE'
      const error = this.#http.error(code, message, { status: 200 })
      // Some servers answer every request in a forgotten session with an empty stream.
      if (isStream && this.#cursor.lastEventId !== undefined) this.#broken(error)
      else this.#refused(error)
    }
  }

  get #http(): HttpClient {
    return this.#server.parts.http
  }

  #message(): JsonRpcRequest {
    const { request, options } = this.#call
    const id = this.#wireId
    const { method } = request
    const params =
      options.onProgress === undefined ? request.params : withProgressToken(request.params, id)
    return params === undefined
      ? { jsonrpc: '2.0', id, method }
      : { jsonrpc: '2.0', id, method, params }
  }

  #answer(message: JsonRpcResponse): void {
    if ('result' in message) this.session.succeeded()
    else if (this.#isLoss(JSON.stringify(message))) return
    this.#settle(repairedAnswer(this.#call.request, message))
  }

  #isMine(answer: JsonRpcResponse): boolean {
    if (isAnswerTo(this.#wireId, answer)) return true
    // On a resumed stream, the answer has the original id of the request.
    const isOfAnotherId = this.#call.options.resumptionToken !== undefined
    return isOfAnotherId && this.#server.attemptOf(answer, this.session) === undefined
  }

  /** The response has ended, and its only answer has the id of another request. */
  #failMisrouted(answer: JsonRpcResponse): void {
    const error = misroutedError({ url: this.#http.url.display }, this.#wireId, answer)
    if (!('error' in answer)) this.fail(error)
    else if (!this.#isLoss(JSON.stringify(answer))) this.#refused(error)
  }

  /** Returns whether a 2xx body or event refuses the session. If so, the call fails. */
  #isLoss(text: string): boolean {
    const error = this.#toError(okRefusal(text))
    if (error.code !== 'SESSION_LOST') return false
    void this.#lose(error)
    return true
  }

  /** A stream with a cursor is resumed; any other break ends the call. */
  #broken(error: TransportError): void {
    if (this.#cursor.lastEventId === undefined) this.fail(error)
    else this.#call.inContext(() => void this.#resume(error))
  }

  async #resume(broken?: TransportError): Promise<void> {
    const { http, timeouts, reconnect } = this.#server.parts
    const { signal } = (this.#resuming ??= new AbortController())
    const outcome = await followStream({
      cursor: this.#cursor,
      reconnect,
      signal,
      isBroken: broken !== undefined,
      endless: undefined,
      open: async (attempt) => {
        const end = await openEventStream(http, this.session, {
          cursor: this.#cursor,
          signal,
          attempt,
          callHeaders: this.#call.options.headers,
          headersMs: timeouts.headersMs,
          idleMs: 0,
          isPolled: true,
          handlers: this,
          onOpen: undefined,
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
    const message = `The stream of ${http.url.display} broke before the answer and could not be resumed`
    this.fail(http.error('OUTCOME_UNKNOWN', message, { status: cause?.status, cause }))
  }

  /** The request fails with its own error, even if the session counts as lost now. */
  #refused(error: TransportError): void {
    if (this.session.refused(this.#refusalsBefore)) void this.#lose(error)
    else this.fail(error)
  }

  async #lose(error: TransportError): Promise<void> {
    this.#phase = 'ending'
    await this.#server.loseSession(this.session, error.certain === true)
    this.#call.inContext(() => this.fail(error)) // another session is opened for this call
  }

  #settle(outcome: Answer | TransportError): void {
    if (this.end()) this.#server.parts.calls.settle(this.#call, this, outcome)
  }

  #toError(refusal: Refusal): TransportError {
    const requestId = this.#wireId
    const { session } = this
    const isStarted = this.#isStarted
    return toRefusalError(refusal, this.#http, { session, requestId, isStarted })
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
