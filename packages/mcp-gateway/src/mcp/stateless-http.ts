import {
  classifyInboundRequest,
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  SERVER_INFO_META_KEY,
  type InboundClassificationOutcome,
  type InboundModernRoute,
  type LoggingLevel,
  type McpHttpHandler,
  type RequestId,
} from '@modelcontextprotocol/server'

import { BoundedMap, isRecord, untilAborted } from '@x/internal'
import { ownerOf, type Caller, type Principal } from '../internal/principal.ts'
import type { Clock } from '../internal/clock.ts'
import type { RunResume } from '../runs/order.ts'
import type { ChangeFeed } from './change-feed.ts'
import { EventStream, toEvent } from './event-stream.ts'
import { LIST_TTL_MS, type HandlerParts, type McpHandlers, type McpResult } from './handlers.ts'
import { invalidParams, isMessage, RPC_ERROR, toErrorResponse, type Params } from './json-rpc.ts'
import type { OpenStreams } from './open-streams.ts'
import { toReply, type HttpExchange, type Reply } from './reply.ts'
import { RequestContext, type ClientInfo } from './request-context.ts'
import { isModern, MODERN_REVISION } from './revisions.ts'
import { isAtLeast } from './session-context.ts'
import { acceptFilter, Subscription } from './subscriptions.ts'
import { hasKey } from './tool-call.ts'

export interface StatelessHttpOptions {
  readonly handlers: McpHandlers
  readonly parts: Pick<HandlerParts, 'cacheScope' | 'onError' | 'resources' | 'states'>
  readonly changes: ChangeFeed
  /** Number of `subscriptions/listen` of all callers. */
  readonly maxSubscriptions: number
  readonly streams: OpenStreams
  readonly clock: Clock
}

/** Time that a client has to come back to a call with an idempotency key. Then the call is cancelled. */
const KEYED_GRACE_MS = 10_000

interface Inbound {
  readonly body: unknown
  readonly route: InboundClassificationOutcome
}

type CallRequest = Pick<HttpExchange, 'headers' | 'signal'>

/** A request whose headers and envelope are valid. Its parameters were not checked. */
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
  const known = method === 'POST' ? knownRoute(body, { version, mcpMethod }) : undefined
  if (known) return known
  const name = headers.get('mcp-name')
  const route = classifyInboundRequest({
    httpMethod: method,
    ...(version !== null && { protocolVersionHeader: version }),
    ...(mcpMethod !== null && { mcpMethodHeader: mcpMethod }),
    ...(name !== null && { mcpNameHeader: name }),
    body,
  })
  if (route.kind === 'modern' && route.messageKind === 'request') {
    const { _meta: meta = {} } = route.message.params ?? {}
    const envelope = envelopeOf(meta)
    if (envelope.length <= MAX_ENVELOPE_CHARS) envelopes.set(envelope, route.classification)
  }
  return route
}

const MAX_ENVELOPES = 1000
const MAX_ENVELOPE_CHARS = 2048

/** Valid envelopes. A client sends the same one with each request, and the check of the SDK costs much. */
const envelopes = new BoundedMap<string, InboundModernRoute['classification']>(MAX_ENVELOPES)

/** Returns the part of an envelope that does not change from request to request. */
function envelopeOf({
  [PROTOCOL_VERSION_META_KEY]: version,
  [CLIENT_INFO_META_KEY]: info,
  [CLIENT_CAPABILITIES_META_KEY]: capabilities,
  [LOG_LEVEL_META_KEY]: level,
}: Params): string {
  return JSON.stringify({ version, info, capabilities, level })
}

/**
 * Classifies usual requests as the classifier of the SDK does, without its check by schemas for responses.
 * Returns `undefined` if the SDK has to decide.
 */
function knownRoute(
  body: unknown,
  { version, mcpMethod }: { readonly version: string | null; readonly mcpMethod: string | null },
): InboundClassificationOutcome | undefined {
  if (!isMessage(body) || !('method' in body) || !('id' in body)) return undefined
  if (body.method === 'initialize') return undefined
  const meta = body.params?.['_meta']
  if (isRecord(meta) && PROTOCOL_VERSION_META_KEY in meta) {
    const classification = envelopes.get(envelopeOf(meta))
    if (!classification || version !== meta[PROTOCOL_VERSION_META_KEY]) return undefined
    if (mcpMethod !== body.method) return undefined
    return { kind: 'modern', messageKind: 'request', message: body, classification }
  }
  if (version === null || isModern(version)) return undefined
  return { kind: 'legacy', reason: 'no-claim', requestedVersion: version }
}

/**
 * Serves revision 2026-07-28, which has no sessions. A client that leaves has cancelled its request, as that revision
 * demands.
 */
export class StatelessHttp {
  /** Refuses malformed requests, each kind with the error that the specification gives it. */
  readonly #refusals: McpHttpHandler
  readonly #options: StatelessHttpOptions
  readonly #calls = new Set<StatelessContext>()
  readonly #subscriptions = new Set<Subscription>()
  #isClosed = false

  constructor(options: StatelessHttpOptions) {
    const { handlers, parts } = options
    this.#options = options
    const server = (): Server => new Server(handlers.serverInfo, { capabilities: {} })
    this.#refusals = createMcpHandler(server, { legacy: 'reject', onerror: parts.onError })
  }

  /** Serves a request that does not belong to the revisions with sessions. It may be malformed. */
  async serve(request: CallRequest, { body, route }: Inbound, caller: Caller): Promise<Reply> {
    const call = this.#isClosed ? undefined : parseCall(route, request)
    if (call) {
      return call.method === 'subscriptions/listen'
        ? this.#listen(call, caller)
        : this.#call(call, request, caller)
    }
    const headers = new Headers([...request.headers.entries()])
    const refused = new Request('http://localhost', { method: 'POST', headers })
    return toReply(await this.#refusals.fetch(refused, { parsedBody: body }))
  }

  /** Ends all streams of listeners with a last event, and cancels calls. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const { stop } of this.#calls) stop.abort(new Error('The gateway was closed'))
    for (const subscription of this.#subscriptions) subscription.end(this.#serverMeta)
    await this.#refusals.close()
    this.#options.streams.close()
  }

  get #serverMeta(): Params {
    return { [SERVER_INFO_META_KEY]: this.#options.handlers.serverInfo }
  }

  /** The reply is JSON, unless there is a message before the answer. */
  #call(call: ValidCall, request: CallRequest, caller: Caller): Promise<Reply> {
    const context = new StatelessContext(call, request, caller)
    if (hasKey(call.meta)) context.grace = this.#options.clock
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

  async #answer(call: ValidCall, context: StatelessContext, request: CallRequest): Promise<Reply> {
    const { id, method, params } = call
    const { signal } = context
    const leave = (): void => context.leave(request.signal.reason)
    if (request.signal.aborted) return UNREAD
    request.signal.addEventListener('abort', leave)
    this.#calls.add(context)
    try {
      if (params['requestState'] !== undefined) {
        context.continuation = await this.#continuation(call, context.principal)
      }
      const handled =
        method === 'server/discover'
          ? this.#discover()
          : this.#options.handlers.handle(method, params, context)
      const result = handled instanceof Promise ? await untilAborted(handled, signal) : handled
      const { resultType = 'complete', _meta: meta } = result
      const isListed = resultType === 'complete' && CACHEABLE.has(method)
      const stamped = {
        ...(isListed && { ttlMs: 0, cacheScope: 'private' }),
        ...result,
        resultType,
        _meta: { ...meta, ...this.#serverMeta },
      }
      return { status: 200, body: JSON.stringify({ jsonrpc: '2.0', id, result: stamped }) }
    } catch (error) {
      return signal.aborted ? UNREAD : this.#failed(id, error)
    } finally {
      context.onStream = undefined
      context.undoLeave?.()
      this.#calls.delete(context)
      request.signal.removeEventListener('abort', leave)
    }
  }

  #failed(id: RequestId, error: unknown): Reply {
    if (!(error instanceof ProtocolError)) {
      this.#options.parts.onError(new Error('A call could not be answered', { cause: error }))
    }
    return { status: statusOf(error), body: JSON.stringify(toErrorResponse(id, error)) }
  }

  #discover(): McpResult {
    const { handlers, parts } = this.#options
    const { cacheScope } = parts
    const capabilities = handlers.capabilities('modern')
    const { instructions } = handlers
    const list = { ttlMs: LIST_TTL_MS, cacheScope }
    return { supportedVersions: [MODERN_REVISION], capabilities, instructions, ...list }
  }

  async #continuation({ method, params }: ValidCall, { id }: Principal): Promise<RunResume> {
    const { requestState, inputResponses } = params
    const { onError, states } = this.#options.parts
    try {
      if (typeof requestState !== 'string') throw new TypeError('requestState is not text')
      const state = await states.verify(requestState, { method, principal: id })
      return { state, responses: responsesFrom(inputResponses) }
    } catch (cause) {
      onError(new Error('A call was refused because of its requestState', { cause }))
      const data = { reason: 'invalid_request_state' }
      throw invalidParams('Invalid or expired requestState', data)
    }
  }

  async #listen({ id, params }: ValidCall, caller: Caller): Promise<Reply> {
    const { changes, handlers, maxSubscriptions, parts, streams } = this.#options
    const isFull = this.#subscriptions.size >= maxSubscriptions
    const leave = isFull ? undefined : streams.enter(caller)
    if (!leave) {
      const text = 'Subscription limit reached'
      return this.#failed(id, new ProtocolError(ProtocolErrorCode.InternalError, text))
    }
    try {
      const { resources } = parts
      const filter = await acceptFilter(params['notifications'], caller, {
        capabilities: handlers.capabilities('modern'),
        resources,
      })
      const subscription = new Subscription(id, filter, resources && ownerOf(caller))
      const { stream } = subscription
      const stop = changes.listen(subscription)
      this.#subscriptions.add(subscription)
      streams.keepOpen(stream)
      stream.onClose(() => {
        stop()
        this.#subscriptions.delete(subscription)
        leave()
      })
      if (subscription.isEmpty || this.#isClosed) subscription.end(this.#serverMeta)
      return { status: 200, body: stream }
    } catch (cause) {
      leave()
      if (cause instanceof ProtocolError) return this.#failed(id, cause)
      parts.onError(new Error('A listener could not be served', { cause }))
      const text = 'Resources cannot be reached now. Try again in a moment.'
      return this.#failed(id, new ProtocolError(ProtocolErrorCode.InternalError, text))
    }
  }
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

/** Errors of handlers with a status of their own (specification 2026-07-28, "Transports"). */
function statusOf(error: unknown): number {
  if (!(error instanceof ProtocolError)) return 200
  if (error.code === MISSING_CAPABILITY) return 400
  return error.code === RPC_ERROR.methodNotFound ? 404 : 200
}

const MISSING_CAPABILITY: number = ProtocolErrorCode.MissingRequiredClientCapability

/** Methods whose results say how long clients may keep them (specification 2026-07-28, "Caching"). */
const CACHEABLE: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'server/discover',
])

/** Parameter that `Mcp-Name` repeats, by method. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])

/** Returns the parameter that the header `Mcp-Name` has to repeat. `undefined`: none. */
export function nameIn(method: string, params: Params | undefined): string | undefined {
  const name = params?.[NAMES.get(method) ?? '']
  return typeof name === 'string' ? name : undefined
}

/** Returns a request whose headers and envelope are valid. The SDK refuses all others. */
function parseCall(
  route: InboundClassificationOutcome,
  { headers }: Pick<CallRequest, 'headers'>,
): ValidCall | undefined {
  // The classifier of the SDK has checked the envelope, and that the headers do not contradict it.
  if (route.kind !== 'modern' || route.messageKind !== 'request') return undefined
  if (route.classification.revision !== MODERN_REVISION) return undefined
  if (!headers.has('mcp-protocol-version') || !headers.has('mcp-method')) return undefined
  const { id, method, params = {} } = route.message
  const name = nameIn(method, params)
  const header = headers.get('mcp-name')
  if (name !== undefined && name !== header && name !== decodeName(header)) return undefined
  const { _meta: meta = {} } = params
  return { id, method, params, meta }
}

/** Returns the header for a name that may have characters that no header can have (SEP-2243). */
export function encodeName(name: string): string {
  return `=?base64?${Buffer.from(name).toString('base64')}?=`
}

function decodeName(header: string | null): string | null {
  const [, base64] = /^=\?base64\?(.*)\?=$/.exec(header ?? '') ?? []
  return base64 === undefined ? header : Buffer.from(base64, 'base64').toString()
}

class StatelessContext extends RequestContext {
  readonly progress: RequestContext['progress']
  readonly client: ClientInfo
  readonly stop: AbortController = new AbortController()
  readonly signal: AbortSignal
  /** Measures the time that the client has to come back. @default none */
  grace: Clock | undefined
  undoLeave: (() => void) | undefined
  continuation: RunResume | undefined
  /** Is called once, before the first message. `undefined`: messages are dropped. */
  onStream: ((stream: EventStream) => void) | undefined
  /** Begins with the first message before the answer. */
  stream: EventStream | undefined

  constructor({ meta }: ValidCall, { headers }: CallRequest, caller: Caller) {
    super(meta, caller, headers)
    const { [CLIENT_CAPABILITIES_META_KEY]: given } = meta
    const capabilities = isRecord(given) ? given : {}
    this.client = { protocolVersion: MODERN_REVISION, capabilities }
    this.signal = this.stop.signal
    const { progressToken } = meta
    if (progressToken === undefined) return
    this.progress = (piece) => this.#send('notifications/progress', { progressToken, ...piece })
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

  /** The client has left, which cancels the call: at once, or after the time that it has to come back. */
  leave(reason: unknown): void {
    const abort = (): void => this.stop.abort(reason)
    if (!this.grace) return abort()
    this.undoLeave ??= this.grace.after(KEYED_GRACE_MS, abort)
  }

  async #send(method: string, params: Params): Promise<void> {
    if (!this.onStream) return
    if (!this.stream) {
      this.stream = new EventStream()
      this.stream.onClose((end) => {
        if (end === 'lost') this.leave(new Error('The client has left'))
      })
      this.onStream(this.stream)
    }
    this.stream.write(toEvent(JSON.stringify({ jsonrpc: '2.0', method, params })))
    await this.stream.writable()
  }
}
