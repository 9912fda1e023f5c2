import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { AuthError } from './auth-error.ts'
import { Credentials } from './stores/credentials.ts'
import type {
  OAuthClientInformation,
  OAuthClientMetadata,
  OAuthClientProvider,
  RedirectContext,
} from './oauth-client-provider.ts'
import { memoryTokenStore, tokenStoreCheck } from './stores/token-store.ts'
import type { TokenStore } from './stores/token-store.ts'

export interface AuthProviderOptions {
  /** Where the user's browser comes back to. */
  readonly redirectUrl: string | URL
  /**
   * Sends the user to `url`. If it can wait for the user, it returns what came back to `redirectUrl` (a
   * URL, or its query), and the request that needs the token goes on; else pass that to `finishAuth`.
   */
  readonly redirect: (url: URL, context: RedirectContext) => unknown
  /** One store for each server and user. @default memoryTokenStore() */
  readonly store?: TokenStore | undefined
  /** What users are shown. */
  readonly clientName?: string | undefined
  /** What else the client says of itself when it registers. */
  readonly clientMetadata?: Partial<OAuthClientMetadata> | undefined
  /** Asked for where the server names no scopes. */
  readonly scope?: string | undefined
  /** Of a client that was registered by hand. */
  readonly clientId?: string | undefined
  readonly clientSecret?: string | undefined
  /** The authorization server that `clientId` belongs to: no other ever sees it. */
  readonly issuer?: string | undefined
  /** Where a client id metadata document of this client is served. */
  readonly clientMetadataUrl?: string | undefined
}

export const authProviderOptionChecks: Checks<AuthProviderOptions> = {
  redirectUrl: check.required(check.url),
  redirect: check.required(check.func),
  store: tokenStoreCheck,
  clientName: check.text,
  clientMetadata: check.record,
  scope: check.text,
  clientId: check.text,
  clientSecret: check.text,
  issuer: check.text,
  clientMetadataUrl: check.text,
}

/**
 * A whole provider from a store and a way to reach the user.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 */
export function createAuthProvider(options: AuthProviderOptions): OAuthClientProvider {
  assertOptions('createAuthProvider()', options, authProviderOptionChecks)
  const { redirectUrl, redirect, store = memoryTokenStore(), scope, clientName } = options
  const { clientId, clientSecret, issuer, clientMetadataUrl, clientMetadata } = options
  const credentials = new Credentials(store)
  const preRegistered: OAuthClientInformation | undefined =
    clientId === undefined
      ? undefined
      : { client_id: clientId, client_secret: clientSecret, issuer }
  const provider: OAuthClientProvider = {
    redirectUrl,
    clientMetadata: {
      ...(clientName === undefined ? {} : { client_name: clientName }),
      ...(scope === undefined ? {} : { scope }),
      ...clientMetadata,
      redirect_uris: [String(redirectUrl)],
    },
    clientMetadataUrl,
    clientInformation: async () => preRegistered ?? (await credentials.read()).client,
    tokens: async () => (await credentials.read()).tokens,
    exclusively: (work) => credentials.exclusively(work),
    saveTokens: (tokens) => credentials.update({ tokens, codeVerifier: undefined }),
    redirectToAuthorization: (url, context = { signal: new AbortController().signal }) =>
      redirect(url, context),
    saveCodeVerifier: (codeVerifier) => credentials.update({ codeVerifier }),
    async codeVerifier() {
      const { codeVerifier } = await credentials.read()
      if (codeVerifier !== undefined) return codeVerifier
      throw new AuthError('STATE_MISMATCH', 'No authorization has begun, or it is finished already')
    },
    saveDiscoveryState: (discovery) => credentials.update({ discovery }),
    discoveryState: async () => (await credentials.read()).discovery,
    invalidateCredentials: (what) =>
      credentials.update({
        ...(what === 'all' || what === 'client' ? { client: undefined } : {}),
        ...(what === 'all' || what === 'tokens' ? { tokens: undefined } : {}),
        ...(what === 'all' || what === 'verifier' ? { codeVerifier: undefined } : {}),
        ...(what === 'all' || what === 'discovery' ? { discovery: undefined } : {}),
      }),
  }
  if (preRegistered !== undefined) return provider
  return { ...provider, saveClientInformation: (client) => credentials.update({ client }) }
}
