import type { Dispatcher } from 'undici'
import { HttpExchange } from '../http/exchange.ts'
import type { ResponseHeaders, ResponseReader } from '../http/exchange.ts'
import { TextBody } from '../http/text-body.ts'
import { TransportError } from '../transport-error.ts'

/** The part of `fetch` that OAuth needs. */
export type OAuthFetch = (url: string | URL, init?: OAuthRequest) => Promise<Response>

interface OAuthRequest {
  readonly method?: string | undefined
  readonly headers?: Headers | Readonly<Record<string, string>> | undefined
  readonly body?: URLSearchParams | string | undefined
  readonly signal?: AbortSignal | null | undefined
}

export interface OAuthFetchOptions {
  readonly dispatcher: Dispatcher
  /** Ends every request. */
  readonly signal: AbortSignal
  /** Limit for one request, redirects and body included, in milliseconds. @default 30_000 */
  readonly requestMs?: number | undefined
}

const BODY_BYTES = 1024 * 1024

/**
 * Requests to authorization servers and for metadata, over the transport's dispatcher and with its rules:
 * redirects only within the origin, bounded in time and size, errors without queries. They carry only
 * what is given here: no header of the user of the transport ever gets this far.
 */
export function createOAuthFetch(options: OAuthFetchOptions): OAuthFetch {
  const { dispatcher, signal, requestMs = 30_000 } = options
  return async function oauthFetch(input, init = {}) {
    const url = new URL(input)
    const signals = init.signal == null ? [signal] : [signal, init.signal]
    const display = url.origin + url.pathname
    for (const one of signals) if (one.aborted) throw abandoned(display)
    return new Promise<Response>((resolve, reject) => {
      const method = init.method === 'POST' ? 'POST' : 'GET'
      const exchange = new HttpExchange({
        dispatcher,
        request: {
          method,
          origin: url.origin,
          path: url.pathname + url.search,
          display,
          headers: headerList(init.headers),
          body: init.body === undefined ? undefined : String(init.body),
          headersMs: 0, // one timer for all of it
          idleMs: 0,
        },
        reader: new WholeResponse(settling(resolve), settling(reject), display),
      })
      function settling<T>(settle: (value: T) => void): (value: T) => void {
        return (value) => {
          clearTimeout(timer)
          for (const one of signals) one.removeEventListener('abort', stop)
          settle(value)
        }
      }
      const stop = (): void => exchange.abort(abandoned(display))
      const timer = setTimeout(() => {
        const message = `${display} did not answer within ${requestMs} ms`
        exchange.abort(new TransportError('TIMEOUT', message, { url: display }))
      }, requestMs)
      timer.unref()
      for (const one of signals) one.addEventListener('abort', stop, { once: true })
      exchange.start()
    })
  }
}

class WholeResponse implements ResponseReader {
  readonly #resolve: (response: Response) => void
  readonly #reject: (error: TransportError) => void
  readonly #display: string
  readonly #body = new TextBody(BODY_BYTES)
  #status = 0
  #headers: ResponseHeaders = {}

  constructor(
    resolve: (response: Response) => void,
    reject: (error: TransportError) => void,
    display: string,
  ) {
    this.#resolve = resolve
    this.#reject = reject
    this.#display = display
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
  }

  data(chunk: Buffer): boolean {
    if (this.#body.add(chunk)) return true
    const message = `${this.#display} sent more than ${BODY_BYTES} bytes`
    throw new TransportError('LIMIT', message, { url: this.#display, status: this.#status })
  }

  end(): void {
    const headers = new Headers()
    for (const [name, value] of Object.entries(this.#headers)) {
      for (const one of typeof value === 'string' ? [value] : (value ?? [])) {
        headers.append(name, one)
      }
    }
    const status = this.#status
    const isEmpty = status === 204 || status === 205 || status === 304
    this.#resolve(new Response(isEmpty ? null : this.#body.text(), { status, headers }))
  }

  failed(error: TransportError): void {
    // What `data` threw is the failure itself.
    this.#reject(TransportError.is(error.cause) ? error.cause : error)
  }
}

function headerList(headers: OAuthRequest['headers']): string[] {
  return [...new Headers(headers ?? {})].flat()
}

function abandoned(url: string): TransportError {
  return new TransportError('CLOSED', 'Nobody waits for this authorization any more', { url })
}
