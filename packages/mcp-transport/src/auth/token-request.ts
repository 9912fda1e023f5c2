import * as oauth from 'oauth4webapi'
import { TransportError } from '../transport-error.ts'
import { AuthError } from './auth-error.ts'
import type { AuthorizationServer } from './discovery/authorization-server.ts'
import { clientAuthenticationFor } from './client/client-authentication.ts'
import type {
  OAuthClientInformation,
  OAuthClientProvider,
  OAuthTokens,
} from './oauth-client-provider.ts'
import type { OAuthFetch } from './oauth-fetch.ts'

/** Who asks for a token, where, and for what. */
export interface TokenRequestContext {
  readonly provider: OAuthClientProvider
  readonly server: AuthorizationServer
  readonly client: OAuthClientInformation
  /** `resource` (RFC 8707) */
  readonly resource: string
  readonly fetch: OAuthFetch
}

export interface CodeGrant {
  /** As checked: its `iss` and `state` are right. */
  readonly parameters: URLSearchParams
  readonly redirectUri: string
  readonly codeVerifier: string
}

/** @throws AuthError `TOKEN_REFUSED`, `DENIED`, `INVALID_RESPONSE` */
export async function exchangeCode(
  context: TokenRequestContext,
  { parameters, redirectUri, codeVerifier }: CodeGrant,
): Promise<OAuthTokens> {
  const { server, client } = library(context)
  try {
    // `iss` and `state` were compared before; this asks that the callback is a success.
    const unpromised = { ...server, authorization_response_iss_parameter_supported: false }
    const callback = oauth.validateAuthResponse(
      unpromised,
      client,
      parameters,
      oauth.skipStateCheck,
    )
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      authentication(context),
      callback,
      redirectUri,
      codeVerifier,
      { ...edges(context), additionalParameters: { resource: context.resource } },
    )
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response)
    return tokensFrom(tokens, context)
  } catch (error) {
    throw authErrorFrom(error, context)
  }
}

/** The old refresh token is kept where the server gives no new one (RFC 6749, section 6). */
export async function refreshTokens(
  context: TokenRequestContext,
  tokens: OAuthTokens & { readonly refresh_token: string },
): Promise<OAuthTokens> {
  const scope = await context.provider.scopeForRefresh?.(tokens)
  const fresh = await requestTokens(
    context,
    new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: tokens.refresh_token,
      ...(scope === undefined || scope === '' ? {} : { scope }),
    }),
  )
  return {
    ...fresh,
    refresh_token: fresh.refresh_token ?? tokens.refresh_token,
    scope: fresh.scope ?? tokens.scope,
  }
}

/** Tokens without a user: as the provider prepares it, else as client credentials. */
export async function requestTokensWithoutUser(
  context: TokenRequestContext,
  scope: string | undefined,
): Promise<OAuthTokens> {
  const prepared = await context.provider.prepareTokenRequest?.(scope)
  const parameters =
    prepared ??
    new URLSearchParams({
      grant_type: 'client_credentials',
      ...(scope === undefined ? {} : { scope }),
    })
  return requestTokens(context, parameters)
}

async function requestTokens(
  context: TokenRequestContext,
  prepared: URLSearchParams,
): Promise<OAuthTokens> {
  const { server, client } = library(context)
  const parameters = new URLSearchParams(prepared)
  const grant = parameters.get('grant_type') ?? ''
  parameters.delete('grant_type')
  parameters.set('resource', context.resource)
  try {
    const response = await oauth.genericTokenEndpointRequest(
      server,
      client,
      authentication(context),
      grant,
      parameters,
      edges(context),
    )
    const tokens = await oauth.processGenericTokenEndpointResponse(server, client, response)
    return tokensFrom(tokens, context)
  } catch (error) {
    throw authErrorFrom(error, context)
  }
}

function library({ server, client }: TokenRequestContext): {
  server: oauth.AuthorizationServer
  client: oauth.Client
} {
  const { issuer, tokenEndpoint } = server
  return {
    server: { issuer, token_endpoint: tokenEndpoint.href },
    client: { client_id: client.client_id },
  }
}

function authentication({ provider, client, server }: TokenRequestContext): oauth.ClientAuth {
  return clientAuthenticationFor(provider, client, server)
}

function edges({ fetch }: TokenRequestContext): {
  [oauth.customFetch]: OAuthFetch
  [oauth.allowInsecureRequests]: boolean
} {
  // `secureUrl` has looked at the endpoint: plain http is on this machine.
  return { [oauth.customFetch]: fetch, [oauth.allowInsecureRequests]: true }
}

function tokensFrom(
  response: oauth.TokenEndpointResponse,
  { server }: TokenRequestContext,
): OAuthTokens {
  const { access_token, token_type, id_token, expires_in, scope, refresh_token } = response
  if (token_type !== 'bearer') {
    throw new AuthError('INVALID_RESPONSE', `${server.issuer} gave a token that is no bearer token`)
  }
  return {
    access_token,
    token_type: 'Bearer',
    ...(id_token === undefined ? {} : { id_token }),
    ...(expires_in === undefined ? {} : { expires_in }),
    ...(scope === undefined ? {} : { scope }),
    ...(refresh_token === undefined ? {} : { refresh_token }),
    issuer: server.issuer,
  }
}

/** What the library says, without the requests and bodies it keeps in `cause`: they hold secrets. */
function authErrorFrom(error: unknown, { server }: TokenRequestContext): unknown {
  if (AuthError.is(error) || TransportError.is(error)) return error
  const { issuer } = server
  if (error instanceof oauth.AuthorizationResponseError) {
    const message = `${issuer} did not authorize this client: ${plain(error.error)}`
    return new AuthError('DENIED', message, { oauthError: plain(error.error) })
  }
  if (error instanceof oauth.ResponseBodyError) {
    const message = `${issuer} gave no token: ${plain(error.error)} (HTTP ${error.status})`
    return new AuthError('TOKEN_REFUSED', message, { oauthError: plain(error.error) })
  }
  if (error instanceof oauth.WWWAuthenticateChallengeError) {
    const message = `${issuer} gave no token: it does not accept this client (HTTP ${error.status})`
    return new AuthError('TOKEN_REFUSED', message, { oauthError: 'invalid_client' })
  }
  if (error instanceof Error && error.cause instanceof Response) {
    const message = `${issuer} gave no token (HTTP ${error.cause.status})`
    return new AuthError('TOKEN_REFUSED', message)
  }
  if (
    error instanceof oauth.OperationProcessingError ||
    error instanceof oauth.UnsupportedOperationError
  ) {
    return new AuthError('INVALID_RESPONSE', `${issuer} gave no token: ${error.message}`)
  }
  return error
}

function plain(code: string): string {
  return code.replaceAll(/[^\x21-\x7E]/g, '?').slice(0, 64)
}
