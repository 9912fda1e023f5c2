import { AuthError } from '../auth-error.ts'
import type { AuthorizationServer } from '../discovery/authorization-server.ts'
import { registerClient } from './client-registration.ts'
import type { CredentialMemory } from '../stores/credential-memory.ts'
import type { OAuthClientInformation, OAuthClientProvider } from '../oauth-client-provider.ts'
import type { OAuthFetch } from '../oauth-fetch.ts'

export interface ClientIdentityOptions {
  readonly provider: OAuthClientProvider
  readonly memory: CredentialMemory
  readonly server: AuthorizationServer
}

/**
 * What this client is known as at an authorization server: as it was registered there, else by the URL of
 * its metadata document, if the server reads such. Undefined if it has to register.
 *
 * @throws AuthError `ISSUER_MISMATCH` for a client that was registered elsewhere and cannot register.
 */
export async function knownClient(
  options: ClientIdentityOptions,
): Promise<OAuthClientInformation | undefined> {
  const { provider, memory, server } = options
  const { issuer } = server
  const stored = await provider.clientInformation({ issuer })
  const url = provider.clientMetadataUrl
  // The URL of a document means the same client everywhere; all else belongs to one server.
  if (stored !== undefined && stored.client_id !== url) {
    const owner = memory.issuerOfClient(stored)
    const canRegister = provider.saveClientInformation !== undefined
    const isUsable = (owner === undefined || owner === issuer) && !isExpired(stored)
    if (isUsable && stored.client_id !== memory.deadClientId) return stored
    if (!canRegister && owner !== undefined && owner !== issuer) {
      const message = `This client is registered with another authorization server than ${issuer}`
      throw new AuthError('ISSUER_MISMATCH', message)
    }
    if (!canRegister) return stored
  }
  const readsDocuments = server.metadata?.client_id_metadata_document_supported === true
  return url !== undefined && readsDocuments ? { client_id: url } : undefined
}

export interface RegisteredClientOptions extends ClientIdentityOptions {
  readonly scope: string | undefined
  readonly fetch: OAuthFetch
}

/**
 * Like `knownClient`, and registers the client where it is not known (2025-11-25, basic/authorization,
 * "Client Registration Approaches").
 *
 * @throws AuthError `NOT_REGISTERED`
 */
export async function registeredClient(
  options: RegisteredClientOptions,
): Promise<OAuthClientInformation> {
  const known = await knownClient(options)
  if (known !== undefined) return known
  const { provider, memory, server, scope, fetch } = options
  const { issuer } = server
  if (provider.saveClientInformation === undefined) {
    const message = `${issuer} does not know this client, which has no id and cannot keep one`
    throw new AuthError('NOT_REGISTERED', message)
  }
  const metadata = provider.clientMetadata
  const registered = await registerClient({ server, metadata, scope, fetch })
  const client = { ...registered, issuer }
  memory.rememberClient(client, issuer)
  await provider.saveClientInformation(client, { issuer })
  return client
}

function isExpired({ client_secret_expires_at: expiresAt }: OAuthClientInformation): boolean {
  return expiresAt !== undefined && expiresAt !== 0 && expiresAt * 1000 < Date.now()
}
