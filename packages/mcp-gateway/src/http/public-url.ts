// Addresses of a gateway behind a reverse proxy: what clients see, and what the proxy may forward.

/** Addresses of a gateway as clients see them. */
export interface PublicUrls {
  /** Everything besides the endpoint is below this URL, which has no slash at its end. */
  readonly base: string
  /** URL of the MCP endpoint. */
  readonly endpoint: string
}

/**
 * Returns the addresses of a gateway. A `publicUrl` that ends with `path`, such as `https://agents.example/team/mcp` with
 * `/mcp`, is the endpoint itself. To any other one, `path` is appended.
 *
 * @param publicUrl `http.publicUrl`
 * @param path `http.path`
 */
export function publicUrlsOf(publicUrl: string, path: string): PublicUrls {
  const { origin } = new URL(publicUrl)
  return {
    base: origin + pathIn(publicUrl),
    endpoint: new URL(origin + endpointPath(prefixOf(publicUrl, path), path)).href,
  }
}

/** Returns the paths at which the endpoint is served: a proxy may remove the prefix, a part of it, or nothing. */
export function endpointPaths(publicUrl: string | undefined, path: string): ReadonlySet<string> {
  const prefix = publicUrl === undefined ? '' : prefixOf(publicUrl, path)
  const ends = pathEnds(prefix)
  return new Set([path, ...ends.flatMap((end) => [end + path, endpointPath(end, path)])])
}

/** Returns the paths below which files are served: every end of the path of `publicUrl`. */
export function basePaths(publicUrl: string | undefined): readonly string[] {
  return pathEnds(publicUrl === undefined ? '' : pathIn(publicUrl))
}

/** Returns a path and all its ends: `/team/agents` gives `/team/agents`, `/agents` and ``. */
export function pathEnds(path: string): readonly string[] {
  const segments = withoutSlash(path).split('/').slice(1)
  return [...segments.map((_, index) => `/${segments.slice(index).join('/')}`), '']
}

/**
 * Returns the paths of a well-known document about a URL with a path: with the name before the path (RFC 8414, RFC 9728)
 * and after it (OpenID Connect Discovery), for the whole path and for each of its ends.
 *
 * @param name such as `/.well-known/oauth-authorization-server`
 */
export function wellKnownPaths(name: string, path: string): readonly string[] {
  return pathEnds(path).flatMap((end) => (end === '' ? [name] : [name + end, end + name]))
}

/** Returns the path of `publicUrl` without that of the endpoint. */
function prefixOf(publicUrl: string, path: string): string {
  const base = pathIn(publicUrl)
  const own = withoutSlash(path)
  return base.endsWith(own) ? base.slice(0, base.length - own.length) : base
}

/** With the path `/`, the prefix itself is the endpoint. */
function endpointPath(prefix: string, path: string): string {
  return path === '/' && prefix !== '' ? prefix : prefix + path
}

function pathIn(url: string): string {
  return withoutSlash(new URL(url).pathname)
}

function withoutSlash(path: string): string {
  return path.replace(/\/+$/, '')
}
