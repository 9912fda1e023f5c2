import { isObject } from '../../json-rpc.ts'
import { definedOf } from '../defined-of.ts'
import type { OAuthClientInformation } from '../oauth-client-provider.ts'

/** Client information, if it is that; of the rest of a registration, only what is needed again is kept. */
export function clientInformationFrom(value: unknown): OAuthClientInformation | undefined {
  if (!isObject(value)) return undefined
  const text = (name: string): string | undefined => {
    const field = value[name]
    return typeof field === 'string' ? field : undefined
  }
  const number = (name: string): number | undefined => {
    const field = value[name]
    return typeof field === 'number' ? field : undefined
  }
  const id = text('client_id')
  if (id === undefined || id === '') return undefined
  const uris: unknown = value['redirect_uris']
  return definedOf({
    client_id: id,
    client_secret: text('client_secret'),
    client_id_issued_at: number('client_id_issued_at'),
    client_secret_expires_at: number('client_secret_expires_at'),
    token_endpoint_auth_method: text('token_endpoint_auth_method'),
    redirect_uris: Array.isArray(uris)
      ? uris.filter((uri): uri is string => typeof uri === 'string')
      : undefined,
    issuer: text('issuer'),
  })
}
