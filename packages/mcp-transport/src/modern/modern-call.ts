import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import type { Exchange } from '../http/exchange.ts'
import type { OpenCall } from '../http/open-calls.ts'
import { takeInputInstructions } from '../json-rpc.ts'
import type {
  InputAnswers,
  InputRequired,
  JsonRpcMessage,
  JsonRpcRequest,
  JsonRpcResponse,
} from '../json-rpc.ts'
import { HEADER_MISMATCH } from '../session-record.ts'
import { errorAnswer } from '../transport-error.ts'
import type { TransportError } from '../transport-error.ts'
import type { CallOptions } from '../transport-options.ts'
import { inputError, mayRequireInput, parseInputRequired } from './inputs.ts'
import type { ModernProtocol } from './modern-protocol.ts'
import { declaresTasks } from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'

const MAX_ROUNDS = 10
const EMPTY_ROUND_MS = 250

/** One request of the client. Sends a new request with the inputs each time the server requires inputs. */
export class ModernCall implements OpenCall {
  readonly request: JsonRpcRequest
  readonly options: CallOptions
  readonly session = undefined
  quietTicks = 0
  failuresBefore = 0
  readonly #protocol: ModernProtocol
  /** Undefined between two rounds, while the call waits for the user. */
  #exchange: Exchange | undefined
  #failure: TransportError | undefined
  #cancellation: AbortController | undefined
  #lastProgress = 0

  constructor(protocol: ModernProtocol, request: JsonRpcRequest, options: CallOptions) {
    this.#protocol = protocol
    this.request = request
    this.options = options
  }

  /** Aborts with the reason when the call ends early. Created on demand, because `fail` aborts the exchange itself. */
  get signal(): AbortSignal {
    this.#cancellation ??= new AbortController()
    if (this.#failure !== undefined) this.#cancellation.abort(this.#failure)
    return this.#cancellation.signal
  }

  get isAwaited(): boolean {
    return this.#exchange?.isAwaited === true
  }

  /** Not known: a call may consist of several requests. */
  get isSent(): boolean {
    return true
  }

  /** Closing the stream cancels the request (2026-07-28, basic/patterns/cancellation). */
  fail(error: TransportError): void {
    this.#failure ??= error
    this.#cancellation?.abort(error)
    this.#exchange?.abort(error)
  }

  /** Called before a request of this call is sent. Returns false if the call has ended. */
  starts(exchange: Exchange): boolean {
    this.#exchange = exchange
    return this.#failure === undefined
  }

  /** Returns the answer for the client, with the client's id. */
  async run(): Promise<JsonRpcResponse> {
    const { request, instructions } = takeInputInstructions(this.request)
    const { id, method } = request
    let { answers } = instructions
    for (let round = 0; ; round++) {
      const outcome = await this.#post(request, answers)
      if (outcome.kind !== 'answered')
        return errorAnswer(id, failureOfRound(outcome.error, answers))
      const { answer } = outcome
      if (!('result' in answer)) return { ...answer, id }
      const { resultType = 'complete', ...result } = answer.result
      if (resultType === 'complete')
        return { jsonrpc: '2.0', id, result: this.#protocol.tools.bridge(request, result) }
      // Unchanged: the client finishes the task.
      if (resultType === 'task' && this.#mayBeTask(method))
        return { jsonrpc: '2.0', id, result: answer.result }
      const required = mayRequireInput(method) ? parseInputRequired(result) : undefined
      if (resultType !== 'input_required') {
        throw inputError(`The server returned an unknown resultType ${JSON.stringify(resultType)}`)
      }
      if (required === undefined) {
        throw inputError(`The server required an input for ${method} in a form that is not allowed`)
      }
      if (instructions.surface === true)
        return { jsonrpc: '2.0', id, result: surfaced(method, required) }
      if (round >= MAX_ROUNDS) {
        throw inputError(`The server required inputs more than ${MAX_ROUNDS} times for one call`)
      }
      answers = await this.#answersTo(required)
    }
  }

  #mayBeTask(method: string): boolean {
    const isTask = method === 'tools/call' || method.startsWith('tasks/')
    return isTask && declaresTasks(this.#protocol.identity)
  }

  async #post(request: JsonRpcRequest, answers: InputAnswers | undefined): Promise<PostOutcome> {
    const { tools } = this.#protocol
    const posted = await this.#postOnce(request, answers)
    const checked = this.#protocol.checked(posted, answers === undefined)
    const outcome = checked instanceof Promise ? await checked : checked
    const isMismatch =
      request.method === 'tools/call' &&
      outcome.kind === 'answered' &&
      'error' in outcome.answer &&
      outcome.answer.error.code === HEADER_MISMATCH
    // The server expects other headers for this tool, and has not executed it.
    if (!isMismatch || !(await tools.refresh(this.signal))) return outcome
    return this.#postOnce(request, answers)
  }

  #postOnce(
    { method, params }: JsonRpcRequest,
    answers: InputAnswers | undefined,
  ): Promise<PostOutcome> {
    const onMessage = (message: JsonRpcMessage): void => this.#received(message)
    return this.#protocol.ask(method, { ...params, ...answers }, { call: this, onMessage })
  }

  #received(message: JsonRpcMessage): void {
    if (this.#failure !== undefined || !('method' in message)) return
    if ('id' in message) return // requests of the server are not allowed here
    if (message.method === 'notifications/progress') {
      const progress = message.params?.['progress']
      if (typeof progress === 'number') this.#lastProgress = progress
    }
    this.#protocol.deliver(message)
  }

  async #answersTo({ inputRequests, requestState }: InputRequired): Promise<InputAnswers> {
    this.#exchange = undefined // its response may stay open
    const { signal } = this
    const state = requestState === undefined ? {} : { requestState }
    if (inputRequests === undefined || Object.keys(inputRequests).length === 0) {
      await sleep(EMPTY_ROUND_MS, undefined, { signal, ref: false }).catch(() => {}) // the next request fails if cancelled
      return state
    }
    const { inputs, identity } = this.#protocol
    const inputResponses = await inputs.gather(inputRequests, identity.capabilities, signal)
    this.#reportProgress()
    return { inputResponses, ...state }
  }

  /** Reports progress, so that the client does not time out while its user answers. */
  #reportProgress(): void {
    const meta = this.request.params?.['_meta']
    const progressToken = isRecord(meta) ? meta['progressToken'] : undefined
    if (progressToken === undefined) return
    const params = { progressToken, progress: this.#lastProgress }
    this.#protocol.deliver({ jsonrpc: '2.0', method: 'notifications/progress', params })
  }
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
