import { AuthError } from '../auth-error.ts'
import { resourceMetadataUrls } from './discovery-urls.ts'
import { firstDocument } from './first-document.ts'
import { resourceMetadataFrom } from './metadata.ts'
import type { OAuthFetch } from '../oauth-fetch.ts'
import type { OAuthClientProvider, ProtectedResourceMetadata } from '../oauth-client-provider.ts'
import { secureUrl } from './secure-url.ts'

/** What an MCP server says of itself; revisions before 2025-06-18 say nothing. */
export interface DiscoveredResource {
  /** `resource` of authorization and token requests (RFC 8707). */
  readonly resource: string
  readonly metadata?: ProtectedResourceMetadata | undefined
  readonly metadataUrl?: URL | undefined
}

export interface ResourceDiscoveryOptions {
  readonly serverUrl: URL
  /** `resource_metadata` of the challenge. */
  readonly fromChallenge: string | undefined
  readonly provider: Pick<OAuthClientProvider, 'validateResourceURL'>
  readonly fetch: OAuthFetch
}

/**
 * Reads the MCP server's metadata (RFC 9728).
 *
 * @throws AuthError `RESOURCE_MISMATCH` if it is of another server; `DISCOVERY_FAILED`, `INSECURE_URL`
 */
export async function discoverResource(
  options: ResourceDiscoveryOptions,
): Promise<DiscoveredResource> {
  const { serverUrl, fromChallenge, provider, fetch } = options
  const urls = resourceMetadataUrls(serverUrl, fromChallenge)
  for (const url of urls) secureUrl(url, serverUrl)
  const found = await firstDocument({ urls, read: resourceMetadataFrom, fetch })
  if (found !== undefined) {
    const { url: metadataUrl, document: metadata } = found
    const resource = await checkedResource(serverUrl, metadata.resource, provider)
    return { resource: resource ?? metadata.resource, metadata, metadataUrl }
  }
  const resource = await checkedResource(serverUrl, undefined, provider)
  return { resource: resource ?? resourceOf(serverUrl) }
}

/** The server's identifier as RFC 8707, section 2, wants it. */
export function resourceOf(serverUrl: URL): string {
  const url = new URL(serverUrl)
  url.hash = ''
  return url.pathname === '/' && url.search === '' ? url.origin : url.href
}

/**
 * Whether metadata for `resource` speaks for the server: the same origin, and the same path or one above
 * it, because some servers describe all their endpoints at once.
 */
export function speaksFor(resource: string, serverUrl: URL): boolean {
  if (!URL.canParse(resource)) return false
  const url = new URL(resource)
  if (url.origin !== serverUrl.origin) return false
  const above = url.pathname.endsWith('/') ? url.pathname : `${url.pathname}/`
  return `${serverUrl.pathname}/`.startsWith(above)
}

async function checkedResource(
  serverUrl: URL,
  resource: string | undefined,
  provider: ResourceDiscoveryOptions['provider'],
): Promise<string | undefined> {
  if (provider.validateResourceURL !== undefined) {
    return (await provider.validateResourceURL(serverUrl, resource))?.href
  }
  if (resource === undefined || speaksFor(resource, serverUrl)) return undefined
  throw new AuthError(
    'RESOURCE_MISMATCH',
    `The metadata of ${serverUrl.origin}${serverUrl.pathname} is of another server: no token is asked for`,
  )
}
