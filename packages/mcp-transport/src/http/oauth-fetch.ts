import type { Dispatcher } from 'undici'
import type { FetchFunction } from '../auth/authorizer.ts'
import { TransportError } from '../transport-error.ts'
import { HttpExchange } from './exchange.ts'
import type { ResponseHeaders, ResponseReader } from './exchange.ts'
import { TextBody } from './text-body.ts'

const BODY_BYTES = 1024 * 1024

/**
 * `fetch` for metadata and authorization servers, over the transport's dispatcher: follows redirects only within
 * the origin, limits time (`requestMs`, body included) and size, and shows no query in errors. Sends only the
 * headers that it is given: no header of the transport's user.
 */
export function createOAuthFetch(dispatcher: Dispatcher, requestMs = 30_000): FetchFunction {
  return async function oauthFetch(input, init = {}) {
    const { body, signal } = init
    if (body != null && typeof body !== 'string' && !(body instanceof URLSearchParams)) {
      throw new TypeError('The body must be a string or URLSearchParams')
    }
    const url = new URL(input)
    const display = url.origin + url.pathname
    if (signal?.aborted === true) throw abandoned(display)
    return new Promise<Response>((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', stop)
      }
      const exchange = new HttpExchange({
        dispatcher,
        request: {
          method: init.method === 'POST' ? 'POST' : 'GET',
          origin: url.origin,
          path: url.pathname + url.search,
          display,
          headers: [...new Headers(init.headers)].flat(),
          body: body == null ? undefined : String(body),
          headersMs: 0, // one timer for the whole request
          idleMs: 0,
        },
        reader: new WholeResponse({
          display,
          resolve(response) {
            settle()
            resolve(response)
          },
          reject(error) {
            settle()
            reject(error)
          },
        }),
      })
      const stop = (): void => exchange.abort(abandoned(display))
      const timer = setTimeout(() => {
        const message = `${display} did not answer within ${requestMs} ms`
        exchange.abort(new TransportError('TIMEOUT', message, { url: display }))
      }, requestMs)
      timer.unref()
      signal?.addEventListener('abort', stop, { once: true })
      exchange.start()
    })
  }
}

/** A response with the headers that undici gives. */
export function responseFrom(status: number, headers: ResponseHeaders, text: string): Response {
  const isEmpty = status === 204 || status === 205 || status === 304
  const response = new Response(isEmpty ? null : text, { status })
  for (const [name, value] of Object.entries(headers)) {
    for (const one of typeof value === 'string' ? [value] : (value ?? [])) {
      response.headers.append(name, one)
    }
  }
  return response
}

interface WholeResponseOptions {
  readonly display: string
  readonly resolve: (response: Response) => void
  readonly reject: (error: TransportError) => void
}

class WholeResponse implements ResponseReader {
  readonly #options: WholeResponseOptions
  readonly #body = new TextBody(BODY_BYTES)
  #status = 0
  #headers: ResponseHeaders = {}

  constructor(options: WholeResponseOptions) {
    this.#options = options
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
  }

  data(chunk: Buffer): boolean {
    if (this.#body.add(chunk)) return true
    const { display: url } = this.#options
    const message = `${url} sent more than ${BODY_BYTES} bytes`
    throw new TransportError('LIMIT', message, { url, status: this.#status })
  }

  end(): void {
    this.#options.resolve(responseFrom(this.#status, this.#headers, this.#body.text()))
  }

  failed(error: TransportError): void {
    // An error that `data` threw arrives as the cause.
    this.#options.reject(TransportError.is(error.cause) ? error.cause : error)
  }
}

function abandoned(url: string): TransportError {
  return new TransportError('CLOSED', 'No request waits for this authorization any more', { url })
}
