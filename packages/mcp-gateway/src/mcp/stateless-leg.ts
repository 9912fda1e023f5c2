import { legacyStatelessFallback, type LegacyHttpHandler } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { watchedBody } from '../internal/watched-body.ts'
import type { Caller } from './caller.ts'
import { requestIdsOf } from './json-rpc.ts'
import type { SdkServers, ServerParts } from './sdk-server.ts'

export interface StatelessLegOptions {
  readonly parts: ServerParts
  readonly servers: SdkServers
  readonly maxBodyBytes: number
}

/**
 * Serves the revisions with sessions, but without one, for clients that lose the session's header: a server
 * for each request, no stream beside the answer, no questions.
 */
export class StatelessLeg {
  readonly #handler: LegacyHttpHandler
  readonly #parts: ServerParts
  readonly #running = new Map<string, Set<AbortController>>()

  constructor({ parts, servers, maxBodyBytes }: StatelessLegOptions) {
    this.#parts = parts
    this.#handler = legacyStatelessFallback(() => servers.create('stateless'), parts.onError, {
      maxRequestBodySize: maxBodyBytes,
    })
  }

  async serve(request: Request, body: unknown, caller: Caller): Promise<Response> {
    if (request.method !== 'POST') return this.#handler(request)
    this.#cancel(body, caller)
    const stop = new AbortController()
    const { url, method, headers, signal } = request
    const both = AbortSignal.any([signal, stop.signal])
    const stoppable = new Request(url, { method, headers, signal: both }) // its body was read
    this.#parts.callers.set(stoppable, caller)
    const undo = this.#remember(body, caller, stop)
    try {
      return watchedBody(await this.#handler(stoppable, { parsedBody: body }), undo)
    } catch (error) {
      undo()
      throw error
    }
  }

  /** Cancels all that is under way. */
  close(): void {
    for (const stops of this.#running.values()) for (const stop of stops) stop.abort()
  }

  /** The notice comes as a request of its own: it is acted on if there is exactly one that it can mean. */
  #cancel(body: unknown, caller: Caller): void {
    if (!isRecord(body) || body['method'] !== 'notifications/cancelled') return
    const { params } = body
    const id = isRecord(params) ? params['requestId'] : undefined
    if (typeof id !== 'string' && typeof id !== 'number') return
    const [only, ...others] = this.#running.get(keyOf(caller, id)) ?? []
    if (others.length === 0) only?.abort()
  }

  #remember(body: unknown, caller: Caller, stop: AbortController): () => void {
    const keys = requestIdsOf(body).map((id) => keyOf(caller, id))
    for (const key of keys) {
      const stops = this.#running.get(key) ?? new Set()
      this.#running.set(key, stops.add(stop))
    }
    return () => {
      for (const key of keys) {
        const stops = this.#running.get(key)
        stops?.delete(stop)
        if (stops?.size === 0) this.#running.delete(key)
      }
    }
  }
}

function keyOf({ principal }: Caller, id: string | number): string {
  return `${principal.id}\0${typeof id}\0${id}`
}
