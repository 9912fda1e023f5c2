import { Readable } from 'node:stream'
import { Dispatcher, errors } from 'undici'

/** Answers a request without a network. */
export type RequestHandler = (request: Request) => Response | Promise<Response>

/**
 * Creates an undici dispatcher that calls `handler` instead of a server: no port, no socket, any origin. Bodies
 * stream in both directions. If the handler throws, the connection breaks after the request was sent. If the
 * caller aborts, `request.signal` aborts.
 */
export function handlerDispatcher(handler: RequestHandler): Dispatcher {
  return new HandlerDispatcher(handler)
}

class HandlerDispatcher extends Dispatcher {
  readonly #handler: RequestHandler
  readonly #exchanges = new Map<Exchange, Promise<void>>()
  #closed = false

  constructor(handler: RequestHandler) {
    super()
    this.#handler = handler
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const exchange = new Exchange(handler)
    if (this.#closed) {
      exchange.abort(new errors.ClientClosedError())
      return false
    }
    const done = exchange
      .run(this.#handler, options)
      .finally(() => this.#exchanges.delete(exchange))
    this.#exchanges.set(exchange, done)
    return true
  }

  override close(callback?: () => void): Promise<void> & void {
    this.#closed = true
    return settled(Promise.allSettled(this.#exchanges.values()), callback)
  }

  override destroy(...args: unknown[]): Promise<void> & void {
    this.#closed = true
    const [error] = args.filter((arg) => arg instanceof Error)
    const callback = args.find((arg): arg is () => void => typeof arg === 'function')
    for (const exchange of this.#exchanges.keys()) {
      exchange.abort(error ?? new errors.ClientDestroyedError())
    }
    return settled(Promise.allSettled(this.#exchanges.values()), callback)
  }
}

/** Supports both forms of undici: a promise, and an optional callback. */
function settled(all: Promise<unknown>, callback?: () => void): Promise<void> & void {
  const done = async (): Promise<void> => {
    await all
    callback?.()
  }
  return done() as Promise<void> & void
}

/** One request and its answer. Serves as the controller of undici. */
class Exchange implements Dispatcher.DispatchController {
  rawHeaders: string[] | null = null
  rawTrailers: string[] | null = null
  paused = false
  readonly #handler: Dispatcher.DispatchHandler
  readonly #abort = new AbortController()
  readonly #aborted = new Promise<undefined>((resolve) => {
    this.#abort.signal.addEventListener('abort', () => resolve(undefined))
  })
  #over = false
  #resumed: (() => void) | undefined

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler
  }

  get aborted(): boolean {
    return this.#abort.signal.aborted
  }

  get reason(): Error | null {
    return this.aborted ? (this.#abort.signal.reason as Error) : null
  }

  abort(reason?: Error): void {
    this.#fail(reason ?? new errors.RequestAbortedError())
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
    this.#resumed?.()
  }

  /** Never rejects: the handler gets all errors. */
  async run(answer: RequestHandler, options: Dispatcher.DispatchOptions): Promise<void> {
    await Promise.resolve() // like a real one, never before `dispatch` has returned
    if (this.#over) return
    try {
      this.#handler.onRequestStart?.(this, null)
      if (this.#over) return
      const response = await this.#unlessAborted(
        Promise.resolve(answer(requestFrom(options, this.#abort.signal))),
      )
      if (response === undefined) return
      this.rawHeaders = [...response.headers].flat()
      this.#handler.onResponseStart?.(
        this,
        response.status,
        headersFrom(response.headers),
        response.statusText,
      )
      await this.#body(response)
      if (this.#over) return
      this.#over = true
      this.#handler.onResponseEnd?.(this, {})
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error), { cause: error }))
    }
  }

  async #body(response: Response): Promise<void> {
    if (response.body === null) return
    const reader = response.body.getReader()
    try {
      while (!this.#over) {
        if (this.paused) {
          await this.#unlessAborted(new Promise<void>((resolve) => (this.#resumed = resolve)))
          continue
        }
        const read = await this.#unlessAborted(reader.read())
        if (read === undefined || read.done) return
        this.#handler.onResponseData?.(this, Buffer.from(read.value))
      }
    } finally {
      reader.cancel(this.reason).catch(() => {})
    }
  }

  /** Resolves with the value, or with `undefined` as soon as the exchange is aborted. */
  async #unlessAborted<Value>(promise: Promise<Value>): Promise<Value | undefined> {
    const { signal } = this.#abort
    try {
      return await Promise.race([promise, this.#aborted])
    } catch (error) {
      if (signal.aborted) return undefined
      throw error
    }
  }

  #fail(error: Error): void {
    if (this.#over) return
    this.#over = true
    this.#abort.abort(error)
    this.#handler.onResponseError?.(this, error)
  }
}

function requestFrom(options: Dispatcher.DispatchOptions, signal: AbortSignal): Request {
  const { origin, path, method, body, headers } = options
  if (origin === undefined) throw new errors.InvalidArgumentError('`origin` is missing')
  const init = { method, headers: requestHeadersFrom(headers), signal }
  if (body === undefined || body === null) return new Request(new URL(path, origin), init)
  const sent = body instanceof Readable ? ReadableStream.from(bytesOf(body)) : body
  return new Request(new URL(path, origin), {
    ...init,
    body: sent as NonNullable<RequestInit['body']>,
    duplex: 'half',
  })
}

async function* bytesOf(body: Readable): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) yield Buffer.from(chunk as string | Uint8Array)
}

function requestHeadersFrom(headers: Dispatcher.DispatchOptions['headers']): Headers {
  const result = new Headers()
  const all = headers ?? []
  const isFlat = Array.isArray(all) && typeof all[0] === 'string'
  const pairs = isFlat
    ? Array.from({ length: all.length / 2 }, (_, index) => [all[2 * index], all[2 * index + 1]])
    : Symbol.iterator in all
      ? Array.from(all as Iterable<[string, unknown]>)
      : Object.entries(all)
  for (const [name, value] of pairs) {
    for (const one of [value ?? []].flat()) result.append(String(name), one as string)
  }
  return result
}

/** Headers as undici passes them: names in lower case, several cookies as a list. */
function headersFrom(headers: Headers): Record<string, string | string[]> {
  const cookies = headers.getSetCookie()
  const result: Record<string, string | string[]> = Object.fromEntries(headers)
  return cookies.length > 0 ? { ...result, 'set-cookie': cookies } : result
}
