import { isRecord, removeFrom } from '@x/internal'
import type { Dispatcher } from 'undici'
import { AuthAttempts } from '../auth/authorizer.ts'
import type { Authorizer, Credential } from '../auth/authorizer.ts'
import { headerValue, withoutHeader } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import type { Era } from '../session-record.ts'
import { toTransportError, TransportError } from '../transport-error.ts'
import type { RequestOutcome, TransportErrorCode } from '../transport-error.ts'
import { AnswerReader } from './answer-reader.ts'
import type { AnswerHandlers, AnswerOutcome } from './answer-reader.ts'
import { SENDER, wasUnsent } from './dispatcher.ts'
import type { Sender } from './dispatcher.ts'
import type { HttpClient } from './http-client.ts'
import { SessionCookies } from './session-cookies.ts'

export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  /**
   * True if the request belongs to a call and is sent in the async context of its caller. All other requests
   * are sent in the context of the owner of the session. @default false
   */
  readonly isOfCaller?: boolean | undefined
  /** Undefined for a request to an authorization server: any response is read as text, and not observed. */
  readonly era: Era | undefined
  readonly sessionId?: string | undefined
  /** The transport's own headers, as a flat list. */
  readonly headers: readonly string[]
  /** Headers of the call that the request belongs to. They replace headers of the user of the same name. @default none */
  readonly callHeaders?: Readonly<Record<string, string>> | undefined
  /** A message of MCP, or the form of a request to an authorization server. */
  readonly body?: JsonRpcMessage | string | undefined
  /** Time limit until the response head, in milliseconds; 0 for none. @default 0 */
  readonly headersMs?: number | undefined
  /** Time limit between two pieces of the body, in milliseconds; 0 for none. @default 0 */
  readonly idleMs?: number | undefined
  /** 0 for the first attempt; counts reopened streams. @default 0 */
  readonly attempt?: number | undefined
  /** A long-lived stream; uses the connections of streams. */
  readonly isLongLived?: boolean | undefined
  /** Ends the request with its reason. */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds from when the request is sent. Time that a user needs to sign in does not count. */
  readonly limitMs?: number | undefined
  /**
   * Called with the head of a 2xx response that arrives after the signal or the limit has ended the request. If it is
   * given, a request that was sent stays open for 10 s more: the server may open a session for it.
   */
  readonly onLateHead?: ((headers: ResponseHeaders) => void) | undefined
}

const MAX_REDIRECTS = 5
const REDIRECT_BYTES = 64 * 1024
const LATE_MS = 10_000

/**
 * A request until its outcome: on undici's `dispatch`, its fastest API. Follows 307 and 308 within the origin, or from
 * http to https of the same host; other redirects are errors that name the target. Sends the request again after a
 * refusal of its credentials, if there are others: a server that answers 401 or 403 has not executed it.
 */
export class Exchange implements Sender, Dispatcher.DispatchHandler {
  /** Set by `HttpClient.answered()`. */
  answeredAt: number | undefined
  /** Resolves when the headers are known and the request is sent, or has failed. Undefined if nothing was awaited. */
  starting: Promise<void> | undefined
  readonly isLongLived: boolean
  readonly #client: HttpClient
  readonly #request: HttpRequest
  readonly #handlers: AnswerHandlers
  /**
   * - `preparing`: waits for headers or credentials; nothing is in flight
   * - `sent`: waits for the server
   * - `late`: the sender has its outcome, and the head of the response is still awaited
   */
  #phase: 'preparing' | 'sent' | 'late' | 'done' = 'preparing'
  #body: string | undefined
  /** Reads the response. Undefined before its head. */
  #reader: AnswerReader | undefined
  #userHeaders: readonly string[] = []
  /** Headers of the request that was sent last. */
  #headers: readonly string[] = []
  /** Undefined if nothing listens to exchanges. */
  #startedAt: number | undefined
  #target: { readonly origin: string; readonly path: string }
  #controller: Dispatcher.DispatchController | undefined
  /**
   * Says whether the server may have received a part of the request since the last redirect. It is `possible` while an
   * interceptor or the dispatcher of another package has the request: that may report the start late or not at all.
   */
  #sent: 'no' | 'possible' | 'yes' = 'no'
  /** A server has answered an earlier attempt: with a redirect, or by refusing the credentials. */
  #wasSent = false
  #status: number | undefined
  #bytes = 0
  /** Target of a redirect whose body is being read. */
  #redirect: URL | undefined
  #redirects = 0
  /** Number of earlier attempts with other credentials. */
  #retry = 0
  /** Takes the refusal of one attempt, if another attempt may follow. */
  #onRefused: ((outcome: AnswerOutcome & { readonly kind: 'refused' }) => void) | undefined
  /** Aborts with the error that ends this exchange. Set while other credentials are requested. */
  #renewing: AbortController | undefined
  #timer: NodeJS.Timeout | undefined
  #onLateEnd: (() => void) | undefined

  constructor(client: HttpClient, request: HttpRequest, handlers: AnswerHandlers) {
    this.#client = client
    this.#request = request
    this.#handlers = handlers
    this.#target = client.url
    this.isLongLived = request.isLongLived === true
  }

  get isDone(): boolean {
    return this.#phase === 'done'
  }

  /** True while the exchange waits for the server, and not for credentials. */
  get isAwaited(): boolean {
    return this.#phase === 'sent'
  }

  /**
   * True if a server may have received a part of the request, in any attempt. If it is false, `abort` ensures that
   * nothing is ever sent.
   */
  get isSent(): boolean {
    return this.#sent !== 'no' || this.#wasSent
  }

  /** Sends the request. A failure before that is an outcome, too. */
  start(): void {
    const { signal, body, callHeaders } = this.#request
    const client = this.#client
    client.open.push(this)
    if (signal !== undefined) {
      if (signal.aborted) return this.#onAbort()
      signal.addEventListener('abort', this.#onAbort, { once: true })
    }
    try {
      this.#body = typeof body === 'object' ? JSON.stringify(body) : body
    } catch (cause) {
      const message = `The message cannot be written as JSON: nothing was sent to ${client.url.display}`
      return this.abort(client.error('CONFIG', message, { cause }))
    }
    if (client.fixedHeaders === undefined || callHeaders !== undefined) {
      this.starting = this.#prepare()
    } else this.#dispatch(client.fixedHeaders)
  }

  /** Ends the exchange and closes the connection. The outcome is `error`, unless the exchange has ended. */
  abort(error: TransportError): void {
    if (this.#phase === 'preparing') this.#finish({ kind: 'failed', error })
    else this.#end(error, true)
    this.#renewing?.abort(error)
    this.#controller?.abort(ABORTED)
  }

  // The handler of undici.

  onQueued(): void {
    if (this.#sent === 'possible') this.#sent = 'no'
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#phase === 'done') return controller.abort(ABORTED)
    this.#sent = 'yes'
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
  ): void {
    if (this.#phase === 'late' && status >= 200) return this.#cameLate(status, headers)
    if (this.#phase !== 'sent' || status < 200) return
    this.#status = status
    if (status >= 300 && status < 400 && status !== 304) return this.#follow(status, headers)
    const client = this.#client
    client.authorizer?.observe(headers)
    const { method, era, sessionId = headerValue(headers, 'mcp-session-id') } = this.#request
    if (headers['set-cookie'] !== undefined) {
      client.cookies ??= new SessionCookies()
      client.cookies.take(sessionId, this.#target, headers)
    }
    this.#reader = new AnswerReader(client, this.#handlers, {
      isMcp: era !== undefined,
      headers: this.#headers,
      isLongLived: method === 'GET' || this.isLongLived,
    })
    try {
      this.#reader.head(status, headers)
    } catch (error) {
      this.abort(this.#unreadable(error))
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#phase !== 'sent') return
    this.#bytes += chunk.length
    if (this.#redirect !== undefined) return this.#limitRedirect()
    try {
      if (this.#reader?.data(chunk) !== false) return
      this.#end()
      this.#controller?.abort(ABORTED)
    } catch (error) {
      this.abort(this.#unreadable(error))
    }
  }

  onResponseEnd(): void {
    const redirect = this.#redirect
    if (redirect === undefined || this.#phase !== 'sent') return this.#end()
    // A server that redirects has not executed the request. The new request starts from the beginning.
    this.#redirect = undefined
    this.#target = { origin: redirect.origin, path: redirect.pathname + redirect.search }
    this.#dispatch(this.#userHeaders)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(this.#toError(error))
  }

  // Sending.

  /** Sends the request with these headers, and those of its own. */
  #dispatch(userHeaders: readonly string[]): void {
    const request = this.#request
    const client = this.#client
    const all = userHeaders.concat(request.headers) // an interceptor may change it
    const cookie = client.cookies?.headerFor(request.sessionId)
    const headers = cookie === undefined ? all : withCookie(all, cookie)
    this.#userHeaders = userHeaders
    this.#headers = headers
    this.#reader = undefined
    this.#phase = 'sent'
    this.#status = undefined
    this.#bytes = 0
    if (request.era !== undefined && client.observer.onExchange !== undefined) {
      this.#startedAt ??= performance.now()
    }
    if (request.limitMs !== undefined) this.#timer ??= this.#startLimit(request.limitMs)
    const options = {
      origin: this.#target.origin,
      path: this.#target.path,
      method: request.method,
      headers,
      body: this.#body ?? null,
      headersTimeout: request.headersMs ?? 0,
      bodyTimeout: request.idleMs ?? 0,
      [SENDER]: this,
    }
    this.#sent = 'possible'
    try {
      client.dispatcher.dispatch(options, this)
    } catch (error) {
      if (this.#sent === 'possible') this.#sent = 'no' // the dispatcher rejected the options
      this.#end(this.#toError(error))
    }
  }

  async #prepare(): Promise<void> {
    const { authorizer } = this.#client
    const isOpen = (): boolean => this.#phase === 'preparing'
    try {
      await Promise.resolve() // a header function may end the call, which must know its exchange by then
      if (!isOpen()) return
      const userHeaders = await this.#client.userHeaders(this.#request)
      if (!isOpen()) return
      if (authorizer === undefined) return this.#dispatch(userHeaders)
      const credential = await this.#client.credential(authorizer, this.#request)
      if (isOpen()) void this.#authorize(authorizer, userHeaders, credential)
    } catch (error) {
      this.#finish({ kind: 'failed', error: toTransportError(error) })
    }
  }

  /** Sends the request until its credentials are accepted, or there are no others. */
  async #authorize(
    authorizer: Authorizer,
    userHeaders: readonly string[],
    first: Credential | undefined,
  ): Promise<void> {
    const attempts = new AuthAttempts()
    let credential = first
    for (; ; this.#retry++) {
      const headers = withCredential(userHeaders, credential)
      const refused = await new Promise<AnswerOutcome & { readonly kind: 'refused' }>((resolve) => {
        this.#onRefused = resolve
        this.#dispatch(headers)
      })
      const { refusal } = refused
      const step = attempts.next(refusal)
      if (step === undefined || this.answeredAt !== undefined) return this.#finish(refused)
      this.#wasSent = true
      const { signal } = (this.#renewing = new AbortController())
      const isStepUp = step === 'step-up'
      try {
        // With `nonce`, the same credential gets another proof.
        if (step !== 'nonce')
          await authorizer.renew({ refused: credential?.token, refusal, isStepUp, signal })
        credential = await authorizer.credential(this.#request.method)
      } catch (cause) {
        return this.#finish({ kind: 'refused', refusal: { ...refusal, cause } })
      }
      if (this.#phase !== 'preparing') return
      if (this.answeredAt !== undefined) return this.#finish(refused) // cancelled meanwhile
    }
  }

  // The end.

  /** Ends the attempt. Without an error, the response is complete or was read far enough. */
  #end(error?: TransportError, isAborted = false): void {
    const phase = this.#phase
    if (phase === 'done' || phase === 'preparing') return
    this.#emit(error)
    if (this.#phase !== phase) return // a listener has aborted this exchange
    this.#phase = 'done' // also for those who get the messages of the body
    if (phase === 'late') return this.#settle()
    const outcome = this.#outcome(error)
    if (isAborted || this.#onRefused === undefined || outcome.kind !== 'refused') {
      return this.#settle(outcome)
    }
    this.#phase = 'preparing'
    clearTimeout(this.#timer)
    this.#timer = undefined // a person may be asked meanwhile, and the next request has the whole limit
    this.#onRefused(outcome)
  }

  /** Ends the exchange before its next attempt, unless it has ended. */
  #finish(outcome: AnswerOutcome): void {
    if (this.#phase !== 'preparing') return
    this.#phase = 'done'
    this.#settle(outcome)
  }

  /** Gives the outcome to the sender. A late exchange has given it. */
  #settle(outcome?: AnswerOutcome): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer)
    this.#request.signal?.removeEventListener('abort', this.#onAbort)
    removeFrom(this.#client.open, this)
    if (outcome === undefined) this.#onLateEnd?.()
    else this.#handlers.outcome(outcome)
  }

  #outcome(error: TransportError | undefined): AnswerOutcome {
    try {
      if (error === undefined) return this.#reader?.end() ?? BODY_ENDED
      return this.#reader?.failed(error) ?? { kind: 'failed', error }
    } catch (cause) {
      return { kind: 'failed', error: this.#unreadable(cause) }
    }
  }

  #emit(error?: TransportError): void {
    const startedAt = this.#startedAt
    if (startedAt === undefined) return
    this.#startedAt = undefined // before the listener, which may abort this exchange
    const request = this.#request
    this.#client.emit(request, {
      ms: performance.now() - startedAt,
      attempt: (request.attempt ?? 0) + this.#retry,
      status: this.#status,
      requestBytes: Buffer.byteLength(this.#body ?? ''),
      responseBytes: this.#bytes,
      error: error?.code,
    })
  }

  readonly #onAbort = (): void => {
    const reason: unknown = this.#request.signal?.reason
    if (TransportError.is(reason)) return this.#endEarly(reason)
    const { url } = this.#client
    const isTimeout = reason instanceof DOMException && reason.name === 'TimeoutError'
    const message = isTimeout
      ? `${url.display} sent no answer in time`
      : 'The request was cancelled'
    const code = isTimeout ? 'TIMEOUT' : 'CLOSED'
    this.#endEarly(this.#client.error(code, message, { cause: reason }))
  }

  #startLimit(ms: number): NodeJS.Timeout {
    const message = `${this.#client.url.display} sent no answer in ${ms} ms`
    return setTimeout(() => this.#endEarly(this.#client.error('TIMEOUT', message)), ms).unref()
  }

  /** The signal or the limit ends the request for its sender. */
  #endEarly(error: TransportError): void {
    const isLate = this.#phase === 'sent' && this.isSent && this.#status === undefined
    if (!isLate || this.#request.onLateHead === undefined) return this.abort(error)
    this.#phase = 'late'
    this.#request.signal?.removeEventListener('abort', this.#onAbort) // the sender has its outcome
    this.#client.inBackground(new Promise<void>((resolve) => (this.#onLateEnd = resolve)))
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.abort(error), LATE_MS).unref()
    this.#handlers.outcome({ kind: 'failed', error })
  }

  #cameLate(status: number, headers: ResponseHeaders): void {
    this.#status = status
    if (status < 300) this.#request.onLateHead?.(headers)
    this.abort(this.#client.closed('The response came too late'))
  }

  // Failures.

  #toError(error: unknown): TransportError {
    if (TransportError.is(error)) return error
    const isSent = this.#sent === 'yes' || (this.#sent === 'possible' && !isConnectFailure(error))
    const [code, message, outcome] = networkFailure(error, isSent, {
      url: this.#client.url.display,
      origin: this.#target.origin,
    })
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
    if (
      target !== null &&
      isKept &&
      isSameServer(here, target) &&
      ++this.#redirects <= MAX_REDIRECTS
    ) {
      this.#wasSent = true
      this.#redirect = target
      return
    }
    const where = target === null ? 'nowhere' : target.origin + target.pathname
    const message = `${this.#client.url.display} redirects to ${where}, which is not followed: only 307 and 308 within the origin, at most ${MAX_REDIRECTS} times`
    this.abort(this.#client.error('UNEXPECTED_RESPONSE', message, { status }))
  }

  #limitRedirect(): void {
    if (this.#bytes <= REDIRECT_BYTES) return
    const message = `${this.#client.url.display} redirects with more than ${REDIRECT_BYTES} bytes`
    this.abort(this.#client.error('LIMIT', message, { status: this.#status }))
  }
}

const BODY_ENDED: AnswerOutcome = { kind: 'ended', isStream: false }

/** Adds the cookies of the session, unless the user sends some. */
function withCookie(headers: string[], cookie: string): string[] {
  const isGiven = headers.some((part, index) => index % 2 === 0 && part === 'cookie')
  return isGiven ? headers : [...headers, 'cookie', cookie]
}

const ABORTED = new Error('The exchange was aborted by this side')

/** Returns whether the target has the same origin, or the same host with TLS, both on default ports. */
function isSameServer(from: URL, to: URL): boolean {
  if (to.username !== '' || to.password !== '') return false
  if (to.origin === from.origin) return true
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:'
  return isUpgrade && from.port === '' && to.port === '' && from.hostname === to.hostname
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
  isSent: boolean,
  { url, origin }: { readonly url: string; readonly origin: string },
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
      if (why === PROXY_REFUSED) {
        return ['UNREACHABLE', `No connection to ${url}: ${sayProxy('407')}`, 'not-executed']
      }
      return ['CONFIG', `The request to ${url} cannot be sent: ${why}`]
    default:
      if (!isSent)
        return ['UNREACHABLE', `No connection to ${url}: ${reasonOf(cause, why, origin)}`]
      return wasUnsent(cause)
        ? [
            'UNREACHABLE',
            `The connection to ${url} broke before the whole request was sent: ${why}`,
          ]
        : [
            'OUTCOME_UNKNOWN',
            `The connection to ${url} broke before the answer was complete: ${why}${tlsAdvice(cause, origin)}`,
          ]
  }
}

/** Message of undici if a proxy refuses to forward a request. It has the code of a wrong argument. */
const PROXY_REFUSED = 'Proxy Authentication Required (407)'
/** Message of undici if a proxy refuses a tunnel. */
const TUNNEL_REFUSED = /^Proxy response \((\d+)\)/

function sayProxy(status: string): string {
  return status === '407'
    ? 'the proxy requires a user and a password (HTTP 407). Write them into HTTP_PROXY or HTTPS_PROXY: http://user:password@host'
    : `the proxy refused the connection (HTTP ${status})`
}

/** A server with TLS closes a connection without TLS, and sends no byte that is HTTP. */
function tlsAdvice(cause: unknown, origin: string): string {
  if (!origin.startsWith('http:') || !isRecord(cause) || !isRecord(cause['socket'])) return ''
  return cause['socket']['bytesRead'] === 0
    ? '. The server sent nothing: if it uses TLS, write https:// in its URL'
    : ''
}

const NOT_TLS = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])

/** Says in one line why the connection failed. The errors of Node name neither a proxy nor a server without TLS. */
function reasonOf(cause: unknown, why: string, origin: string): string {
  const { reason, code, port, hostname } = isRecord(cause) ? cause : {}
  if (typeof reason === 'string') {
    const advice = NOT_TLS.has(String(code)) ? '. Is it a server without TLS (http:)?' : ''
    return `TLS: ${reason}${advice}`
  }
  const [, status] = TUNNEL_REFUSED.exec(why) ?? []
  if (status !== undefined) return sayProxy(status)
  const server = new URL(origin)
  const ownPort = Number(server.port || (server.protocol === 'https:' ? 443 : 80))
  const isOther = (port ?? ownPort) !== ownPort || (hostname ?? server.hostname) !== server.hostname
  const advice = '. This is the address of a proxy: check HTTP_PROXY, HTTPS_PROXY and NO_PROXY'
  return isOther ? `${why}${advice}` : why
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
