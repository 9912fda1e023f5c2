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
  type McpHttpHandler,
  type RequestId,
} from '@modelcontextprotocol/server'

import { isRecord, untilAborted } from '@x/internal'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import { JsonAnswer } from '../internal/json-answer.ts'
import type { TraceCarrier } from '../internal/observer.ts'
import { slotOwnerOf, type Principal } from '../internal/principal.ts'
import { isEventStream, watchedBody } from '../internal/watched-body.ts'
import type { Caller } from './caller.ts'
import type { Params } from './handlers.ts'
import { isRequestId, methodOf, toErrorResponse } from './json-rpc.ts'
import type { OpenStreams } from './open-streams.ts'
import {
  readTrace,
  type ClientInfo,
  type Continuation,
  type RequestContext,
} from './request-context.ts'
import { MODERN_REVISION } from './revisions.ts'
import type { SdkServers, ServerParts } from './sdk-server.ts'

export interface StatelessHttpOptions {
  readonly parts: ServerParts
  readonly servers: SdkServers
  readonly maxSubscriptions: number
  /** Open streams of each caller. */
  readonly streams: OpenStreams
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
}

/** A request whose body was parsed. */
interface Inbound {
  readonly body: unknown
  readonly route: InboundClassificationOutcome
}

/** A `tools/call` that needs one response and no stream. */
interface PlainCall {
  readonly id: RequestId
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
  { method, headers }: Request,
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
  readonly #calls = new Set<AbortController>()
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
    { request }: Pick<HttpExchange, 'request'>,
    { body, route }: Inbound,
    caller: Caller,
  ): Promise<HttpAnswer> {
    const call = this.#isClosed ? undefined : plainCallFrom(route, request)
    if (call) return this.#call(call, { request, caller })
    this.#options.parts.callers.set(request, caller)
    if (methodOf(body) === 'subscriptions/listen') {
      return { response: await this.#listen(request, body, caller) }
    }
    const response = await this.#sdk.fetch(request, { parsedBody: body })
    // A response that is a stream is in flight until its end. The stream of a listener has no end.
    return { response, onEnd: () => undefined }
  }

  /** Ends all streams of listeners with a last event, and cancels calls. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const call of this.#calls) call.abort(new Error('The gateway was closed'))
    await this.#sdk.close()
  }

  async #call(
    call: PlainCall,
    { request, caller }: { readonly request: Request; readonly caller: Caller },
  ): Promise<HttpAnswer> {
    const { id, params } = call
    const { handlers } = this.#options.servers
    const stop = new AbortController()
    const { signal } = stop
    const leave = (): void => stop.abort(request.signal.reason)
    if (request.signal.aborted) return unread()
    request.signal.addEventListener('abort', leave)
    this.#calls.add(stop)
    try {
      const continuation = await this.#continuation(params, caller)
      const context = new StatelessContext(call, { request, caller, signal, continuation })
      const handled = handlers.handle('tools/call', params, context)
      const result = handled instanceof Promise ? await untilAborted(handled, signal) : handled
      const { resultType = 'complete', _meta: meta } = result
      const stamped = { ...meta, [SERVER_INFO_META_KEY]: handlers.serverInfo }
      return new JsonAnswer({
        jsonrpc: '2.0',
        id,
        result: { ...result, resultType, _meta: stamped },
      })
    } catch (error) {
      if (signal.aborted) return unread()
      if (!(error instanceof ProtocolError)) {
        this.#options.parts.onError(new Error('A call could not be answered', { cause: error }))
      }
      return new JsonAnswer(toErrorResponse(id, error), statusOf(error))
    } finally {
      this.#calls.delete(stop)
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
      if (typeof requestState !== 'string') throw new TypeError('it is not text')
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

  async #listen(request: Request, body: unknown, caller: Caller): Promise<Response> {
    const leave = this.#options.streams.enter(caller)
    if (!leave) {
      const id = isRecord(body) ? body['id'] : null
      const error = { code: -32_603, message: 'Subscription limit reached' }
      return Response.json({ jsonrpc: '2.0', id, error })
    }
    const { listeners, resources } = this.#options.parts
    let forget: (() => void) | undefined
    const end = (): void => {
      forget?.()
      leave()
    }
    try {
      const own = await ownFilter(body, (uri) => resources?.followed(caller, uri))
      if (own.followed.length > 0) forget = listeners.addStream(own.followed)
      const response = await this.#sdk.fetch(request, { parsedBody: own.body })
      if (isEventStream(response)) return watchedBody(response, end)
      end()
      return response
    } catch (error) {
      end()
      throw error
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

function unread(): HttpAnswer {
  return { response: new Response(null, { status: 499 }) }
}

/** The only error of a handler with a status of its own (specification 2026-07-28, "Transports"). */
function statusOf(error: unknown): number {
  const missing: number = ProtocolErrorCode.MissingRequiredClientCapability
  return error instanceof ProtocolError && error.code === missing ? 400 : 200
}

/**
 * Returns a call that is valid in every respect and needs no stream: its client asked for neither progress nor logs.
 * All others are for the SDK, which knows how to refuse each kind of malformed request.
 */
export function plainCallFrom(
  route: InboundClassificationOutcome,
  { headers }: Request,
): PlainCall | undefined {
  if (route.kind !== 'modern' || route.messageKind !== 'request') return undefined
  const { id, method, params } = route.message
  const { _meta: meta, name, arguments: args } = params ?? {}
  const isPlain =
    method === 'tools/call' &&
    route.classification.revision === MODERN_REVISION &&
    headers.get('mcp-protocol-version') === MODERN_REVISION &&
    headers.get('mcp-method') === method &&
    typeof name === 'string' &&
    headers.get('mcp-name') === name &&
    (args === undefined || isRecord(args)) &&
    isRequestId(id) &&
    isRecord(meta) &&
    meta['progressToken'] === undefined &&
    meta[LOG_LEVEL_META_KEY] === undefined &&
    isClientInfo(meta[CLIENT_INFO_META_KEY]) &&
    isCapabilities(meta[CLIENT_CAPABILITIES_META_KEY])
  return isPlain ? { id, params: params ?? {}, meta } : undefined
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

interface ContextParts {
  readonly request: Request
  readonly caller: Caller
  readonly signal: AbortSignal
  readonly continuation: Continuation | undefined
}

/** Context of a call without a stream. */
class StatelessContext implements RequestContext {
  readonly requestId: RequestId
  readonly principal: Principal
  readonly namespace: string | undefined
  readonly address: string | undefined
  readonly meta: Params
  readonly signal: AbortSignal
  readonly continuation: Continuation | undefined
  readonly session = undefined
  readonly progress = undefined
  readonly #caller: Caller
  readonly #headers: Headers

  constructor({ id, meta }: PlainCall, { caller, continuation, request, signal }: ContextParts) {
    this.requestId = id
    this.principal = caller.principal
    this.namespace = caller.scope
    this.address = caller.address
    this.meta = meta
    this.signal = signal
    this.continuation = continuation
    this.#caller = caller
    this.#headers = request.headers
  }

  get client(): ClientInfo {
    const info = this.meta[CLIENT_INFO_META_KEY]
    const capabilities = this.meta[CLIENT_CAPABILITIES_META_KEY]
    return {
      name: isRecord(info) && typeof info['name'] === 'string' ? info['name'] : undefined,
      protocolVersion: MODERN_REVISION,
      capabilities: isRecord(capabilities) ? capabilities : {},
    }
  }

  get bodyBytes(): number | undefined {
    const length = this.#headers.get('content-length')
    return length === null ? undefined : Number(length)
  }

  get trace(): TraceCarrier | undefined {
    return readTrace(this.meta, this.#headers)
  }

  hasRoom(): boolean {
    return this.#caller.hasRoom?.(slotOwnerOf(this.#caller)) !== false
  }

  async log(): Promise<void> {}

  /** Clients of this revision call again with their answers. */
  async ask(): Promise<undefined> {
    return undefined
  }

  closeStream(): void {}
}

/** Resources to which one stream may subscribe. */
const MAX_FOLLOWED = 256

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
