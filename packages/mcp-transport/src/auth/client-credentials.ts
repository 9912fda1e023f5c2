import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { OAuthClientProvider } from './oauth-client-provider.ts'
import type { TokenEndpointAuthMethod } from './client/client-authentication.ts'
import { Credentials } from './stores/credentials.ts'
import { memoryTokenStore, tokenStoreCheck } from './stores/token-store.ts'
import type { TokenStore } from './stores/token-store.ts'

export interface ClientCredentialsOptions {
  readonly clientId: string
  readonly clientSecret: string
  /** Asked for where the server names no scopes. */
  readonly scope?: string | undefined
  /** The authorization server that the client is registered with: no other ever sees its secret. */
  readonly issuer?: string | undefined
  /** @default the first that the server knows: Basic, then in the body */
  readonly tokenEndpointAuthMethod?: TokenEndpointAuthMethod | undefined
  /** @default memoryTokenStore() */
  readonly store?: TokenStore | undefined
}

const optionChecks: Checks<ClientCredentialsOptions> = {
  clientId: check.required(check.text),
  clientSecret: check.required(check.text),
  scope: check.text,
  issuer: check.text,
  tokenEndpointAuthMethod: check.oneOf('client_secret_basic', 'client_secret_post', 'none'),
  store: tokenStoreCheck,
}

/**
 * An `authProvider` for a program that speaks for itself: the client credentials grant (RFC 6749,
 * section 4.4). A new token is asked for when the server refuses the one before.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 */
export function clientCredentials(options: ClientCredentialsOptions): OAuthClientProvider {
  assertOptions('clientCredentials()', options, optionChecks)
  const { clientId, clientSecret, scope, issuer, tokenEndpointAuthMethod } = options
  const credentials = new Credentials(options.store ?? memoryTokenStore())
  return {
    redirectUrl: undefined,
    clientMetadata: {
      redirect_uris: [],
      grant_types: ['client_credentials'],
      ...(scope === undefined ? {} : { scope }),
    },
    clientInformation: () => ({
      client_id: clientId,
      client_secret: clientSecret,
      token_endpoint_auth_method: tokenEndpointAuthMethod,
      issuer,
    }),
    tokens: async () => (await credentials.read()).tokens,
    exclusively: (work) => credentials.exclusively(work),
    saveTokens: (tokens) => credentials.update({ tokens }),
    redirectToAuthorization: noUser,
    saveCodeVerifier: noUser,
    codeVerifier: noUser,
    invalidateCredentials: (what) =>
      what === 'all' || what === 'tokens' ? credentials.update({ tokens: undefined }) : undefined,
  }
}

function noUser(): never {
  throw new TypeError('Client credentials need no user: nobody is redirected')
}
