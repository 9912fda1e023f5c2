import type { Dispatcher } from 'undici'
import { exchangeChannel } from '../diagnostics.ts'
import type { ExchangeEvent } from '../exchange-event.ts'
import { userHeaderList } from '../request-headers.ts'
import type { HeadersFunction, HeadersOption } from '../request-headers.ts'
import type { ServerUrl } from '../server-url.ts'
import type { Era } from '../session-record.ts'
import { shortSessionId } from '../session-id.ts'
import { TransportError } from '../transport-error.ts'
import type { Limits } from '../transport-options.ts'
import { AnswerReader } from './answer-reader.ts'
import type { AnswerHandlers } from './answer-reader.ts'
import { createDispatcher } from './dispatcher.ts'
import { Exchange } from './exchange.ts'
import type { ResponseHeaders, ResponseReader } from './exchange.ts'

export interface HttpClientOptions {
  readonly url: ServerUrl
  /** Whose it is; without one, the client makes its own, and ends it. */
  readonly dispatcher: Dispatcher | undefined
  readonly connectMs: number
  readonly headers: HeadersOption
  readonly limits: Limits
  readonly onExchange: ((event: ExchangeEvent) => void) | undefined
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
   * rejects with `CLOSED`, and the handlers hear nothing.
   */
  readonly onStart?: ((exchange: Exchange) => boolean) | undefined
}

/** The endpoint of one server: makes requests with the caller's headers, and tells of each exchange. */
export class HttpClient {
  readonly url: ServerUrl
  readonly limits: Limits
  readonly #dispatcher: Dispatcher | undefined
  readonly #connectMs: number
  readonly #headers: HeadersOption
  readonly #staticHeaders: readonly string[]
  readonly #onExchange: ((event: ExchangeEvent) => void) | undefined
  readonly #open = new Set<Exchange>()
  #ownDispatcher: Dispatcher | undefined
  #isClosed = false

  constructor(options: HttpClientOptions) {
    const { url, dispatcher, connectMs, headers, limits, onExchange } = options
    this.url = url
    this.limits = limits
    this.#dispatcher = dispatcher
    this.#connectMs = connectMs
    this.#headers = headers
    this.#staticHeaders = typeof headers === 'function' ? [] : userHeaderList(headers)
    this.#onExchange = onExchange
  }

  /**
   * Starts an exchange. All that happens to the request is told to `handlers`; this rejects only if
   * nothing was sent, because there are no headers for it, or because nobody wants it any more.
   */
  async send(request: HttpRequest, handlers: AnswerHandlers): Promise<Exchange> {
    const userHeaders =
      typeof this.#headers === 'function'
        ? await this.#ask(this.#headers, request)
        : this.#staticHeaders
    if (this.#isClosed) throw this.#notSent()
    const answer = new AnswerReader(handlers, this.limits, this.url.display)
    const reader =
      this.#onExchange === undefined && !exchangeChannel.hasSubscribers
        ? answer
        : new Observed(answer, this.#event(request))
    const exchange = new Exchange({
      dispatcher: this.#dispatcherInUse(),
      request: {
        method: request.method,
        origin: this.url.origin,
        path: this.url.path,
        display: this.url.display,
        headers: [...userHeaders, ...request.headers],
        body: request.body,
        headersMs: request.headersMs,
        idleMs: request.idleMs,
        isLongLived: request.isLongLived,
      },
      reader,
      onDone: () => this.#open.delete(exchange),
    })
    if (request.onStart?.(exchange) === false) throw this.#notSent()
    this.#open.add(exchange)
    exchange.start()
    return exchange
  }

  /** Cuts every exchange that is still open, and sends nothing any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const exchange of this.#open) {
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

  #event(request: HttpRequest): (end: ExchangeEnd) => void {
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
        attempt: request.attempt ?? 0,
        ...end,
      }
      exchangeChannel.publish(event)
      this.#onExchange?.(event)
    }
  }
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
