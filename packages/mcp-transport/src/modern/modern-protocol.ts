import { canonicalJson } from '@x/internal'
import type { HttpClient } from '../http/http-client.ts'
import { OpenCalls } from '../http/open-calls.ts'
import type { CallRecovery } from '../http/open-calls.ts'
import { isRequest, INVALID_PARAMS, localError, METHOD_NOT_FOUND } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
} from '../json-rpc.ts'
import type { LegacyProtocolOptions } from '../legacy/legacy-protocol.ts'
import { discardAssignedSession } from '../legacy/one-way.ts'
import { isDiscoverResult } from '../session-record.ts'
import type { DiscoverResult, ToolHeaderMap } from '../session-record.ts'
import { errorAnswer, toTransportError } from '../transport-error.ts'
import type { CallOptions } from '../transport-options.ts'
import { ClientInputs } from './inputs.ts'
import { ModernCall } from './modern-call.ts'
import {
  declaresTasks,
  isBeforeDispatch,
  looksLegacy,
  modernHeaders,
  modernPost,
  withIdentity,
} from './modern-post.ts'
import type { ClientIdentity, ModernPostOptions, PostOutcome } from './modern-post.ts'
import { Subscriptions } from './subscriptions.ts'
import { ToolCatalog } from './tools.ts'

/** Time limit for the answer that shows that a server is still a modern one. */
const PROVE_MS = 2000

const TASK_METHODS: ReadonlySet<string> = new Set(['tasks/get', 'tasks/update', 'tasks/cancel'])

export interface ModernProtocolOptions extends Omit<LegacyProtocolOptions, 'onReplaced'> {
  /** Identity from the client's `initialize`. */
  readonly identity: ClientIdentity
  readonly discovered: DiscoverResult
  /** The server is known from the record, without a request. */
  readonly isResumed: boolean
  readonly toolHeaders: ToolHeaderMap | undefined
  readonly recovery: CallRecovery<unknown> | undefined
}

/**
 * Lets a client that expects sessions use the stateless revision (2026-07-28). Converts its messages or answers
 * them here, and converts the messages of the server.
 */
export class ModernProtocol {
  readonly http: HttpClient
  readonly tools: ToolCatalog
  readonly inputs: ClientInputs
  readonly #options: ModernProtocolOptions
  readonly #subscriptions: Subscriptions
  readonly #calls: OpenCalls<ModernCall>
  /** Random, so that the ids of two processes differ in the logs of a server. */
  readonly #idPrefix = Math.random().toString(36).slice(2, 8)
  #identity: ClientIdentity
  /** The subscription to changes is opened with the first answer. */
  #listensLater = false
  /** Set while the server is asked whether it is still a modern one. */
  #checking: Promise<boolean> | undefined
  readonly #closing = new AbortController()
  #lastId = 0

  constructor(options: ModernProtocolOptions) {
    const { http, timeouts, identity, recovery } = options
    this.#options = options
    this.http = http
    this.#identity = identity
    this.inputs = new ClientInputs((message) => this.deliver(message))
    this.tools = new ToolCatalog(this, options)
    this.#subscriptions = new Subscriptions(this, options)
    this.#calls = new OpenCalls<ModernCall>({
      http,
      timeouts,
      recovery,
      deliver: (answer) => this.deliver(answer),
      check: () => {
        const body = this.#newRequest('server/discover', {})
        return { era: 'modern', headers: modernHeaders(body), body }
      },
    })
  }

  get isResumed(): boolean {
    return this.#options.isResumed
  }

  get identity(): ClientIdentity {
    return this.#identity
  }

  deliver(message: JsonRpcMessage): void {
    if (!this.#closing.signal.aborted) this.#options.deliver(message)
  }

  /** Sends a request with a new id and the identity of the client. Does not reject for failures of the server. */
  ask(
    method: string,
    params: JsonRpcRequest['params'],
    options: Partial<ModernPostOptions>,
  ): Promise<PostOutcome> {
    const request = this.#newRequest(method, params)
    return modernPost(this.http, request, {
      isOfCaller: true,
      headers: this.tools.headersFor(request),
      headersMs: this.#options.timeouts.headersMs,
      ...options,
    })
  }

  /**
   * Returns the outcome of a request; `SESSION_LOST` if the server has changed to another era.
   *
   * @param isFirst No part of the call was executed before this request
   */
  checked(outcome: PostOutcome, isFirst: boolean): PostOutcome | Promise<PostOutcome> {
    if (outcome.kind === 'answered') this.#answered()
    return looksLegacy(outcome) ? this.#checkedAgain(outcome, isFirst) : outcome
  }

  async send(message: JsonRpcRequest | JsonRpcNotification, options: CallOptions): Promise<void> {
    if (isRequest(message)) this.#requested(message, options)
    else this.notify(message)
  }

  notify({ method, params }: JsonRpcNotification): void {
    if (method === 'notifications/initialized') {
      const { listen } = this.#options
      if (listen === false) return
      // In the next process of an agent, a call is the first request: a list that is read later has the changes.
      if (this.isResumed && listen === undefined) this.#listensLater = true
      else this.#subscriptions.open()
    } else if (method === 'notifications/cancelled') {
      const id = params?.['requestId']
      const isId = typeof id === 'string' || typeof id === 'number'
      const call = isId ? this.#calls.find(id) : undefined
      if (call === undefined) return
      this.#calls.remove(call)
      call.fail(this.http.closed('The client cancelled the request'))
    }
    // Other notifications do not exist in this revision. The next `roots/list` returns changed roots.
  }

  /** Answers the calls in flight. A modern server has no session to terminate. */
  terminate(): void {
    this.#calls.failAll('The session was terminated')
  }

  /** The server is used in another way now. Closes the subscriptions, and resolves when the last call has ended. */
  replaced(): Promise<void> {
    this.#subscriptions.close()
    return this.#calls.ended(() => true)
  }

  /** Answers the calls in flight and closes all streams. */
  close(): void {
    this.#calls.close('The transport was closed')
    this.#closing.abort()
    this.#subscriptions.close()
  }

  #answered(): void {
    this.#subscriptions.answered()
    if (!this.#listensLater) return
    this.#listensLater = false
    this.http.asOwner(() => this.#subscriptions.open())
  }

  #newRequest(method: string, params: JsonRpcRequest['params']): JsonRpcRequest {
    const id = `${this.#idPrefix}-${++this.#lastId}`
    return { jsonrpc: '2.0', id, method, params: withIdentity(params, this.#identity) }
  }

  #requested(request: JsonRpcRequest, options: CallOptions): void {
    const call = new ModernCall(this, request, options)
    this.#calls.add(call)
    this.#answerTo(call).then(
      (answer) => this.#calls.settle(call, answer),
      (error: unknown) =>
        this.#calls.settle(call, errorAnswer(request.id, toTransportError(error))),
    )
  }

  async #answerTo(call: ModernCall): Promise<JsonRpcResponse> {
    const { id, method, params } = call.request
    if (call.options.resumptionToken !== undefined) {
      const message = 'resumptionToken: streams cannot be resumed in 2026-07-28'
      return localError(id, INVALID_PARAMS, message)
    }
    if (params?.['task'] !== undefined || (method.startsWith('tasks/') && !this.#hasTask(method))) {
      const message = `${method}: the tasks of 2025-11-25 do not exist in 2026-07-28`
      return localError(id, METHOD_NOT_FOUND, message)
    }
    switch (method) {
      case 'ping':
        return this.#ping(call)
      case 'logging/setLevel':
        this.#identity = { ...this.#identity, logLevel: String(params?.['level']) }
        break
      case 'resources/subscribe': {
        const uri = String(params?.['uri'])
        if (await this.#subscriptions.subscribe(uri, call.signal)) break
        return localError(id, INVALID_PARAMS, `The server does not announce changes of ${uri}`)
      }
      case 'resources/unsubscribe':
        await this.#subscriptions.unsubscribe(String(params?.['uri']))
        break
      default:
        return call.run()
    }
    return { jsonrpc: '2.0', id, result: {} }
  }

  /** The extension for tasks has three methods, for clients that declare it. */
  #hasTask(method: string): boolean {
    return TASK_METHODS.has(method) && declaresTasks(this.#identity)
  }

  /** Requires an answer of the server, so that `ping` shows that the server is alive. */
  async #ping(call: ModernCall): Promise<JsonRpcResponse> {
    const { id } = call.request
    const asked = await this.ask('server/discover', {}, { call })
    const outcome = await this.checked(asked, true)
    if (outcome.kind !== 'answered') return errorAnswer(id, outcome.error)
    if (!('result' in outcome.answer)) return { ...outcome.answer, id }
    await this.#discovered(outcome.answer.result)
    return { jsonrpc: '2.0', id, result: {} }
  }

  /** Another version of the server may have taken over. */
  async #discovered(result: unknown): Promise<void> {
    const { keeper } = this.#options
    if (!isDiscoverResult(result)) return
    const known = keeper.record?.discoverResult?.capabilities
    if (canonicalJson(known) === canonicalJson(result.capabilities)) return
    await keeper.learned({ discoverResult: result })
  }

  async #checkedAgain(outcome: PostOutcome, isFirst: boolean): Promise<PostOutcome> {
    const { headers } = outcome
    discardAssignedSession(this.http, headers)
    this.#checking ??= this.#isStillModern().finally(() => {
      this.#checking = undefined
    })
    if (await this.#checking) return outcome
    const cause = outcome.kind === 'answered' ? undefined : outcome.error
    const serverError =
      outcome.kind === 'answered' && 'error' in outcome.answer ? outcome.answer.error : undefined
    const said = serverError?.message ?? cause?.message
    const message = `${this.http.url.display} no longer speaks ${this.#identity.protocolVersion} (${said})`
    const error = this.http.error('SESSION_LOST', message, {
      status: outcome.kind === 'answered' ? outcome.status : cause?.status,
      certain: isFirst && isBeforeDispatch(outcome),
      serverError,
      cause,
    })
    return { kind: 'failed', error, headers }
  }

  /**
   * Returns whether the server still offers this revision. A server that fails at every request does not, in whatever
   * form.
   *
   * @throws TransportError `UNREACHABLE` if it cannot be asked
   */
  async isProven(signal: AbortSignal): Promise<boolean> {
    const outcome = await this.ask('server/discover', {}, { signal, limitMs: PROVE_MS })
    discardAssignedSession(this.http, outcome.headers)
    if (outcome.kind !== 'answered') {
      if (outcome.error.code === 'UNREACHABLE') throw outcome.error
      return false
    }
    const { answer } = outcome
    if (!('result' in answer) || !isDiscoverResult(answer.result)) return false
    return answer.result.supportedVersions.includes(this.#identity.protocolVersion)
  }

  /** Asks the server, because an error about a session may come from a tool. In doubt, returns true. */
  async #isStillModern(): Promise<boolean> {
    const { signal } = this.#closing
    const outcome = await this.ask('server/discover', {}, { signal })
    discardAssignedSession(this.http, outcome.headers)
    const status = outcome.kind === 'answered' ? outcome.status : outcome.error.status
    const isAnswered =
      outcome.kind === 'answered' &&
      'result' in outcome.answer &&
      isDiscoverResult(outcome.answer.result)
    const isUnknown =
      status === undefined || status >= 500 || status === 401 || status === 403 || status === 429
    if (isAnswered || isUnknown) return true
    await this.#options.keeper.lost(undefined)
    return false
  }
}
