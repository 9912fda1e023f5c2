import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'

import type { Principal } from '../auth/principal.ts'
import { isEventStream, watchedBody } from '../http/watched-body.ts'
import { isRecord } from '../is-record.ts'
import type { Caller } from './caller.ts'
import { ownFilter } from './listen-filter.ts'
import type { ServerMaker } from './server-maker.ts'
import { methodOf } from './rpc-method.ts'
import type { ServerParts } from './server-parts.ts'

export interface ModernLegOptions {
  readonly parts: ServerParts
  readonly servers: ServerMaker
  readonly maxSubscriptions: number
  readonly maxSubscriptionsPerPrincipal: number
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
}

/**
 * Serves revision 2026-07-28: no sessions, a server for each request. A client that leaves has cancelled its
 * request, as that revision demands.
 */
export class ModernLeg {
  readonly #handler: McpHttpHandler
  readonly #options: ModernLegOptions
  readonly #listening = new Map<string, number>()

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

  /** @param body parsed; any that is not legacy, also one that no client should have sent */
  async serve(request: Request, body: unknown, caller: Caller): Promise<Response> {
    this.#options.parts.callers.set(request, caller)
    if (methodOf(body) !== 'subscriptions/listen') {
      return this.#handler.fetch(request, { parsedBody: body })
    }
    return this.#listen(request, body, caller)
  }

  /** Ends every open stream, listeners with a last word. */
  close(): Promise<void> {
    return this.#handler.close()
  }

  async #listen(request: Request, body: unknown, caller: Caller): Promise<Response> {
    const { principal } = caller
    const open = this.#listening.get(principal.id) ?? 0
    const { maxSubscriptionsPerPrincipal } = this.#options
    if (!principal.isAnonymous && open >= maxSubscriptionsPerPrincipal) {
      const id = isRecord(body) ? body['id'] : null
      const error = { code: -32_603, message: 'Subscription limit reached' }
      return Response.json({ jsonrpc: '2.0', id, error })
    }
    this.#count(principal, 1)
    const { changes, resources } = this.#options.parts
    let forget: (() => void) | undefined
    const end = (): void => {
      forget?.()
      this.#count(principal, -1)
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

  #count({ id }: Principal, more: 1 | -1): void {
    const open = (this.#listening.get(id) ?? 0) + more
    if (open > 0) this.#listening.set(id, open)
    else this.#listening.delete(id)
  }
}
