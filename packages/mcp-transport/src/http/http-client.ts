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
  /** Whose it is; without one, the client makes its own, and ends it. */
  readonly dispatcher: Dispatcher | undefined
  readonly connectMs: number
  readonly headers: HeadersOption
  /** Where tokens come from, if anywhere. */
  readonly authorizer?: Authorizer | undefined
  readonly limits: Limits
  readonly observer: ExchangeObserver
}

/** The endpoint of one server: makes requests with the caller's headers, and tells of each exchange. */
export class HttpClient {
  readonly url: ServerUrl
  readonly limits: Limits
  /** What goes on although its answer has come. */
  readonly lingering: Lingering = new Lingering()
  /** The async context of the owner: of the code that started the transport. */
  owner: AsyncResource | undefined
  readonly #dispatcher: Dispatcher | undefined
  readonly #connectMs: number
  readonly #headers: HeadersOption
  readonly #authorizer: Authorizer | undefined
  readonly #staticHeaders: readonly string[]
  /** The last list of a request, and all headers with it: a session's requests come with the same list. */
  #lastList: readonly string[] | undefined
  #lastHeaders: string[] | undefined
  readonly #observer: ExchangeObserver
  readonly #open: Exchange[] = []
  #ownDispatcher: Dispatcher | undefined
  /** Ends the check that is under way. */
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

  /** Runs something that belongs to no call, such as opening a session again, with the credentials of the owner. */
  asOwner<T>(run: () => T): T {
    return this.owner === undefined ? run() : this.owner.runInAsyncScope(run)
  }

  /**
   * Starts an exchange. All that happens to the request is told to `handlers`; this rejects only if
   * nothing was sent, because there are no headers for it, or because nobody wants it any more.
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
   * Whether the server answers a request at all, with whatever status: told at once if it does, after
   * `limitMs` if not. Uses the present token and seeks no other one. Undefined where that cannot be said:
   * there are no headers for the request, or this was closed.
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
        outcome: () => {}, // a failure says nothing before the time is up: the server may just be starting
      }
      const exchange = this.#exchange({ request, headers, handlers })
      exchange.start()
    })
  }

  /** Goes on with an authorization that sent the user away. */
  async finishAuth(callback: AuthorizationCallback): Promise<void> {
    if (this.#authorizer === undefined) {
      throw new TypeError('finishAuth() needs an authProvider: there is no authorization to finish')
    }
    const { signal } = new AbortController()
    const fetch = createOAuthFetch(this.#dispatcherInUse())
    await this.#authorizer.finish(callback, { fetch, signal })
  }

  /** Cuts every exchange that is still open, and sends nothing any more. */
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
    // What the caller put in front of the network may write into the list: then each request has its own.
    if (userHeaders !== this.#staticHeaders || this.#dispatcher !== undefined) {
      return userHeaders.concat(headers)
    }
    if (headers === this.#lastList && this.#lastHeaders !== undefined) return this.#lastHeaders
    this.#lastList = headers
    return (this.#lastHeaders = userHeaders.concat(headers))
  }

  /** In a method of its own: the closures would else be made for every request. */
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
      'Nothing was sent: this side gave up before',
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

/** One sending of a request. */
interface Sending {
  readonly request: HttpRequest
  /** All of them. */
  readonly headers: string[]
  readonly handlers: AnswerHandlers
  readonly retry?: number | undefined
  readonly open?: Exchange[] | undefined
}

/** What is known of a request before its first sending, where there are tokens. */
interface Authorizing {
  readonly authorizer: Authorizer
  readonly credential: Credential | undefined
  readonly request: HttpRequest
  readonly userHeaders: readonly string[]
  readonly handlers: AnswerHandlers
}

/** A credential replaces the caller's `authorization` header. */
function withCredential(
  userHeaders: readonly string[],
  credential: Credential | undefined,
): readonly string[] {
  if (credential === undefined) return userHeaders
  const others = withoutHeader(userHeaders, 'authorization')
  return [...withoutHeader(others, 'dpop'), ...credential.headers]
}

/** What an `HttpClient` is asked to send. */
export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly rpcMethod?: string | undefined
  /**
   * The request belongs to a call, and is sent in the async context of its caller. All others are sent in that of
   * the owner of the session. @default false
   */
  readonly isOfCaller?: boolean | undefined
  readonly era: Era
  readonly sessionId?: string | undefined
  /** The transport's own headers, as a flat list. */
  readonly headers: readonly string[]
  readonly body?: string | undefined
  /** Limit until the response head has come, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** Limit between two pieces of the body, in milliseconds; 0 for none. */
  readonly idleMs: number
  /** 0 for the first; streams that are opened again count up. @default 0 */
  readonly attempt?: number | undefined
  /** Stays open for long: takes no connection away from requests. */
  readonly isLongLived?: boolean | undefined
  /**
   * Called when all is ready, just before anything is sent. False withdraws the request: then `send`
   * rejects with `CLOSED`, and the handlers hear nothing. Called once more, with the same exchange, before
   * a request that was refused is sent again; false then ends it with `CLOSED`.
   */
  readonly onStart?: ((exchange: Exchange) => boolean) | undefined
  /** True while other credentials are sought, maybe from a user: deadlines should stand still. */
  readonly onPause?: ((isPaused: boolean) => void) | undefined
}

/** Looked at when an exchange begins: where nobody listens, no event is made. */
export interface ExchangeObserver {
  readonly onExchange?: ((event: ExchangeEvent) => void) | undefined
}

/** Whether anybody wants to be told of an exchange that begins now. */
function isObserved({ onExchange }: ExchangeObserver): boolean {
  return onExchange !== undefined || exchangeChannel.hasSubscribers
}

interface ObservedReaderOptions {
  readonly reader: ResponseReader
  readonly observer: ExchangeObserver
  readonly request: HttpRequest
  /** How often the request was sent before, for its token. */
  readonly retry: number
  /** Endpoint without query. */
  readonly url: string
}

/** A reader that also counts, and tells of the exchange when it is over. The clock starts with it. */
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
    this.#tell(undefined)
    this.#options.reader.end()
  }

  failed(error: TransportError): void {
    this.#tell(error)
    this.#options.reader.failed(error)
  }

  #tell(error: TransportError | undefined): void {
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
      // A listener that throws must not change what happens to the exchange.
    }
  }
}
