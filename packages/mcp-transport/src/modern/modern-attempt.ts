import { setTimeout as sleep } from 'node:timers/promises'
import type { Attempt, Call } from '../calls/call.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import type { RpcExchange, RpcListener } from '../http/rpc-exchange.ts'
import { withProgressToken } from '../json-rpc.ts'
import type {
  Answer,
  InputAnswers,
  InputRequired,
  JsonRpcNotification,
  JsonRpcRequest,
} from '../json-rpc.ts'
import { HEADER_MISMATCH } from '../session-record.ts'
import { toTransportError } from '../transport-error.ts'
import type { TransportError } from '../transport-error.ts'
import { answersTo, inputError, mayRequireInput, parseInputRequired } from './inputs.ts'
import { declaresTasks, modernPost } from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'
import type { ModernServer } from './modern-server.ts'

/** Limit of rounds of inputs in one call. Handlers answer at once, so a server that keeps asking would never end. */
const MAX_INPUT_ROUNDS = 10
const EMPTY_ROUND_MS = 250

/** A call in the stateless revision. Sends a new request with the inputs each time the server requires inputs. */
export class ModernAttempt implements Attempt, RpcListener {
  readonly session = undefined
  /** Undefined for a request of a client that speaks this revision itself, such as SDK v2. Such a call is never checked. */
  readonly server: ModernServer | undefined
  readonly #parts: ConnectionParts
  readonly #call: Call
  /** Undefined between two rounds, while the call waits for the user. */
  exchange: RpcExchange | undefined
  #end: TransportError | undefined
  #cancellation: AbortController | undefined
  #lastProgress = 0

  constructor(parts: ConnectionParts, call: Call, server?: ModernServer) {
    this.server = server
    this.#parts = parts
    this.#call = call
  }

  /** Aborts with the reason when the call ends early. Created on demand, because `close` aborts the exchange itself. */
  get signal(): AbortSignal {
    this.#cancellation ??= new AbortController()
    if (this.#end !== undefined) this.#cancellation.abort(this.#end)
    return this.#cancellation.signal
  }

  get isAwaited(): boolean {
    return this.server !== undefined && this.exchange?.isAwaited === true
  }

  /** Not known: a call may consist of several requests. */
  get isSent(): boolean {
    return true
  }

  check(): ReturnType<NonNullable<Attempt['check']>> {
    return this.server?.discovery()
  }

  /** Closing the stream cancels the request (2026-07-28, basic/patterns/cancellation). */
  close(reason: TransportError): void {
    this.#end ??= reason
    this.#cancellation?.abort(reason)
    this.exchange?.abort(reason)
  }

  activity(): void {
    this.#call.quietTicks = 0
  }

  settle(answer: Promise<Answer>): void {
    const { calls } = this.#parts
    answer.then(
      (given) => calls.settle(this.#call, this, given),
      (error: unknown) => calls.settle(this.#call, this, toTransportError(error)),
    )
  }

  /**
   * Sends a request as it is, and returns its answer unchanged.
   *
   * @param headers Headers that the client adds. Those that the revision does not allow for requests are left out
   * @throws TransportError
   */
  async forward(
    request: JsonRpcRequest,
    headers: Readonly<Record<string, string>>,
  ): Promise<Answer> {
    const sent = { isOfCaller: true, headers: paramHeaders(headers), listener: this }
    const outcome = await modernPost(this.#parts.http, request, sent)
    if (outcome.kind === 'answered') return outcome.answer
    throw outcome.error
  }

  /** Sends the requests of a call. @throws TransportError */
  async run(server: ModernServer): Promise<Answer> {
    const { request, options } = this.#call
    const { method } = request
    const { answers: given, surface = false } = options.inputs ?? {}
    let answers = given
    for (let round = 0; ; round++) {
      const posted = await this.#post(server, answers)
      const isFirst = answers === undefined
      const checked = server.checked(posted, isFirst)
      let outcome = checked instanceof Promise ? await checked : checked
      // The server expects other headers for this tool, and has not executed it.
      if (isHeaderMismatch(method, outcome) && (await server.tools.refresh(this.signal)))
        outcome = await this.#post(server, answers)
      if (outcome.kind !== 'answered') throw failureOfRound(outcome.error, answers)
      const { answer } = outcome
      if (!('result' in answer)) return answer
      if (answer.result['resultType'] === undefined)
        return { result: server.tools.bridge(request, answer.result) }
      const { resultType, ...result } = answer.result
      if (resultType === 'complete') return { result: server.tools.bridge(request, result) }
      // Unchanged: the client finishes the task.
      if (resultType === 'task' && mayBeTask(method, server)) return answer
      const required = mayRequireInput(method) ? parseInputRequired(result) : undefined
      if (resultType !== 'input_required') {
        throw inputError(`The server returned an unknown resultType ${JSON.stringify(resultType)}`)
      }
      if (required === undefined) {
        throw inputError(`The server required an input for ${method} in a form that is not allowed`)
      }
      if (surface) return { result: surfaced(method, required) }
      if (round >= MAX_INPUT_ROUNDS) {
        throw inputError(
          `The server required inputs more than ${MAX_INPUT_ROUNDS} times for one call`,
        )
      }
      answers = await this.#answersTo(server, required)
    }
  }

  #post(server: ModernServer, answers: InputAnswers | undefined): Promise<PostOutcome> {
    if (this.#end !== undefined) throw this.#end
    const { request, options, id } = this.#call
    const { onProgress, headers: callHeaders } = options
    let { params } = request
    if (answers !== undefined) params = { ...params, ...answers }
    if (onProgress !== undefined) params = withProgressToken(params, id)
    return server.ask(request.method, params, { callHeaders, listener: this })
  }

  message(message: JsonRpcRequest | JsonRpcNotification): void {
    if (this.#end !== undefined || 'id' in message) return // requests of the server are not allowed here
    const { options } = this.#call
    if (this.server === undefined || message.method !== 'notifications/progress') {
      const { onNotification = this.#parts.onNotification } = options
      return this.#parts.guard(() => onNotification(message))
    }
    const progress = message.params?.['progress']
    if (typeof progress === 'number') this.#lastProgress = progress
    this.#parts.guard(() => options.onProgress?.(message.params ?? {}))
  }

  async #answersTo(
    { identity }: ModernServer,
    { inputRequests, requestState }: InputRequired,
  ): Promise<InputAnswers> {
    this.exchange = undefined // its response may stay open
    const { signal } = this
    const state = requestState === undefined ? {} : { requestState }
    if (inputRequests === undefined || Object.keys(inputRequests).length === 0) {
      await sleep(EMPTY_ROUND_MS, undefined, { signal, ref: false }).catch(() => {}) // the next request fails if cancelled
      return state
    }
    const parts = this.#parts
    const { onServerRequest = parts.onServerRequest, onProgress } = this.#call.options
    const inputResponses = await answersTo(inputRequests, {
      capabilities: identity.capabilities,
      signal,
      onServerRequest,
    })
    // So that the client does not time out while its user answers.
    parts.guard(() => onProgress?.({ progress: this.#lastProgress }))
    return { inputResponses, ...state }
  }
}

function mayBeTask(method: string, { identity }: ModernServer): boolean {
  return (method === 'tools/call' || method.startsWith('tasks/')) && declaresTasks(identity)
}

function isHeaderMismatch(method: string, outcome: PostOutcome): boolean {
  if (method !== 'tools/call' || outcome.kind !== 'answered') return false
  return 'error' in outcome.answer && outcome.answer.error.code === HEADER_MISMATCH
}

function paramHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    name.toLowerCase().startsWith('mcp-param-') ? [name.toLowerCase(), value] : [],
  )
}

/** Returns an empty result of the method plus the required inputs, so that it passes the client's schema. */
function surfaced(method: string, required: InputRequired): Readonly<Record<string, unknown>> {
  const list =
    method === 'tools/call' ? 'content' : method === 'prompts/get' ? 'messages' : 'contents'
  return { [list]: [], resultType: 'input_required', ...required }
}

/** From the second round on, the server has executed a part of the call. */
function failureOfRound(error: TransportError, answers: InputAnswers | undefined): TransportError {
  if (answers === undefined) return error
  const message = `${error.message} (in a later round of the call)`
  return error.with({ message, outcome: 'unknown', resume: answers })
}
