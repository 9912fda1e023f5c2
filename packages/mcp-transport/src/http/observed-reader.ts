import { exchangeChannel } from '../diagnostics.ts'
import type { ExchangeEvent } from '../exchange-event.ts'
import { shortSessionId } from '../session-id.ts'
import type { TransportError } from '../transport-error.ts'
import type { ResponseHeaders, ResponseReader } from './exchange.ts'
import type { HttpRequest } from './http-request.ts'

/** Looked at when an exchange begins: where nobody listens, no event is made. */
export interface ExchangeObserver {
  readonly onExchange?: ((event: ExchangeEvent) => void) | undefined
}

/** Whether anybody wants to be told of an exchange that begins now. */
export function isObserved({ onExchange }: ExchangeObserver): boolean {
  return onExchange !== undefined || exchangeChannel.hasSubscribers
}

export interface ObservedReaderOptions {
  readonly reader: ResponseReader
  readonly observer: ExchangeObserver
  readonly request: HttpRequest
  /** How often the request was sent before, for its token. */
  readonly retry: number
  /** Endpoint without query. */
  readonly url: string
}

/** A reader that also counts, and tells of the exchange when it is over. The clock starts with it. */
export class ObservedReader implements ResponseReader {
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
