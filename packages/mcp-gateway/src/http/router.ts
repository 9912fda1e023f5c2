import { isJsonContentType } from '@modelcontextprotocol/server'

import type { Authenticator } from './auth/authenticator.ts'
import { calledTools, scopeRefusal } from './auth/permissions.ts'
import { isPrincipal, slotOwnerOf } from '../internal/principal.ts'
import type { Admission } from './admission.ts'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import { RPC, rpcErrorResponse } from '../mcp/rpc-error.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { PlannedTool } from '../tools/tool-plan.ts'
import type { Caller } from '../mcp/request-context.ts'
import type { SessionHttp } from '../mcp/session-http.ts'
import { classifyRequest, type StatelessHttp } from '../mcp/stateless-http.ts'
import { reportRefusedCall } from '../mcp/tool-call.ts'
import { methodOf, requestIdsOf } from '../mcp/json-rpc.ts'

export interface RouterOptions {
  /** Serves 2026-07-28. @default that revision is refused */
  readonly modern?: StatelessHttp | undefined
  /** Serves the revisions with sessions. @default they are refused */
  readonly legacy?: SessionHttp | undefined
  readonly admission: Admission
  /** Gets calls that are refused. */
  readonly observer?: Required<GatewayObserver> | undefined
  /** Names the missing scopes in its response. @default a challenge without metadata */
  readonly auth?: Authenticator | undefined
  readonly maxBodyBytes: number
  /** Returns the tool with this name. */
  readonly toolByName: (name: string) => PlannedTool | undefined
  /** Resolves when agents had time to appear in lists. Never rejects. */
  readonly whenListable: () => Promise<void>
  /** Whether the gateway is about to stop: requests in flight may end, new ones are refused. */
  readonly isDraining: () => boolean
}

/** Messages in a batch (2025-03-26). The SDK has the same limit. */
const MAX_BATCH = 100
const INVALID_REQUEST = -32_600
const NO_ROOM =
  'Too many responses wait for clients that do not read them. Nothing was executed: read the responses, then send the request again.'

/** Methods that clients call once, when they begin, or with names from a list of another process. */
const FIRST_METHODS = new Set([
  'initialize',
  'server/discover',
  'tools/list',
  'prompts/list',
  'prompts/get',
])

/**
 * Serves the MCP endpoint: reads the body, checks limits and scopes, and passes the request on by its revision.
 */
export class Router {
  readonly #options: RouterOptions

  constructor(options: RouterOptions) {
    this.#options = options
  }

  async serve(exchange: HttpExchange): Promise<HttpAnswer> {
    const { address, hasRoom, request, writable } = exchange
    const who = await this.#options.admission.admit(exchange)
    if (!isPrincipal(who)) return { response: who }
    const caller: Caller = { principal: who, address, writable, hasRoom }
    if (request.method !== 'POST') return this.#legacy(exchange, undefined, caller)
    if (!isJsonContentType(request.headers.get('content-type'))) {
      return refused(
        415,
        RPC.refused,
        'Unsupported Media Type: Content-Type must be application/json',
      )
    }
    const read = await exchange.readBody()
    if (!read.ok && read.why === 'broken') {
      return refused(400, RPC.parseError, 'Parse error: the request body could not be read')
    }
    if (!read.ok && read.why === 'slow') {
      return refused(408, RPC.refused, 'Request Timeout: the request body came too slowly')
    }
    if (!read.ok) {
      const limit = this.#options.maxBodyBytes
      return refused(413, RPC.refused, `Payload Too Large: a body may have ${limit} bytes`)
    }
    const body = parsed(read.text)
    if (body === undefined) {
      return refused(400, RPC.parseError, 'Parse error: the request body is not valid JSON')
    }
    return this.#route(exchange, body, caller)
  }

  async #route(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { admission, auth, isDraining, modern, toolByName, whenListable } = this.#options
    if (isDraining() && requestIdsOf(body).length > 0) {
      return refused(503, RPC.refused, 'The gateway is stopping', { 'retry-after': '1' })
    }
    const { principal, address, hasRoom } = caller
    if (hasRoom?.(slotOwnerOf(caller)) === false && requestIdsOf(body).length > 0) {
      return refused(503, RPC.refused, NO_ROOM, { 'retry-after': '5' })
    }
    if (Array.isArray(body)) {
      if (body.length > MAX_BATCH) {
        return refused(400, INVALID_REQUEST, `A batch may have ${MAX_BATCH} messages`)
      }
      const tooMany = await admission.furtherRefusal(principal, address, body.length - 1)
      if (tooMany) return { response: tooMany }
    }
    const isOfEarlierList = calledTools(body).some((name) => !toolByName(name))
    if (isOfEarlierList || FIRST_METHODS.has(methodOf(body) ?? '')) await whenListable()
    const route = classifyRequest(exchange.request, body)
    const check = { principal, auth, request: admission.asked(exchange.request), toolByName }
    const refusal = scopeRefusal(body, check)
    if (refusal) {
      const era = route.kind === 'legacy' ? 'legacy' : 'modern'
      reportRefusedCall(this.#options.observer, { tool: refusal.tool, principal, address, era })
      return { response: refusal.response }
    }
    const isLegacy = route.kind === 'legacy'
    if (isLegacy && (this.#options.legacy || !modern)) return this.#legacy(exchange, body, caller)
    if (!modern)
      return refused(400, RPC.refused, 'This revision of the protocol is not served here')
    return modern.serve(exchange, { body, route }, caller)
  }

  async #legacy(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { legacy } = this.#options
    if (legacy) return legacy.serve(exchange, body, caller)
    return refused(405, RPC.refused, 'Method not allowed.', { allow: 'POST' })
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function refused(
  status: number,
  code: number,
  ...[message, headers]: [message: string, headers?: Readonly<Record<string, string>>]
): HttpAnswer {
  return { response: rpcErrorResponse(status, { code, message }, headers) }
}
