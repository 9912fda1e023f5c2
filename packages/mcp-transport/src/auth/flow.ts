import { discoverAuthorizationServer } from './discovery/authorization-server.ts'
import type { AuthorizationServer } from './discovery/authorization-server.ts'
import type { CredentialMemory } from './stores/credential-memory.ts'
import type {
  OAuthClientInformation,
  OAuthClientProvider,
  OAuthTokens,
} from './oauth-client-provider.ts'
import type { OAuthFetch } from './oauth-fetch.ts'
import type { DiscoveredResource } from './discovery/resource-discovery.ts'
import { storedTokens } from './token-provider.ts'

/** For whom tokens are wanted, and with what. */
export interface FlowOptions {
  readonly provider: OAuthClientProvider
  readonly memory: CredentialMemory
  readonly serverUrl: URL
  readonly fetch: OAuthFetch
  /** Aborts when nobody waits for the outcome any more. */
  readonly signal: AbortSignal
}

/** A flow, once it is known who gives tokens for what. */
export interface Flow extends FlowOptions {
  readonly resource: DiscoveredResource
  readonly server: AuthorizationServer
  readonly scope: string | undefined
}

/** Of several servers, the one that the stored credentials are from; else the first. */
export async function authorizationServerOf(
  { metadata }: DiscoveredResource,
  { provider, memory, serverUrl, fetch }: FlowOptions,
): Promise<AuthorizationServer> {
  const issuers = metadata?.authorization_servers ?? []
  let [issuer] = issuers
  if (issuers.length > 1) {
    const tokens = await storedTokens(provider, serverUrl)
    const owner = tokens === undefined ? undefined : memory.issuerOfTokens(tokens)
    if (owner !== undefined && issuers.includes(owner)) issuer = owner
  }
  return discoverAuthorizationServer({ issuer, serverUrl, fetch })
}

/** Has the provider keep tokens, marked with the server that issued them and the one that they are for. */
export async function save(
  { provider, memory, serverUrl, server, client, scope }: Obtained,
  tokens: OAuthTokens,
): Promise<void> {
  const { issuer } = server
  const granted = tokens.scope ?? scope
  memory.rememberTokens(tokens, issuer)
  memory.rememberClient(client, issuer)
  memory.askedScope = scope
  await provider.saveTokens(
    {
      ...tokens,
      ...(granted === undefined ? {} : { scope: granted }),
      issuer,
      server: serverUrl.origin,
    },
    { issuer },
  )
}

interface Obtained extends Pick<Flow, 'provider' | 'memory' | 'serverUrl' | 'server' | 'scope'> {
  readonly client: OAuthClientInformation
}
