import { ClientSecretPost, None } from 'oauth4webapi'
import type { ClientAuth } from 'oauth4webapi'
import type { AuthorizationServer } from '../discovery/authorization-server.ts'
import type { OAuthClientInformation, OAuthClientProvider } from '../oauth-client-provider.ts'

export type TokenEndpointAuthMethod = 'client_secret_basic' | 'client_secret_post' | 'none'

/**
 * How a client shows who it is at the token endpoint: as it was registered, else the first way that the
 * server knows; servers that name none know Basic (RFC 8414, section 2).
 */
export function tokenEndpointAuthMethod(
  client: Pick<OAuthClientInformation, 'client_secret' | 'token_endpoint_auth_method'>,
  supported: readonly string[] | undefined,
): TokenEndpointAuthMethod {
  if (client.client_secret === undefined || client.client_secret === '') return 'none'
  const known: readonly TokenEndpointAuthMethod[] = [
    'client_secret_basic',
    'client_secret_post',
    'none',
  ]
  const registered = known.find((method) => method === client.token_endpoint_auth_method)
  if (registered !== undefined && supported?.includes(registered) !== false) return registered
  return known.find((method) => supported?.includes(method) !== false) ?? 'client_secret_basic'
}

/** The provider's own way, if it has one, else the one that fits client and server. */
export function clientAuthenticationFor(
  provider: Pick<OAuthClientProvider, 'addClientAuthentication'>,
  client: OAuthClientInformation,
  server: AuthorizationServer,
): ClientAuth {
  if (provider.addClientAuthentication !== undefined) {
    return async (...[, , body, headers]: Parameters<ClientAuth>) => {
      await provider.addClientAuthentication?.(headers, body, server.tokenEndpoint, server.metadata)
    }
  }
  const supported = server.metadata?.token_endpoint_auth_methods_supported
  switch (tokenEndpointAuthMethod(client, supported)) {
    case 'client_secret_basic':
      return secretBasic(client)
    case 'client_secret_post':
      return ClientSecretPost(client.client_secret ?? '')
    case 'none':
      return None()
  }
}

/**
 * Basic (RFC 6749, section 2.3.1). Letters, digits and `*-._` stay as they are: the library encodes all
 * that may be, and many servers in the field decode nothing.
 */
function secretBasic({
  client_id: id,
  client_secret: secret = '',
}: OAuthClientInformation): ClientAuth {
  const credentials = Buffer.from(`${formEncoded(id)}:${formEncoded(secret)}`).toString('base64')
  return (...[, , , headers]: Parameters<ClientAuth>) => {
    headers.set('authorization', `Basic ${credentials}`)
  }
}

function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1)
}
