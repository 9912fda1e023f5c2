import { removeFrom, untilAborted } from '@x/internal'
import type { Dispatcher } from 'undici'
import { AuthAttempts } from '../auth/authorizer.ts'
import type { Authorizer, AuthStep, Credential, RefusedResponse } from '../auth/authorizer.ts'
import { headerValue, withoutHeader } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import { toTransportError, TransportError } from '../transport-error.ts'
import type { RequestOutcome, TransportErrorCode } from '../transport-error.ts'
import { AnswerReader } from './answer-reader.ts'
import type { AnswerHandlers, AnswerOutcome } from './answer-reader.ts'
import { SENDER, wasUnsent } from './dispatcher.ts'
import type { Sender } from './dispatcher.ts'
import type { HttpClient, HttpRequest } from './http-client.ts'

/** A request in flight: one HTTP exchange, or several attempts of one request. */
export interface Exchange {
  readonly isDone: boolean
  /** True while the exchange waits for the server, and not for credentials. */
  readonly isAwaited: boolean
  /**
   * True if a server may have received a part of the request, in any attempt. If it is false, `abort` ensures that
   * nothing is ever sent.
   */
  readonly isSent: boolean
  /** Set by `HttpClient.answered()`. */
  answeredAt: number | undefined
  start(): void
  /** Ends the exchange and closes the connection. The outcome is `error`, unless the exchange has ended. */
  abort(error: TransportError): void
}

export interface Attempt {
  readonly request: HttpRequest
  readonly body: string | undefined
  /** All headers of the request, as a flat list. */
  readonly headers: string[]
  readonly handlers: AnswerHandlers
  /** Number of earlier attempts with other credentials. */
  readonly retry: number
  /** Gets the outcome, which may not be the final one, instead of the handlers. */
  readonly onOutcome: ((outcome: AnswerOutcome) => void) | undefined
}

const MAX_REDIRECTS = 5
const REDIRECT_BYTES = 64 * 1024

/**
 * One HTTP exchange on undici's `dispatch`, its fastest API. Follows 307 and 308 within the origin, or from
 * http to https of the same host. Other redirects are errors that name the target.
 */
export class HttpExchange implements Exchange, Sender, Dispatcher.DispatchHandler {
  answeredAt: number | undefined
  readonly #client: HttpClient
  readonly #attempt: Attempt
  readonly #reader: AnswerReader
  /** Undefined if nothing listens to exchanges. */
  readonly #startedAt: number | undefined
  #target: { readonly origin: string; readonly path: string }
  #controller: Dispatcher.DispatchController | undefined
  #isDone = false
  /**
   * Says whether the server may have received a part of the request since the last redirect. It is `possible` while an
   * interceptor or the dispatcher of another package has the request: that may report the start late or not at all.
   */
  #sent: 'no' | 'possible' | 'yes' = 'no'
  #status: number | undefined
  #bytes = 0
  /** Target of a redirect whose body is being read. */
  #redirect: URL | undefined
  #redirects = 0

  constructor(client: HttpClient, attempt: Attempt) {
    this.#client = client
    this.#attempt = withCookies(attempt, client)
    this.#reader = new AnswerReader(client, this.#attempt)
    this.#startedAt = client.isObserved(attempt.request) ? performance.now() : undefined
    this.#target = client.url
  }

  get isDone(): boolean {
    return this.#isDone
  }

  get isAwaited(): boolean {
    return !this.#isDone
  }

  get isSent(): boolean {
    return this.#sent !== 'no' || this.#redirects > 0
  }

  get isLongLived(): boolean {
    return this.#attempt.request.isLongLived === true
  }

  start(): void {
    const { headers, request, body = null } = this.#attempt
    const { method, headersMs, idleMs } = request
    const { origin, path } = this.#target
    const options = {
      origin,
      path,
      method,
      headers,
      body,
      headersTimeout: headersMs,
      bodyTimeout: idleMs,
      [SENDER]: this,
    }
    this.#sent = 'possible'
    try {
      this.#client.dispatcher.dispatch(options, this)
    } catch (error) {
      if (this.#sent === 'possible') this.#sent = 'no' // the dispatcher rejected the options
      this.#end(this.#toError(error))
    }
  }

  abort(error: TransportError): void {
    this.#end(error)
    this.#controller?.abort(ABORTED)
  }

  onQueued(): void {
    if (this.#sent === 'possible') this.#sent = 'no'
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.isDone) return controller.abort(ABORTED)
    this.#sent = 'yes'
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
  ): void {
    if (this.isDone || status < 200) return
    this.#status = status
    if (status >= 300 && status < 400 && status !== 304) return this.#follow(status, headers)
    this.#client.authorizer?.observe(headers)
    const { sessionId = headerValue(headers, 'mcp-session-id') } = this.#attempt.request
    this.#client.cookies.take(sessionId, this.#target, headers)
    try {
      this.#reader.head(status, headers)
    } catch (error) {
      this.abort(this.#unreadable(error))
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.isDone) return
    this.#bytes += chunk.length
    if (this.#redirect !== undefined) return this.#limitRedirect()
    try {
      if (this.#reader.data(chunk)) return
      this.#end()
      this.#controller?.abort(ABORTED)
    } catch (error) {
      this.abort(this.#unreadable(error))
    }
  }

  onResponseEnd(): void {
    const redirect = this.#redirect
    if (redirect === undefined || this.isDone) return this.#end()
    // A server that redirects has not executed the request. The new request starts from the beginning.
    this.#redirect = undefined
    this.#bytes = 0
    this.#status = undefined
    this.#target = { origin: redirect.origin, path: redirect.pathname + redirect.search }
    this.start()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(this.#toError(error))
  }

  /** Ends the exchange once. Without an error, the response is complete or was read far enough. */
  #end(error?: TransportError): void {
    if (this.#isDone) return
    this.#isDone = true
    removeFrom(this.#client.open, this)
    const { request, body = '', retry, handlers, onOutcome } = this.#attempt
    if (this.#startedAt !== undefined) {
      this.#client.emit(request, {
        ms: performance.now() - this.#startedAt,
        attempt: (request.attempt ?? 0) + retry,
        status: this.#status,
        requestBytes: Buffer.byteLength(body),
        responseBytes: this.#bytes,
        error: error?.code,
      })
    }
    const outcome = this.#outcome(error)
    if (onOutcome === undefined) handlers.outcome(outcome)
    else onOutcome(outcome)
  }

  #outcome(error: TransportError | undefined): AnswerOutcome {
    try {
      return error === undefined ? this.#reader.end() : this.#reader.failed(error)
    } catch (cause) {
      return { kind: 'failed', error: this.#unreadable(cause) }
    }
  }

  #toError(error: unknown): TransportError {
    if (TransportError.is(error)) return error
    const isSent = this.#sent === 'yes' || (this.#sent === 'possible' && !isConnectFailure(error))
    const [code, message, outcome] = networkFailure(error, this.#client.url.display, isSent)
    return this.#client.error(code, message, { cause: error, status: this.#status, outcome })
  }

  /** Converts an error of the reader: undici would treat it as a network failure. */
  #unreadable(cause: unknown): TransportError {
    if (TransportError.is(cause)) return cause
    const message = `The response of ${this.#client.url.display} could not be read`
    return this.#client.error('UNEXPECTED_RESPONSE', message, { cause })
  }

  /** Follows a redirect after its body was read, so that the connection can be reused. */
  #follow(status: number, headers: ResponseHeaders): void {
    const here = new URL(this.#target.origin + this.#target.path)
    const { location } = headers
    const target = typeof location === 'string' ? URL.parse(location, here.href) : null
    const isKept = status === 307 || status === 308
    if (target !== null && isKept && isSameServer(here, target)) {
      this.#redirects += 1
      if (this.#redirects <= MAX_REDIRECTS) {
        this.#redirect = target
        return
      }
    }
    const url = this.#client.url.display
    const where = target === null ? 'nowhere' : target.origin + target.pathname
    const message = `${url} redirects to ${where}, which is not followed: only 307 and 308 within the origin, at most ${MAX_REDIRECTS} times`
    this.abort(this.#client.error('UNEXPECTED_RESPONSE', message, { status }))
  }

  #limitRedirect(): void {
    if (this.#bytes <= REDIRECT_BYTES) return
    const message = `${this.#client.url.display} redirects with more than ${REDIRECT_BYTES} bytes`
    this.abort(this.#client.error('LIMIT', message, { status: this.#status }))
  }
}

/** Adds the cookies of the session, unless the user sends some. */
function withCookies(attempt: Attempt, { cookies }: HttpClient): Attempt {
  const cookie = cookies.headerFor(attempt.request.sessionId)
  const isGiven = attempt.headers.some((part, index) => index % 2 === 0 && part === 'cookie')
  if (cookie === undefined || isGiven) return attempt
  return { ...attempt, headers: [...attempt.headers, 'cookie', cookie] }
}

const ABORTED = new Error('The exchange was aborted by this side')

/** Returns whether the target has the same origin, or the same host with TLS, both on default ports. */
function isSameServer(from: URL, to: URL): boolean {
  if (to.username !== '' || to.password !== '') return false
  if (to.origin === from.origin) return true
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:'
  return isUpgrade && from.port === '' && to.port === '' && from.hostname === to.hostname
}

interface Authorizing extends Pick<Attempt, 'request' | 'body' | 'handlers'> {
  readonly userHeaders: readonly string[]
  readonly authorizer: Authorizer
  /** Credential of the first attempt. */
  readonly credential: Credential | undefined
}

/**
 * Sends a request again after a refusal of its credential, if there is another one. A server that answers 401 or
 * 403 has not executed the request. For the sender it is one exchange with one outcome.
 */
export class AuthorizedExchange implements Exchange {
  answeredAt: number | undefined
  readonly #client: HttpClient
  readonly #given: Authorizing
  /** Undefined while another credential is requested. */
  #current: HttpExchange | undefined
  #isRefused = false
  /** Aborts with the error that ends this exchange. */
  readonly #aborting = new AbortController()
  #isDone = false

  constructor(client: HttpClient, given: Authorizing) {
    this.#client = client
    this.#given = given
  }

  get isDone(): boolean {
    return this.#isDone
  }

  get isAwaited(): boolean {
    return !this.#isDone && this.#current !== undefined
  }

  get isSent(): boolean {
    return this.#isRefused || this.#current?.isSent === true
  }

  abort(error: TransportError): void {
    this.#aborting.abort(error)
    this.#current?.abort(error)
  }

  async start(): Promise<void> {
    const outcome = await this.#finalOutcome()
    this.#isDone = true
    removeFrom(this.#client.open, this)
    this.#given.handlers.outcome(outcome)
  }

  async #finalOutcome(): Promise<AnswerOutcome> {
    const { request } = this.#given
    const { signal } = this.#aborting
    const attempts = new AuthAttempts()
    let { credential } = this.#given
    for (let retry = 0; ; retry++) {
      const outcome = await this.#outcomeWith(credential, retry)
      if (outcome.kind !== 'refused' || signal.aborted) return outcome
      this.#isRefused = true
      const { refusal } = outcome
      const step = attempts.next(refusal)
      if (step === undefined) return outcome
      this.#current = undefined
      try {
        credential = await untilAborted(this.#renewed(step, refusal, credential?.token), signal)
      } catch (cause) {
        if (!signal.aborted) return { kind: 'refused', refusal: { ...refusal, cause } }
      }
      if (signal.aborted) return { kind: 'failed', error: toTransportError(signal.reason) }
      if (request.onStart?.(this) === false) {
        const message = 'The request was cancelled before it was sent again'
        return { kind: 'failed', error: this.#client.closed(message, 'not-executed') }
      }
    }
  }

  /** Returns another credential than the refused one; with `nonce` the same one with another proof. */
  async #renewed(
    step: AuthStep,
    refusal: RefusedResponse,
    refused: string | undefined,
  ): Promise<Credential | undefined> {
    const { authorizer, request } = this.#given
    if (step !== 'nonce') {
      const { signal } = this.#aborting
      await authorizer.renew({ refused, refusal, isStepUp: step === 'step-up', signal })
    }
    return authorizer.credential(request.method)
  }

  #outcomeWith(credential: Credential | undefined, retry: number): Promise<AnswerOutcome> {
    const { request, body, handlers, userHeaders } = this.#given
    const headers = [...withCredential(userHeaders, credential), ...request.headers]
    return new Promise((onOutcome) => {
      const attempt = { request, body, headers, handlers, retry, onOutcome }
      this.#current = new HttpExchange(this.#client, attempt)
      this.#current.start()
    })
  }
}

/** The credential replaces the user's `authorization` and `dpop` headers. */
function withCredential(
  userHeaders: readonly string[],
  credential: Credential | undefined,
): readonly string[] {
  if (credential === undefined) return userHeaders
  const others = withoutHeader(userHeaders, 'authorization')
  return [...withoutHeader(others, 'dpop'), ...credential.headers]
}

/** `isSent`: the server may have received a part of the request. If not, nothing was executed. */
function networkFailure(
  error: unknown,
  url: string,
  isSent: boolean,
): [TransportErrorCode, string, RequestOutcome?] {
  const cause = firstCause(error)
  const code = getCode(cause)
  const why = (cause instanceof Error ? cause.message : String(cause)) || code || 'unknown reason'
  switch (code) {
    case 'UND_ERR_HEADERS_TIMEOUT':
      return ['TIMEOUT', `${url} sent no answer in time`]
    case 'UND_ERR_BODY_TIMEOUT':
      return ['TIMEOUT', `${url} went silent in the middle of an answer`]
    case 'UND_ERR_CLOSED':
    case 'UND_ERR_DESTROYED': {
      const message = 'The dispatcher of this transport was closed'
      return ['CLOSED', message, isSent ? 'unknown' : 'not-executed']
    }
    case 'UND_ERR_INVALID_ARG':
      return ['CONFIG', `The request to ${url} cannot be sent: ${why}`]
    default:
      if (!isSent) return ['UNREACHABLE', `No connection to ${url}: ${why}`]
      return wasUnsent(cause)
        ? [
            'UNREACHABLE',
            `The connection to ${url} broke before the whole request was sent: ${why}`,
          ]
        : [
            'OUTCOME_UNKNOWN',
            `The connection to ${url} broke before the answer was complete: ${why}`,
          ]
  }
}

/** Returns whether an error shows that there was no connection. */
function isConnectFailure(error: unknown): boolean {
  const cause = firstCause(error)
  const syscall = cause instanceof Error && 'syscall' in cause ? cause.syscall : undefined
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true
  return getCode(cause) === 'UND_ERR_CONNECT_TIMEOUT'
}

/** A failed dual-stack connect is an `AggregateError` without a message; the causes are in `errors`. */
function firstCause(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return firstCause(error.errors[0])
  return error
}

function getCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
