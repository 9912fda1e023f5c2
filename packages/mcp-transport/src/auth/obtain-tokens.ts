import type { AuthorizationServer } from './discovery/authorization-server.ts'
import type { BearerChallenge } from './discovery/challenge.ts'
import { registeredClient } from './client/client-identity.ts'
import { authorizationServerOf, save } from './flow.ts'
import type { Flow, FlowOptions } from './flow.ts'
import type { OAuthTokens } from './oauth-client-provider.ts'
import { refreshed } from './refresh.ts'
import { discoverResource } from './discovery/resource-discovery.ts'
import { chooseScope, scopeUnion } from './scopes.ts'
import { storedTokens } from './token-provider.ts'
import { requestTokensWithoutUser } from './token-request.ts'
import { askUser } from './user/user-authorization.ts'

export interface ObtainOptions extends FlowOptions {
  readonly challenge: BearerChallenge | undefined
  /** More scopes are wanted: a refresh would not give them. */
  readonly isStepUp: boolean
}

/**
 * Gets tokens for an MCP server and has the provider save them (2025-11-25 and 2026-07-28,
 * basic/authorization): by a refresh, without a user, or by asking the user.
 *
 * @throws AuthError `AUTHORIZATION_REQUIRED` if the user was sent away and `finishAuthorization` has to
 * go on; every other code for why there are none.
 */
export async function obtainTokens(options: ObtainOptions): Promise<void> {
  const { provider, memory, serverUrl, fetch, signal, challenge, isStepUp } = options
  const fromChallenge = challenge?.resourceMetadata
  const resource = await discoverResource({ serverUrl, fromChallenge, provider, fetch })
  const server = await authorizationServerOf(resource, options)
  const stored = await tokensFrom(server, options)
  const hasUser = provider.redirectUrl !== undefined
  const grants = provider.clientMetadata.grant_types
  const scope = chooseScope({
    challenged: challenge?.scope,
    resourceScopes: resource.metadata?.scopes_supported,
    clientScope: provider.clientMetadata.scope,
    before: isStepUp ? scopeUnion(memory.askedScope, stored?.scope) : undefined,
    serverScopes: server.metadata?.scopes_supported,
    wantsRefresh: hasUser && grants?.includes('refresh_token') !== false,
  })
  const flow: Flow = { provider, memory, serverUrl, fetch, signal, resource, server, scope }
  if (!hasUser) return withoutUser(flow)
  const isRefreshed = !isStepUp && stored !== undefined && (await refreshed(flow, stored))
  if (!isRefreshed) await askUser(flow)
}

/** The stored tokens, if they are from this server. */
async function tokensFrom(
  { issuer }: AuthorizationServer,
  { provider, memory, serverUrl }: FlowOptions,
): Promise<OAuthTokens | undefined> {
  const tokens = await storedTokens(provider, serverUrl, { issuer })
  if (tokens === undefined) return undefined
  const owner = memory.issuerOfTokens(tokens)
  return owner === undefined || owner === issuer ? tokens : undefined
}

async function withoutUser(flow: Flow): Promise<void> {
  const { server, resource, scope } = flow
  const client = await registeredClient(flow)
  const context = { ...flow, client, server, resource: resource.resource }
  await save({ ...flow, client }, await requestTokensWithoutUser(context, scope))
}
