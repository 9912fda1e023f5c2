import {
  CrossAppAccessProvider,
  DpopSession,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client'
import { clientCredentials, createAuthProvider } from '@x/mcp-transport/auth'
import type { AuthProvider, OAuthClientProvider } from '@x/mcp-transport/auth'
import { signIn } from '../../sign-in.ts'

/** The provider for a scenario: ours, or that of the SDK where we have none. */
export async function providerFor(scenario: string, context: unknown): Promise<AuthProvider> {
  const text = (name: string): string => textIn(context, name) ?? ''
  const clientId = text('client_id')
  const clientSecret = text('client_secret')
  switch (scenario) {
    case 'auth/client-credentials-basic':
      return clientCredentials({ clientId, clientSecret })
    case 'auth/client-credentials-jwt':
      return new PrivateKeyJwtProvider({
        clientId,
        privateKey: text('private_key_pem'),
        algorithm: text('signing_algorithm'),
      })
    case 'auth/enterprise-managed-authorization':
      return new CrossAppAccessProvider({
        clientId,
        clientSecret,
        async assertion({ authorizationServerUrl, resourceUrl, scope, fetchFn }) {
          const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
            tokenEndpoint: text('idp_token_endpoint'),
            audience: authorizationServerUrl,
            resource: resourceUrl,
            idToken: text('idp_id_token'),
            clientId: text('idp_client_id'),
            fetchFn,
            ...(scope !== undefined && { scope }),
          })
          return jwtAuthGrant
        },
      })
    case 'auth/wif-jwt-bearer':
      return clientCredentials({ clientId, assertion: () => text('valid_jwt') })
    case 'auth/dpop':
    case 'auth/dpop-nonce':
      return headlessProvider({ dpop: await DpopSession.create() })
    default:
      return headlessProvider({ registered: context })
  }
}

const REDIRECT_URL = 'http://localhost:3000/callback'

/** Keeps credentials in memory. The suite has no login page: its authorization server redirects at once. */
function headlessProvider({
  registered,
  dpop,
}: {
  /** May hold a client that the scenario has registered before. */
  readonly registered?: unknown
  readonly dpop?: DpopSession
}): OAuthClientProvider {
  const clientSecret = textIn(registered, 'client_secret')
  return createAuthProvider({
    redirectUrl: REDIRECT_URL,
    redirect: (url) => signIn(url, REDIRECT_URL),
    clientName: 'conformance-client',
    clientMetadata: { application_type: 'native', response_types: ['code'] },
    // The suite expects this URL. It is never fetched.
    clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
    ...(clientSecret !== undefined && {
      clientId: textIn(registered, 'client_id'),
      clientSecret,
      issuer: textIn(registered, 'issuer'),
    }),
    dpop: dpop && (() => dpop),
  })
}

function textIn(context: unknown, name: string): string | undefined {
  if (typeof context !== 'object' || context === null) return undefined
  const value: unknown = Reflect.get(context, name)
  return typeof value === 'string' ? value : undefined
}
