import type { AuthenticationRequest, Authenticator } from './authenticator.ts'
import { isPrincipal, type Principal } from '../../internal/principal.ts'

/**
 * Callers whom one of these knows, asked in this order: tokens that were handed out beside people who sign in, as
 * hosted clients cannot be given a token. A refusal is that of whoever can say where a token is to be had.
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
    // Who could not look has not said no.
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
