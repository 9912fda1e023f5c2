import { isLoopback } from '@x/internal'
import { GatewayError } from '../../errors.ts'
import type { Authenticator } from './authenticator.ts'

export interface AuthFit {
  readonly auth: Authenticator | undefined
  /** How clients get in. */
  readonly transport:
    | { readonly type: 'stdio' }
    | { readonly type: 'http'; readonly host: string }
    /** Somebody else listens: `gateway.fetch` in an application that answers for it. */
    | { readonly type: 'fetch' }
  /** Told by name to serve everybody at an address that others can reach. @default false */
  readonly isInsecureAllowed?: boolean | undefined
}

/**
 * Refuses ways of serving that would let in whoever comes by, or that cannot check what they were told to check.
 *
 * @throws GatewayError `CONFIG`
 */
export function checkAuthFits({ auth, transport, isInsecureAllowed = false }: AuthFit): void {
  if (transport.type === 'stdio') {
    if (auth === undefined) return
    const message =
      'Over stdio there is no request that could hold a credential: leave auth out, or serve over HTTP'
    throw new GatewayError('CONFIG', message, { path: 'auth' })
  }
  if (transport.type === 'fetch' || isLoopback(transport.host)) return
  if (auth?.isDevMode) {
    const message = `Development mode accepts everybody, and ${transport.host} can be reached by others: bind 127.0.0.1`
    throw new GatewayError('CONFIG', message, { path: 'auth.devMode' })
  }
  if (auth === undefined && !isInsecureAllowed) {
    const message = `Without auth, everybody who reaches ${transport.host} may call all agents: configure auth, bind 127.0.0.1, or say --insecure`
    throw new GatewayError('CONFIG', message, { path: 'http.host' })
  }
}
