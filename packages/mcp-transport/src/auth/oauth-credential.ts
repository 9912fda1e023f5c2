import type { AuthEdges, AuthRenewal } from './authorizer.ts'
import { CredentialMemory } from './stores/credential-memory.ts'
import type { AuthorizationCallback, OAuthClientProvider } from './oauth-client-provider.ts'
import { createOAuthFetch } from './oauth-fetch.ts'
import { obtainTokens } from './obtain-tokens.ts'
import { Renewals } from './renewals.ts'
import { storedTokens } from './token-provider.ts'
import { finishAuthorization } from './user/user-authorization.ts'

interface OAuthRenewal extends AuthRenewal {
  readonly serverUrl: URL
}

interface Finishing extends AuthEdges {
  readonly serverUrl: URL
  readonly callback: AuthorizationCallback
}

/** The credential that a provider stands for, shared by all transports that have the provider. */
export interface OAuthCredential {
  renew(renewal: OAuthRenewal): Promise<void>
  finish(finishing: Finishing): Promise<void>
}

const CREDENTIALS = new WeakMap<OAuthClientProvider, OAuthCredential>()

export function oauthCredentialOf(provider: OAuthClientProvider): OAuthCredential {
  const known = CREDENTIALS.get(provider)
  if (known !== undefined) return known
  const credential = make(provider)
  CREDENTIALS.set(provider, credential)
  return credential
}

function make(provider: OAuthClientProvider): OAuthCredential {
  const memory = new CredentialMemory()
  const renewals = new Renewals<OAuthRenewal>({
    current: async ({ serverUrl }) => (await storedTokens(provider, serverUrl))?.access_token,
    obtain: ({ dispatcher, serverUrl, refusal, isStepUp }, signal) =>
      obtainTokens({
        provider,
        memory,
        serverUrl,
        fetch: createOAuthFetch({ dispatcher, signal }),
        signal,
        challenge: refusal.challenge,
        isStepUp,
      }),
  })
  return {
    renew: (renewal) => renewals.renew(renewal),
    // Beside a renewal, if need be: that may be waiting for the user whose answer this is.
    finish: ({ dispatcher, serverUrl, callback, signal }) =>
      finishAuthorization({
        provider,
        memory,
        serverUrl,
        fetch: createOAuthFetch({ dispatcher, signal }),
        signal,
        callback,
      }),
  }
}
