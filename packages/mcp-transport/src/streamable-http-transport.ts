import { assertOptions, isRecord } from '@x/internal'
import type { AuthorizationCallback } from './auth/auth-provider.ts'
import type { Call, CallOptions, ServerRequest } from './calls/call.ts'
import { isRequest, isResponse, versionOf } from './json-rpc.ts'
import type {
  Answer,
  InputRequest,
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from './json-rpc.ts'
import { McpConnection } from './mcp-connection.ts'
import type { ConnectionOwner } from './mcp-connection.ts'
import { SessionInfo } from './session-info.ts'
import type { Era } from './session-record.ts'
import { errorAnswer, toTransportError, TransportError } from './transport-error.ts'
import { transportOptionChecks } from './transport-options.ts'
import type { SendOptions, StreamableHttpTransportOptions } from './transport-options.ts'

/**
 * Client side of MCP's Streamable HTTP transport. Replaces the stock transport under the `Client` of the
 * TypeScript SDK.
 *
 * Stores the session in `sessionInfo`, and resumes a stored one: then `initialize` is answered from the record
 * without a request. A failed request is answered with a JSON-RPC error whose `data` is a `TransportError`. A
 * request that the server may have executed is never sent again.
 *
 * @example
 * ```ts
 * import { Client } from '@modelcontextprotocol/sdk/client/index.js'
 * import { StreamableHttpTransport } from '@x/mcp-transport'
 *
 * const transport = new StreamableHttpTransport('https://shop.example/mcp', {
 *   onSessionLost: 'reinitialize',
 * })
 * const client = new Client({ name: 'app', version: '1.0.0' })
 * await client.connect(transport)
 * await client.callTool({ name: 'counter_add' })
 * await client.close()
 * ```
 */
export class StreamableHttpTransport implements AsyncDisposable {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JsonRpcMessage) => void) | undefined
  /** Tells SDK v2 that each request has its own response stream, which the client may close. */
  readonly hasPerRequestStream: boolean = true

  readonly #url: string | URL
  readonly #options: StreamableHttpTransportOptions
  readonly #sessionInfo: SessionInfo
  #phase: 'new' | 'started' | 'closed' = 'new'
  /** Replaced by each `start()` after a `close()`. Messages of an earlier one are dropped. */
  #connection: McpConnection
  /** Calls by the ids of the client, until their answers are delivered. */
  readonly #calls = new Map<RequestId, Call>()
  /** Answers, for the next microtask. */
  #deliveries: Delivery[] = []
  #initializing: { readonly id: RequestId; readonly controller: AbortController } | undefined
  /** Requests of the server, by the ids that the client gets. */
  readonly #questions = new Map<RequestId, ServerRequest>()
  #lastQuestion = 0
  #closing: Promise<void> | undefined
  #terminating: Promise<void> | undefined

  /** @throws TypeError for an invalid URL, option or header. */
  constructor(url: string | URL, options: StreamableHttpTransportOptions = {}) {
    this.#url = url
    this.#options = options
    assertOptions('StreamableHttpTransport', options, transportOptionChecks)
    this.#sessionInfo = options.sessionInfo ?? new SessionInfo()
    this.#connection = this.#connect()
  }

  /**
   * Id of the live session. Undefined before `initialize` is answered, even if a session is stored: an SDK
   * client that finds an id here skips its handshake and does not learn the capabilities. Undefined after the
   * session is lost or terminated.
   */
  get sessionId(): string | undefined {
    return this.#connection.sessionId
  }

  /** Era of the server, once it is known. */
  get era(): Era | undefined {
    return this.#connection.era
  }

  /** Negotiated revision of the protocol. */
  get protocolVersion(): string | undefined {
    return this.#connection.protocolVersion
  }

  /** Generation of the live session (`SessionRecord.epoch`). */
  get epoch(): number | undefined {
    return this.#connection.epoch
  }

  /** True if another transport, in this or another process, opened the live session. */
  get isResumed(): boolean {
    return this.#connection.isResumed
  }

  /**
   * Reads the stored session. Opens no connection. May be called again after `close()`. Requests that belong to
   * no call, such as the DELETE that terminates the session, are sent in the async context of this call.
   *
   * @throws TransportError `CLOSED` if the transport is closed meanwhile.
   */
  async start(): Promise<void> {
    if (this.#phase === 'started') {
      throw new TypeError(
        'The transport is already started. Do not call start(): connect() of the client does',
      )
    }
    await this.#start()
    if (this.#isClosed) throw this.#closedError()
  }

  /**
   * Sends one message. For a request, resolves when it is sent; the answer or the failure arrives through
   * `onmessage`.
   *
   * @throws TransportError for a notification or a response that was not accepted.
   * @throws TypeError for an array: batches exist in revision 2025-03-26 only.
   */
  async send(
    message: JsonRpcMessage | readonly JsonRpcMessage[],
    options: SendOptions = {},
  ): Promise<void> {
    if (!('jsonrpc' in message)) throw new TypeError('send() takes one message, not an array')
    if (this.#isClosed) throw this.#closedError()
    if (this.#phase === 'new') void this.#start()
    if (isRequest(message)) return this.#sendRequest(message, options)
    if (isResponse(message)) return this.#sendAnswer(message)
    if (message.method === 'notifications/cancelled') return this.#cancel(message)
    await this.#connection.notify(message)
    // This message ends `connect()` of a client, which must not succeed on a closed transport.
    if (this.#isClosed && message.method === 'notifications/initialized') throw this.#closedError()
  }

  /** Does nothing: the version is known from the answer to `initialize`. */
  setProtocolVersion(_version: string): void {}

  /**
   * Terminates the session on the server (DELETE) and forgets it. Calls in flight are answered with `CLOSED`.
   * Does nothing without a session. Takes at most 1 s.
   *
   * @throws TransportError if the session may still exist on the server.
   */
  async terminateSession(): Promise<void> {
    this.#terminating ??= this.#terminate().finally(() => {
      this.#terminating = undefined
    })
    await this.#terminating
  }

  /**
   * Completes an authorization after a request failed with `UNAUTHORIZED` because the user was redirected
   * (`cause` is an `AuthError` with `AUTHORIZATION_REQUIRED`): saves the tokens. Then repeat the request; after
   * a failed `connect`, use a new `Client`. Takes the URL or query that the user came back with, or only the
   * code. If the server promises `iss`, the code alone is refused (RFC 9207).
   *
   * @throws AuthError if no tokens were obtained.
   * @throws TypeError without an `authProvider`, or for a callback without a code and without an error.
   */
  finishAuth(callback: AuthorizationCallback): Promise<void> {
    return this.#connection.finishAuth(callback)
  }

  /**
   * Closes the transport and keeps the session on the server. Calls in flight are answered with `CLOSED`, then
   * `onclose` is called, then the callbacks are removed. Idempotent.
   */
  async close(): Promise<void> {
    await (this.#closing ??= this.#close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #isClosed(): boolean {
    return this.#phase === 'closed'
  }

  #closedError(): TransportError {
    return this.#connection.closedError('The transport is closed', 'not-executed')
  }

  #start(): Promise<void> {
    if (this.#phase === 'closed') this.#connection = this.#connect()
    this.#phase = 'started'
    this.#closing = undefined
    return this.#connection.load()
  }

  async #terminate(): Promise<void> {
    if (this.#phase === 'started') return this.#connection.terminate()
    await using connection = this.#connect() // a separate one, because the transport is not started
    await connection.load()
    await connection.terminate()
  }

  async #close(): Promise<void> {
    this.#phase = 'closed'
    const closing = this.#connection.close() // all calls have their outcomes when this returns
    const initializing = this.#initializing
    this.#initializing = undefined
    if (initializing !== undefined) {
      const closed = this.#connection.closedError('The transport was closed')
      this.#deliveries.push({ id: initializing.id, outcome: closed, onAnswered: undefined })
    }
    this.#deliverAnswers()
    this.#questions.clear()
    const { onclose } = this
    this.onclose = undefined
    this.onerror = undefined
    this.onmessage = undefined
    try {
      onclose?.()
    } finally {
      await closing
    }
  }

  #connect(): McpConnection {
    const isCurrent = (): boolean => this.#connection === connection
    const owner: ConnectionOwner = {
      sessionInfo: this.#sessionInfo,
      onNotification: (notification) => {
        if (isCurrent()) this.#deliver(notification)
      },
      onServerRequest: (request) => {
        if (isCurrent()) this.#ask(request)
      },
      onError: (error) => {
        if (isCurrent()) this.#report(error)
      },
    }
    const connection: McpConnection = new McpConnection(this.#url, this.#options, owner)
    return connection
  }

  // Messages of the client.

  #sendRequest(message: JsonRpcRequest, options: SendOptions): Promise<void> {
    if (versionOf(message) !== undefined) return this.#forward(message, options)
    if (message.method === 'initialize') return this.#initialize(message)
    const { id, method } = message
    const { params, progressToken } = withoutProgressToken(message)
    const { resumptionToken, onresumptiontoken } = options
    const call = this.#createCall(
      { id, method, params },
      {
        resumptionToken,
        onresumptiontoken: this.#guarded(onresumptiontoken),
        onProgress:
          progressToken === undefined
            ? undefined
            : (progress) =>
                this.#deliver({
                  jsonrpc: '2.0',
                  method: 'notifications/progress',
                  params: { ...progress, progressToken },
                }),
      },
    )
    return this.#connection.send(call)
  }

  /** Sends a request of a client that speaks the stateless revision itself, as it is. */
  async #forward(request: JsonRpcRequest, options: SendOptions): Promise<void> {
    const { requestSignal: signal, onRequestStreamEnd, headers } = options
    const { id } = request
    const onAbort = (): void => this.#drop(id)
    const call = this.#createCall(request, {}, (isFailed) => {
      signal?.removeEventListener('abort', onAbort)
      if (isFailed) this.#guarded(onRequestStreamEnd)?.()
    })
    if (signal?.aborted === true) return this.#drop(id)
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#connection.forward(call, request, { version: versionOf(request) ?? '', headers })
  }

  /** @param onAnswered Called after the answer was delivered */
  #createCall(
    { id, method, params }: Omit<JsonRpcRequest, 'jsonrpc'>,
    options: CallOptions,
    onAnswered?: (isFailed: boolean) => void,
  ): Call {
    const call = this.#connection.createCall({ method, params }, options, (outcome) => {
      if (this.#calls.get(id) === call) this.#calls.delete(id)
      this.#deliveries.push({ id, outcome, onAnswered })
      if (this.#deliveries.length === 1) queueMicrotask(this.#deliverAnswers)
    })
    this.#calls.set(id, call)
    return call
  }

  async #initialize({ id, params }: JsonRpcRequest): Promise<void> {
    const initializing = { id, controller: new AbortController() }
    this.#initializing = initializing
    const { signal } = initializing.controller
    const answer = await this.#connection
      .open(params, { signal })
      .catch((error: unknown) => toTransportError(error))
    if (this.#initializing !== initializing || answer === undefined) return
    this.#initializing = undefined
    this.#deliver(toResponse(id, answer))
  }

  async #cancel({ params = {} }: JsonRpcNotification): Promise<void> {
    const { requestId: id } = params
    if (typeof id !== 'string' && typeof id !== 'number') return
    if (this.#initializing?.id === id) {
      this.#initializing.controller.abort()
      this.#initializing = undefined
    }
    const call = this.#calls.get(id)
    if (call === undefined) return // already answered
    this.#calls.delete(id)
    await this.#connection.cancel(call, params)
  }

  #drop(id: RequestId): void {
    const call = this.#calls.get(id)
    if (call === undefined) return
    this.#calls.delete(id)
    void this.#connection.cancel(call)
  }

  async #sendAnswer(response: JsonRpcResponse): Promise<void> {
    const { id } = response
    const question = id === undefined || id === null ? undefined : this.#questions.get(id)
    if (question === undefined) return
    this.#questions.delete(id ?? '')
    await question.respond(
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

  /** Catches errors of the callback: the connection would treat them as a broken stream. */
  #deliver(message: JsonRpcMessage): void {
    try {
      this.onmessage?.(message)
    } catch (error) {
      this.#report(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #guarded<Args extends readonly unknown[]>(
    callback: ((...args: Args) => void) | undefined,
  ): ((...args: Args) => void) | undefined {
    if (callback === undefined) return undefined
    return (...args) => {
      try {
        callback(...args)
      } catch (error) {
        this.#report(error instanceof Error ? error : new Error(String(error)))
      }
    }
  }

  #report(error: Error): void {
    try {
      this.onerror?.(error)
    } catch {
      // No other place to report to.
    }
  }
}

interface Delivery {
  readonly id: RequestId
  readonly outcome: Answer | TransportError
  /** Called after the answer was delivered. */
  readonly onAnswered: ((isFailed: boolean) => void) | undefined
}

function toResponse(id: RequestId, outcome: Answer | TransportError): JsonRpcResponse {
  if (TransportError.is(outcome)) return errorAnswer(id, outcome)
  return 'result' in outcome
    ? { jsonrpc: '2.0', id, result: outcome.result }
    : { jsonrpc: '2.0', id, error: outcome.error }
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
