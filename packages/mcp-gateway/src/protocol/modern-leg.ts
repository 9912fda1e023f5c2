import {
  createMcpHandler,
  type McpHttpHandler,
  type ServerEventBus,
} from '@modelcontextprotocol/server'

import { watchedBody } from '../http/watched-body.ts'
import { isRecord } from '../is-record.ts'
import type { Caller } from './caller.ts'
import type { McpServers } from './mcp-servers.ts'
import { methodOf } from './rpc-method.ts'
import type { ServerParts } from './server-parts.ts'

export interface ModernLegOptions {
  readonly parts: ServerParts
  readonly servers: McpServers
  /** Carries changes to the listeners of all processes. @default those of this one */
  readonly bus?: ServerEventBus | undefined
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
    const { servers, parts, bus, maxSubscriptions, keepAliveMs, maxBodyBytes } = options
    this.#options = options
    this.#handler = createMcpHandler(
      ({ requestInfo }) => servers.create('modern', requestInfo?.headers.get('mcp-method')),
      {
        legacy: 'reject',
        maxSubscriptions,
        keepAliveMs,
        maxRequestBodySize: maxBodyBytes,
        onerror: parts.onError,
        ...(bus && { bus }),
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
    return this.#listen(request, await this.#ownOnly(body, caller), caller)
  }

  /** Ends every open stream, listeners with a last word. */
  close(): Promise<void> {
    return this.#handler.close()
  }

  async #listen(request: Request, body: unknown, { principal }: Caller): Promise<Response> {
    const open = this.#listening.get(principal.id) ?? 0
    const { maxSubscriptionsPerPrincipal } = this.#options
    if (!principal.isAnonymous && open >= maxSubscriptionsPerPrincipal) {
      const id = isRecord(body) ? body['id'] : null
      const error = { code: -32_603, message: 'Subscription limit reached' }
      return Response.json({ jsonrpc: '2.0', id, error })
    }
    const response = await this.#handler.fetch(request, { parsedBody: body })
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response
    this.#listening.set(principal.id, open + 1)
    return watchedBody(response, () => {
      const left = (this.#listening.get(principal.id) ?? 1) - 1
      if (left > 0) this.#listening.set(principal.id, left)
      else this.#listening.delete(principal.id)
    })
  }

  /** The SDK honours whatever URI is named: those of others are taken out, so that the acknowledgement shows it. */
  async #ownOnly(body: unknown, caller: Caller): Promise<unknown> {
    if (!isRecord(body) || !isRecord(body['params'])) return body
    const { notifications } = body['params']
    if (!isRecord(notifications) || !Array.isArray(notifications['resourceSubscriptions']))
      return body
    const uris: unknown[] = notifications['resourceSubscriptions']
    const { resources } = this.#options.parts
    const own: string[] = []
    for (const uri of uris) {
      if (typeof uri !== 'string') return body // the SDK says what is wrong with it
      if (await resources?.mayFollow(caller, uri)) own.push(uri)
    }
    return {
      ...body,
      params: {
        ...body['params'],
        notifications: { ...notifications, resourceSubscriptions: own },
      },
    }
  }
}
