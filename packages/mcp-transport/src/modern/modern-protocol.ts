import { removeFrom } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { SilenceWatch } from '../http/silence.ts'
import {
  isRequest,
  isResponse,
  advertisedChanges,
  INVALID_PARAMS,
  localError,
  METHOD_NOT_FOUND,
} from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import { endAssignedSession } from '../legacy/one-way.ts'
import { getSessionLoss } from '../legacy/session-loss.ts'
import type { ToolHeaderMap } from '../session-record.ts'
import { closedError, errorAnswer, TransportError, toTransportError } from '../transport-error.ts'
import type { CallOptions, Reconnect, Timeouts } from '../transport-options.ts'
import { ClientInputs, takeInputInstructions } from './inputs.ts'
import { ModernCall, ownRequest } from './modern-call.ts'
import type { ModernCallHost } from './modern-call.ts'
import { isBeforeDispatch, looksLegacy, withIdentity, modernHeaders } from './modern-post.ts'
import type { PostOutcome, ClientIdentity } from './modern-post.ts'
import { Subscriptions } from './subscriptions.ts'
import { ToolCatalog } from './tools.ts'

export interface ModernProtocolOptions {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  readonly listen: boolean
  /** Identity from the client's `initialize`. */
  readonly identity: ClientIdentity
  readonly serverCapabilities: Readonly<Record<string, unknown>>
  /** From the session record. */
  readonly toolHeaders?: ToolHeaderMap | undefined
  /** Called when tool headers were learned, so that the record can store them. */
  readonly onToolHeaders: (headers: ToolHeaderMap) => void
  readonly deliver: (message: JsonRpcMessage) => void
  /** Removes the stored data of the server, which has sessions now. */
  readonly onLegacyServer: () => Promise<void>
  /** Set if lost calls continue on the server that replaced this one. */
  readonly onLost?:
    | {
        /** Resolves when a session is open. @throws TransportError if none could be opened */
        readonly replaced: () => Promise<void>
        /** Returns false if the request was sent again before. */
        readonly sendAgain: (message: JsonRpcRequest, options: CallOptions) => Promise<boolean>
      }
    | undefined
  /** Reports a failure that belongs to no message. */
  readonly report: (error: TransportError) => void
  readonly random?: (() => number) | undefined
}

/** A call whose server now has sessions. */
interface LostCall {
  readonly message: JsonRpcRequest
  readonly options: CallOptions
  readonly pending: PendingRequest
  /** A `SESSION_LOST` error. */
  readonly answer: JsonRpcResponse
  /** The server refused the call before it dispatched it. */
  readonly isCertain: boolean
}

/** A request of the client without an answer, and how to cancel it. */
interface PendingRequest {
  readonly id: RequestId
  call?: ModernCall
  cancel?: (reason: TransportError) => void
}

/**
 * Lets a client that expects sessions use the stateless revision (2026-07-28). Converts its messages or answers
 * them here, and converts the messages of the server.
 */
export class ModernProtocol implements ModernCallHost {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly tools: ToolCatalog
  readonly inputs: ClientInputs
  readonly #options: ModernProtocolOptions
  readonly #subscriptions: Subscriptions
  /** Requests of the client without an answer. */
  readonly #pending: PendingRequest[] = []
  /** Random, so that the ids of two processes differ in the logs of a server. */
  readonly #idPrefix: string
  #identity: ClientIdentity
  /** Set while the server is asked whether it is still a modern one. */
  #checking: Promise<boolean> | undefined
  readonly #closing = new AbortController()
  #lastId = 0
  #watch: SilenceWatch | undefined
  #isClosed = false

  constructor(options: ModernProtocolOptions) {
    const { http, timeouts, reconnect, report, identity, random = Math.random } = options
    this.#options = options
    this.http = http
    this.timeouts = timeouts
    this.#identity = identity
    this.#idPrefix = random().toString(36).slice(2, 8)
    this.inputs = new ClientInputs((message) => this.deliver(message))
    this.tools = new ToolCatalog({
      known: options.toolHeaders,
      onLearned: options.onToolHeaders,
      readPage: (cursor, signal) => this.#readToolPage(cursor, signal),
      onLeftOut: (name, reason) => {
        const message = `The tool ${JSON.stringify(name)} of ${http.url.display} is left out: ${reason}`
        report(new TransportError('UNEXPECTED_RESPONSE', message, { url: http.url.display }))
      },
    })
    this.#subscriptions = new Subscriptions({
      http,
      reconnect,
      idleMs: timeouts.idleMs,
      random,
      changes: advertisedChanges(options.serverCapabilities),
      identity: () => this.#identity,
      nextId: () => this.nextId(),
      deliver: (message) => http.asOwner(() => this.deliver(message)),
      report,
    })
  }

  get identity(): ClientIdentity {
    return this.#identity
  }

  nextId(): RequestId {
    return `${this.#idPrefix}-${++this.#lastId}`
  }

  deliver(message: JsonRpcMessage): void {
    if (!this.#isClosed) this.#options.deliver(message)
  }

  checked(outcome: PostOutcome, isFirst: boolean): PostOutcome | Promise<PostOutcome> {
    if (outcome.kind === 'answered') this.#subscriptions.wake()
    return looksLegacy(outcome) ? this.#checkedAgain(outcome, isFirst) : outcome
  }

  async send(message: JsonRpcMessage, options: CallOptions): Promise<void> {
    if (isRequest(message)) return this.#requested(message, options)
    if (isResponse(message)) {
      this.inputs.take(message) // without a request of the transport, the response is dropped
      return
    }
    this.#notified(message)
  }

  /** Answers the calls in flight. A modern server has no session to terminate. */
  async terminate(): Promise<void> {
    this.#failCalls('The session was terminated')
  }

  /** Closes the subscriptions. Calls in flight wait for their answers. */
  retire(): void {
    this.#subscriptions.close()
  }

  /** Answers the calls in flight and closes all streams. */
  async close(): Promise<void> {
    this.#failCalls('The transport was closed')
    this.#isClosed = true
    this.#closing.abort()
    this.#watch?.stop()
    this.#subscriptions.close()
  }

  #makeWatch(): SilenceWatch {
    const { http, timeouts } = this
    return new SilenceWatch({
      http,
      timeouts,
      calls: () => {
        if (this.#pending.length === 0) this.#watch = undefined // saves memory while the client is idle
        return this.#pending.flatMap(({ call }) => call ?? [])
      },
      check: () => {
        const method = 'server/discover'
        const params = withIdentity({}, this.#identity)
        const request = { jsonrpc: '2.0', id: this.nextId(), method, params } as const
        return {
          method: 'POST',
          rpcMethod: method,
          era: 'modern',
          headers: modernHeaders(request, this.#identity.protocolVersion),
          body: JSON.stringify(request),
          headersMs: 0,
          idleMs: 0,
          isLongLived: true, // must not wait behind calls that use all connections
        }
      },
    })
  }

  #notified({ method, params }: JsonRpcNotification): void {
    if (method === 'notifications/initialized') {
      if (this.#options.listen) this.#subscriptions.open()
    } else if (method === 'notifications/cancelled') {
      const id = params?.['requestId']
      if (typeof id !== 'string' && typeof id !== 'number') return
      const pending = this.#pending.findLast((each) => each.id === id)
      if (pending === undefined) return
      removeFrom(this.#pending, pending)
      pending.cancel?.(this.#closed('The client cancelled the request'))
    }
    // Other notifications do not exist in this revision. The next `roots/list` returns changed roots.
  }

  #requested(message: JsonRpcRequest, options: CallOptions): void {
    const pending: PendingRequest = { id: message.id }
    this.#pending.push(pending)
    const settle = (answer: JsonRpcResponse): void => {
      if (removeFrom(this.#pending, pending)) this.deliver(answer) // otherwise it was cancelled
    }
    const answered = (answer: JsonRpcResponse): void => {
      const loss = this.#options.onLost === undefined ? undefined : getSessionLoss(answer)
      if (loss === undefined) return settle(answer)
      const isCertain = loss.certain === true
      void this.#recover({ message, options, pending, answer, isCertain })
    }
    this.#answer(message, options, pending).then(answered, (error: unknown) => {
      settle(errorAnswer(message.id, toTransportError(error)))
    })
  }

  /** Sends a lost call again to the replacement, if that is certainly safe. */
  async #recover({ message, options, pending, answer, isCertain }: LostCall): Promise<void> {
    const { onLost } = this.#options
    const failure = await onLost?.replaced().catch((error: unknown) => toTransportError(error))
    if (!removeFrom(this.#pending, pending)) return // cancelled meanwhile
    if (failure !== undefined) return this.deliver(errorAnswer(message.id, failure))
    const isSentAgain = isCertain && (await onLost?.sendAgain(message, options)) === true
    if (!isSentAgain) this.deliver(answer)
  }

  async #answer(
    message: JsonRpcRequest,
    options: CallOptions,
    pending: PendingRequest,
  ): Promise<JsonRpcResponse> {
    const { id, method, params } = message
    if (options.resumptionToken !== undefined) {
      return localError(
        id,
        INVALID_PARAMS,
        'resumptionToken: streams cannot be resumed in 2026-07-28',
      )
    }
    if (method.startsWith('tasks/') || params?.['task'] !== undefined) {
      return localError(id, METHOD_NOT_FOUND, `${method}: tasks do not exist in 2026-07-28`)
    }
    switch (method) {
      case 'ping':
        return this.#ping(id, pending)
      case 'logging/setLevel':
        this.#identity = { ...this.#identity, logLevel: String(params?.['level']) }
        return { jsonrpc: '2.0', id, result: {} }
      case 'resources/subscribe':
        return this.#subscribe(id, String(params?.['uri']), pending)
      case 'resources/unsubscribe':
        await this.#subscriptions.unsubscribe(String(params?.['uri']))
        return { jsonrpc: '2.0', id, result: {} }
      default: {
        const call = new ModernCall({ ...takeInputInstructions(message), host: this })
        pending.call = call
        this.#watch ??= this.#makeWatch()
        this.#watch.start()
        pending.cancel = (reason) => call.cancel(reason)
        return call.run()
      }
    }
  }

  async #checkedAgain(outcome: PostOutcome, isFirst: boolean): Promise<PostOutcome> {
    endAssignedSession(this.http, outcome.headers)
    this.#checking ??= this.#isStillModern().finally(() => {
      this.#checking = undefined
    })
    if (await this.#checking) return outcome
    const url = this.http.url.display
    const cause = outcome.kind === 'failed' ? outcome.error : undefined
    const said =
      outcome.kind === 'answered' && 'error' in outcome.answer ? outcome.answer.error : undefined
    const version = this.#identity.protocolVersion
    const message = `${url} no longer speaks ${version}: it has sessions now (${said?.message ?? cause?.message})`
    const error = new TransportError('SESSION_LOST', message, {
      url,
      status: outcome.kind === 'answered' ? outcome.status : cause?.status,
      certain: isFirst && isBeforeDispatch(outcome),
      serverError: said,
      cause,
    })
    return { kind: 'failed', error, headers: outcome.headers }
  }

  /** Asks the server, because an error about a session may come from a tool. In doubt, returns true. */
  async #isStillModern(): Promise<boolean> {
    const { signal } = this.#closing
    const outcome = await ownRequest(this, { method: 'server/discover', params: {}, signal })
    endAssignedSession(this.http, outcome.headers)
    const status = outcome.kind === 'answered' ? outcome.status : outcome.error.status
    const isAnswered = outcome.kind === 'answered' && 'result' in outcome.answer
    const isUnknown =
      status === undefined || status >= 500 || status === 401 || status === 403 || status === 429
    if (isAnswered || isUnknown) return true
    await this.#options.onLegacyServer()
    return false
  }

  /** Requires an answer of the server, so that `ping` shows that the server is alive. */
  async #ping(id: RequestId, pending: PendingRequest): Promise<JsonRpcResponse> {
    const closing = new AbortController()
    pending.cancel = (reason) => closing.abort(reason)
    const { signal } = closing
    const asked = await ownRequest(this, { method: 'server/discover', params: {}, signal })
    const outcome = await this.checked(asked, true)
    if (outcome.kind === 'failed') return errorAnswer(id, outcome.error)
    return 'result' in outcome.answer
      ? { jsonrpc: '2.0', id, result: {} }
      : { ...outcome.answer, id }
  }

  async #subscribe(id: RequestId, uri: string, pending: PendingRequest): Promise<JsonRpcResponse> {
    const closing = new AbortController()
    pending.cancel = (reason) => closing.abort(reason)
    try {
      if (await this.#subscriptions.subscribe(uri, closing.signal))
        return { jsonrpc: '2.0', id, result: {} }
      return localError(id, INVALID_PARAMS, `The server does not announce changes of ${uri}`)
    } catch (error) {
      if (TransportError.is(error)) return errorAnswer(id, error)
      throw error
    }
  }

  async #readToolPage(
    cursor: string | undefined,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    const params = cursor === undefined ? {} : { cursor }
    const outcome = await ownRequest(this, { method: 'tools/list', params, signal })
    const answer = outcome.kind === 'answered' ? outcome.answer : undefined
    return answer !== undefined && 'result' in answer ? answer.result : undefined
  }

  /** Answers immediately, because no message may follow `close`. */
  #failCalls(why: string): void {
    for (const pending of this.#pending.slice()) {
      if (!removeFrom(this.#pending, pending)) continue // cancelled meanwhile
      pending.cancel?.(this.#closed(why))
      this.deliver(errorAnswer(pending.id, this.#closed(why)))
    }
  }

  #closed(why: string): TransportError {
    return closedError(why, this.http.url.display)
  }
}
