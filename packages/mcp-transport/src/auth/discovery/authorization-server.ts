import { AuthError } from '../auth-error.ts'
import { authorizationServerMetadataUrls } from './discovery-urls.ts'
import { firstDocument } from './first-document.ts'
import { serverMetadataFrom } from './metadata.ts'
import type { AuthorizationServerMetadata } from '../oauth-client-provider.ts'
import type { OAuthFetch } from '../oauth-fetch.ts'
import { secureUrl } from './secure-url.ts'

/** An authorization server, with endpoints that may be used. */
export interface AuthorizationServer {
  /** What its credentials are bound to. */
  readonly issuer: string
  /** Absent for servers of 2025-03-26 that have none. */
  readonly metadata?: AuthorizationServerMetadata | undefined
  readonly authorizationEndpoint: URL | undefined
  readonly tokenEndpoint: URL
  readonly registrationEndpoint: URL | undefined
}

export interface ServerDiscoveryOptions {
  /** From the MCP server's metadata; without it, the MCP server's own origin is asked. */
  readonly issuer: string | undefined
  readonly serverUrl: URL
  readonly fetch: OAuthFetch
}

/**
 * Reads an authorization server's metadata. A document of another issuer is not used (RFC 8414,
 * section 3.3). Where there is none, and none was named, 2025-03-26 has default endpoints.
 *
 * @throws AuthError `ISSUER_MISMATCH`, `DISCOVERY_FAILED`, `INSECURE_URL`, `INVALID_RESPONSE`
 */
export async function discoverAuthorizationServer(
  options: ServerDiscoveryOptions,
): Promise<AuthorizationServer> {
  const { issuer, serverUrl, fetch } = options
  const base = secureUrl(issuer ?? serverUrl.origin, serverUrl)
  const urls = authorizationServerMetadataUrls(base)
  const found = await firstDocument({ urls, read: serverMetadataFrom, fetch })
  if (found !== undefined) {
    const { document: metadata } = found
    // Of an origin that nobody wrote down, both spellings are the same issuer.
    const names = issuer === undefined ? [base.origin, `${base.origin}/`] : [issuer]
    if (names.includes(metadata.issuer)) return authorizationServerFrom(metadata, serverUrl)
    const message = `The metadata of ${base.origin} is of another issuer: it is not used`
    throw new AuthError('ISSUER_MISMATCH', message)
  }
  if (issuer !== undefined) {
    const message = `${base.origin} has no authorization server metadata`
    throw new AuthError('DISCOVERY_FAILED', message)
  }
  return defaultEndpoints(base)
}

/** @throws AuthError for endpoints that may not be used. */
export function authorizationServerFrom(
  metadata: AuthorizationServerMetadata,
  serverUrl: URL,
): AuthorizationServer {
  const { issuer, token_endpoint: token } = metadata
  if (token === undefined) {
    throw new AuthError('INVALID_RESPONSE', 'The authorization server names no token endpoint')
  }
  const endpoint = (url: string | undefined): URL | undefined =>
    url === undefined ? undefined : secureUrl(url, serverUrl)
  return {
    issuer,
    metadata,
    authorizationEndpoint: endpoint(metadata.authorization_endpoint),
    tokenEndpoint: secureUrl(token, serverUrl),
    registrationEndpoint: endpoint(metadata.registration_endpoint),
  }
}

/** 2025-03-26, basic/authorization, "Fallbacks for Servers without Metadata Discovery". */
function defaultEndpoints(base: URL): AuthorizationServer {
  return {
    issuer: base.origin,
    authorizationEndpoint: new URL('/authorize', base),
    tokenEndpoint: new URL('/token', base),
    registrationEndpoint: new URL('/register', base),
  }
}
