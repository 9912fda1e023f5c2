import { canonicalJson } from '@x/internal'
import type { Attempt, Call, CallOptions } from '../calls/call.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import { INVALID_PARAMS, localError, METHOD_NOT_FOUND } from '../json-rpc.ts'
import type { Answer, InputRequest, JsonRpcRequest } from '../json-rpc.ts'
import { discardAssignedSession } from '../legacy/one-way.ts'
import { isDiscoverResult } from '../session-record.ts'
import type { DiscoverResult, ToolHeaderMap } from '../session-record.ts'
import { answersTo } from './inputs.ts'
import { ModernAttempt } from './modern-attempt.ts'
import {
  META,
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

/** Requests that this revision does not have. They are answered here. */
const HERE: ReadonlySet<string> = new Set([
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
])

const TASK_METHODS: ReadonlySet<string> = new Set(['tasks/get', 'tasks/update', 'tasks/cancel'])

/** A server of the stateless revision. */
export interface DiscoveredServer {
  readonly discovered: DiscoverResult
  /** The server is known from the record, without a request. */
  readonly isResumed: boolean
  readonly toolHeaders: ToolHeaderMap | undefined
}

/**
 * A server of the stateless revision (2026-07-28). Converts the requests of a client that expects sessions, or answers
 * them here.
 */
export class ModernServer {
  readonly parts: ConnectionParts
  readonly known: DiscoveredServer
  readonly tools: ToolCatalog
  readonly #subscriptions: Subscriptions
  /** Random, so that the ids of two processes differ in the logs of a server. */
  readonly #idPrefix = Math.random().toString(36).slice(2, 8)
  #identity: ClientIdentity
  /** The subscription to changes is opened with the first answer. */
  #listensLater = false
  /** Set while the server is asked whether it is still a modern one. */
  #checking: Promise<boolean> | undefined
  readonly #closing = new AbortController()
  #lastId = 0

  constructor(parts: ConnectionParts, known: DiscoveredServer, identity: ClientIdentity) {
    this.parts = parts
    this.known = known
    this.#identity = identity
    this.tools = new ToolCatalog(this)
    this.#subscriptions = new Subscriptions(this)
  }

  /** From the client's `initialize`. */
  get identity(): ClientIdentity {
    return this.#identity
  }

  /** Sends a request with a new id and the identity of the client. Does not reject for failures of the server. */
  ask(
    method: string,
    params: JsonRpcRequest['params'],
    options: ModernPostOptions,
  ): Promise<PostOutcome> {
    const { http, timeouts } = this.parts
    const { isOfCaller = true, headersMs = timeouts.headersMs } = options
    const request = this.#newRequest(method, params)
    const headers = this.tools.headersFor(request)
    return modernPost(http, request, { ...options, isOfCaller, headersMs, headers })
  }

  #newRequest(method: string, params: JsonRpcRequest['params']): JsonRpcRequest {
    const id = `${this.#idPrefix}-${++this.#lastId}`
    return { jsonrpc: '2.0', id, method, params: withIdentity(params, this.#identity) }
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

  start(call: Call): void {
    const attempt = new ModernAttempt(this.parts, call, this)
    call.attempt = attempt
    const refused = this.#problemOf(call)
    if (refused !== undefined) attempt.settle(Promise.resolve(refused))
    else if (HERE.has(call.request.method)) attempt.settle(this.#answerHere(call, attempt))
    else attempt.settle(attempt.run(this))
  }

  /** The client is ready: listens for changes. Other notifications of clients do not exist in this revision. */
  initialized(): void {
    const { listen } = this.parts
    if (listen === false) return
    // In the next process of an agent, a call is the first request: a list that is read later has the changes.
    if (this.known.isResumed && listen === undefined) this.#listensLater = true
    else this.#subscriptions.open()
  }

  /** Cheap request that shows whether the server responds. */
  discovery(): ReturnType<NonNullable<Attempt['check']>> {
    const body = this.#newRequest('server/discover', {})
    return { era: 'modern', sessionId: undefined, headers: modernHeaders(body), body }
  }

  /**
   * Has the client answer requests that a server embedded in a task, by their keys.
   *
   * @throws TransportError `REJECTED` if an input is not available
   */
  answersTo(
    requests: Readonly<Record<string, InputRequest>>,
    signal: AbortSignal,
    onServerRequest: ConnectionParts['onServerRequest'],
  ): Promise<Record<string, unknown>> {
    const { capabilities } = this.#identity
    return answersTo(requests, { capabilities, signal, onServerRequest })
  }

  /** The server is used in another way now, or not at all. The calls in flight go on. */
  stopListening(): void {
    this.#subscriptions.close()
  }

  /** Closes all streams. Call it when all calls have ended. */
  close(): void {
    this.#closing.abort()
    this.#subscriptions.close()
  }

  #answered(): void {
    this.#subscriptions.answered()
    if (!this.#listensLater) return
    this.#listensLater = false
    this.parts.http.asOwner(() => this.#subscriptions.open())
  }

  /** Returns the error of a call that does not exist in this revision. */
  #problemOf({ request: { method, params }, options }: Call): Answer | undefined {
    if (options.resumptionToken !== undefined) {
      return localError(INVALID_PARAMS, 'resumptionToken: streams cannot be resumed in 2026-07-28')
    }
    const isTask = method.startsWith('tasks/') && !this.#hasTask(method)
    if (params?.['task'] === undefined && !isTask) return undefined
    const message = `${method}: the tasks of 2025-11-25 do not exist in 2026-07-28`
    return localError(METHOD_NOT_FOUND, message)
  }

  async #answerHere({ request, options }: Call, attempt: ModernAttempt): Promise<Answer> {
    const { method, params } = request
    const uri = String(params?.['uri'])
    if (method === 'ping') return this.#ping(attempt, options.headers)
    if (method === 'logging/setLevel') {
      const meta = { ...this.#identity.meta, [META.logLevel]: String(params?.['level']) }
      this.#identity = { ...this.#identity, meta }
    } else if (method === 'resources/unsubscribe') await this.#subscriptions.unsubscribe(uri)
    else if (!(await this.#subscriptions.subscribe(uri, attempt.signal))) {
      return localError(INVALID_PARAMS, `The server does not announce changes of ${uri}`)
    }
    return { result: {} }
  }

  /** The extension for tasks has three methods, for clients that declare it. */
  #hasTask(method: string): boolean {
    return TASK_METHODS.has(method) && declaresTasks(this.#identity)
  }

  /** Requires an answer of the server, so that `ping` shows that the server is alive. */
  async #ping(attempt: ModernAttempt, callHeaders: CallOptions['headers']): Promise<Answer> {
    const asked = await this.ask('server/discover', {}, { callHeaders, listener: attempt })
    const outcome = await this.checked(asked, true)
    if (outcome.kind !== 'answered') throw outcome.error
    if (!('result' in outcome.answer)) return outcome.answer
    await this.#discovered(outcome.answer.result)
    return { result: {} }
  }

  /** Another version of the server may have taken over. */
  async #discovered(result: unknown): Promise<void> {
    const { keeper } = this.parts
    if (!isDiscoverResult(result)) return
    const known = keeper.record?.discoverResult?.capabilities
    if (canonicalJson(known) === canonicalJson(result.capabilities)) return
    await keeper.learned({ discoverResult: result })
  }

  async #checkedAgain(outcome: PostOutcome, isFirst: boolean): Promise<PostOutcome> {
    const { headers } = outcome
    discardAssignedSession(this.parts.http, headers)
    this.#checking ??= this.#isStillModern().finally(() => {
      this.#checking = undefined
    })
    if (await this.#checking) return outcome
    const cause = outcome.kind === 'answered' ? undefined : outcome.error
    const serverError =
      outcome.kind === 'answered' && 'error' in outcome.answer ? outcome.answer.error : undefined
    const said = serverError?.message ?? cause?.message
    const message = `${this.parts.http.url.display} no longer speaks ${this.#identity.protocolVersion} (${said})`
    const error = this.parts.http.error('SESSION_LOST', message, {
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
    discardAssignedSession(this.parts.http, outcome.headers)
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
    discardAssignedSession(this.parts.http, outcome.headers)
    const status = outcome.kind === 'answered' ? outcome.status : outcome.error.status
    const isAnswered =
      outcome.kind === 'answered' &&
      'result' in outcome.answer &&
      isDiscoverResult(outcome.answer.result)
    const isUnknown =
      status === undefined || status >= 500 || status === 401 || status === 403 || status === 429
    if (isAnswered || isUnknown) return true
    await this.parts.keeper.lost(undefined)
    return false
  }
}
