import { createHash } from 'node:crypto'

/** A checked endpoint URL in the parts that the HTTP layer needs. */
export interface ServerUrl {
  readonly origin: string
  /** Path and query of the request target. */
  readonly path: string
  /** For messages and events: no credentials, query or fragment. */
  readonly display: string
  /** `SessionRecord.serverUrl`: like `display`, plus a digest of the query, which may hold a token. */
  readonly identity: string
}

/** @throws TypeError if it is not an absolute http(s) URL, or holds credentials. */
export function parseServerUrl(input: string | URL): ServerUrl {
  const url = typeof input === 'string' ? parse(input) : input
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`Server URL must be http or https, not "${url.protocol}"`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new TypeError(`Server URL ${url.host} holds credentials: pass them as headers instead`)
  }
  const display = url.origin + url.pathname
  const query = url.search.slice(1)
  const identity = query === '' ? display : `${display}?sha256=${digest(query)}`
  return { origin: url.origin, path: url.pathname + url.search, display, identity }
}

function parse(input: string): URL {
  if (URL.canParse(input)) return new URL(input)
  throw new TypeError('Server URL is not an absolute URL like "https://host/mcp"')
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
