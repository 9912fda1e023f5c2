import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isObject } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, RequestId } from '../json-rpc.ts'
import { errorAnswer } from '../error-answer.ts'
import { Lingering } from '../http/lingering.ts'
import type { CallOptions } from '../legacy/pending-call.ts'
import { TransportError } from '../transport-error.ts'
import { META } from './meta.ts'
import { modernHeaders } from './modern-headers.ts'
import { modernPost } from './modern-post.ts'

export interface PassthroughOptions extends CallOptions {
  /** Aborting it closes the request's stream: that is how it is cancelled. */
  readonly requestSignal?: AbortSignal | undefined
  /** Called when the request's stream ends in any other way. */
  readonly onRequestStreamEnd?: (() => void) | undefined
  /** Further headers of this request, such as `Mcp-Param-*`. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/**
 * Requests of a client that speaks the stateless revision by itself, as the SDK's v2 client can: they go
 * out as they are, with the headers that repeat their bodies, and their answers come back as they are.
 */
export class Passthrough {
  readonly #http: HttpClient
  readonly #deliver: (message: JsonRpcMessage) => void
  readonly #open = new Map<RequestId, Exchange>()
  readonly #lingering = new Lingering()
  #isClosed = false

  constructor(options: { http: HttpClient; deliver: (message: JsonRpcMessage) => void }) {
    this.#http = options.http
    this.#deliver = options.deliver
  }

  send(request: JsonRpcRequest, options: PassthroughOptions): void {
    void this.#post(request, options)
  }

  /** Answers what is open, and closes its streams. */
  close(): void {
    const ids = [...this.#open.keys()]
    for (const id of ids) {
      const error = closed('The transport was closed', this.#http.url.display)
      this.#open.get(id)?.abort(error)
      this.#deliver(errorAnswer(id, error))
    }
    this.#isClosed = true
    this.#open.clear()
    this.#lingering.close()
  }

  async #post(request: JsonRpcRequest, options: PassthroughOptions): Promise<void> {
    const { requestSignal, onRequestStreamEnd, headers = {} } = options
    const url = this.#http.url.display
    const stop = (): void => {
      this.#open.get(request.id)?.abort(closed('The client cancelled the request', url))
    }
    requestSignal?.addEventListener('abort', stop, { once: true })
    const outcome = await modernPost({
      http: this.#http,
      request,
      headers: [...modernHeaders(request, versionOf(request)), ...paramHeaders(headers)],
      headersMs: 0,
      lingering: this.#lingering,
      onMessage: (message) => this.#told(message),
      onExchange: (exchange) => {
        this.#open.set(request.id, exchange)
        return requestSignal?.aborted !== true && !this.#isClosed
      },
    })
    requestSignal?.removeEventListener('abort', stop)
    this.#open.delete(request.id)
    if (requestSignal?.aborted === true || this.#isClosed) return
    if (outcome.kind === 'failed') onRequestStreamEnd?.()
    this.#told(outcome.kind === 'failed' ? errorAnswer(request.id, outcome.error) : outcome.answer)
  }

  #told(message: JsonRpcMessage): void {
    if (!this.#isClosed) this.#deliver(message)
  }
}

function versionOf({ params }: JsonRpcRequest): string {
  const meta = params?.['_meta']
  return isObject(meta) ? String(meta[META.protocolVersion]) : ''
}

/** Of a request's own headers only those that the revision gives to requests. */
function paramHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    name.toLowerCase().startsWith('mcp-param-') ? [name.toLowerCase(), value] : [],
  )
}

function closed(why: string, url: string): TransportError {
  return new TransportError('CLOSED', why, { url })
}
