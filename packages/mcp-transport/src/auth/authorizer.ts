import type { Dispatcher } from 'undici'
import type { ResponseHeaders } from '../http/exchange.ts'
import { TransportError } from '../transport-error.ts'
import type { BearerChallenge } from './discovery/challenge.ts'
import type { AuthorizationCallback } from './oauth-client-provider.ts'
import { isOAuthClientProvider, storedTokens } from './token-provider.ts'
import type { AuthProvider } from './token-provider.ts'

/** A response that wants other credentials. */
interface AuthRefusal {
  readonly status: number
  readonly headers: ResponseHeaders
  /** The start of the body. */
  readonly text: string
  readonly challenge: BearerChallenge | undefined
}

/** With what authorization requests are made, and until when. */
export interface AuthEdges {
  /** The transport's own: proxies and certificates are the same for all requests. */
  readonly dispatcher: Dispatcher
  /** Aborts when the request that needs it is given up. */
  readonly signal: AbortSignal
}

export interface AuthRenewal extends AuthEdges {
  readonly refusal: AuthRefusal
  /** The token that was refused; undefined if there was none. */
  readonly refused: string | undefined
  readonly isStepUp: boolean
}

/** The transport's side of a provider: where its tokens come from. */
export interface Authorizer {
  /** The token for the next request; undefined if there is none yet. */
  token(): Promise<string | undefined>
  /**
   * Resolves when there is another token than the refused one.
   *
   * @throws AuthError, TransportError or what the provider throws, if there is none.
   */
  renew(renewal: AuthRenewal): Promise<void>
  /** Goes on with an authorization that sent the user away. */
  finish(callback: AuthorizationCallback, edges: AuthEdges): Promise<void>
}

/** The origin that each provider serves, from its first use on. */
const ORIGINS = new WeakMap<AuthProvider, string>()

/**
 * Reserves a provider for the origin of a server, for the life of the provider: its tokens are sent to no
 * other origin.
 *
 * @throws TransportError `CONFIG` for a provider that serves another origin
 */
export function reserveAuthProvider(provider: AuthProvider, serverUrl: string | URL): void {
  const { origin, pathname } = new URL(serverUrl)
  const reserved = ORIGINS.get(provider)
  if (reserved === undefined) ORIGINS.set(provider, origin)
  else if (reserved !== origin) {
    throw new TransportError(
      'CONFIG',
      `authProvider: this provider serves ${reserved}, and its tokens must not be sent to ${origin}. Make one provider for each server`,
      { url: origin + pathname },
    )
  }
}

/**
 * OAuth itself is loaded when a server first refuses a token: most processes never need it.
 *
 * @throws TransportError `CONFIG` for a provider that serves another origin
 */
export function authorizerFor(provider: AuthProvider, serverUrl: URL): Authorizer {
  reserveAuthProvider(provider, serverUrl)
  if (!isOAuthClientProvider(provider)) {
    return {
      token: async () => checked(await provider.token()),
      async renew(renewal) {
        const { tokenCredentialOf } = await import('./token-credential.ts')
        await tokenCredentialOf(provider).renew({ ...renewal, serverUrl })
      },
      async finish() {
        throw new TypeError('finishAuth() needs an OAuthClientProvider as authProvider')
      },
    }
  }
  return {
    token: async () => checked((await storedTokens(provider, serverUrl))?.access_token),
    async renew(renewal) {
      const { oauthCredentialOf } = await import('./oauth-credential.ts')
      await oauthCredentialOf(provider).renew({ ...renewal, serverUrl })
    },
    async finish(callback, edges) {
      const { oauthCredentialOf } = await import('./oauth-credential.ts')
      await oauthCredentialOf(provider).finish({ ...edges, callback, serverUrl })
    },
  }
}

function checked(token: string | undefined): string | undefined {
  if (token === undefined || /^[\x21-\x7E]+$/.test(token)) return token
  throw new TypeError('The token is empty, or holds characters that no header may hold')
}
