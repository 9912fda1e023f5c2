import type * as OAuthLibrary from '@modelcontextprotocol/client'
import type {
  AuthorizationServerMetadata,
  OAuthProtectedResourceMetadata,
} from '@modelcontextprotocol/client'
import { isLoopback, isRecord } from '@x/internal'
import { TransportError } from '../transport-error.ts'
import { AuthError } from './auth-provider.ts'
import type { OAuthClientProvider } from './auth-provider.ts'
import type { FetchFunction } from './authorizer.ts'

/** `@modelcontextprotocol/client`, an optional peer. */
export type Library = typeof OAuthLibrary

export interface Discovered {
  /** Metadata of the authorization server. If it has none: the default endpoints of 2025-03-26. */
  readonly server: AuthorizationServerMetadata
  /** Metadata of the MCP server. If it has none: its URL as the resource. */
  readonly resource: OAuthProtectedResourceMetadata
  /** URL of the MCP server's metadata, from the challenge. */
  readonly metadataUrl: string | undefined
}

interface DiscoveryOptions {
  readonly provider: OAuthClientProvider
  readonly serverUrl: URL
  readonly fetch: FetchFunction
  /** Named by the challenge. */
  readonly metadataUrl: string | undefined
  /** Chosen if the MCP server names several authorization servers; otherwise the first one. */
  readonly preferredIssuer: string | undefined
}

/**
 * Reads the metadata of an MCP server and of its authorization server. Metadata that cannot be read is an error,
 * and not "there is none", which would send users to the wrong authorization server.
 *
 * @throws AuthError `RESOURCE_MISMATCH`, `DISCOVERY_FAILED`, `INSECURE_URL`; what the library throws for the
 * metadata of another issuer and for malformed metadata.
 */
export async function discover(library: Library, options: DiscoveryOptions): Promise<Discovered> {
  const { provider, serverUrl, preferredIssuer } = options
  const documents = documentsFrom(options.fetch)
  const metadataUrl = URL.canParse(options.metadataUrl ?? '') ? options.metadataUrl : undefined
  const resourceAt = async (
    from: Partial<Record<'resourceMetadataUrl', string>>,
  ): Promise<OAuthProtectedResourceMetadata | undefined> => {
    try {
      return await library.discoverOAuthProtectedResourceMetadata(serverUrl, from, documents.fetch)
    } catch (error) {
      if (AuthError.is(error) || TransportError.is(error)) throw error
      return undefined // there is none, or the document is something else
    }
  }
  const named = metadataUrl && (await resourceAt({ resourceMetadataUrl: metadataUrl }))
  const resource = named || (await resourceAt({}))
  if (resource === undefined) documents.assertRead()
  else if (
    provider.validateResourceURL === undefined &&
    !library.checkResourceAllowed({
      requestedResource: serverUrl,
      configuredResource: resource.resource,
    })
  ) {
    const message = `The metadata of ${serverUrl.origin}${serverUrl.pathname} describes another server, so no token is requested`
    throw new AuthError('RESOURCE_MISMATCH', message)
  }
  const issuers = resource?.authorization_servers ?? []
  const issuer = issuers.find((one) => one === preferredIssuer) ?? issuers[0]
  const server = await library.discoverAuthorizationServerMetadata(
    issuer ?? new URL('/', serverUrl),
    { fetchFn: documents.fetch },
  )
  if (server === undefined) documents.assertRead()
  if (server === undefined && issuer !== undefined) {
    const message = `${new URL(issuer).origin} has no authorization server metadata`
    throw new AuthError('DISCOVERY_FAILED', message)
  }
  const discovered = {
    server: server ?? defaultEndpoints(serverUrl),
    resource: resource ?? { resource: resourceOf(serverUrl) },
    metadataUrl: named && metadataUrl,
  }
  const { authorization_endpoint, token_endpoint, registration_endpoint } = discovered.server
  for (const url of [authorization_endpoint, token_endpoint, registration_endpoint]) {
    if (url !== undefined) secureUrl(url, serverUrl)
  }
  return discovered
}

/**
 * Reads documents. A response that is not a JSON object counts as 404, because many servers answer unknown paths
 * with a page. A failure also counts as 404 at first, so that the other places are tried.
 */
function documentsFrom(fetch: FetchFunction): { fetch: FetchFunction; assertRead: () => void } {
  let failure: AuthError | undefined
  return {
    async fetch(url, init) {
      try {
        const response = await fetch(url, init)
        if (response.status >= 500) throw new Error(`HTTP ${response.status}`)
        const document: unknown = response.ok ? await response.json().catch(() => null) : null
        if (isRecord(document)) return Response.json(document)
      } catch (cause) {
        const code = TransportError.is(cause) ? cause.code : undefined
        if (AuthError.is(cause) || code === 'CLOSED') throw cause
        const { origin, pathname } = new URL(url)
        const message = `Metadata could not be read from ${origin}${pathname}`
        const isRedirect = code === 'UNEXPECTED_RESPONSE'
        if (!isRedirect) failure ??= new AuthError('DISCOVERY_FAILED', message, { cause })
      }
      return new Response(null, { status: 404 })
    },
    assertRead() {
      if (failure !== undefined) throw failure
    },
  }
}

/** 2025-03-26, basic/authorization, "Fallbacks for Servers without Metadata Discovery". */
function defaultEndpoints(serverUrl: URL): AuthorizationServerMetadata {
  const at = (path: string): string => new URL(path, serverUrl).href
  return {
    issuer: serverUrl.origin,
    authorization_endpoint: at('/authorize'),
    token_endpoint: at('/token'),
    registration_endpoint: at('/register'),
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
  }
}

/** The resource identifier of a server without metadata (RFC 8707, section 2). */
function resourceOf(serverUrl: URL): string {
  const url = new URL(serverUrl)
  url.hash = ''
  return url.pathname === '/' && url.search === '' ? url.origin : url.href
}

/**
 * Accepts a URL for credentials: https, or http on this machine if the MCP server is on it too (OAuth 2.1,
 * section 1.5). So a remote server cannot make this machine send requests to its own services.
 *
 * @throws AuthError `INSECURE_URL`, `INVALID_RESPONSE`
 */
export function secureUrl(input: string | URL, serverUrl: URL): URL {
  if (!URL.canParse(String(input))) {
    throw new AuthError('INVALID_RESPONSE', 'The metadata holds a malformed URL')
  }
  const url = new URL(input)
  const isLocal = url.protocol === 'http:' && isOnThisMachine(url) && isOnThisMachine(serverUrl)
  if (url.protocol === 'https:' || isLocal) return url
  const where = url.origin === 'null' ? url.protocol : url.origin
  const message = `${where} is named for authorization, but it is neither https nor on this machine`
  throw new AuthError('INSECURE_URL', message)
}

function isOnThisMachine({ hostname }: URL): boolean {
  return isLoopback(hostname) || hostname.endsWith('.localhost')
}
