import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { WaitingCall } from '../http/silence.ts'
import { INTERNAL_ERROR } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcRequest,
  JsonRpcResponse,
  JsonRpcResult,
  RequestId,
  InputAnswers,
  InputRequired,
} from '../json-rpc.ts'
import { errorAnswer, TransportError, closedError } from '../transport-error.ts'
import type { Timeouts } from '../transport-options.ts'
import { InputError, parseInputRequired, mayRequireInput } from './inputs.ts'
import type { ClientInputs, InputInstructions } from './inputs.ts'
import { modernPost, withIdentity, modernHeaders } from './modern-post.ts'
import type { PostOutcome, ClientIdentity } from './modern-post.ts'
import type { ToolCatalog } from './tools.ts'

/** The parts of `ModernProtocol` that a call uses. */
export interface ModernCallHost {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly identity: ClientIdentity
  readonly tools: ToolCatalog
  readonly inputs: ClientInputs
  /** Returns a new request id. */
  nextId(): RequestId
  /**
   * Returns the outcome of a request; `SESSION_LOST` if the server has changed to another era.
   *
   * @param isFirst No part of the call was executed before this request
   */
  checked(outcome: PostOutcome, isFirst: boolean): PostOutcome | Promise<PostOutcome>
  deliver(message: JsonRpcMessage): void
}

export interface ModernCallOptions {
  readonly request: JsonRpcRequest
  readonly host: ModernCallHost
  readonly instructions: InputInstructions
}

const MAX_ROUNDS = 10
/** Delay before a round without inputs. */
const EMPTY_ROUND_MS = 250
const HEADER_MISMATCH = -32020

/** One request of the client. Sends a new request with the inputs each time the server requires inputs. */
export class ModernCall implements WaitingCall {
  quietTicks = 0
  readonly #request: JsonRpcRequest
  readonly #host: ModernCallHost
  readonly #instructions: InputInstructions
  readonly #cancellation = new Cancellation()
  #exchange: Exchange | undefined
  #lastProgress = 0

  constructor({ request, host, instructions }: ModernCallOptions) {
    this.#request = request
    this.#host = host
    this.#instructions = instructions
  }

  /** Between two rounds, the call waits for the user. */
  get isAwaited(): boolean {
    return this.#exchange?.isAwaited === true
  }

  fail(error: TransportError): void {
    this.cancel(error)
  }

  /** Closing the stream cancels the request (2026-07-28, basic/patterns/cancellation). */
  cancel(reason: TransportError): void {
    this.#cancellation.cancel(reason)
    this.#exchange?.abort(reason)
  }

  /** Returns the answer for the client, with the client's id. */
  async run(): Promise<JsonRpcResponse> {
    const { id, method } = this.#request
    let answers = this.#instructions.answers
    try {
      for (let round = 0; ; round++) {
        const outcome = await this.#post(answers)
        if (outcome.kind === 'failed')
          return errorAnswer(id, failureOfRound(outcome.error, answers))
        const { answer } = outcome
        if (!('result' in answer)) return { ...answer, id }
        const { resultType = 'complete' } = answer.result
        if (resultType === 'complete') return this.#complete(answer)
        if (resultType !== 'input_required') {
          return this.#internal(
            `The server returned an unknown resultType ${JSON.stringify(resultType)}`,
          )
        }
        const required = mayRequireInput(method) ? parseInputRequired(answer.result) : undefined
        if (required === undefined) {
          return this.#internal(
            `The server required an input for ${method} in a form that is not allowed`,
          )
        }
        if (this.#instructions.surface === true) return this.#surfaced(required)
        if (round >= MAX_ROUNDS) {
          return this.#internal(
            `The server required inputs more than ${MAX_ROUNDS} times for one call`,
          )
        }
        answers = await this.#answersTo(required)
      }
    } catch (error) {
      if (error instanceof InputError) return this.#unfinished(error.code, error.message)
      throw error
    }
  }

  async #post(answers: InputAnswers | undefined): Promise<PostOutcome> {
    const { tools } = this.#host
    const posted = await this.#postOnce(answers)
    // Releases the exchange early: otherwise garbage collection keeps 5 KB per call longer (measured).
    this.#exchange = undefined
    const checked = this.#host.checked(posted, answers === undefined)
    const outcome = checked instanceof Promise ? await checked : checked
    const isMismatch =
      this.#request.method === 'tools/call' &&
      outcome.kind === 'answered' &&
      'error' in outcome.answer &&
      outcome.answer.error.code === HEADER_MISMATCH
    // The server expects other headers for this tool, and has not executed it.
    if (!isMismatch || !(await tools.refresh(this.#cancellation.signal))) return outcome
    return this.#postOnce(answers)
  }

  #postOnce(answers: InputAnswers | undefined): Promise<PostOutcome> {
    const { http, timeouts, identity, tools } = this.#host
    const { reason } = this.#cancellation
    if (reason !== undefined) return Promise.resolve({ kind: 'failed', error: reason })
    const { method, params } = this.#request
    const request: JsonRpcRequest = {
      jsonrpc: '2.0',
      id: this.#host.nextId(),
      method,
      params: { ...withIdentity(params, identity), ...answers },
    }
    const { protocolVersion } = identity
    return modernPost({
      http,
      isOfCaller: true,
      request,
      headers: modernHeaders(request, protocolVersion, tools.getHeaders(params?.['name'])),
      headersMs: timeouts.headersMs,
      onActivity: () => {
        this.quietTicks = 0
      },
      onMessage: (message) => this.#received(message),
      onExchange: (exchange) => {
        this.#exchange = exchange
        return this.#cancellation.reason === undefined
      },
    })
  }

  #received(message: JsonRpcMessage): void {
    if (this.#cancellation.reason !== undefined || !('method' in message)) return
    if ('id' in message) return // requests of the server are not allowed here
    if (message.method === 'notifications/progress') {
      const progress = message.params?.['progress']
      if (typeof progress === 'number') this.#lastProgress = progress
    }
    this.#host.deliver(message)
  }

  #complete(answer: JsonRpcResult): JsonRpcResponse {
    const { resultType: _resultType, ...result } = answer.result
    const { id } = this.#request
    return { jsonrpc: '2.0', id, result: this.#host.tools.bridge(this.#request, result) }
  }

  /** Returns an empty result of the method plus the required inputs, so that it passes the client's schema. */
  #surfaced(required: InputRequired): JsonRpcResponse {
    const { id, method } = this.#request
    const empty =
      method === 'tools/call'
        ? { content: [] }
        : method === 'prompts/get'
          ? { messages: [] }
          : { contents: [] }
    return { jsonrpc: '2.0', id, result: { ...empty, resultType: 'input_required', ...required } }
  }

  async #answersTo({ inputRequests, requestState }: InputRequired): Promise<InputAnswers> {
    const { signal } = this.#cancellation
    const state = requestState === undefined ? {} : { requestState }
    if (inputRequests === undefined || Object.keys(inputRequests).length === 0) {
      await sleep(EMPTY_ROUND_MS, undefined, { signal, ref: false }).catch(() => {}) // the next request fails if cancelled
      return state
    }
    const { inputs, identity } = this.#host
    const inputResponses = await inputs.gather(inputRequests, identity.capabilities, signal)
    this.#reportProgress()
    return { inputResponses, ...state }
  }

  /** Reports progress, so that the client does not time out while its user answers. */
  #reportProgress(): void {
    const meta = this.#request.params?.['_meta']
    const progressToken = isRecord(meta) ? meta['progressToken'] : undefined
    if (progressToken === undefined) return
    const params = { progressToken, progress: this.#lastProgress }
    this.#host.deliver({ jsonrpc: '2.0', method: 'notifications/progress', params })
  }

  #internal(message: string): JsonRpcResponse {
    return this.#unfinished(INTERNAL_ERROR, message)
  }

  /** The server has executed a part of the call, and it cannot be continued. */
  #unfinished(code: number, message: string): JsonRpcResponse {
    const serverError = { code, message }
    return errorAnswer(this.#request.id, new TransportError('REJECTED', message, { serverError }))
  }
}

/** From the second round on, the server has executed a part of the call. */
function failureOfRound(error: TransportError, answers: InputAnswers | undefined): TransportError {
  if (answers === undefined) return error
  const message = `${error.message} (in a later round of the call)`
  return error.with({ message, outcome: 'unknown', resume: answers })
}

export interface OwnRequest {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  /** Aborting it closes the stream, which cancels the request (2026-07-28, basic/patterns/cancellation). */
  readonly signal: AbortSignal
}

/** Sends a request of the transport, which no client made. Does not reject for failures of the server. */
export async function ownRequest(
  host: Omit<ModernCallHost, 'tools' | 'inputs' | 'deliver' | 'checked'>,
  { method, params, signal }: OwnRequest,
): Promise<PostOutcome> {
  const { http, timeouts, identity } = host
  const request = {
    jsonrpc: '2.0',
    id: host.nextId(),
    method,
    params: withIdentity(params, identity),
  } as const
  let exchange: Exchange | undefined
  const stop = (): void => {
    const url = http.url.display
    exchange?.abort(closedError('The client cancelled the request', url))
  }
  signal.addEventListener('abort', stop, { once: true })
  const outcome = await modernPost({
    http,
    isOfCaller: true,
    request,
    headers: modernHeaders(request, identity.protocolVersion),
    headersMs: timeouts.headersMs,
    onMessage: () => {},
    onExchange: (started) => {
      exchange = started
      return !signal.aborted
    },
  })
  signal.removeEventListener('abort', stop)
  return outcome
}

/**
 * Holds the reason of a cancellation. Creates an `AbortSignal` only on demand: most requests end before, and a
 * signal uses more memory than all other data of a request.
 */
export class Cancellation {
  #reason: TransportError | undefined
  #controller: AbortController | undefined

  /** Reason of the first `cancel`. */
  get reason(): TransportError | undefined {
    return this.#reason
  }

  get signal(): AbortSignal {
    const controller = (this.#controller ??= new AbortController())
    if (this.#reason !== undefined) controller.abort(this.#reason)
    return controller.signal
  }

  cancel(reason: TransportError): void {
    this.#reason ??= reason
    this.#controller?.abort(this.#reason)
  }
}
