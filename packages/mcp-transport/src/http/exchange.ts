import type { Dispatcher } from 'undici'
import type { ResponseHeaders } from '../headers.ts'
import { TransportError } from '../transport-error.ts'
import { LONG_LIVED, wasUnsent } from './dispatcher.ts'

export interface ExchangeRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly origin: string
  readonly path: string
  /** Endpoint without query, for messages. */
  readonly display: string
  /** Flat list: name, value, name, value. */
  readonly headers: string[]
  readonly body?: string | undefined
  /** A long-lived stream; uses the connections of streams. */
  readonly isLongLived?: boolean | undefined
  /** Time limit until the response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** Time limit between two pieces of the body, in milliseconds; 0 for none. */
  readonly idleMs: number
}

/** Reads a response. Either `end` or `failed` is called once, as the last call. */
export interface ResponseReader {
  head(status: number, headers: ResponseHeaders): void
  /** Returns false to stop reading: the connection is closed, and `end` is called. */
  data(chunk: Buffer): boolean
  end(): void
  failed(error: TransportError): void
}

/** A request in flight: one HTTP exchange, or several attempts of one request. */
export interface Exchange {
  readonly isDone: boolean
  /** True while the exchange waits for the server, and not for credentials. */
  readonly isAwaited: boolean
  /** Ends the exchange and closes the connection. The reader gets `error`, unless the exchange has ended. */
  abort(error: TransportError): void
}

export interface HttpExchangeOptions {
  readonly dispatcher: Dispatcher
  readonly request: ExchangeRequest
  readonly reader: ResponseReader
  /** List of open exchanges. The exchange removes itself before `end` or `failed` of its reader. */
  readonly open?: Exchange[] | undefined
}

const AS_STREAM = { [LONG_LIVED]: true }
const MAX_REDIRECTS = 5
const REDIRECT_BYTES = 64 * 1024

/**
 * One HTTP exchange on undici's `dispatch`, its fastest API. Follows 307 and 308 within the origin, or from
 * http to https of the same host. Other redirects are errors that name the target.
 */
export class HttpExchange implements Exchange, Dispatcher.DispatchHandler {
  readonly #dispatcher: Dispatcher
  readonly #request: ExchangeRequest
  readonly #reader: ResponseReader
  readonly #open: Exchange[] | undefined
  #origin: string
  #path: string
  #controller: Dispatcher.DispatchController | undefined
  #done = false
  /** undici began to write the request: the server may receive it. */
  #started = false
  #status: number | undefined
  #redirect: URL | undefined
  #redirectBytes = 0
  #redirects = 0

  constructor({ dispatcher, request, reader, open }: HttpExchangeOptions) {
    this.#dispatcher = dispatcher
    this.#request = request
    this.#reader = reader
    this.#origin = request.origin
    this.#path = request.path
    this.#open = open
  }

  get isDone(): boolean {
    return this.#done
  }

  get isAwaited(): boolean {
    return !this.#done
  }

  start(): void {
    const { method, headers, body = null, headersMs, idleMs, isLongLived } = this.#request
    const options: Dispatcher.DispatchOptions = {
      origin: this.#origin,
      path: this.#path,
      method,
      headers,
      body,
      headersTimeout: headersMs,
      bodyTimeout: idleMs,
    }
    try {
      this.#dispatcher.dispatch(isLongLived ? { ...options, ...AS_STREAM } : options, this)
    } catch (error) {
      this.#fail(this.#toError(error)) // undici rejected the options: nothing was sent
    }
  }

  abort(error: TransportError): void {
    this.#fail(error)
    this.#controller?.abort(ABORTED)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#started = true
    this.#controller = controller
    if (this.#done) controller.abort(ABORTED)
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
  ): void {
    if (this.#done || status < 200) return
    this.#status = status
    if (status >= 300 && status < 400 && status !== 304) this.#follow(status, headers['location'])
    else this.#head(status, headers)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return
    if (this.#redirect !== undefined) return this.#skipped(chunk)
    try {
      if (this.#reader.data(chunk)) return
      this.#end()
      this.#controller?.abort(ABORTED)
    } catch (error) {
      this.#unreadable(error)
    }
  }

  onResponseEnd(): void {
    if (this.#done) return
    const redirect = this.#redirect
    if (redirect !== undefined) {
      // A server that redirects has not executed the request. The new request starts from the beginning.
      this.#redirect = undefined
      this.#redirectBytes = 0
      this.#started = false
      this.#status = undefined
      this.#origin = redirect.origin
      this.#path = redirect.pathname + redirect.search
      return this.start()
    }
    this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#toError(error))
  }

  #end(): void {
    if (this.#done) return
    this.#done = true
    if (this.#open) removeFrom(this.#open, this)
    this.#reader.end()
  }

  #fail(error: TransportError): void {
    if (this.#done) return
    this.#done = true
    if (this.#open) removeFrom(this.#open, this)
    this.#reader.failed(error)
  }

  #toError(error: unknown): TransportError {
    return toNetworkError(error, {
      url: this.#request.display,
      started: this.#started,
      status: this.#status,
    })
  }

  #head(status: number, headers: ResponseHeaders): void {
    try {
      this.#reader.head(status, headers)
    } catch (error) {
      this.#unreadable(error)
    }
  }

  /** Passes an error of the reader to the reader: undici would treat it as a network failure. */
  #unreadable(cause: unknown): void {
    const url = this.#request.display
    const message = `The response of ${url} could not be read`
    this.abort(new TransportError('UNEXPECTED_RESPONSE', message, { cause, url }))
  }

  /** Reads the body of a redirect, so that the connection can be reused. Limits its size. */
  #skipped(chunk: Buffer): void {
    this.#redirectBytes += chunk.length
    if (this.#redirectBytes <= REDIRECT_BYTES) return
    const { display } = this.#request
    this.abort(
      new TransportError('LIMIT', `${display} redirects with more than ${REDIRECT_BYTES} bytes`, {
        status: this.#status,
        url: display,
      }),
    )
  }

  #follow(status: number, location: string | readonly string[] | undefined): void {
    const { display } = this.#request
    const here = new URL(this.#origin + this.#path)
    const target =
      typeof location === 'string' && URL.canParse(location, here.href)
        ? new URL(location, here)
        : undefined
    const isKept = status === 307 || status === 308
    if (target !== undefined && isKept && isSameServer(here, target)) {
      this.#redirects += 1
      if (this.#redirects <= MAX_REDIRECTS) {
        this.#redirect = target
        return
      }
    }
    const where = target === undefined ? 'nowhere' : target.origin + target.pathname
    this.abort(
      new TransportError(
        'UNEXPECTED_RESPONSE',
        `${display} redirects to ${where}, which is not followed: only 307 and 308 within the origin, at most ${MAX_REDIRECTS} times`,
        { status, url: display },
      ),
    )
  }
}

/** Returns whether the target has the same origin, or the same host with TLS, both on default ports. */
function isSameServer(from: URL, to: URL): boolean {
  if (to.username !== '' || to.password !== '') return false
  if (to.origin === from.origin) return true
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:'
  return isUpgrade && from.port === '' && to.port === '' && from.hostname === to.hostname
}

/** Removes an item from a list. Returns false if it was not in the list. */
export function removeFrom<T>(list: T[], item: T): boolean {
  const index = list.lastIndexOf(item)
  if (index === list.length - 1) return list.pop() !== undefined // unlike splice, allocates no array
  if (index === 0) list.shift()
  else if (index !== -1) list.splice(index, 1)
  return index !== -1
}

const ABORTED = new Error('The exchange was aborted by this side')

interface NetworkErrorContext {
  /** Endpoint without query. */
  readonly url: string
  /** True if undici had begun to write the request. If not, nothing was executed. */
  readonly started: boolean
  readonly status?: number | undefined
}

/** Converts a failure of the network or of undici. */
function toNetworkError(error: unknown, context: NetworkErrorContext): TransportError {
  if (TransportError.is(error)) return error
  const { url, started, status } = context
  const cause = firstCause(error)
  const options = { cause: error, url, status }
  const code = getCode(cause)
  if (code === 'UND_ERR_HEADERS_TIMEOUT') {
    return new TransportError('TIMEOUT', `${url} sent no answer in time`, options)
  }
  if (code === 'UND_ERR_BODY_TIMEOUT') {
    return new TransportError('TIMEOUT', `${url} went silent in the middle of an answer`, options)
  }
  if (code === 'UND_ERR_CLOSED' || code === 'UND_ERR_DESTROYED') {
    return new TransportError('CLOSED', 'The dispatcher of this transport was closed', {
      ...options,
      outcome: started ? 'unknown' : 'not-executed',
    })
  }
  if (code === 'UND_ERR_INVALID_ARG') {
    const message = `The request to ${url} cannot be sent: ${getText(cause)}`
    return new TransportError('CONFIG', message, options)
  }
  if (!started) {
    return new TransportError('UNREACHABLE', `No connection to ${url}: ${getText(cause)}`, options)
  }
  if (wasUnsent(cause)) {
    const message = `The connection to ${url} broke before the whole request was sent: ${getText(cause)}`
    return new TransportError('UNREACHABLE', message, options)
  }
  return new TransportError(
    'OUTCOME_UNKNOWN',
    `The connection to ${url} broke before the answer was complete: ${getText(cause)}`,
    options,
  )
}

/** A failed dual-stack connect is an `AggregateError` without a message; the causes are in `errors`. */
function firstCause(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return firstCause(error.errors[0])
  return error
}

function getCode(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}

function getText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text === '' ? (getCode(error) ?? 'unknown reason') : text
}

const LINGER_MS = 5000

/**
 * Responses that stay open after their answer. A server should end them immediately (2025-11-25, transports).
 * Otherwise each call would occupy a connection, so they are closed after some seconds.
 */
export class Lingering {
  #responses: { readonly exchange: Exchange; readonly since: number }[] = []
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined

  constructor(now: () => number = monotonicMs) {
    this.#now = now
  }

  add(exchange: Exchange): void {
    this.#responses.push({ exchange, since: this.#now() })
    this.#timer ??= setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  /** Called when the response ended. */
  remove(exchange: Exchange): void {
    this.#responses = this.#responses.filter((response) => response.exchange !== exchange)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#cut(() => true)
  }

  #sweep(): void {
    this.#timer = undefined
    const before = this.#now() - LINGER_MS
    this.#cut((since) => since <= before)
    if (this.#responses.length > 0) this.#timer = setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  #cut(isDue: (since: number) => boolean): void {
    const due = this.#responses.filter(({ since }) => isDue(since))
    this.#responses = this.#responses.filter(({ since }) => !isDue(since))
    for (const { exchange } of due) {
      exchange.abort(
        new TransportError('CLOSED', 'The response stayed open after its answer, and was closed'),
      )
    }
  }
}

function monotonicMs(): number {
  return performance.now()
}
