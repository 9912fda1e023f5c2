import { AuthError } from './auth-error.ts'
import { knownClient } from './client/client-identity.ts'
import { save } from './flow.ts'
import type { Flow } from './flow.ts'
import type { OAuthClientInformation, OAuthTokens } from './oauth-client-provider.ts'
import { storedTokens } from './token-provider.ts'
import { refreshTokens } from './token-request.ts'

/**
 * Whether there are other tokens than the stored ones now, by a refresh of ours or of another process. If
 * not, the refresh token is of no more use, and is forgotten.
 *
 * @throws AuthError or TransportError for trouble of the moment: no reason to bother the user.
 */
export async function refreshed(flow: Flow, stored: OAuthTokens): Promise<boolean> {
  const { provider } = flow
  const { refresh_token: refreshToken } = stored
  if (refreshToken === undefined || refreshToken === '') return false
  const client = await knownClient(flow)
  if (client === undefined) return false
  const refreshable = { ...stored, refresh_token: refreshToken }
  let isRefreshed = false
  const work = async (): Promise<void> => {
    // Whoever held the lock before may have done it.
    isRefreshed =
      (await isReplaced(flow, stored)) || (await refresh(flow, { client, stored: refreshable }))
  }
  await (provider.exclusively === undefined ? work() : provider.exclusively(work))
  return isRefreshed
}

interface Refresh {
  readonly client: OAuthClientInformation
  readonly stored: OAuthTokens & { readonly refresh_token: string }
}

async function refresh(flow: Flow, { client, stored }: Refresh): Promise<boolean> {
  const { provider, memory, resource } = flow
  try {
    const fresh = await refreshTokens({ ...flow, client, resource: resource.resource }, stored)
    await save({ ...flow, client, scope: stored.scope ?? memory.askedScope }, fresh)
    return true
  } catch (error) {
    if (!AuthError.is(error) || error.code !== 'TOKEN_REFUSED') throw error
    // Another process may have used the refresh token first: what it got is ours too.
    if (await isReplaced(flow, stored)) return true
    if (error.oauthError === 'invalid_grant') {
      await provider.invalidateCredentials?.('tokens')
      return false
    }
    const isUnknown = ['invalid_client', 'unauthorized_client'].includes(error.oauthError ?? '')
    if (!isUnknown || provider.saveClientInformation === undefined) throw error
    memory.deadClientId = client.client_id
    await provider.invalidateCredentials?.('client')
    return false
  }
}

async function isReplaced(flow: Flow, stored: OAuthTokens): Promise<boolean> {
  const { provider, serverUrl, server } = flow
  const now = await storedTokens(provider, serverUrl, { issuer: server.issuer })
  return now !== undefined && now.access_token !== stored.access_token
}
