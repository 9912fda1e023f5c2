import type { ResponseHeaders } from '../headers.ts'
import { isAnswerTo, isResponse, repairedAnswer } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import type { Era } from '../session-record.ts'
import type { TransportError } from '../transport-error.ts'
import type { AnswerHandlers, AnswerOutcome } from './answer-reader.ts'
import type { Exchange, HttpRequest } from './exchange.ts'
import type { HttpClient } from './http-client.ts'

/** The answer to a request, or the end of its response without one. */
export type RpcReply =
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | AnswerOutcome

export interface RpcHandlers {
  /** Called for each piece of the response. */
  activity?(): void
  /** Called with each request or notification of the server, up to the answer. */
  message(message: Exclude<JsonRpcMessage, JsonRpcResponse>): void
  /** Called once, synchronously. */
  reply(reply: RpcReply, exchange: RpcExchange): void
}

export interface RpcRequest extends HttpRequest {
  readonly era: Era
  readonly body: JsonRpcRequest
}

const NO_HEADERS: ResponseHeaders = {}
const ANY_STRUCTURE = { hasAnyStructure: true } as const

/** A request of JSON-RPC that is sent by POST, until its answer. It is its own event handler, because each call has one. */
export class RpcExchange implements AnswerHandlers {
  readonly request: RpcRequest
  /** Of the last response head. */
  status = 200
  headers: ResponseHeaders = NO_HEADERS
  /** Last answer in the response that has the id of another request. It is dropped. */
  misrouted: JsonRpcResponse | undefined
  readonly #http: HttpClient
  readonly #handlers: RpcHandlers
  #exchange: Exchange | undefined
  #isOver = false

  constructor(http: HttpClient, request: RpcRequest, handlers: RpcHandlers) {
    this.request = request
    this.#http = http
    this.#handlers = handlers
  }

  /** Sends the request. */
  start(): this {
    this.#exchange = this.#http.send(this.request, this)
    return this
  }

  /** True while the exchange waits for the server, and not for credentials. */
  get isAwaited(): boolean {
    return this.#exchange?.isAwaited === true
  }

  /** Closes the response. */
  abort(reason: TransportError): void {
    this.#exchange?.abort(reason)
  }

  activity(): void {
    this.#handlers.activity?.()
  }

  head(status: number, headers: ResponseHeaders): void {
    this.status = status
    this.headers = headers
  }

  message(message: JsonRpcMessage): void {
    if (this.#isOver) return
    if (!isResponse(message)) return this.#handlers.message(message)
    const { body, era, isLongLived } = this.request
    if (!isAnswerTo(body.id, message)) {
      this.misrouted = message
      return
    }
    const answer = repairedAnswer(body, message, era === 'modern' ? ANY_STRUCTURE : undefined)
    this.#end({ kind: 'answered', answer })
    // A stream of subscriptions need not end after its answer.
    if (isLongLived === true) this.abort(this.#http.closed('The subscription was closed'))
    else this.#http.answered(this.#exchange)
  }

  outcome(outcome: AnswerOutcome): void {
    if (!this.#isOver) this.#end(outcome)
  }

  #end(reply: RpcReply): void {
    this.#isOver = true
    this.#handlers.reply(reply, this)
  }
}
