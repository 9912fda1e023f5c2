/**
 * Where metadata of an MCP server may be (RFC 9728, section 3; 2025-11-25, basic/authorization): where the
 * challenge says, at the well-known path of the endpoint, at that of the root.
 */
export function resourceMetadataUrls(serverUrl: URL, fromChallenge?: string): URL[] {
  const wellKnown = '/.well-known/oauth-protected-resource'
  const path = pathOf(serverUrl)
  const urls = [
    ...(fromChallenge !== undefined && URL.canParse(fromChallenge) ? [new URL(fromChallenge)] : []),
    new URL(wellKnown + path, serverUrl),
    new URL(wellKnown, serverUrl),
  ]
  return unique(urls)
}

/**
 * Where metadata of an authorization server may be, in order (2025-11-25, basic/authorization,
 * "Authorization Server Metadata Discovery"; RFC 8414, section 3.1; OpenID Connect Discovery, section 4).
 */
export function authorizationServerMetadataUrls(issuer: URL): URL[] {
  const path = pathOf(issuer)
  const oauth = '/.well-known/oauth-authorization-server'
  const openid = '/.well-known/openid-configuration'
  if (path === '') return [new URL(oauth, issuer), new URL(openid, issuer)]
  return [
    new URL(oauth + path, issuer),
    new URL(openid + path, issuer),
    new URL(path + openid, issuer),
  ]
}

/** Without the slash at its end; empty for the root. */
function pathOf({ pathname }: URL): string {
  return pathname.endsWith('/') ? pathname.slice(0, -1) : pathname
}

function unique(urls: readonly URL[]): URL[] {
  return [...new Map(urls.map((url) => [url.href, url])).values()]
}
