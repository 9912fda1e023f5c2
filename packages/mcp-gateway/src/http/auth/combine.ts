import { check, isLoopback } from '@x/internal'
import type { Checks } from '@x/internal'
import { GatewayError, assertGatewayOptions } from '../../errors.ts'
import { anonymousPrincipal, isPrincipal, type Principal } from '../../internal/principal.ts'
import type { HttpSettings } from '../../options.ts'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'

/**
 * Accepts callers that one of several authenticators accepts, in this order. A refusal comes from the first one that
 * serves metadata, because it tells clients where to get a token.
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
    handle: async (request, from) => {
      for (const each of all) {
        const answer = await each.handle?.(request, from)
        if (answer) return answer
      }
      return undefined
    },
    ...(guide.refuseScopes && { refuseScopes: guide.refuseScopes.bind(guide) }),
    isDevMode: all.some(({ isDevMode }) => isDevMode),
  }
}

export interface DevModeOptions {
  /** Id of the principal of every caller. @default 'mcp_user' */
  readonly principal?: string | undefined
  /** Called once, at the start. @default a process warning */
  readonly onWarning?: ((message: string) => void) | undefined
}

const optionChecks: Checks<DevModeOptions> = { principal: check.text, onWarning: check.func }

/**
 * Accepts every caller, with any token or none, to try an agent before there is an authorization server. A gateway
 * with it refuses to listen on an address that others can reach.
 */
export function devModeAuth(options: DevModeOptions = {}): Authenticator {
  assertGatewayOptions('devModeAuth()', options, optionChecks)
  const { principal = 'mcp_user', onWarning = (message) => process.emitWarning(message) } = options
  const everyone = anonymousPrincipal(principal)
  onWarning(
    `DEVELOPMENT MODE: no credential is checked, and every caller is "${principal}". Never use it where others can reach this gateway.`,
  )
  return { isDevMode: true, authenticate: () => Promise.resolve(everyone) }
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
  if (auth?.isDevMode) {
    const message = `Development mode accepts everybody, and ${host} can be reached by others: bind 127.0.0.1`
    throw new GatewayError('CONFIG', message, { path: 'auth.devMode' })
  }
  if (auth === undefined && !insecure) {
    const message = `Without auth, everybody who reaches ${host} may call all agents: configure auth, bind 127.0.0.1, or say --insecure`
    throw new GatewayError('CONFIG', message, { path: 'http.host' })
  }
}
