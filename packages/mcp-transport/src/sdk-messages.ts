import { isRecord, removeFrom } from '@x/internal'
import type { Call, CallOptions, ServerRequest } from './calls/call.ts'
import { versionOf } from './json-rpc.ts'
import type {
  Answer,
  InputRequest,
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from './json-rpc.ts'
import type { ConnectionOwner, McpConnection } from './mcp-connection.ts'
import { toResponse, toTransportError, TransportError } from './transport-error.ts'
import type { SendOptions } from './transport-options.ts'

/** The callbacks that a client of the SDK sets. */
interface SdkCallbacks {
  readonly onmessage?: ((message: JsonRpcMessage) => void) | undefined
  readonly onerror?: ((error: Error) => void) | undefined
}

/** A call, and the id that the client has given it. */
interface SdkCall {
  readonly id: RequestId
  readonly call: Call
}

interface Delivery {
  readonly id: RequestId
  readonly outcome: Answer | TransportError
  /** Called after the answer was delivered. */
  readonly onAnswered: ((isFailed: boolean) => void) | undefined
}

const SOON = Promise.resolve()

/** A connection of a client of the SDK. The client matches all messages by its own ids. Used once, like the connection. */
export class SdkMessages {
  readonly connection: McpConnection
  readonly #callbacks: SdkCallbacks
  /** Calls without an answer. No `Map`: see `removeFrom()`. */
  readonly #calls: SdkCall[] = []
  /** Answers, for the next microtask. */
  #deliveries: Delivery[] = []
  #initializing: { readonly id: RequestId; readonly controller: AbortController } | undefined
  /** Requests of the server, by the ids that the client gets. */
  readonly #questions = new Map<RequestId, ServerRequest>()
  #lastQuestion = 0

  constructor(
    callbacks: SdkCallbacks,
    connect: (handlers: Omit<ConnectionOwner, 'sessionInfo'>) => McpConnection,
  ) {
    this.#callbacks = callbacks
    this.connection = connect({
      onNotification: (notification) => this.#deliver(notification),
      onServerRequest: (request) => this.#ask(request),
      onError: (error) => this.#report(error),
    })
  }

  // Messages of the client.

  /** Sends a request. Its answer or its failure is delivered to the client. */
  request(message: JsonRpcRequest, options: SendOptions): Promise<void> | void {
    if (versionOf(message) !== undefined) return this.#forward(message, options)
    if (message.method === 'initialize') return this.#initialize(message)
    const { resumptionToken, onresumptiontoken } = options
    const { params, progressToken } = withoutProgressToken(message)
    const onProgress = progressToken === undefined ? undefined : this.#onProgress(progressToken)
    const callOptions = { resumptionToken, onresumptiontoken, onProgress }
    return this.connection.send(this.#createCall({ ...message, params }, callOptions).call)
  }

  #onProgress(progressToken: unknown): CallOptions['onProgress'] {
    return (progress) => {
      const params = { ...progress, progressToken }
      this.#deliver({ jsonrpc: '2.0', method: 'notifications/progress', params })
    }
  }

  /** Sends a request of a client that speaks the stateless revision itself, as it is. */
  #forward(request: JsonRpcRequest, options: SendOptions): void {
    const { requestSignal: signal, onRequestStreamEnd, headers } = options
    const drop = (): void => {
      if (removeFrom(this.#calls, open)) void this.connection.cancel(open.call)
    }
    const open = this.#createCall(request, {}, (isFailed) => {
      signal?.removeEventListener('abort', drop)
      if (isFailed) this.#guard(() => onRequestStreamEnd?.())
    })
    if (signal?.aborted === true) return drop()
    signal?.addEventListener('abort', drop, { once: true })
    this.connection.forward(open.call, request, { version: versionOf(request) ?? '', headers })
  }

  #createCall(
    { id, method, params }: JsonRpcRequest,
    options: CallOptions,
    onAnswered?: Delivery['onAnswered'],
  ): SdkCall {
    const call = this.connection.createCall({ method, params }, options, (outcome) => {
      removeFrom(this.#calls, open)
      this.#deliveries.push({ id, outcome, onAnswered })
      if (this.#deliveries.length === 1) void SOON.then(this.#deliverAnswers)
    })
    const open = { id, call }
    this.#calls.push(open)
    return open
  }

  async #initialize({ id, params }: JsonRpcRequest): Promise<void> {
    const initializing = { id, controller: new AbortController() }
    this.#initializing = initializing
    const { signal } = initializing.controller
    const answer = await this.connection.open(params, { signal }).catch(toTransportError)
    if (this.#initializing !== initializing || answer === undefined) return
    this.#initializing = undefined
    this.#deliver(toResponse(id, answer))
  }

  /** @throws TransportError if the server did not accept the notification */
  async cancel({ params = {} }: JsonRpcNotification): Promise<void> {
    const { requestId: id } = params
    if (typeof id !== 'string' && typeof id !== 'number') return
    if (this.#initializing?.id === id) {
      this.#initializing.controller.abort()
      this.#initializing = undefined
    }
    const open = this.#calls.find((one) => one.id === id)
    if (open === undefined) return // already answered
    removeFrom(this.#calls, open)
    await this.connection.cancel(open.call, params)
  }

  /** Sends the answer to a request of the server. */
  async answer(response: JsonRpcResponse): Promise<void> {
    const id = response.id ?? ''
    const question = this.#questions.get(id)
    this.#questions.delete(id)
    await question?.respond(
      'result' in response ? { result: response.result } : { error: response.error },
    )
  }

  // Messages of the server.

  /**
   * Gives the client a request of the server. The id is that of the server, unless the client has another open request
   * with it: each session counts from the start. It is not 0, because the SDK does not cancel a request with that id.
   */
  #ask(request: ServerRequest): void {
    const { id: given, method, params, signal } = request
    const isFree = given !== undefined && given !== 0 && !this.#questions.has(given)
    const id = isFree ? given : `server-${++this.#lastQuestion}`
    this.#questions.set(id, request)
    const onAbort = (): void => {
      if (!this.#questions.delete(id)) return
      const reason = typeof signal.reason === 'string' ? { reason: signal.reason } : {}
      const cancelled = { requestId: id, ...reason }
      this.#deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled })
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#deliver({ jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) })
  }

  #report(error: Error): void {
    try {
      this.#callbacks.onerror?.(error)
    } catch {
      // No other place to report to.
    }
  }

  /** Ends all calls and delivers their outcomes before it returns. */
  close(): Promise<void> {
    const closing = this.connection.close()
    const outcome = this.connection.closedError('The transport was closed')
    const initializing = this.#initializing
    this.#initializing = undefined
    if (initializing !== undefined) {
      this.#deliveries.push({ id: initializing.id, outcome, onAnswered: undefined })
    }
    this.#deliverAnswers()
    this.#questions.clear()
    return closing
  }

  /**
   * Delivers answers, one microtask after they arrived. The SDK's client handles notifications one turn later than
   * answers, and an answer removes its progress handler: progress in the same piece of data would be lost.
   */
  readonly #deliverAnswers = (): void => {
    const deliveries = this.#deliveries
    this.#deliveries = []
    for (const { id, outcome, onAnswered } of deliveries) {
      this.#deliver(toResponse(id, outcome))
      onAnswered?.(TransportError.is(outcome))
    }
  }

  #deliver(message: JsonRpcMessage): void {
    this.#guard(() => this.#callbacks.onmessage?.(message))
  }

  /** Runs a callback of the client. The connection would treat its error as a broken stream. */
  #guard(callback: () => void): void {
    try {
      callback()
    } catch (error) {
      this.#report(error instanceof Error ? error : new Error(String(error)))
    }
  }
}

/** The connection asks for progress with a token of its own. */
function withoutProgressToken({ params }: InputRequest): {
  readonly params: InputRequest['params']
  readonly progressToken: unknown
} {
  const meta = params?.['_meta']
  if (!isRecord(meta) || meta['progressToken'] === undefined)
    return { params, progressToken: undefined }
  const { progressToken, ..._meta } = meta
  return { params: { ...params, _meta }, progressToken }
}
