import { isLoopback } from '@x/internal'
import { GatewayError } from '../../errors.ts'
import { isPrincipal, type Principal } from '../../internal/principal.ts'
import type { HttpSettings } from '../../options.ts'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'

/**
 * Accepts callers that one of several authenticators accepts, in this order. A refusal comes from the first one that
 * serves metadata, because it tells clients where to get a token.
 *
 * @example
 * ```ts
 * import { anyAuth, bearerAuth, jwtAuth } from '@x/mcp-gateway'
 *
 * const resource = 'https://agents.example/mcp'
 * const issuers = [{ issuer: 'https://login.example', audience: resource }]
 * const auth = anyAuth(jwtAuth({ issuers, resource }), bearerAuth(process.env['CI_TOKEN']))
 * ```
 */
export function anyAuth(...all: readonly [Authenticator, ...Authenticator[]]): Authenticator {
  const [first] = all
  const guide = all.find((each) => each.handle !== undefined) ?? first
  const authenticate = async (request: AuthenticationRequest): Promise<Principal | Response> => {
    const refusals = new Map<Authenticator, Response>()
    for (const each of all) {
      const answer = await each.authenticate(request)
      if (isPrincipal(answer)) return answer
      refusals.set(each, answer)
    }
    // An authenticator that could not check the credential has not refused it.
    const undecided = [...refusals.values()].find(({ status }) => status === 503)
    return undecided ?? refusals.get(guide) ?? new Response(null, { status: 401 })
  }
  return {
    authenticate,
    paths: [...new Set(all.flatMap(({ paths = [] }) => paths))],
    pages: [...new Set(all.flatMap(({ pages = [] }) => pages))],
    handle: async (request, from) => {
      for (const each of all) {
        const answer = await each.handle?.(request, from)
        if (answer) return answer
      }
      return undefined
    },
    ...(guide.refuseScopes && { refuseScopes: guide.refuseScopes.bind(guide) }),
  }
}

/**
 * Refuses to serve every caller on an address that others can reach, and `auth` over a transport without credentials.
 *
 * @throws GatewayError `CONFIG`
 */
export function checkAuthFits(
  auth: Authenticator | undefined,
  transport: 'stdio' | Pick<HttpSettings, 'host' | 'insecure'>,
): void {
  if (transport === 'stdio') {
    if (auth === undefined) return
    const message =
      'Over stdio there is no request that could hold a credential: leave auth out, or serve over HTTP'
    throw new GatewayError('CONFIG', message, { path: 'auth' })
  }
  const { host, insecure } = transport
  if (isLoopback(host)) return
  if (auth === undefined && !insecure) {
    const message = `Without auth, everybody who reaches ${host} may call all agents: configure auth, bind 127.0.0.1, or say --insecure`
    throw new GatewayError('CONFIG', message, { path: 'http.host' })
  }
}
