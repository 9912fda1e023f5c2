import { isObject } from '../../json-rpc.ts'
import type {
  AuthorizationServerMetadata,
  ProtectedResourceMetadata,
} from '../oauth-client-provider.ts'

/** Metadata of an MCP server (RFC 9728, section 3.2), if it is that; unknown fields are kept. */
export function resourceMetadataFrom(value: unknown): ProtectedResourceMetadata | undefined {
  return isResourceMetadata(value) ? value : undefined
}

/** Metadata of an authorization server (RFC 8414, section 2), if it is that; unknown fields are kept. */
export function serverMetadataFrom(value: unknown): AuthorizationServerMetadata | undefined {
  return isServerMetadata(value) ? value : undefined
}

function isResourceMetadata(value: unknown): value is ProtectedResourceMetadata {
  return (
    isObject(value) &&
    typeof value['resource'] === 'string' &&
    isTextsOrAbsent(value['authorization_servers']) &&
    isTextsOrAbsent(value['scopes_supported'])
  )
}

function isServerMetadata(value: unknown): value is AuthorizationServerMetadata {
  if (!isObject(value) || typeof value['issuer'] !== 'string') return false
  const urls = ['authorization_endpoint', 'token_endpoint', 'registration_endpoint']
  const lists = [
    'scopes_supported',
    'code_challenge_methods_supported',
    'token_endpoint_auth_methods_supported',
  ]
  const flags = [
    'client_id_metadata_document_supported',
    'authorization_response_iss_parameter_supported',
  ]
  return (
    urls.every((name) => value[name] === undefined || typeof value[name] === 'string') &&
    lists.every((name) => isTextsOrAbsent(value[name])) &&
    flags.every((name) => value[name] === undefined || typeof value[name] === 'boolean')
  )
}

function isTextsOrAbsent(value: unknown): boolean {
  return (
    value === undefined || (Array.isArray(value) && value.every((one) => typeof one === 'string'))
  )
}
