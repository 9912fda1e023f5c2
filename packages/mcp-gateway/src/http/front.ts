import type { GatewayObserver } from '../internal/observer.ts'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import type { HttpRoute } from './http-route.ts'
import type { RequestOrigin } from './request-origin.ts'
import { RPC, rpcErrorResponse } from '../mcp/rpc-error.ts'
import { isEventStream } from '../internal/watched-body.ts'

export interface FrontOptions {
  readonly origin: RequestOrigin
  readonly routes: readonly HttpRoute[]
  /** Serves the MCP endpoint. */
  readonly serve: (exchange: HttpExchange) => Promise<HttpAnswer>
  /** Told of requests that come from where they may not. @default nobody */
  readonly observer?: Pick<GatewayObserver, 'requestRefused'> | undefined
  readonly onError: (error: Error) => void
}

/** What every request passes first, by whichever server it came in. Knows which answers are still under way. */
export class Front {
  readonly #options: FrontOptions
  #open = 0
  #whenIdle: (() => void) | undefined

  constructor(options: FrontOptions) {
    this.#options = options
  }

  /** @param endpoint path of the MCP endpoint; without one, everything that no route wants is for it. Never rejects */
  async serve(exchange: HttpExchange, endpoint?: string): Promise<HttpAnswer> {
    const { origin, onError } = this.#options
    const { request } = exchange
    this.#open++
    let isOpen = true
    const done = (): void => {
      if (isOpen && --this.#open === 0) this.#whenIdle?.()
      isOpen = false
    }
    try {
      const answer = await this.#answer(exchange, endpoint)
      if (answer.json !== undefined && !request.headers.has('origin')) {
        done()
        return answer
      }
      const response = origin.allow(request, answer.response)
      if (request.method !== 'POST' || !isEventStream(response) || !answer.onEnd) {
        done()
        return { response, onEnd: answer.onEnd }
      }
      const onEnd: HttpAnswer['onEnd'] = (end) => {
        done()
        answer.onEnd?.(end)
      }
      return { response, onEnd }
    } catch (error) {
      done()
      onError(new Error(`A ${request.method} request could not be served`, { cause: error }))
      const rpcError = { code: RPC.internalError, message: 'Internal server error' }
      return { response: rpcErrorResponse(500, rpcError) }
    }
  }

  /** Resolves when every answer that ends by itself has reached its server. */
  whenIdle(): Promise<void> {
    if (this.#open === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#whenIdle = resolve
    })
  }

  /** Whether the body of a request to this path is wanted as a stream. */
  isStreamed(path: string): boolean {
    return this.#options.routes.some((route) => route.isStreamed && route.matches(path))
  }

  async #answer(exchange: HttpExchange, endpoint: string | undefined): Promise<HttpAnswer> {
    const { origin, routes, serve, observer } = this.#options
    const { address, request } = exchange
    const path = pathOf(request.url)
    const route = routes.find((each) => each.matches(path))
    if (!route?.isOpen) {
      const refusal = origin.refusal(request)
      if (refusal) observer?.requestRefused?.({ reason: 'origin', status: refusal.status, address })
      const early = refusal ?? origin.preflight(request)
      if (early) return { response: early }
    }
    if (route) return { response: (await route.handle(exchange)) ?? notFound() }
    if (endpoint !== undefined && path !== endpoint) return { response: notFound() }
    return serve(exchange)
  }
}

/** Of a whole URL, or of the target of a request, without its query. */
export function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return '/'
  const end = url.indexOf('?', start)
  return end < 0 ? url.slice(start) : url.slice(start, end)
}

function notFound(): Response {
  return new Response('Not found\n', { status: 404, headers: { 'content-type': 'text/plain' } })
}
