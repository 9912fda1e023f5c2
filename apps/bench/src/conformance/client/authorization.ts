import {
  CrossAppAccessProvider,
  DpopSession,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client'
import { clientCredentials } from '@x/mcp-transport/auth'
import type { AuthProvider } from '@x/mcp-transport/auth'
import { connect } from './connection.ts'
import { HeadlessProvider } from './headless-provider.ts'
import type { RegisteredClient } from './headless-provider.ts'
import type { Run } from './run.ts'

/** Uses a server that requires authorization; the transport gets the tokens from the provider. */
export async function authorization(run: Run): Promise<void> {
  const authProvider = await providerFor(run)
  await using connection = await connect(run, { authProvider })
  await connection.client.listTools()
  await connection.client.callTool({ name: 'test-tool', arguments: {} })
}

/** Our provider, or that of the SDK if we have none, for what the scenario is about. */
async function providerFor({ scenario, context }: Run): Promise<AuthProvider> {
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
      return new HeadlessProvider(undefined, await DpopSession.create())
    default:
      return new HeadlessProvider(registeredClientFrom(context))
  }
}

/** The client that the scenario has registered beforehand, if it has. */
function registeredClientFrom(context: unknown): RegisteredClient | undefined {
  const id = textIn(context, 'client_id')
  const secret = textIn(context, 'client_secret')
  const issuer = textIn(context, 'issuer')
  if (id === undefined || secret === undefined) return undefined
  const credentials = { client_id: id, client_secret: secret }
  return issuer === undefined ? credentials : { ...credentials, issuer }
}

function textIn(context: unknown, name: string): string | undefined {
  if (typeof context !== 'object' || context === null) return undefined
  const value: unknown = Reflect.get(context, name)
  return typeof value === 'string' ? value : undefined
}
