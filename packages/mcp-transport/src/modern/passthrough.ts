import { isRecord } from '@x/internal'
import { removeFrom } from '../http/exchange.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcMessage, JsonRpcRequest, RequestId } from '../json-rpc.ts'
import { closedError, errorAnswer, toTransportError } from '../transport-error.ts'
import type { PassthroughOptions } from '../transport-options.ts'
import { modernPost, META, modernHeaders } from './modern-post.ts'

/**
 * Requests of a client that speaks the stateless revision, such as SDK v2. They are sent unchanged, with the
 * headers that repeat parts of the body, and their answers are returned unchanged.
 */
export class Passthrough {
  readonly #http: HttpClient
  readonly #deliver: (message: JsonRpcMessage) => void
  readonly #open: OpenRequest[] = []
  #version: string | undefined
  #isClosed = false

  constructor(options: { http: HttpClient; deliver: (message: JsonRpcMessage) => void }) {
    this.#http = options.http
    this.#deliver = options.deliver
  }

  /** Revision of the client's last request; undefined before the first. */
  get version(): string | undefined {
    return this.#version
  }

  send(request: JsonRpcRequest, options: PassthroughOptions): void {
    this.#version = versionOf(request)
    const open: OpenRequest = { id: request.id }
    this.#open.push(open)
    this.#post(request, options, open).catch((error: unknown) => {
      this.#settle(open, () => {
        this.#emit(errorAnswer(request.id, toTransportError(error)))
      })
    })
  }

  /** Answers open requests and closes their streams. */
  close(): void {
    const error = closedError('The transport was closed', this.#http.url.display)
    for (const open of this.#open.splice(0)) {
      this.#emit(errorAnswer(open.id, error))
      open.exchange?.abort(error)
    }
    this.#isClosed = true
  }

  async #post(
    request: JsonRpcRequest,
    options: PassthroughOptions,
    open: OpenRequest,
  ): Promise<void> {
    const { requestSignal, onRequestStreamEnd, headers = {} } = options
    const url = this.#http.url.display
    const stop = (): void =>
      open.exchange?.abort(closedError('The client cancelled the request', url))
    requestSignal?.addEventListener('abort', stop, { once: true })
    const outcome = await modernPost({
      http: this.#http,
      isOfCaller: true,
      request,
      headers: [...modernHeaders(request, versionOf(request)), ...paramHeaders(headers)],
      headersMs: 0,
      onMessage: (message) => this.#emit(message),
      onExchange: (exchange) => {
        open.exchange = exchange
        return requestSignal?.aborted !== true && !this.#isClosed
      },
    })
    requestSignal?.removeEventListener('abort', stop)
    this.#settle(open, () => {
      if (requestSignal?.aborted === true) return
      if (outcome.kind === 'answered') return this.#emit(outcome.answer)
      // First the error with its reason: the end of the stream settles requests without a reason.
      this.#emit(errorAnswer(request.id, outcome.error))
      onRequestStreamEnd?.()
    })
  }

  /** Calls `answer` once for each request, and not after `close`. */
  #settle(open: OpenRequest, answer: () => void): void {
    if (removeFrom(this.#open, open)) answer()
  }

  #emit(message: JsonRpcMessage): void {
    if (!this.#isClosed) this.#deliver(message)
  }
}

/** A request in flight. `exchange` is set when it is sent. */
interface OpenRequest {
  readonly id: RequestId
  exchange?: Exchange
}

function versionOf({ params }: JsonRpcRequest): string {
  const meta = params?.['_meta']
  return isRecord(meta) ? String(meta[META.protocolVersion]) : ''
}

/** Returns the headers of a request that the revision allows for requests. */
function paramHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    name.toLowerCase().startsWith('mcp-param-') ? [name.toLowerCase(), value] : [],
  )
}
