import type { Authenticator } from '../http/auth/authenticator.ts'
import { signInRefusal } from '../http/auth/sign-in-refusal.ts'
import type { CheckedOptions } from '../options.ts'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import { Front } from '../http/front.ts'
import type { HttpRoute } from '../http/http-route.ts'
import { LOOPBACK_NAMES, RequestOrigin } from '../http/request-origin.ts'
import { metricsRoute, type GatewayMetrics } from './metrics.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import { healthRoutes, type Readiness } from './health-routes.ts'

export interface GatewayFrontParts {
  readonly options: Pick<CheckedOptions, 'auth' | 'http'>
  /** Beside those of authentication and of whoever looks after the process. */
  readonly routes: readonly HttpRoute[]
  /** Serves the MCP endpoint. */
  readonly serve: (exchange: HttpExchange) => Promise<HttpAnswer>
  readonly readiness: Readiness
  readonly metrics: GatewayMetrics | undefined
  readonly observer: Required<GatewayObserver>
  readonly onError: (error: Error) => void
}

/** All that answers HTTP, behind the checks that every request passes. */
export function gatewayFront(parts: GatewayFrontParts): Front {
  const { options, routes, serve, readiness, metrics, observer, onError } = parts
  const { auth, http } = options
  const { allowedOrigins, health, metricsPath } = http
  return new Front({
    origin: new RequestOrigin({ hosts: hostsOf(options), origins: allowedOrigins }),
    routes: [
      ...(auth?.paths ? [authRoute(auth, auth.paths, observer)] : []),
      ...routes,
      ...healthRoutes(health, readiness),
      ...(metrics && metricsPath !== undefined ? [metricsRoute(metricsPath, metrics)] : []),
    ],
    serve,
    observer,
    onError,
  })
}

/** Names by which requests may address the gateway. */
function hostsOf({ auth, http }: GatewayFrontParts['options']): readonly string[] | 'any' {
  const { allowedHosts, publicUrl } = http
  const own = publicUrl === undefined ? [] : [new URL(publicUrl).hostname]
  // A page that lies about its name has no credential to show; where none is asked for, the name is all there is.
  const isVerified = auth !== undefined && !auth.isDevMode
  if (isVerified && allowedHosts.length === 0 && own.length === 0) return 'any'
  return [...LOOPBACK_NAMES, ...own, ...allowedHosts]
}

function authRoute(
  auth: Authenticator,
  paths: readonly string[],
  observer: Required<GatewayObserver>,
): HttpRoute {
  return {
    isStreamed: true,
    matches: (path) => paths.some((each) => path === each || path.startsWith(`${each}/`)),
    handle: async ({ request, address }) => {
      const response = await auth.handle?.(request, { address })
      const reason = response && signInRefusal(response)
      if (reason) observer.requestRefused({ reason, status: response.status, address })
      return response
    },
  }
}
