import { within } from '@x/internal'
import type { AsyncResource } from 'node:async_hooks'
import type { Dispatcher } from 'undici'
import type { AuthProvider } from '../auth/auth-provider.ts'
import { Authorizer, toResponse } from '../auth/authorizer.ts'
import type { FetchFunction } from '../auth/authorizer.ts'
import { userHeaderList, withHeaders } from '../headers.ts'
import type { HeadersOption, ResponseHeaders } from '../headers.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import { parseServerUrl } from '../server-url.ts'
import type { ServerUrl } from '../server-url.ts'
import { shortSessionId } from '../session-record.ts'
import type { Era } from '../session-record.ts'
import { toTransportError, TransportError } from '../transport-error.ts'
import type {
  RequestOutcome,
  TransportErrorCode,
  TransportErrorOptions,
} from '../transport-error.ts'
import { resolveLimits } from '../transport-options.ts'
import type { ExchangeEvent, Limits, StreamableHttpTransportOptions } from '../transport-options.ts'
import type { AnswerHandlers, AnswerOutcome } from './answer-reader.ts'
import { createDispatcher } from './dispatcher.ts'
import { AuthorizedExchange, HttpExchange } from './exchange.ts'
import type { Exchange } from './exchange.ts'
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
  /** Time limit until the response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** Time limit between two pieces of the body, in milliseconds; 0 for none. */
  readonly idleMs: number
  /** 0 for the first attempt; counts reopened streams. @default 0 */
  readonly attempt?: number | undefined
  /** A long-lived stream; uses the connections of streams. */
  readonly isLongLived?: boolean | undefined
  /**
   * Called immediately before the request is sent. If it returns false, the request is not sent, `send` rejects
   * with `CLOSED`, and no handler is called. Called again, with the same exchange, before a refused request is
   * sent again; false then ends the exchange with `CLOSED`.
   */
  readonly onStart?: ((exchange: Exchange) => boolean) | undefined
}

export interface RequestLimit {
  /** Ends the request with its reason. */
  readonly signal: AbortSignal | undefined
  /** Milliseconds from when the request is sent. Time that a user needs to sign in does not count. */
  readonly limitMs: number | undefined
  /**
   * Called with the head of a 2xx response that arrives after the signal or the limit has ended the request. If it is
   * given, a request that was sent stays open for 10 s more: the server may open a session for it.
   */
  readonly onLateHead?: ((headers: ResponseHeaders) => void) | undefined
}

const LINGER_MS = 5000
const LATE_MS = 10_000
/** A client that closes must not wait longer for a silent server. */
const SETTLE_MS = 2000

export interface HttpClientOptions {
  readonly url: ServerUrl
  /** Undefined for an own dispatcher, which is closed with the client. */
  readonly dispatcher: Dispatcher | undefined
  readonly connectMs: number
  readonly headers: HeadersOption
  readonly authProvider: AuthProvider | undefined
  readonly limits: Limits
  /** Read at the start of an exchange: without a listener, no events are created. */
  readonly observer: Pick<StreamableHttpTransportOptions, 'onExchange'>
}

/**
 * Sends requests to the endpoint of one server, with the user's headers and credentials, and reports each
 * exchange.
 */
export class HttpClient {
  readonly url: ServerUrl
  readonly limits: Limits
  readonly authorizer: Authorizer | undefined
  /** Exchanges that have not ended. */
  readonly open: Exchange[] = []
  readonly cookies: SessionCookies = new SessionCookies()
  /** Async context of the owner: the code that started the transport. */
  owner: AsyncResource | undefined
  readonly #options: HttpClientOptions
  readonly #staticHeaders: readonly string[]
  #ownDispatcher: Dispatcher | undefined
  #lingerTimer: NodeJS.Timeout | undefined
  #background: Set<Promise<unknown>> | undefined
  #isClosed = false

  constructor(options: HttpClientOptions) {
    const { url, limits, authProvider, headers } = options
    this.url = url
    this.limits = limits
    if (authProvider !== undefined) {
      this.authorizer = new Authorizer(authProvider, new URL(url.origin + url.path), (...request) =>
        createOAuthFetch(this.dispatcher)(...request),
      )
    }
    this.#options = options
    this.#staticHeaders = typeof headers === 'function' ? [] : userHeaderList(headers)
  }

  get dispatcher(): Dispatcher {
    const { dispatcher, connectMs } = this.#options
    return dispatcher ?? (this.#ownDispatcher ??= createDispatcher({ connectMs }))
  }

  /** Creates an error about this server. */
  error(
    code: TransportErrorCode,
    message: string,
    options: TransportErrorOptions = {},
  ): TransportError {
    return new TransportError(code, message, { url: this.url.display, ...options })
  }

  /** Creates the error of a request that this side ended: it closed the transport, or cancelled the request. */
  closed(why: string, outcome: RequestOutcome = 'unknown'): TransportError {
    return this.error('CLOSED', why, { outcome })
  }

  /** Runs code that belongs to no call, such as opening a session again, with the credentials of the owner. */
  asOwner<T>(run: () => T): T {
    return this.owner === undefined ? run() : this.owner.runInAsyncScope(run)
  }

  /**
   * Starts an exchange, and passes its events to `handlers`. Rejects only if nothing was sent: headers or
   * credentials are missing, or the request was withdrawn.
   */
  send(request: HttpRequest, handlers: AnswerHandlers): Promise<void> {
    return request.isOfCaller === true
      ? this.#send(request, handlers)
      : this.asOwner(() => this.#send(request, handlers))
  }

  /** Sends a request that may have a limit. A failure before it is sent is an outcome, too. */
  sendWithin(
    { signal, limitMs, onLateHead }: RequestLimit,
    request: HttpRequest,
    handlers: AnswerHandlers,
  ): void {
    if (signal === undefined && limitMs === undefined) return this.#sendOrFail(request, handlers)
    const url = this.url.display
    let exchange: Exchange | undefined
    let timer: NodeJS.Timeout | undefined
    let isDone = false
    const outcome = (ended: AnswerOutcome): void => {
      if (isDone) return
      isDone = true
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      handlers.outcome(ended)
    }
    const late = onLateHead && new LateResponse(onLateHead)
    const end = (error: TransportError): void => {
      const isOpen = !isDone && exchange !== undefined && late?.awaits(exchange, error) === true
      if (isOpen) this.inBackground(late.ended)
      else exchange?.abort(error)
      outcome({ kind: 'failed', error }) // also while headers are awaited
    }
    const onAbort = (): void => {
      const reason: unknown = signal?.reason
      if (TransportError.is(reason)) return end(reason)
      const isTimeout = reason instanceof DOMException && reason.name === 'TimeoutError'
      const message = isTimeout ? `${url} sent no answer in time` : 'The request was cancelled'
      end(this.error(isTimeout ? 'TIMEOUT' : 'CLOSED', message, { cause: reason }))
    }
    const startTimer = (ms: number): void => {
      timer = setTimeout(() => {
        if (exchange?.isAwaited !== true) return startTimer(ms)
        end(this.error('TIMEOUT', `${url} sent no answer in ${ms} ms`))
      }, ms).unref()
    }
    const onStart = (started: Exchange): boolean => {
      exchange = started
      if (limitMs !== undefined && timer === undefined) startTimer(limitMs)
      return !isDone && signal?.aborted !== true && request.onStart?.(started) !== false
    }
    if (signal?.aborted === true) return onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    const own = { ...handlers, outcome }
    this.#sendOrFail({ ...request, onStart }, late === undefined ? own : late.handlersFor(own))
  }

  /** Adds work that no caller waits for, such as the termination of a session that stays unused. */
  inBackground(work: Promise<unknown>): void {
    const all = (this.#background ??= new Set())
    all.add(work)
    const end = (): boolean => all.delete(work)
    work.then(end, end)
  }

  /** Waits for the work in the background, at most 2 s. Then the client can be closed. */
  async settled(): Promise<void> {
    const all = async (): Promise<void> => {
      while (this.#background !== undefined && this.#background.size > 0) {
        await Promise.allSettled(this.#background)
      }
    }
    if (this.#background !== undefined) await within(all(), SETTLE_MS, () => {})
  }

  #sendOrFail(request: HttpRequest, handlers: AnswerHandlers): void {
    this.send(request, handlers).catch((error: unknown) =>
      handlers.outcome({ kind: 'failed', error: toTransportError(error) }),
    )
  }

  async #send(request: HttpRequest, handlers: AnswerHandlers): Promise<void> {
    const { authorizer } = this
    const body = this.#textOf(request.body)
    let userHeaders = this.#staticHeaders
    if (typeof this.#options.headers === 'function' || request.callHeaders !== undefined) {
      userHeaders = await this.#orConfigError('headers', () => this.#userHeadersOf(request))
    }
    let exchange: Exchange
    if (authorizer === undefined) {
      const all = userHeaders.concat(request.headers)
      const attempt = { request, body, headers: all, handlers, retry: 0, onOutcome: undefined }
      exchange = new HttpExchange(this, attempt)
    } else {
      const credential = await this.#orConfigError('token', () =>
        authorizer.credential(request.method),
      )
      const given = { request, body, handlers, userHeaders, authorizer, credential }
      exchange = new AuthorizedExchange(this, given)
    }
    if (this.#isClosed || request.onStart?.(exchange) === false) {
      throw this.closed('Nothing was sent: the request was cancelled', 'not-executed')
    }
    this.open.push(exchange)
    exchange.start()
  }

  /** @throws TypeError for a header that is not allowed; the error of the header function */
  async #userHeadersOf(request: HttpRequest): Promise<readonly string[]> {
    const { headers } = this.#options
    const { method: httpMethod, callHeaders = {} } = request
    const given =
      typeof headers === 'function'
        ? userHeaderList(await headers({ httpMethod, rpcMethod: rpcMethodOf(request) }))
        : this.#staticHeaders
    return withHeaders(given, userHeaderList(callHeaders))
  }

  /**
   * Returns whether the server responds to a request within `limitMs`, with any status. Uses the current token
   * and requests no other. Returns undefined if this cannot be known: headers are missing, or the client was
   * closed.
   */
  isAnswered(request: HttpRequest, limitMs: number): Promise<boolean | undefined> {
    return new Promise((resolve) => {
      let end: (() => void) | undefined
      const settle = (isAnswered: boolean | undefined): void => {
        resolve(isAnswered)
        end?.()
      }
      // The limit begins here: headers and credentials may take longer.
      const onStart = (exchange: Exchange): boolean => {
        const timer = setTimeout(() => settle(false), limitMs).unref()
        end = () => {
          clearTimeout(timer)
          exchange.abort(this.closed('The check is over'))
        }
        return true
      }
      const handlers: AnswerHandlers = {
        activity: () => settle(true),
        message: () => {},
        outcome: () => {
          // Wait for the limit after a failure: the server may be starting.
          if (this.#isClosed) settle(undefined)
        },
      }
      this.send({ ...request, onStart }, handlers).catch(() => settle(undefined))
    })
  }

  /**
   * Called when nothing of an exchange is needed any more. A server should end a response immediately after its answer
   * (2025-11-25, transports). Otherwise each call would occupy a connection, so the response is closed after some
   * seconds.
   */
  answered(exchange: Exchange | undefined): void {
    if (exchange === undefined || exchange.isDone) return
    exchange.answeredAt = performance.now()
    this.#lingerTimer ??= setTimeout(() => this.#closeLingering(), LINGER_MS).unref()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#lingerTimer)
    const closed = this.closed('The transport was closed')
    for (const exchange of this.open.slice()) exchange.abort(closed)
    const own = this.#ownDispatcher
    this.#ownDispatcher = undefined
    await own?.destroy()
  }

  isObserved({ era }: HttpRequest): boolean {
    return era !== undefined && this.#options.observer.onExchange !== undefined
  }

  emit(
    request: HttpRequest,
    result: Omit<ExchangeEvent, 'httpMethod' | 'url' | 'rpcMethod' | 'era' | 'sessionId'>,
  ): void {
    const { method, era, sessionId } = request
    if (era === undefined) return
    const event: ExchangeEvent = {
      httpMethod: method,
      url: this.url.display,
      rpcMethod: rpcMethodOf(request),
      era,
      sessionId: sessionId === undefined ? undefined : shortSessionId(sessionId),
      ...result,
    }
    try {
      this.#options.observer.onExchange?.(event)
    } catch {
      // A listener that throws must not affect the exchange.
    }
  }

  #closeLingering(): void {
    this.#lingerTimer = undefined
    const before = performance.now() - LINGER_MS
    const message = 'The response stayed open after its answer, and was closed'
    for (const exchange of this.open.filter(({ answeredAt }) => answeredAt !== undefined)) {
      if (Number(exchange.answeredAt) <= before)
        exchange.abort(new TransportError('CLOSED', message))
      else this.#lingerTimer ??= setTimeout(() => this.#closeLingering(), LINGER_MS).unref()
    }
  }

  #textOf(body: HttpRequest['body']): string | undefined {
    try {
      return typeof body === 'object' ? JSON.stringify(body) : body
    } catch (cause) {
      const message = `The message cannot be written as JSON: nothing was sent to ${this.url.display}`
      throw this.error('CONFIG', message, { cause })
    }
  }

  async #orConfigError<T>(what: 'headers' | 'token', get: () => Promise<T>): Promise<T> {
    try {
      return await get()
    } catch (cause) {
      const message = `No ${what} for ${this.url.display}: nothing was sent`
      throw this.error('CONFIG', message, { cause })
    }
  }
}

/** The response of a request that has ended for this side, but not for the server. */
class LateResponse {
  readonly ended: Promise<void>
  readonly #onHead: (headers: ResponseHeaders) => void
  readonly #onEnd: () => void
  #hasResponse = false
  #abort: (() => void) | undefined

  constructor(onHead: (headers: ResponseHeaders) => void) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#onEnd = resolve
    this.#onHead = onHead
  }

  /** Returns whether the exchange stays open: the server has the request, and has not responded. */
  awaits(exchange: Exchange, error: TransportError): boolean {
    if (!exchange.isSent || !exchange.isAwaited || this.#hasResponse) return false
    const timer = setTimeout(() => this.#abort?.(), LATE_MS).unref()
    this.#abort = () => {
      clearTimeout(timer)
      exchange.abort(error)
    }
    return true
  }

  handlersFor(handlers: AnswerHandlers): AnswerHandlers {
    return {
      ...handlers,
      activity: () => {
        this.#hasResponse = true
        handlers.activity?.()
        // After `head`, and before a refusal leads to other credentials and another attempt.
        if (this.#abort !== undefined) queueMicrotask(this.#abort)
      },
      head: (status, headers) => {
        if (this.#abort === undefined) handlers.head?.(status, headers)
        else this.#onHead(headers)
      },
      outcome: (outcome) => {
        this.#onEnd()
        handlers.outcome(outcome)
      },
    }
  }
}

function rpcMethodOf({ body }: HttpRequest): string | undefined {
  return typeof body === 'object' && 'method' in body ? body.method : undefined
}

const OAUTH_MS = 30_000

/**
 * `fetch` for metadata and authorization servers, over the transport's dispatcher. Follows redirects only
 * within the origin, limits time (30 s, body included) and size, and shows no query in errors. Sends only the
 * given headers, and none of the transport's user.
 */
export function createOAuthFetch(dispatcher: Dispatcher): FetchFunction {
  return async function oauthFetch(input, init = {}) {
    const { body, signal } = init
    if (body != null && typeof body !== 'string' && !(body instanceof URLSearchParams)) {
      throw new TypeError('The body must be a string or URLSearchParams')
    }
    const url = parseServerUrl(input)
    const request: HttpRequest = {
      method: init.method === 'POST' ? 'POST' : 'GET',
      era: undefined,
      headers: [...new Headers(init.headers)].flat(),
      body: body == null ? undefined : String(body),
      headersMs: 0, // one limit for the whole request
      idleMs: 0,
    }
    const client = new HttpClient({
      url,
      dispatcher,
      connectMs: 0,
      headers: {},
      authProvider: undefined,
      limits: resolveLimits(),
      observer: {},
    })
    const limit = { signal: signal ?? undefined, limitMs: OAUTH_MS }
    const outcome = await new Promise<AnswerOutcome>((resolve) => {
      client.sendWithin(limit, request, { message: () => {}, outcome: resolve })
    })
    if (outcome.kind === 'failed') throw outcome.error
    if (outcome.kind === 'ended' || outcome.refusal.isPartial) {
      const message = `${url.display} sent a response that is encoded, or larger than 1 MiB`
      throw client.error('LIMIT', message)
    }
    return toResponse(outcome.refusal)
  }
}
