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

/** Takes what arrives before the answer. */
export interface RpcListener {
  /** Called for each piece of the response. */
  activity?(): void
  /** Called with each request or notification of the server, in order. */
  message(message: Exclude<JsonRpcMessage, JsonRpcResponse>): void
}

export interface RpcRequest extends HttpRequest {
  readonly era: Era
  readonly body: JsonRpcRequest
  readonly listener?: RpcListener | undefined
}

const NO_HEADERS: ResponseHeaders = {}
const ANY_STRUCTURE = { hasAnyStructure: true } as const

/** A request of JSON-RPC that is sent by POST, until its answer. It is its own event handler, because each call has one. */
export class RpcExchange implements AnswerHandlers {
  readonly request: RpcRequest
  /** Status of the last response head. 200 before there is one. */
  status = 200
  headers: ResponseHeaders = NO_HEADERS
  /** Last answer in the response that has the id of another request. It is dropped. */
  misrouted: JsonRpcResponse | undefined
  readonly #http: HttpClient
  readonly #onReply: (reply: RpcReply, exchange: RpcExchange) => void
  #exchange: Exchange | undefined
  #isOver = false

  /** @param onReply Called once, synchronously */
  constructor(
    http: HttpClient,
    request: RpcRequest,
    onReply: (reply: RpcReply, exchange: RpcExchange) => void,
  ) {
    this.request = request
    this.#http = http
    this.#onReply = onReply
  }

  /** Sends the request. */
  start(): void {
    this.#exchange = this.#http.send(this.request, this)
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
    this.request.listener?.activity?.()
  }

  head(status: number, headers: ResponseHeaders): void {
    this.status = status
    this.headers = headers
  }

  message(message: JsonRpcMessage): void {
    if (this.#isOver) return
    if (!isResponse(message)) return this.request.listener?.message(message)
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
    this.#onReply(reply, this)
  }
}
