import type { AsyncResource } from 'node:async_hooks'
import type { Dispatcher } from 'undici'
import type { AuthorizationCallback } from '../auth/auth-provider.ts'
import type { Authorizer, Credential } from '../auth/authorizer.ts'
import { exchangeChannel } from '../diagnostics.ts'
import type { ExchangeEvent } from '../diagnostics.ts'
import { userHeaderList, withoutHeader } from '../headers.ts'
import type { HeadersFunction, HeadersOption, ResponseHeaders } from '../headers.ts'
import type { ServerUrl } from '../server-url.ts'
import { shortSessionId } from '../session-record.ts'
import type { Era } from '../session-record.ts'
import { closedError, TransportError } from '../transport-error.ts'
import type { Limits } from '../transport-options.ts'
import { AnswerReader } from './answer-reader.ts'
import type { AnswerHandlers } from './answer-reader.ts'
import { AuthorizedExchange, createOAuthFetch } from './authorized-exchange.ts'
import { createDispatcher } from './dispatcher.ts'
import { HttpExchange, Lingering } from './exchange.ts'
import type { Exchange, ResponseReader } from './exchange.ts'

export interface HttpClientOptions {
  readonly url: ServerUrl
  /** Undefined for an own dispatcher, which is closed with the client. */
  readonly dispatcher: Dispatcher | undefined
  readonly connectMs: number
  readonly headers: HeadersOption
  readonly authorizer?: Authorizer | undefined
  readonly limits: Limits
  readonly observer: ExchangeObserver
}

/**
 * Sends requests to the endpoint of one server, with the user's headers and credentials, and reports each
 * exchange.
 */
export class HttpClient {
  readonly url: ServerUrl
  readonly limits: Limits
  /** Responses that stay open after their answer. */
  readonly lingering: Lingering = new Lingering()
  /** Async context of the owner: the code that started the transport. */
  owner: AsyncResource | undefined
  readonly #dispatcher: Dispatcher | undefined
  readonly #connectMs: number
  readonly #headers: HeadersOption
  readonly #authorizer: Authorizer | undefined
  readonly #staticHeaders: readonly string[]
  /** Headers of the last request and the complete list made of them. Requests of a session reuse both. */
  #lastList: readonly string[] | undefined
  #lastHeaders: string[] | undefined
  readonly #observer: ExchangeObserver
  readonly #open: Exchange[] = []
  #ownDispatcher: Dispatcher | undefined
  /** Ends the check in progress. */
  #endCheck: (() => void) | undefined
  #isClosed = false

  constructor(options: HttpClientOptions) {
    const { url, dispatcher, connectMs, headers, authorizer, limits, observer } = options
    this.url = url
    this.limits = limits
    this.#dispatcher = dispatcher
    this.#connectMs = connectMs
    this.#headers = headers
    this.#authorizer = authorizer
    this.#staticHeaders = typeof headers === 'function' ? [] : userHeaderList(headers)
    this.#observer = observer
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

  async #send(request: HttpRequest, handlers: AnswerHandlers): Promise<void> {
    const userHeaders =
      typeof this.#headers === 'function'
        ? await this.#ask(this.#headers, request)
        : this.#staticHeaders
    const authorizer = this.#authorizer
    const credential =
      authorizer === undefined ? undefined : await this.#credential(authorizer, request)
    if (this.#isClosed) throw this.#notSent()
    const exchange =
      authorizer === undefined
        ? this.#exchange({
            request,
            headers: this.#getHeaders(request, userHeaders),
            handlers,
            open: this.#open,
          })
        : this.#authorized({ authorizer, credential, request, userHeaders, handlers })
    if (request.onStart?.(exchange) === false) throw this.#notSent()
    this.#open.push(exchange)
    exchange.start()
  }

  /**
   * Returns whether the server responds to a request within `limitMs`, with any status. Uses the current token
   * and requests no other. Returns undefined if this cannot be known: headers are missing, or the client was
   * closed.
   */
  isAnswered(request: HttpRequest, limitMs: number): Promise<boolean | undefined> {
    return this.asOwner(() => this.#isAnswered(request, limitMs))
  }

  async #isAnswered(request: HttpRequest, limitMs: number): Promise<boolean | undefined> {
    let userHeaders: readonly string[]
    let credential: Credential | undefined
    try {
      userHeaders =
        typeof this.#headers === 'function'
          ? await this.#ask(this.#headers, request)
          : this.#staticHeaders
      credential =
        this.#authorizer === undefined
          ? undefined
          : await this.#credential(this.#authorizer, request)
    } catch {
      return undefined
    }
    if (this.#isClosed) return undefined
    const headers = [...withCredential(userHeaders, credential), ...request.headers]
    return new Promise((resolve) => {
      const settle = (isAnswered: boolean | undefined): void => {
        clearTimeout(timer)
        this.#endCheck = undefined
        resolve(isAnswered)
        exchange.abort(closedError('The check is over', this.url.display))
      }
      const timer = setTimeout(() => settle(false), limitMs).unref()
      this.#endCheck = () => settle(undefined)
      const handlers: AnswerHandlers = {
        activity: () => settle(true),
        message: () => {},
        outcome: () => {}, // wait for the limit after a failure: the server may be starting
      }
      const exchange = this.#exchange({ request, headers, handlers })
      exchange.start()
    })
  }

  /** Completes an authorization that redirected the user. */
  async finishAuth(callback: AuthorizationCallback): Promise<void> {
    if (this.#authorizer === undefined) {
      throw new TypeError('finishAuth() needs the option authProvider')
    }
    const { signal } = new AbortController()
    const fetch = createOAuthFetch(this.#dispatcherInUse())
    await this.#authorizer.finish(callback, { fetch, signal })
  }

  /** Aborts all open exchanges and sends nothing more. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.lingering.close()
    this.#endCheck?.()
    for (const exchange of this.#open.slice()) {
      exchange.abort(closedError('The transport was closed', this.url.display))
    }
    const own = this.#ownDispatcher
    this.#ownDispatcher = undefined
    await own?.destroy()
  }

  #dispatcherInUse(): Dispatcher {
    const connectMs = this.#connectMs
    return this.#dispatcher ?? (this.#ownDispatcher ??= createDispatcher({ connectMs }))
  }

  #getHeaders({ headers }: HttpRequest, userHeaders: readonly string[]): string[] {
    // Interceptors of the user's dispatcher may change the list: then each request needs its own.
    if (userHeaders !== this.#staticHeaders || this.#dispatcher !== undefined) {
      return userHeaders.concat(headers)
    }
    if (headers === this.#lastList && this.#lastHeaders !== undefined) return this.#lastHeaders
    this.#lastList = headers
    return (this.#lastHeaders = userHeaders.concat(headers))
  }

  /** A separate method, because its closures would otherwise be created for every request. */
  #authorized({ request, userHeaders, ...given }: Authorizing): AuthorizedExchange {
    const exchange: AuthorizedExchange = new AuthorizedExchange({
      ...given,
      dispatcher: this.#dispatcherInUse(),
      httpMethod: request.method,
      exchange: ({ credential, ...attempt }) =>
        this.#exchange({
          ...attempt,
          request,
          headers: [...withCredential(userHeaders, credential), ...request.headers],
        }),
      onPause: request.onPause,
      isWanted: () => request.onStart?.(exchange) !== false,
      open: this.#open,
    })
    return exchange
  }

  #exchange(sending: Sending): HttpExchange {
    const { request, headers, handlers, retry = 0, open } = sending
    const sent = {
      method: request.method,
      origin: this.url.origin,
      path: this.url.path,
      display: this.url.display,
      headers,
      body: request.body,
      headersMs: request.headersMs,
      idleMs: request.idleMs,
      isLongLived: request.isLongLived,
    }
    const answer = new AnswerReader(handlers, this.limits, sent)
    const observer = this.#observer
    const url = this.url.display
    const reader = isObserved(observer)
      ? new ObservedReader({ reader: answer, observer, request, retry, url })
      : answer
    return new HttpExchange({
      dispatcher: this.#dispatcherInUse(),
      request: sent,
      reader,
      open,
    })
  }

  #notSent(): TransportError {
    return closedError(
      'Nothing was sent: the request was abandoned',
      this.url.display,
      'not-executed',
    )
  }

  async #ask(headers: HeadersFunction, request: HttpRequest): Promise<readonly string[]> {
    try {
      return userHeaderList(
        await headers({ httpMethod: request.method, rpcMethod: request.rpcMethod }),
      )
    } catch (cause) {
      throw new TransportError('CONFIG', `No headers for ${this.url.display}: nothing was sent`, {
        cause,
        url: this.url.display,
      })
    }
  }

  async #credential(
    authorizer: Authorizer,
    { method }: HttpRequest,
  ): Promise<Credential | undefined> {
    try {
      return await authorizer.credential(method)
    } catch (cause) {
      throw new TransportError('CONFIG', `No token for ${this.url.display}: nothing was sent`, {
        cause,
        url: this.url.display,
      })
    }
  }
}

/** One attempt to send a request. */
interface Sending {
  readonly request: HttpRequest
  /** All headers of the request. */
  readonly headers: string[]
  readonly handlers: AnswerHandlers
  readonly retry?: number | undefined
  readonly open?: Exchange[] | undefined
}

/** A request with credentials, before the first attempt. */
interface Authorizing {
  readonly authorizer: Authorizer
  readonly credential: Credential | undefined
  readonly request: HttpRequest
  readonly userHeaders: readonly string[]
  readonly handlers: AnswerHandlers
}

/** The credential replaces the user's `authorization` header. */
function withCredential(
  userHeaders: readonly string[],
  credential: Credential | undefined,
): readonly string[] {
  if (credential === undefined) return userHeaders
  const others = withoutHeader(userHeaders, 'authorization')
  return [...withoutHeader(others, 'dpop'), ...credential.headers]
}

/** A request of an `HttpClient`. */
export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly rpcMethod?: string | undefined
  /**
   * True if the request belongs to a call and is sent in the async context of its caller. All other requests
   * are sent in the context of the owner of the session. @default false
   */
  readonly isOfCaller?: boolean | undefined
  readonly era: Era
  readonly sessionId?: string | undefined
  /** The transport's own headers, as a flat list. */
  readonly headers: readonly string[]
  readonly body?: string | undefined
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
  /** Called with true while other credentials are requested, possibly from a user. Stop deadlines meanwhile. */
  readonly onPause?: ((isPaused: boolean) => void) | undefined
}

/** Read at the start of an exchange: without a listener, no events are created. */
export interface ExchangeObserver {
  readonly onExchange?: ((event: ExchangeEvent) => void) | undefined
}

/** Returns whether an exchange that starts now has a listener. */
function isObserved({ onExchange }: ExchangeObserver): boolean {
  return onExchange !== undefined || exchangeChannel.hasSubscribers
}

interface ObservedReaderOptions {
  readonly reader: ResponseReader
  readonly observer: ExchangeObserver
  readonly request: HttpRequest
  /** Number of earlier attempts with other tokens. */
  readonly retry: number
  /** Endpoint without query. */
  readonly url: string
}

/** Counts bytes and time of an exchange, and emits the event at its end. */
class ObservedReader implements ResponseReader {
  readonly #options: ObservedReaderOptions
  readonly #startedAt = performance.now()
  #status: number | undefined
  #bytes = 0

  constructor(options: ObservedReaderOptions) {
    this.#options = options
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#options.reader.head(status, headers)
  }

  data(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    return this.#options.reader.data(chunk)
  }

  end(): void {
    this.#emit(undefined)
    this.#options.reader.end()
  }

  failed(error: TransportError): void {
    this.#emit(error)
    this.#options.reader.failed(error)
  }

  #emit(error: TransportError | undefined): void {
    const { request, retry, url, observer } = this.#options
    const event: ExchangeEvent = {
      httpMethod: request.method,
      url,
      rpcMethod: request.rpcMethod,
      era: request.era,
      sessionId: request.sessionId === undefined ? undefined : shortSessionId(request.sessionId),
      requestBytes: request.body === undefined ? 0 : Buffer.byteLength(request.body),
      ms: performance.now() - this.#startedAt,
      attempt: (request.attempt ?? 0) + retry,
      status: this.#status,
      responseBytes: this.#bytes,
      error: error?.code,
    }
    try {
      exchangeChannel.publish(event)
      observer.onExchange?.(event)
    } catch {
      // A listener that throws must not affect the exchange.
    }
  }
}
