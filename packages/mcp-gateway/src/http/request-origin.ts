import { validateHostHeader, validateOriginHeader } from '@modelcontextprotocol/server'

import { RPC, rpcErrorResponse } from '../mcp/rpc-error.ts'

export interface RequestOriginOptions {
  /** Host names, without port, that requests may be addressed to. `any`: not looked at. @default loopback names */
  readonly hosts?: readonly string[] | 'any' | undefined
  /** Origins of web pages that may call, as a browser sends them (`https://app.example`). @default loopback pages, where hosts are loopback names */
  readonly origins?: readonly string[] | undefined
}

/** Names of this machine for itself. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/**
 * Refuses requests that a web page made a browser send: addressed to a name that is not ours (DNS rebinding),
 * or from a page that is not listed (specification 2026-07-28, "Transports", security).
 */
export class RequestOrigin {
  readonly #hosts: string[] | undefined
  readonly #origins: ReadonlySet<string>
  readonly #loopbackPages: boolean

  constructor({ hosts = LOOPBACK_NAMES, origins = [] }: RequestOriginOptions = {}) {
    this.#hosts = hosts === 'any' ? undefined : [...hosts]
    this.#origins = new Set(origins)
    this.#loopbackPages = this.#hosts?.every((host) => LOOPBACK_NAMES.includes(host)) ?? false
  }

  /**
   * A request without `Host` was made in this process, or came by HTTP/2: then it is addressed to what its URL says.
   *
   * @returns the answer that refuses it, or nothing
   */
  refusal({ headers, url }: Request): Response | undefined {
    if (this.#hosts) {
      const host = validateHostHeader(headers.get('host') ?? new URL(url).host, this.#hosts)
      if (!host.ok) return forbidden('This server is not known by the name in the Host header')
    }
    const origin = headers.get('origin')
    if (origin === null || this.#origins.has(origin)) return undefined
    if (this.#loopbackPages && validateOriginHeader(origin, [...LOOPBACK_NAMES]).ok)
      return undefined
    return forbidden('Pages of this Origin may not call this server')
  }

  /** The answer to a browser that asks whether a listed page may call; `undefined`: it was no such question. */
  preflight(request: Request): Response | undefined {
    const origin = request.headers.get('origin')
    if (request.method !== 'OPTIONS' || origin === null || !this.#origins.has(origin))
      return undefined
    return new Response(null, {
      status: 204,
      headers: {
        'access-control-allow-origin': origin,
        'access-control-allow-methods': 'GET, POST, PUT, DELETE',
        'access-control-allow-headers':
          request.headers.get('access-control-request-headers') ?? 'content-type',
        'access-control-max-age': '600',
        vary: 'Origin',
      },
    })
  }

  /** Lets a listed page read the answer. */
  allow(request: Request, response: Response): Response {
    const origin = request.headers.get('origin')
    if (origin === null || !this.#origins.has(origin)) return response
    const headers = new Headers(response.headers)
    headers.set('access-control-allow-origin', origin)
    headers.set('access-control-expose-headers', 'mcp-session-id, www-authenticate, retry-after')
    headers.append('vary', 'Origin')
    return new Response(response.body, { status: response.status, headers })
  }
}

function forbidden(message: string): Response {
  return rpcErrorResponse(403, { code: RPC.refused, message })
}
