import {
  createMcpHandler,
  type InboundClassificationOutcome,
  type McpHttpHandler,
  type Server,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { HttpAnswer } from '../internal/exchange.ts'
import { JsonAnswer } from '../internal/json-answer.ts'
import { isEventStream, watchedBody } from '../internal/watched-body.ts'
import type { Caller } from './caller.ts'
import { ownFilter } from './changes/listen-filter.ts'
import { LoneCall, loneRouteFrom } from './lone-call.ts'
import type { ServerMaker } from './sdk-server.ts'
import type { OpenStreams } from './open-streams.ts'
import { methodOf } from './rpc-method.ts'
import type { ServerParts } from './sdk-server.ts'

export interface ModernLegOptions {
  readonly parts: ServerParts
  readonly servers: ServerMaker
  readonly maxSubscriptions: number
  /** Of each caller. */
  readonly streams: OpenStreams
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
}

/** A request as it was read. */
interface Inbound {
  /** Parsed. */
  readonly body: unknown
  readonly route: InboundClassificationOutcome
}

/**
 * Serves revision 2026-07-28: no sessions, a server for each request. A client that leaves has cancelled its
 * request, as that revision demands.
 */
export class ModernLeg {
  readonly #handler: McpHttpHandler
  readonly #options: ModernLegOptions
  readonly #calls = new Set<LoneCall>()
  #isClosed = false

  constructor(options: ModernLegOptions) {
    const { servers, parts, maxSubscriptions, keepAliveMs, maxBodyBytes } = options
    this.#options = options
    this.#handler = createMcpHandler(
      ({ requestInfo }) => servers.create('modern', requestInfo?.headers.get('mcp-method')),
      {
        legacy: 'reject',
        maxSubscriptions,
        keepAliveMs,
        maxRequestBodySize: maxBodyBytes,
        onerror: parts.onError,
      },
    )
    parts.changes.tellBy(this.#handler.notify)
  }

  /** Any request that is not legacy, also one that no client should have sent. */
  async serve(request: Request, { body, route }: Inbound, caller: Caller): Promise<HttpAnswer> {
    this.#options.parts.callers.set(request, caller)
    if (methodOf(body) === 'subscriptions/listen') {
      return { response: await this.#listen(request, body, caller) }
    }
    const lone = this.#isClosed ? undefined : loneRouteFrom(route, request)
    const server = lone && this.#options.servers.createForCall?.()
    const answer = lone && server && (await this.#call(new LoneCall(lone), server, request))
    if (answer) return answer
    const response = await this.#handler.fetch(request, { parsedBody: body })
    // An answer that streams is under way until its end; a listener has none.
    return { response, onEnd: () => undefined }
  }

  /** Ends every open stream, listeners with a last word, and cancels calls. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const call of this.#calls) void call.close()
    await this.#handler.close()
  }

  /** @returns nothing where it is for the SDK to say what is wrong */
  async #call(call: LoneCall, server: Server, request: Request): Promise<HttpAnswer | undefined> {
    const { signal } = request
    if (signal.aborted) return nobodyReads()
    const close = (): void => void call.close()
    signal.addEventListener('abort', close)
    this.#calls.add(call)
    try {
      await server.connect(call)
      const outcome = await call.outcome(request)
      if (outcome === 'refused') return undefined
      return outcome === 'closed' ? nobodyReads() : new JsonAnswer(outcome.message, outcome.status)
    } finally {
      this.#calls.delete(call)
      signal.removeEventListener('abort', close)
    }
  }

  async #listen(request: Request, body: unknown, caller: Caller): Promise<Response> {
    const leave = this.#options.streams.enter(caller)
    if (!leave) {
      const id = isRecord(body) ? body['id'] : null
      const error = { code: -32_603, message: 'Subscription limit reached' }
      return Response.json({ jsonrpc: '2.0', id, error })
    }
    const { changes, resources } = this.#options.parts
    let forget: (() => void) | undefined
    const end = (): void => {
      forget?.()
      leave()
    }
    try {
      const own = await ownFilter(body, (uri) => resources?.followed(caller, uri))
      if (own.followed.length > 0) forget = changes.heardOf(own.followed)
      const response = await this.#handler.fetch(request, { parsedBody: own.body })
      if (isEventStream(response)) return watchedBody(response, end)
      end()
      return response
    } catch (error) {
      end()
      throw error
    }
  }
}

function nobodyReads(): HttpAnswer {
  return { response: new Response(null, { status: 499 }) }
}
