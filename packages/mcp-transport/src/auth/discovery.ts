import type { discoverOAuthProtectedResourceMetadata } from '@modelcontextprotocol/client'
import type { OAuthClientProvider, OAuthDiscoveryState } from './auth-provider.ts'
import { issuerMismatch } from './oauth-responses.ts'

export type ResourceMetadata = Awaited<ReturnType<typeof discoverOAuthProtectedResourceMetadata>>

/** The authorization server, and what is known of it and of the resource. `auth()` takes it from its provider. */
export type Discovery = OAuthDiscoveryState & {
  readonly resourceMetadata?: ResourceMetadata | undefined
  readonly resourceMetadataUrl?: string | undefined
}

/** The authorization server that the user has named for a provider. */
export interface NamedServer {
  /** Selects one of the servers in the resource metadata. Without metadata, it names the server. */
  readonly issuer: string | undefined
  /** State of the provider: replaces the metadata if it `isChoice`, and else serves without metadata. */
  readonly kept: Discovery | undefined
  readonly isChoice: boolean
  /** URL in the user's options. It may have a private address. */
  readonly url: string | undefined
}

/**
 * Reads which authorization server the user has named. A `discoveryState()` that holds only the URL is such a
 * choice. All others were saved by an earlier authorization, and the MCP server may have moved since then.
 */
export async function namedServer(provider: OAuthClientProvider): Promise<NamedServer> {
  const isStatic = provider.saveClientInformation === undefined
  const client = isStatic ? await provider.clientInformation() : undefined
  const kept = (await provider.discoveryState?.()) ?? undefined
  const { authorizationServerUrl, ...rest } = kept ?? {}
  const isOnlyUrl = Object.values(rest).every((value) => value === undefined)
  const isChoice = authorizationServerUrl !== undefined && isOnlyUrl
  const issuer = provider.issuer ?? client?.issuer
  return { issuer, kept, isChoice, url: isChoice ? authorizationServerUrl : issuer }
}

/**
 * Chooses the authorization server: from the resource metadata (RFC 9728, section 3), or else from what the
 * provider names, or else the origin of the MCP server (revision 2025-03-26).
 *
 * @throws AuthError `ISSUER_MISMATCH` if the metadata does not list the issuer of the provider
 */
export function chooseServer(
  { issuer, kept, isChoice }: NamedServer,
  serverUrl: URL,
  resourceMetadata: ResourceMetadata | undefined,
): Discovery {
  const listed = resourceMetadata?.authorization_servers ?? []
  const resource = resourceMetadata && { resourceMetadata }
  if (kept !== undefined && isChoice) return { ...kept, ...resource }
  const [first] = listed
  if (first !== undefined) {
    const chosen = issuer === undefined ? first : listed.find((one) => isSameIssuer(one, issuer))
    if (chosen !== undefined) return { authorizationServerUrl: chosen, ...resource }
    throw issuerMismatch(issuer ?? '', listed)
  }
  // With the metadata that the provider gives, but not with those of an earlier authorization.
  if (kept !== undefined && kept.state === undefined) return { ...kept, ...resource }
  const authorizationServerUrl = issuer ?? kept?.authorizationServerUrl ?? serverUrl.origin
  return { authorizationServerUrl, ...resource }
}

/** The location of metadata does not tell a final slash (RFC 8414, section 3.1): both issuers are one server. */
export function isSameIssuer(one: string, other: string | undefined): boolean {
  return one === other || `${one}/` === other || one === `${other}/`
}

/** For an issuer that ends with a slash, `auth()` accepts metadata that name it with and without the slash. */
export function withFinalSlash<State extends OAuthDiscoveryState>(state: State): State {
  const { authorizationServerUrl: url } = state
  const isComplete = url.endsWith('/') || /[?#]/.test(url)
  return isComplete ? state : { ...state, authorizationServerUrl: `${url}/` }
}
