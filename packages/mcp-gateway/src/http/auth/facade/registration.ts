import { z } from 'zod'

import { readWebBody } from '../../bounded-body.ts'
import type { FacadeParts } from './facade-parts.ts'
import { oauthAnswer, oauthError } from './oauth-answer.ts'

const MAX_BODY_BYTES = 65_536

const registrationShape = z.object({
  redirect_uris: z.array(z.string()),
  client_name: z.string().max(200).optional().catch(undefined),
  grant_types: z.array(z.string()).optional(),
  response_types: z.array(z.string()).optional(),
})

/** `POST /oauth/register` (RFC 7591). Clients have no secret: PKCE binds their codes to them. */
export async function register({ clients }: FacadeParts, request: Request): Promise<Response> {
  const body = await readWebBody(request, MAX_BODY_BYTES)
  const read = registrationShape.safeParse(body.ok ? jsonFrom(body.text) : undefined)
  if (!read.success) return oauthError('invalid_client_metadata')
  const { redirect_uris, client_name, grant_types, response_types } = read.data
  const isFlowFine =
    (grant_types?.includes('authorization_code') ?? true) &&
    (response_types?.includes('code') ?? true)
  if (!isFlowFine) return oauthError('invalid_client_metadata')
  const id = await clients.register(redirect_uris)
  if (id === undefined) return oauthError('invalid_redirect_uri')
  return oauthAnswer(201, {
    client_id: id,
    redirect_uris,
    ...(client_name !== undefined && { client_name }),
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  })
}

function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
