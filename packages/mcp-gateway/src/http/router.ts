import { isJsonContentType } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { repairMessage } from '@x/internal/mcp-answers'
import type { GatewayObserver } from '../internal/observer.ts'
import { accountOf, isPrincipal, mayUse, type Caller } from '../internal/principal.ts'
import { excessOf } from '../internal/text.ts'
import { EventStream } from '../mcp/event-stream.ts'
import { isAnyRequest, RPC_ERROR } from '../mcp/json-rpc.ts'
import {
  refused,
  toReply,
  tryLater,
  type BodyText,
  type HttpExchange,
  type Reply,
} from '../mcp/reply.ts'
import type { SessionHttp } from '../mcp/session-http.ts'
import { classifyRequest, type StatelessHttp } from '../mcp/stateless-http.ts'
import { reportRefusedCall } from '../mcp/tool-call.ts'
import type { AgentRegistry } from '../tools/agent-registry.ts'
import type { Admission } from './admission.ts'
import { challengeResponse, type Authenticator } from './auth/authenticator.ts'

/** Requests beside the MCP endpoint: documents of authentication, artifacts, health. A route that reads a body limits it. */
export interface HttpRoute {
  /** @param path path of the URL, as it reaches the gateway */
  matches(path: string): boolean
  /** True if the route also answers requests to other host names, such as those of probes. */
  readonly isOpen: boolean
  /** True if `handle` checks the Origin of requests to a path itself. @default false */
  checksOrigin?(path: string): boolean
  /** Returns `undefined` if the route has nothing at the URL. */
  handle(exchange: HttpExchange): Promise<Reply | undefined>
}

/** Answers 200 while the process lives. */
export const HEALTH_PATH = '/healthz'
/** Answers 200 while calls may come, else 503. */
export const READY_PATH = '/readyz'

/** A document at a path. */
export interface Document {
  readonly status: number
  readonly mimeType: string
  readonly text: string
}

/** Answers `GET` and `HEAD` of one path for every caller. Caches do not store the document. */
export function documentRoute(path: string, read: () => Promise<Document>): HttpRoute {
  return {
    isOpen: true,
    matches: (requested) => requested === path,
    handle: async ({ method }) => {
      if (method !== 'GET' && method !== 'HEAD') {
        return { status: 405, headers: { allow: 'GET, HEAD' } }
      }
      const { status, mimeType, text } = await read()
      const headers = { 'cache-control': 'no-store', 'content-type': mimeType }
      return { status, headers, body: method === 'HEAD' ? undefined : text }
    },
  }
}

export interface RouterOptions {
  /** Serves 2026-07-28. */
  readonly modern: StatelessHttp
  /** Serves the revisions with sessions. */
  readonly legacy: SessionHttp
  readonly routes: readonly HttpRoute[]
  readonly admission: Admission
  /** Receives calls that are refused. */
  readonly observer: Required<GatewayObserver>
  readonly auth: Authenticator | undefined
  readonly maxBodyBytes: number
  readonly registry: Pick<AgentRegistry, 'plan' | 'whenListable'>
  /** Returns true when the gateway is about to stop: requests in flight go on, new ones are refused. */
  readonly isDraining: () => boolean
  readonly onError: (error: Error) => void
}

const NO_BATCHES =
  'JSON-RPC batches are not served: send each message in a request of its own. Only revision 2025-03-26 has batches.'
const NO_ROOM =
  'Too many responses wait for clients that do not read them. Nothing was executed: read the responses, then send the request again.'

/** Methods that clients call once, when they begin, or with names from a list of another process. */
const FIRST_METHODS: ReadonlySet<unknown> = new Set([
  'initialize',
  'server/discover',
  'tools/list',
  'prompts/list',
  'prompts/get',
])

/** Serves all HTTP requests, from any server: checks them, reads their bodies, and passes them on by path and revision. */
export class Router {
  readonly #options: RouterOptions
  /** Number of requests without a complete reply. */
  #open = 0
  #whenIdle: (() => void) | undefined

  constructor(options: RouterOptions) {
    this.#options = options
  }

  /**
   * Never rejects.
   *
   * @param endpoints paths of the MCP endpoint. `undefined`: the endpoint has all paths that no route has
   */
  async serve(exchange: HttpExchange, endpoints?: ReadonlySet<string>): Promise<Reply> {
    this.#open++
    let reply: Reply
    try {
      reply = await this.#serve(exchange, endpoints)
    } catch (cause) {
      this.#options.onError(
        new Error(`A ${exchange.method} request could not be served`, { cause }),
      )
      reply = refused(500, RPC_ERROR.internalError, 'Internal server error')
    }
    const { body } = reply
    // Clients listen on the other streams until the gateway ends them.
    const isCall = exchange.method === 'POST' && body instanceof EventStream && !body.isEndless
    if (isCall) body.onClose(() => this.#leave())
    else this.#leave()
    return this.#options.admission.allowOrigin(exchange, reply)
  }

  /** Resolves when the server has every reply of a call. */
  whenIdle(): Promise<void> {
    if (this.#open === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#whenIdle = resolve
    })
  }

  /** Returns whether the body of a request to this path is read as a stream. */
  isStreamed(path: string): boolean {
    return this.#options.routes.some((route) => route.matches(path))
  }

  #leave(): void {
    if (--this.#open === 0) this.#whenIdle?.()
  }

  async #serve(exchange: HttpExchange, endpoints: ReadonlySet<string> | undefined): Promise<Reply> {
    const { admission, routes } = this.#options
    const path = pathOf(exchange.url)
    const isEndpoint = endpoints?.has(path) ?? false
    const route = isEndpoint ? undefined : routes.find((each) => each.matches(path))
    if (!route?.isOpen) {
      const reply = admission.checkOrigin(exchange, {
        anyOrigin: route?.checksOrigin?.(path) ?? false,
      })
      if (reply) return reply
    }
    if (route) return (await route.handle(exchange)) ?? notFound()
    if (endpoints && !isEndpoint) return notFound(`: MCP is served at ${[...endpoints].join(', ')}`)
    return this.#serveMcp(exchange)
  }

  async #serveMcp(exchange: HttpExchange): Promise<Reply> {
    const { admission, isDraining, legacy } = this.#options
    const { address, hasRoom, headers, method } = exchange
    const who = await admission.admit(exchange)
    if (!isPrincipal(who)) return who
    const caller: Caller = { principal: who, address, hasRoom }
    const account = accountOf(caller)
    if (method === 'GET' && !hasRoom(account)) return tryLater(503, NO_ROOM, 5000)
    if (method !== 'POST') return legacy.serve(exchange, undefined, caller)
    if (!isJsonContentType(headers.get('content-type'))) {
      const text = 'Unsupported Media Type: Content-Type must be application/json'
      return refused(415, RPC_ERROR.refused, text)
    }
    const read = await exchange.readBody()
    if (!read.ok) return this.#unread(read.why)
    const excess = excessOf(read.text)
    if (excess !== undefined) {
      return refused(400, RPC_ERROR.invalidRequest, `Invalid Request: the request body ${excess}`)
    }
    let body: unknown
    try {
      body = JSON.parse(read.text)
    } catch {
      const text = 'Parse error: the request body is not valid JSON'
      return refused(400, RPC_ERROR.parseError, text)
    }
    repairMessage(body)
    if (isDraining() && isAnyRequest(body)) return tryLater(503, 'The gateway is stopping', 1000)
    if (Array.isArray(body)) return refused(400, RPC_ERROR.invalidRequest, NO_BATCHES)
    if (!hasRoom(account) && isAnyRequest(body)) return tryLater(503, NO_ROOM, 5000)
    return this.#dispatch(exchange, body, caller)
  }

  #unread(why: Exclude<BodyText, { ok: true }>['why']): Reply {
    switch (why) {
      case 'broken': {
        const text = 'Parse error: the request body could not be read'
        return refused(400, RPC_ERROR.parseError, text)
      }
      case 'slow': {
        const text = 'Request Timeout: the request body came too slowly'
        return refused(408, RPC_ERROR.refused, text)
      }
      case 'too-large': {
        const text = `Payload Too Large: a body may have ${this.#options.maxBodyBytes} bytes`
        return refused(413, RPC_ERROR.refused, text)
      }
    }
  }

  async #dispatch(exchange: HttpExchange, body: unknown, caller: Caller): Promise<Reply> {
    const { admission, auth, legacy, modern, observer, registry } = this.#options
    const { principal, address } = caller
    let isEarly = isRecord(body) && FIRST_METHODS.has(body['method'])
    const name = calledTool(body)
    if (name !== undefined) isEarly ||= !registry.plan().byName(name)
    if (isEarly) await registry.whenListable()
    const route = classifyRequest(exchange, body)
    const era = route.kind === 'legacy' ? 'legacy' : 'modern'
    const tool = name === undefined ? undefined : registry.plan().byName(name)
    if (tool && !mayUse(principal, tool)) {
      reportRefusedCall(observer, { tool: tool.name, principal, address, era })
      const { scopes } = tool
      // While the HTTP status is still open (specification 2026-07-28, "Authorization", scope challenges).
      const own = auth?.refuseScopes?.(admission.asked(exchange), scopes)
      return toReply(own ?? challengeResponse({ error: 'insufficient_scope', scopes }))
    }
    return era === 'legacy'
      ? legacy.serve(exchange, body, caller)
      : modern.serve(exchange, { body, route }, caller)
  }
}

/** Returns the name of the tool that a message calls. */
function calledTool(body: unknown): string | undefined {
  if (!isRecord(body) || body['method'] !== 'tools/call') return undefined
  const params = body['params']
  const name = isRecord(params) ? params['name'] : undefined
  return typeof name === 'string' ? name : undefined
}

/** Returns the path of a URL, without its query. */
export function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return '/'
  const end = url.indexOf('?', start)
  return end < 0 ? url.slice(start) : url.slice(start, end)
}

export function notFound(advice = ''): Reply {
  return { status: 404, headers: { 'content-type': 'text/plain' }, body: `Not found${advice}\n` }
}
