import type { Dispatcher } from 'undici'
import type { Authorizer } from '../auth/authorizer.ts'
import type { AuthorizationCallback } from '../auth/oauth-client-provider.ts'
import { exchangeChannel } from '../diagnostics.ts'
import type { ExchangeEvent } from '../exchange-event.ts'
import { InFlight } from '../in-flight.ts'
import { userHeaderList, withoutHeader } from '../request-headers.ts'
import type { HeadersFunction, HeadersOption } from '../request-headers.ts'
import type { ServerUrl } from '../server-url.ts'
import type { Era } from '../session-record.ts'
import { shortSessionId } from '../session-id.ts'
import { TransportError } from '../transport-error.ts'
import type { Limits } from '../transport-options.ts'
import { AnswerReader } from './answer-reader.ts'
import type { AnswerHandlers } from './answer-reader.ts'
import { AuthorizedExchange } from './authorized-exchange.ts'
import { createDispatcher } from './dispatcher.ts'
import { HttpExchange } from './exchange.ts'
import type { Exchange, ResponseHeaders, ResponseReader } from './exchange.ts'
import { Lingering } from './lingering.ts'

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

/** Looked at when an exchange begins: where nobody listens, no event is made. */
export interface ExchangeObserver {
  readonly onExchange?: ((event: ExchangeEvent) => void) | undefined
}

export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly rpcMethod?: string | undefined
  readonly era: Era
  readonly sessionId?: string | undefined
  /** The transport's own headers, as a flat list. */
  readonly headers: readonly string[]
  readonly body?: string | undefined
  readonly headersMs: number
  readonly idleMs: number
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

/** The endpoint of one server: makes requests with the caller's headers, and tells of each exchange. */
export class HttpClient {
  readonly url: ServerUrl
  readonly limits: Limits
  /** What goes on although its answer has come. */
  readonly lingering: Lingering = new Lingering()
  readonly #dispatcher: Dispatcher | undefined
  readonly #connectMs: number
  readonly #headers: HeadersOption
  readonly #authorizer: Authorizer | undefined
  readonly #staticHeaders: readonly string[]
  /** The last list of a request, and all headers with it: a session's requests come with the same list. */
  #lastList: readonly string[] = []
  #lastHeaders: string[] = []
  readonly #observer: ExchangeObserver
  readonly #open = new InFlight<Exchange>()
  readonly #onDone = (exchange: Exchange): void => void this.#open.remove(exchange)
  #ownDispatcher: Dispatcher | undefined
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

  /**
   * Starts an exchange. All that happens to the request is told to `handlers`; this rejects only if
   * nothing was sent, because there are no headers for it, or because nobody wants it any more.
   */
  async send(request: HttpRequest, handlers: AnswerHandlers): Promise<void> {
    const userHeaders =
      typeof this.#headers === 'function'
        ? await this.#ask(this.#headers, request)
        : this.#staticHeaders
    const authorizer = this.#authorizer
    const token = authorizer === undefined ? undefined : await this.#askToken(authorizer)
    if (this.#isClosed) throw this.#notSent()
    const exchange =
      authorizer === undefined
        ? this.#exchange({
            request,
            headers: this.#headersOf(request, userHeaders),
            handlers,
            onDone: this.#onDone,
          })
        : this.#authorized({ authorizer, token, request, userHeaders, handlers })
    if (request.onStart?.(exchange) === false) throw this.#notSent()
    this.#open.add(exchange)
    exchange.start()
  }

  /** Goes on with an authorization that sent the user away. */
  async finishAuth(callback: AuthorizationCallback): Promise<void> {
    if (this.#authorizer === undefined) {
      throw new TypeError('finishAuth() needs an authProvider: there is no authorization to finish')
    }
    const { signal } = new AbortController()
    await this.#authorizer.finish(callback, { dispatcher: this.#dispatcherInUse(), signal })
  }

  /** Cuts every exchange that is still open, and sends nothing any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.lingering.close()
    for (const exchange of this.#open.all()) {
      exchange.abort(
        new TransportError('CLOSED', 'The transport was closed', { url: this.url.display }),
      )
    }
    const own = this.#ownDispatcher
    this.#ownDispatcher = undefined
    await own?.destroy()
  }

  #dispatcherInUse(): Dispatcher {
    const connectMs = this.#connectMs
    return this.#dispatcher ?? (this.#ownDispatcher ??= createDispatcher({ connectMs }))
  }

  #headersOf({ headers }: HttpRequest, userHeaders: readonly string[]): string[] {
    // What the caller put in front of the network may write into the list: then each request has its own.
    if (userHeaders !== this.#staticHeaders || this.#dispatcher !== undefined) {
      return userHeaders.concat(headers)
    }
    if (headers !== this.#lastList) {
      this.#lastList = headers
      this.#lastHeaders = userHeaders.concat(headers)
    }
    return this.#lastHeaders
  }

  /** In a method of its own: the closures would else be made for every request. */
  #authorized({ request, userHeaders, ...given }: Authorizing): AuthorizedExchange {
    const exchange: AuthorizedExchange = new AuthorizedExchange({
      ...given,
      dispatcher: this.#dispatcherInUse(),
      exchange: ({ token, ...attempt }) =>
        this.#exchange({
          ...attempt,
          request,
          headers: [...withToken(userHeaders, token), ...request.headers],
        }),
      onPause: request.onPause,
      isWanted: () => request.onStart?.(exchange) !== false,
      onDone: this.#onDone,
    })
    return exchange
  }

  #exchange(sending: Sending): HttpExchange {
    const { request, headers, handlers, retry = 0, onDone } = sending
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
    const reader =
      this.#observer.onExchange === undefined && !exchangeChannel.hasSubscribers
        ? answer
        : new Observed(answer, this.#event(request, retry))
    return new HttpExchange({
      dispatcher: this.#dispatcherInUse(),
      request: sent,
      reader,
      onDone,
    })
  }

  #notSent(): TransportError {
    return new TransportError('CLOSED', 'Nothing was sent: this side gave up before', {
      url: this.url.display,
    })
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

  async #askToken(authorizer: Authorizer): Promise<string | undefined> {
    try {
      return await authorizer.token()
    } catch (cause) {
      throw new TransportError('CONFIG', `No token for ${this.url.display}: nothing was sent`, {
        cause,
        url: this.url.display,
      })
    }
  }

  #event(request: HttpRequest, retry: number): (end: ExchangeEnd) => void {
    const startedAt = performance.now()
    return (end) => {
      const event: ExchangeEvent = {
        httpMethod: request.method,
        url: this.url.display,
        rpcMethod: request.rpcMethod,
        era: request.era,
        sessionId: request.sessionId === undefined ? undefined : shortSessionId(request.sessionId),
        requestBytes: request.body === undefined ? 0 : Buffer.byteLength(request.body),
        ms: performance.now() - startedAt,
        attempt: (request.attempt ?? 0) + retry,
        ...end,
      }
      exchangeChannel.publish(event)
      this.#observer.onExchange?.(event)
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
  readonly onDone?: ((exchange: Exchange) => void) | undefined
}

/** What is known of a request before its first sending, where there are tokens. */
interface Authorizing {
  readonly authorizer: Authorizer
  readonly token: string | undefined
  readonly request: HttpRequest
  readonly userHeaders: readonly string[]
  readonly handlers: AnswerHandlers
}

/** A token takes the place of a header that says who the caller is. */
function withToken(userHeaders: readonly string[], token: string | undefined): readonly string[] {
  if (token === undefined) return userHeaders
  return [...withoutHeader(userHeaders, 'authorization'), 'authorization', `Bearer ${token}`]
}

type ExchangeEnd = Pick<ExchangeEvent, 'status' | 'responseBytes' | 'error'>

/** A reader that also counts, and tells when it is over. */
class Observed implements ResponseReader {
  readonly #reader: ResponseReader
  readonly #onEnd: (end: ExchangeEnd) => void
  #status: number | undefined
  #bytes = 0

  constructor(reader: ResponseReader, onEnd: (end: ExchangeEnd) => void) {
    this.#reader = reader
    this.#onEnd = onEnd
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#reader.head(status, headers)
  }

  data(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    return this.#reader.data(chunk)
  }

  end(): void {
    this.#tell(undefined)
    this.#reader.end()
  }

  failed(error: TransportError): void {
    this.#tell(error)
    this.#reader.failed(error)
  }

  #tell(error: TransportError | undefined): void {
    try {
      this.#onEnd({ status: this.#status, responseBytes: this.#bytes, error: error?.code })
    } catch {
      // A listener that throws must not change what happens to the exchange.
    }
  }
}
