import { removeFrom } from '@x/internal'
import type { HttpClient } from '../http/http-client.ts'
import { versionOf } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest } from '../json-rpc.ts'
import { errorAnswer, toTransportError } from '../transport-error.ts'
import type { PassthroughOptions } from '../transport-options.ts'
import { modernPost } from './modern-post.ts'

/**
 * Requests of a client that speaks the stateless revision, such as SDK v2. They are sent unchanged, with the
 * headers that repeat parts of the body, and their answers are returned unchanged.
 */
export class Passthrough {
  /** Revision of the client's last request; undefined before the first. */
  version: string | undefined
  readonly #http: HttpClient
  readonly #deliver: (message: JsonRpcMessage) => void
  readonly #open: OpenRequest[] = []
  #isClosed = false

  constructor(options: { http: HttpClient; deliver: (message: JsonRpcMessage) => void }) {
    this.#http = options.http
    this.#deliver = options.deliver
  }

  send(request: JsonRpcRequest, options: PassthroughOptions): void {
    this.version = versionOf(request)
    const open = { id: request.id }
    this.#open.push(open)
    this.#post(request, options, open).catch((error: unknown) => {
      this.#settle(open, errorAnswer(request.id, toTransportError(error)))
    })
  }

  /** Answers open requests. The streams are closed with the HTTP client. */
  close(): void {
    const error = this.#http.closed('The transport was closed')
    for (const open of this.#open.slice()) this.#settle(open, errorAnswer(open.id, error))
    this.#isClosed = true
  }

  async #post(
    request: JsonRpcRequest,
    options: PassthroughOptions,
    open: OpenRequest,
  ): Promise<void> {
    const { requestSignal, onRequestStreamEnd, headers = {} } = options
    const outcome = await modernPost(this.#http, request, {
      isOfCaller: true,
      signal: requestSignal,
      headers: paramHeaders(headers),
      onMessage: (message) => {
        if (!this.#isClosed) this.#deliver(message)
      },
    })
    if (requestSignal?.aborted === true) removeFrom(this.#open, open)
    else if (outcome.kind === 'answered') this.#settle(open, outcome.answer)
    // First the error with its reason: the end of the stream settles requests without a reason.
    else if (this.#settle(open, errorAnswer(open.id, outcome.error))) onRequestStreamEnd?.()
  }

  /** Answers a request once, and not after `close`. */
  #settle(open: OpenRequest, answer: JsonRpcMessage): boolean {
    const isOpen = removeFrom(this.#open, open)
    if (isOpen) this.#deliver(answer)
    return isOpen
  }
}

type OpenRequest = Pick<JsonRpcRequest, 'id'>

/** Returns the headers of a request that the revision allows for requests. */
function paramHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    name.toLowerCase().startsWith('mcp-param-') ? [name.toLowerCase(), value] : [],
  )
}
