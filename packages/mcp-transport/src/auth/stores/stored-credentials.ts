import { isObject } from '../../json-rpc.ts'
import { clientInformationFrom } from '../client/client-information.ts'
import { resourceMetadataFrom, serverMetadataFrom } from '../discovery/metadata.ts'
import type {
  OAuthClientInformation,
  OAuthDiscoveryState,
  OAuthTokens,
} from '../oauth-client-provider.ts'

/** All that is kept of the credentials for one MCP server. JSON; the field names are public. */
export interface StoredCredentials {
  /** Format. Credentials with another number count as none. */
  readonly v: 1
  readonly client?: OAuthClientInformation | undefined
  readonly tokens?: OAuthTokens | undefined
  /** PKCE verifier of an authorization that has begun. */
  readonly codeVerifier?: string | undefined
  readonly discovery?: OAuthDiscoveryState | undefined
}

/** What was stored, checked: what is broken of it is left out. Undefined for another format. */
export function storedCredentialsFrom(value: unknown): StoredCredentials | undefined {
  if (!isObject(value) || value['v'] !== 1) return undefined
  const { client, tokens, codeVerifier, discovery } = value
  return {
    v: 1,
    client: clientInformationFrom(client),
    tokens: isTokens(tokens) ? tokens : undefined,
    codeVerifier: typeof codeVerifier === 'string' ? codeVerifier : undefined,
    discovery: discoveryFrom(discovery),
  }
}

function isTokens(value: unknown): value is OAuthTokens {
  if (!isObject(value)) return false
  const isText = (name: string): boolean => typeof value[name] === 'string'
  const isAbsentOrText = (name: string): boolean => value[name] === undefined || isText(name)
  const expiresIn = value['expires_in']
  return (
    isText('access_token') &&
    isText('token_type') &&
    ['refresh_token', 'scope', 'id_token', 'issuer'].every(isAbsentOrText) &&
    (expiresIn === undefined || typeof expiresIn === 'number')
  )
}

function discoveryFrom(value: unknown): OAuthDiscoveryState | undefined {
  if (!isObject(value)) return undefined
  const { authorizationServerUrl, resourceMetadataUrl, state } = value
  if (typeof authorizationServerUrl !== 'string') return undefined
  return {
    authorizationServerUrl,
    authorizationServerMetadata: serverMetadataFrom(value['authorizationServerMetadata']),
    resourceMetadata: resourceMetadataFrom(value['resourceMetadata']),
    resourceMetadataUrl: typeof resourceMetadataUrl === 'string' ? resourceMetadataUrl : undefined,
    state: typeof state === 'string' ? state : undefined,
  }
}
