import { publicDocument } from './public-document.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

export interface ProtectedResourceOptions {
  /** The MCP endpoint as clients see it. @default what a request was addressed to */
  readonly resource?: string | undefined
  /** Issuers whose tokens are accepted. */
  readonly authorizationServers: readonly string[]
  readonly scopesSupported?: readonly string[] | undefined
  /** For people. */
  readonly resourceName?: string | undefined
}

/** Tells clients where to get a token for this gateway (RFC 9728). */
export class ProtectedResource {
  readonly #options: ProtectedResourceOptions

  constructor(options: ProtectedResourceOptions) {
    this.#options = options
  }

  /** Where the document of an endpoint is: the well-known part goes between host and path (RFC 9728 section 3.1). */
  metadataUrl(endpoint: string): string {
    const { origin, pathname } = new URL(this.#options.resource ?? endpoint)
    return `${origin}${WELL_KNOWN}${pathname === '/' ? '' : pathname}`
  }

  /** Paths of the documents, as far as they are known before a request. */
  get paths(): readonly string[] {
    const { resource } = this.#options
    if (resource === undefined) return [WELL_KNOWN]
    return [...new Set([WELL_KNOWN, new URL(this.metadataUrl(resource)).pathname])]
  }

  /** The document, or the answer to a browser that asks for it; `undefined`: not its path. */
  handle(request: Request): Response | undefined {
    const url = new URL(request.url)
    const resource = this.#resourceAt(url)
    if (resource === undefined) return undefined
    return publicDocument(request, this.#document(resource))
  }

  /** Which resource a document at this place is about. */
  #resourceAt({ origin, pathname }: URL): string | undefined {
    const { resource } = this.#options
    if (resource !== undefined) return this.paths.includes(pathname) ? resource : undefined
    if (pathname !== WELL_KNOWN && !pathname.startsWith(`${WELL_KNOWN}/`)) return undefined
    return `${origin}${pathname.slice(WELL_KNOWN.length)}`
  }

  #document(resource: string): object {
    const { authorizationServers, scopesSupported = [], resourceName } = this.#options
    return {
      resource,
      authorization_servers: authorizationServers,
      bearer_methods_supported: ['header'],
      ...(scopesSupported.length > 0 && { scopes_supported: scopesSupported }),
      ...(resourceName !== undefined && { resource_name: resourceName }),
    }
  }
}
