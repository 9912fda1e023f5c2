import { setTimeout as sleep } from 'node:timers/promises'
import type { Attempt, Call } from '../calls/call.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Answer, InputAnswers, InputRequired, JsonRpcMessage } from '../json-rpc.ts'
import { HEADER_MISMATCH } from '../session-record.ts'
import type { TransportError } from '../transport-error.ts'
import { answersTo, inputError, mayRequireInput, parseInputRequired } from './inputs.ts'
import { declaresTasks } from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'
import type { ModernServer } from './modern-server.ts'

const MAX_ROUNDS = 10
const EMPTY_ROUND_MS = 250

/** A call in the stateless revision. Sends a new request with the inputs each time the server requires inputs. */
export class ModernAttempt implements Attempt {
  readonly session = undefined
  readonly server: ModernServer
  readonly #call: Call
  /** Undefined between two rounds, while the call waits for the user. */
  exchange: Exchange | undefined
  #end: TransportError | undefined
  #cancellation: AbortController | undefined
  #lastProgress = 0

  constructor(server: ModernServer, call: Call) {
    this.server = server
    this.#call = call
  }

  /** Aborts with the reason when the call ends early. Created on demand, because `close` aborts the exchange itself. */
  get signal(): AbortSignal {
    this.#cancellation ??= new AbortController()
    if (this.#end !== undefined) this.#cancellation.abort(this.#end)
    return this.#cancellation.signal
  }

  get isAwaited(): boolean {
    return this.exchange?.isAwaited === true
  }

  /** Not known: a call may consist of several requests. */
  get isSent(): boolean {
    return true
  }

  check(): ReturnType<NonNullable<Attempt['check']>> {
    return this.server.discovery()
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

  /** @throws TransportError */
  async run(): Promise<Answer> {
    const { request, options } = this.#call
    const { method } = request
    const { answers: given, surface = false } = options.inputs ?? {}
    let answers = given
    for (let round = 0; ; round++) {
      const outcome = await this.#post(answers)
      if (outcome.kind !== 'answered') throw failureOfRound(outcome.error, answers)
      const { answer } = outcome
      if (!('result' in answer)) return answer
      const { resultType = 'complete', ...result } = answer.result
      if (resultType === 'complete') return { result: this.server.tools.bridge(request, result) }
      // Unchanged: the client finishes the task.
      if (resultType === 'task' && this.#mayBeTask(method)) return answer
      const required = mayRequireInput(method) ? parseInputRequired(result) : undefined
      if (resultType !== 'input_required') {
        throw inputError(`The server returned an unknown resultType ${JSON.stringify(resultType)}`)
      }
      if (required === undefined) {
        throw inputError(`The server required an input for ${method} in a form that is not allowed`)
      }
      if (surface) return { result: surfaced(method, required) }
      if (round >= MAX_ROUNDS) {
        throw inputError(`The server required inputs more than ${MAX_ROUNDS} times for one call`)
      }
      answers = await this.#answersTo(required)
    }
  }

  #mayBeTask(method: string): boolean {
    const isTask = method === 'tools/call' || method.startsWith('tasks/')
    return isTask && declaresTasks(this.server.identity)
  }

  async #post(answers: InputAnswers | undefined): Promise<PostOutcome> {
    const { tools } = this.server
    const posted = await this.#postOnce(answers)
    const checked = this.server.checked(posted, answers === undefined)
    const outcome = checked instanceof Promise ? await checked : checked
    const isMismatch =
      this.#call.request.method === 'tools/call' &&
      outcome.kind === 'answered' &&
      'error' in outcome.answer &&
      outcome.answer.error.code === HEADER_MISMATCH
    // The server expects other headers for this tool, and has not executed it.
    if (!isMismatch || !(await tools.refresh(this.signal))) return outcome
    return this.#postOnce(answers)
  }

  #postOnce(answers: InputAnswers | undefined): Promise<PostOutcome> {
    if (this.#end !== undefined) throw this.#end
    const { request, options, id } = this.#call
    const onMessage = (message: JsonRpcMessage): void => this.#received(message)
    const isObserved = options.onProgress !== undefined
    const progressToken = isObserved ? id : undefined
    const sent = { ...request.params, ...answers }
    return this.server.ask(request.method, sent, {
      call: this,
      callHeaders: options.headers,
      onMessage,
      progressToken,
    })
  }

  #received(message: JsonRpcMessage): void {
    if (this.#end !== undefined || !('method' in message)) return
    if ('id' in message) return // requests of the server are not allowed here
    const { options } = this.#call
    if (message.method !== 'notifications/progress') {
      const { onNotification = this.server.parts.onNotification } = options
      return this.server.parts.guard(() => onNotification(message))
    }
    const progress = message.params?.['progress']
    if (typeof progress === 'number') this.#lastProgress = progress
    this.server.parts.guard(() => options.onProgress?.(message.params ?? {}))
  }

  async #answersTo({ inputRequests, requestState }: InputRequired): Promise<InputAnswers> {
    this.exchange = undefined // its response may stay open
    const { signal } = this
    const state = requestState === undefined ? {} : { requestState }
    if (inputRequests === undefined || Object.keys(inputRequests).length === 0) {
      await sleep(EMPTY_ROUND_MS, undefined, { signal, ref: false }).catch(() => {}) // the next request fails if cancelled
      return state
    }
    const { parts, identity } = this.server
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
