import { AuthError } from './auth-error.ts'
import type { AuthRenewal } from './authorizer.ts'
import { createOAuthFetch } from './oauth-fetch.ts'
import type { OAuthFetch } from './oauth-fetch.ts'
import { Renewals } from './renewals.ts'
import type { TokenProvider, UnauthorizedContext } from './token-provider.ts'

interface TokenRenewal extends AuthRenewal {
  readonly serverUrl: URL
}

const CREDENTIALS = new WeakMap<TokenProvider, Renewals<TokenRenewal>>()

/** The renewals of a provider that gives tokens, shared by all transports that have the provider. */
export function tokenCredentialOf(provider: TokenProvider): Renewals<TokenRenewal> {
  const known = CREDENTIALS.get(provider)
  if (known !== undefined) return known
  const renewals = new Renewals<TokenRenewal>({
    current: async ({ refused }) => provider.token({ refused }),
    async obtain(renewal, signal) {
      const { dispatcher, serverUrl, refused } = renewal
      const fetch = createOAuthFetch({ dispatcher, signal })
      await provider.onUnauthorized?.(contextOf(renewal, fetch))
      const token = await provider.token({ refused })
      if (token !== undefined && token !== refused) return
      const what = token === undefined ? 'gives no token' : 'gives the same token again'
      throw new AuthError('TOKEN_REFUSED', `The provider for ${serverUrl.origin} ${what}`)
    },
  })
  CREDENTIALS.set(provider, renewals)
  return renewals
}

function contextOf({ refusal, serverUrl }: TokenRenewal, fetch: OAuthFetch): UnauthorizedContext {
  const { status, headers, text } = refusal
  const response = new Response(text, { status })
  for (const [name, value] of Object.entries(headers)) {
    for (const one of typeof value === 'string' ? [value] : (value ?? [])) {
      response.headers.append(name, one)
    }
  }
  return {
    response,
    serverUrl,
    fetchFn: (url, { method, headers: own, body, signal } = {}) => {
      if (body != null && typeof body !== 'string' && !(body instanceof URLSearchParams)) {
        throw new TypeError('fetchFn takes a string or URLSearchParams as body')
      }
      return fetch(url, { method, headers: new Headers(own), body: body ?? undefined, signal })
    },
  }
}
