import {
  classifyInboundRequest,
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  LOG_LEVEL_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  SERVER_INFO_META_KEY,
  type InboundClassificationOutcome,
  type LoggingLevel,
  type McpHttpHandler,
  type RequestId,
} from '@modelcontextprotocol/server'

import { isRecord, untilAborted } from '@x/internal'
import type { Clock } from '../internal/clock.ts'
import { Bag } from '../internal/bag.ts'
import { EventStream, toEvent } from './event-stream.ts'
import { isRequestId, methodOf, toErrorResponse, type Params } from './json-rpc.ts'
import type { OpenStreams } from './open-streams.ts'
import { toReply, type HttpExchange, type Reply } from './reply.ts'
import {
  CallerContext,
  MAX_FOLLOWED,
  toClientInfo,
  type Caller,
  type ClientInfo,
  type Continuation,
  type RequestContext,
} from './request-context.ts'
import { MODERN_REVISION } from './revisions.ts'
import { taskOwnerOf } from '../tasks/task-records.ts'
import type { TaskFeed } from '../tasks/tasks.ts'
import type { SdkServers, ServerParts } from './sdk-server.ts'
import { isAtLeast, isLevel } from './session-context.ts'
import { assertDeclared, hasKey } from './tool-call.ts'

export interface StatelessHttpOptions {
  readonly parts: ServerParts
  readonly servers: SdkServers
  readonly maxSubscriptions: number
  readonly streams: OpenStreams
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
  /** Time that a client has to come back to a call with an idempotency key. Then the call is cancelled. */
  readonly disconnectGraceMs: number
  readonly clock: Clock
}

/** A request whose body was parsed. */
interface Inbound {
  readonly body: unknown
  readonly route: InboundClassificationOutcome
}

/** The part of an HTTP request that a call reads. */
type CallRequest = Pick<HttpExchange, 'headers' | 'signal'>

/** A request of one of `METHODS` that is valid in every respect. */
interface ValidCall {
  readonly id: RequestId
  readonly method: string
  readonly params: Params
  readonly meta: Params
}

/**
 * Classifies a request by its headers and its body together. It uses the classifier of the SDK's handler, so that the
 * two agree.
 *
 * @param body parsed
 */
export function classifyRequest(
  { method, headers }: Pick<HttpExchange, 'method' | 'headers'>,
  body: unknown,
): InboundClassificationOutcome {
  const version = headers.get('mcp-protocol-version')
  const mcpMethod = headers.get('mcp-method')
  const name = headers.get('mcp-name')
  return classifyInboundRequest({
    httpMethod: method,
    ...(version !== null && { protocolVersionHeader: version }),
    ...(mcpMethod !== null && { mcpMethodHeader: mcpMethod }),
    ...(name !== null && { mcpNameHeader: name }),
    body,
  })
}

/**
 * Serves revision 2026-07-28, which has no sessions. A client that leaves has cancelled its request, as that revision
 * demands.
 */
export class StatelessHttp {
  readonly #sdk: McpHttpHandler
  readonly #options: StatelessHttpOptions
  readonly #calls = new Bag<StatelessContext>()
  #isClosed = false

  constructor(options: StatelessHttpOptions) {
    const { servers, parts, maxSubscriptions, keepAliveMs, maxBodyBytes } = options
    this.#options = options
    this.#sdk = createMcpHandler(
      ({ requestInfo }) => servers.create('modern', requestInfo?.headers.get('mcp-method')),
      {
        legacy: 'reject',
        maxSubscriptions,
        keepAliveMs,
        maxRequestBodySize: maxBodyBytes,
        onerror: parts.onError,
      },
    )
    parts.listeners.notifyWith(this.#sdk.notify)
  }

  /** Serves a request that does not belong to the revisions with sessions. It may be malformed. */
  async serve(
    exchange: Pick<HttpExchange, 'headers' | 'request' | 'signal'>,
    { body, route }: Inbound,
    caller: Caller,
  ): Promise<Reply> {
    const call = this.#isClosed ? undefined : parseCall(route, exchange)
    if (call) return this.#call(call, exchange, caller)
    const { request } = exchange
    this.#options.parts.callers.set(request, caller)
    if (methodOf(body) === 'subscriptions/listen') return this.#listen(request, body, caller)
    return toReply(await this.#sdk.fetch(request, { parsedBody: body }))
  }

  /** Ends all streams of listeners with a last event, and cancels calls. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const { stop } of this.#calls.all()) stop.abort(new Error('The gateway was closed'))
    await this.#sdk.close()
  }

  /** The reply is JSON, unless there is a message before the answer. */
  #call(call: ValidCall, request: CallRequest, caller: Caller): Promise<Reply> {
    const context = new StatelessContext(call, request, caller)
    if (hasKey(call.meta)) context.grace = this.#options
    if (context.progress === undefined && call.meta[LOG_LEVEL_META_KEY] === undefined) {
      return this.#answer(call, context, request)
    }
    const begun = new Promise<Reply>((resolve) => {
      context.onStream = (stream) => {
        this.#options.streams.keepOpen(stream)
        resolve({ status: 200, body: stream })
      }
    })
    return Promise.race([begun, this.#answerOnStream(call, context, request)])
  }

  async #answerOnStream(
    call: ValidCall,
    context: StatelessContext,
    request: CallRequest,
  ): Promise<Reply> {
    const reply = await this.#answer(call, context, request)
    if (typeof reply.body === 'string') context.stream?.write(toEvent(reply.body))
    context.stream?.end()
    return reply
  }

  async #answer(
    { id, method, params }: ValidCall,
    context: StatelessContext,
    request: CallRequest,
  ): Promise<Reply> {
    const { handlers } = this.#options.servers
    const { signal } = context
    const leave = (): void => context.leave(request.signal.reason)
    if (request.signal.aborted) return UNREAD
    request.signal.addEventListener('abort', leave)
    this.#calls.add(context)
    try {
      context.continuation = await this.#continuation(params, context.caller)
      const handled = handlers.handle(method, params, context)
      const result = handled instanceof Promise ? await untilAborted(handled, signal) : handled
      const { resultType = 'complete', _meta: meta } = result
      const stamped = { ...meta, [SERVER_INFO_META_KEY]: handlers.serverInfo }
      const answer = { jsonrpc: '2.0', id, result: { ...result, resultType, _meta: stamped } }
      return { status: 200, body: JSON.stringify(answer) }
    } catch (error) {
      if (signal.aborted) return UNREAD
      if (!(error instanceof ProtocolError)) {
        this.#options.parts.onError(new Error('A call could not be answered', { cause: error }))
      }
      return { status: statusOf(error), body: JSON.stringify(toErrorResponse(id, error)) }
    } finally {
      context.onStream = undefined
      context.undoLeave?.()
      this.#calls.remove(context)
      request.signal.removeEventListener('abort', leave)
    }
  }

  async #continuation(
    { requestState, inputResponses }: Params,
    { principal }: Caller,
  ): Promise<Continuation | undefined> {
    if (requestState === undefined) return undefined
    const { onError, states } = this.#options.parts
    try {
      if (typeof requestState !== 'string') throw new TypeError('requestState is not text')
      const binding = { method: 'tools/call', principal: principal.id }
      const state = await states.verify(requestState, binding)
      return { state, responses: responsesFrom(inputResponses) }
    } catch (cause) {
      onError(new Error('A call was refused because of its requestState', { cause }))
      const text = 'Invalid or expired requestState'
      const data = { reason: 'invalid_request_state' }
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, text, data)
    }
  }

  async #listen(request: Request, body: unknown, caller: Caller): Promise<Reply> {
    const leave = this.#options.streams.enter(caller)
    if (!leave) {
      const id = isRecord(body) ? body['id'] : null
      const error = { code: -32_603, message: 'Subscription limit reached' }
      return { status: 200, body: JSON.stringify({ jsonrpc: '2.0', id, error }) }
    }
    const { listeners, resources } = this.#options.parts
    let forget: (() => void) | undefined
    let tasks: TaskFeed | undefined
    const end = (): void => {
      tasks?.end()
      forget?.()
      leave()
    }
    try {
      const own = await ownFilter(body, (uri) => resources?.followed(caller, uri))
      tasks = await this.#tasksOf(body, caller)
      if (own.followed.length > 0) forget = listeners.addStream(own.followed)
      const parsedBody = tasks ? withLists(own.body) : own.body
      const response = await this.#sdk.fetch(request, { parsedBody })
      const reply = toReply(tasks ? withTasks(response, own.body, tasks) : response)
      if (reply.body instanceof EventStream) {
        reply.body.isEndless = true
        reply.body.onClose(end)
      } else {
        end()
      }
      return reply
    } catch (error) {
      end()
      if (!(error instanceof ProtocolError)) throw error
      const id = isRecord(body) && isRequestId(body['id']) ? body['id'] : 0
      return { status: statusOf(error), body: JSON.stringify(toErrorResponse(id, error)) }
    }
  }

  /**
   * Returns the tasks of the caller that a stream listens to. `undefined` if it does not ask for tasks.
   *
   * @throws ProtocolError -32021, -32602
   */
  async #tasksOf(body: unknown, { principal, scope }: Caller): Promise<TaskFeed | undefined> {
    const { tasks } = this.#options.parts
    const { notifications, _meta: meta } = paramsOf(body)
    const taskIds = isRecord(notifications) ? notifications['taskIds'] : undefined
    if (!tasks || taskIds === undefined) return undefined
    const capabilities = isRecord(meta) ? meta[CLIENT_CAPABILITIES_META_KEY] : undefined
    assertDeclared(toClientInfo(undefined, capabilities, MODERN_REVISION))
    const isIds = Array.isArray(taskIds) && taskIds.every((id) => typeof id === 'string')
    if (!isIds || taskIds.length > MAX_FOLLOWED) {
      const text = `"taskIds" must be a list of at most ${MAX_FOLLOWED} texts`
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, text)
    }
    return tasks.listen(taskOwnerOf(principal, scope), taskIds)
  }
}

/** Asks for one list besides: the SDK ends a stream that asks for nothing that it knows. */
function withLists(body: unknown): unknown {
  if (!isRecord(body)) return body
  const params = paramsOf(body)
  const { notifications } = params
  const asked = { ...(isRecord(notifications) && notifications), toolsListChanged: true }
  return { ...body, params: { ...params, notifications: asked } }
}

/** Adds tasks to a stream of the SDK, and takes out the list that its client has not asked for. */
function withTasks(response: Response, body: unknown, tasks: TaskFeed): Response {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response // refused
  const { notifications } = paramsOf(body)
  const wantsLists = isRecord(notifications) && notifications['toolsListChanged'] === true
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let isAcknowledged = false
  const stream = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (isAcknowledged) {
        const isOther = !wantsLists && decoder.decode(chunk).includes(TOOLS_CHANGED)
        if (!isOther) controller.enqueue(chunk)
        return
      }
      // The first event is the acknowledgement.
      const [, before = '', json = ''] = /^([^]*?data: )(.*)/.exec(decoder.decode(chunk)) ?? []
      const message: unknown = JSON.parse(json)
      const params = paramsOf(message)
      const { notifications: honoured, _meta } = params
      const { toolsListChanged, ...others } = isRecord(honoured) ? honoured : {}
      const known = { ...others, ...(wantsLists && { toolsListChanged }), taskIds: tasks.taskIds }
      const send = (head: string, sent: object): void =>
        controller.enqueue(encoder.encode(`${head}${JSON.stringify(sent)}\n\n`))
      const acknowledged = { ...params, notifications: known }
      send(before, { ...(isRecord(message) && message), params: acknowledged })
      isAcknowledged = true
      tasks.begin((task) => {
        const method = 'notifications/tasks'
        send('event: message\ndata: ', { jsonrpc: '2.0', method, params: { ...task, _meta } })
      })
    },
    flush: () => tasks.end(),
  })
  return new Response(response.body?.pipeThrough(stream), response)
}

const TOOLS_CHANGED = '"notifications/tools/list_changed"'

function paramsOf(message: unknown): Params {
  return isRecord(message) && isRecord(message['params']) ? message['params'] : {}
}

/** Drops what cannot be the result of a request, such as plain text: it counts as a missing answer. */
function responsesFrom(inputResponses: unknown): Params {
  if (!isRecord(inputResponses)) return {}
  const results = Object.entries(inputResponses).filter(
    ([, response]) => isRecord(response) && !('method' in response) && !('result' in response),
  )
  return Object.fromEntries(results)
}

/** The client has left. */
const UNREAD: Reply = { status: 499 }

/** The only error of a handler with a status of its own (specification 2026-07-28, "Transports"). */
function statusOf(error: unknown): number {
  const missing: number = ProtocolErrorCode.MissingRequiredClientCapability
  return error instanceof ProtocolError && error.code === missing ? 400 : 200
}

/** Methods without the SDK, with the parameter that `Mcp-Name` repeats. */
const METHODS = new Map([
  ['tools/call', 'name'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])

/**
 * Returns a call that is valid in every respect. All others are for the SDK, which knows how to refuse each kind of
 * malformed request.
 */
export function parseCall(
  route: InboundClassificationOutcome,
  { headers }: Pick<HttpExchange, 'headers'>,
): ValidCall | undefined {
  if (route.kind !== 'modern' || route.messageKind !== 'request') return undefined
  const { id, method, params } = route.message
  const { _meta: meta, arguments: args } = params ?? {}
  const name = params?.[METHODS.get(method) ?? '']
  const isValid =
    METHODS.has(method) &&
    route.classification.revision === MODERN_REVISION &&
    headers.get('mcp-protocol-version') === MODERN_REVISION &&
    headers.get('mcp-method') === method &&
    typeof name === 'string' &&
    headers.get('mcp-name') === name &&
    (args === undefined || isRecord(args)) &&
    isRequestId(id) &&
    isRecord(meta) &&
    isNoneOr(isRequestId, meta['progressToken']) &&
    isNoneOr(isLevel, meta[LOG_LEVEL_META_KEY]) &&
    isClientInfo(meta[CLIENT_INFO_META_KEY]) &&
    isCapabilities(meta[CLIENT_CAPABILITIES_META_KEY])
  return isValid ? { id, method, params: params ?? {}, meta } : undefined
}

function isNoneOr(isOk: (value: unknown) => boolean, value: unknown): boolean {
  return value === undefined || isOk(value)
}

const INFO_TEXTS = ['name', 'version', 'title', 'description', 'websiteUrl']

function isClientInfo(info: unknown): boolean {
  if (info === undefined) return true
  if (!isRecord(info) || info['name'] === undefined || info['version'] === undefined) return false
  return Object.entries(info).every(
    ([key, value]) => !INFO_TEXTS.includes(key) || typeof value === 'string',
  )
}

function isCapabilities(capabilities: unknown): boolean {
  return isRecord(capabilities) && Object.values(capabilities).every(isRecord)
}

/** Context of a valid call. */
class StatelessContext extends CallerContext implements RequestContext {
  readonly session = undefined
  readonly progress: RequestContext['progress']
  readonly stop: AbortController = new AbortController()
  /** Time that the client has to come back. @default none */
  grace: Pick<StatelessHttpOptions, 'clock' | 'disconnectGraceMs'> | undefined
  undoLeave: (() => void) | undefined
  /** Index among the calls in flight. */
  place = 0
  continuation: Continuation | undefined
  /** Is called once, before the first message. `undefined`: messages are dropped. */
  onStream: ((stream: EventStream) => void) | undefined
  /** Begins with the first message before the answer. */
  stream: EventStream | undefined

  constructor({ id: requestId, meta }: ValidCall, { headers }: CallRequest, caller: Caller) {
    super({ requestId, meta, caller, headers })
    const { progressToken } = meta
    if (progressToken === undefined) return
    this.progress = (piece) => this.#send('notifications/progress', { progressToken, ...piece })
  }

  get client(): ClientInfo {
    const { [CLIENT_INFO_META_KEY]: info, [CLIENT_CAPABILITIES_META_KEY]: capabilities } = this.meta
    return toClientInfo(info, capabilities, MODERN_REVISION)
  }

  get signal(): AbortSignal {
    return this.stop.signal
  }

  async log(level: LoggingLevel, text: string): Promise<void> {
    const least = this.meta[LOG_LEVEL_META_KEY]
    if (least === undefined || !isAtLeast(level, least)) return
    await this.#send('notifications/message', { level, data: text })
  }

  /** Clients of this revision call again with their answers. */
  async ask(): Promise<undefined> {
    return undefined
  }

  closeStream(): void {}

  /** The client has left, which cancels the call: at once, or after the time that it has to come back. */
  leave(reason: unknown): void {
    const abort = (): void => this.stop.abort(reason)
    if (!this.grace) return abort()
    this.undoLeave ??= this.grace.clock.after(this.grace.disconnectGraceMs, abort)
  }

  async #send(method: string, params: Params): Promise<void> {
    if (!this.onStream) return
    if (!this.stream) {
      this.stream = new EventStream('')
      this.stream.onClose((end) => {
        if (end === 'lost') this.leave(new Error('The client has left'))
      })
      this.onStream(this.stream)
    }
    this.stream.write(toEvent(JSON.stringify({ jsonrpc: '2.0', method, params })))
    await this.stream.writable()
  }
}

interface OwnFilter {
  /** Body of `subscriptions/listen` with the caller's own resources only. */
  readonly body: unknown
  /** URIs of these resources. */
  readonly followed: readonly string[]
}

/**
 * Removes resources of others from `subscriptions/listen`, and names the rest as notifications will name them. The SDK
 * accepts every URI, and acknowledges what it accepted.
 *
 * @param followed returns the name of a resource in notifications; `undefined` for a resource of somebody else
 */
export async function ownFilter(
  body: unknown,
  followed: (uri: string) => Promise<string | undefined> | undefined,
): Promise<OwnFilter> {
  const asked = { body, followed: [] }
  if (!isRecord(body) || !isRecord(body['params'])) return asked
  const { params } = body
  const { notifications } = params
  if (!isRecord(notifications) || !Array.isArray(notifications['resourceSubscriptions'])) {
    return asked
  }
  const uris: unknown[] = notifications['resourceSubscriptions']
  const own = new Set<string>()
  for (const uri of uris.slice(0, MAX_FOLLOWED)) {
    if (typeof uri !== 'string') return asked // the SDK reports the error
    const name = await followed(uri)
    if (name !== undefined) own.add(name)
  }
  const accepted = { ...notifications, resourceSubscriptions: [...own] }
  return { body: { ...body, params: { ...params, notifications: accepted } }, followed: [...own] }
}
