import { allowInsecureRequests, customFetch, dynamicClientRegistrationRequest } from 'oauth4webapi'
import type { JsonValue } from 'oauth4webapi'
import { isObject } from '../../json-rpc.ts'
import { AuthError } from '../auth-error.ts'
import type { AuthorizationServer } from '../discovery/authorization-server.ts'
import { clientInformationFrom } from './client-information.ts'
import { definedOf } from '../defined-of.ts'
import type { OAuthClientInformation, OAuthClientMetadata } from '../oauth-client-provider.ts'
import type { OAuthFetch } from '../oauth-fetch.ts'
import { isLoopback } from '../discovery/secure-url.ts'

export interface RegistrationOptions {
  readonly server: AuthorizationServer
  readonly metadata: OAuthClientMetadata
  readonly scope: string | undefined
  readonly fetch: OAuthFetch
}

/**
 * Registers a client (RFC 7591). Takes what servers in the field answer: 200 as well as 201, and a secret
 * without an expiry.
 *
 * @throws AuthError `NOT_REGISTERED`
 */
export async function registerClient(
  options: RegistrationOptions,
): Promise<OAuthClientInformation> {
  const { server, metadata, scope, fetch } = options
  const { issuer, registrationEndpoint } = server
  if (registrationEndpoint === undefined) {
    const message = `${issuer} knows no registration by the client itself: register it there, and pass its client id`
    throw new AuthError('NOT_REGISTERED', message)
  }
  const response = await dynamicClientRegistrationRequest(
    { issuer, registration_endpoint: registrationEndpoint.href },
    registrationMetadata(metadata, { server, scope }),
    { [customFetch]: fetch, [allowInsecureRequests]: true }, // `secureUrl` has looked at it
  )
  const body = await jsonOf(response)
  const information = response.ok ? clientInformationFrom(body) : undefined
  if (information !== undefined) return information
  const error = isObject(body) && typeof body['error'] === 'string' ? body['error'] : undefined
  const why = error === undefined ? '' : `, ${error.slice(0, 64)}`
  const message = `${issuer} did not register this client (HTTP ${response.status}${why})`
  throw new AuthError('NOT_REGISTERED', message, { oauthError: error })
}

/** What is sent: all that the client says of itself, and what it left open. */
export function registrationMetadata(
  metadata: OAuthClientMetadata,
  { server, scope }: Pick<RegistrationOptions, 'server' | 'scope'>,
): Record<string, JsonValue> {
  const applicationType = metadata.application_type ?? applicationTypeOf(metadata.redirect_uris)
  const methods = server.metadata?.token_endpoint_auth_methods_supported
  const isPublic = applicationType === 'native' && methods?.includes('none') === true
  const complete = {
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    ...(isPublic ? { token_endpoint_auth_method: 'none' } : {}),
    ...definedOf(metadata),
    application_type: applicationType,
    ...(scope === undefined ? {} : { scope }),
  }
  return JSON.parse(JSON.stringify(complete))
}

/** OpenID Connect Dynamic Client Registration, section 2: servers hold other rules for each of them. */
export function applicationTypeOf(redirectUris: readonly string[]): 'native' | 'web' {
  const isNative = redirectUris.every((uri) => {
    if (!URL.canParse(uri)) return true
    const url = new URL(uri)
    return !/^https?:$/.test(url.protocol) || isLoopback(url)
  })
  return isNative ? 'native' : 'web'
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json()
  } catch {
    return undefined // said by its absence
  }
}
