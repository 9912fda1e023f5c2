import type { AuthenticationRequest } from './authenticator.ts'
import { bearerTokenFrom } from './bearer-token.ts'
import { cannotVerify, type Challenge, challengeResponse } from './challenge.ts'
import type { Principal } from '../../internal/principal.ts'

/** What became of a token. `unavailable`: nobody could tell now; the client may keep it and try again. */
export type Verdict = Principal | 'refused' | 'unavailable'

/** What challenges of one authenticator have in common. */
export type ChallengeExtras = Pick<Challenge, 'scopes' | 'resourceMetadata'>

/** For whoever comes while those are away who could tell. */
export const RETRY_AFTER_SEC = 5

/** The caller by the bearer token of a request, or the answer that refuses it. Never throws. */
export async function authenticateToken(
  request: AuthenticationRequest,
  verify: (token: string) => Verdict | Promise<Verdict>,
  extras: ChallengeExtras = {},
): Promise<Principal | Response> {
  const read = bearerTokenFrom(request.headers)
  if (read === 'none') return challengeResponse(extras)
  if (read === 'malformed') return challengeResponse({ ...extras, ...MALFORMED })
  const verdict = await settled(verify, read.token)
  if (verdict === 'unavailable') return cannotVerify(RETRY_AFTER_SEC)
  if (verdict === 'refused') return challengeResponse({ ...extras, ...REFUSED })
  return verdict
}

const MALFORMED = { error: 'invalid_request', description: 'Not a bearer token' } as const

/** The same words for a token that is unknown, expired or for somebody else: the difference helps nobody but a thief. */
const REFUSED = { error: 'invalid_token', description: 'The token is not accepted' } as const

async function settled(
  verify: (token: string) => Verdict | Promise<Verdict>,
  token: string,
): Promise<Verdict> {
  try {
    return await verify(token)
  } catch {
    return 'unavailable'
  }
}
