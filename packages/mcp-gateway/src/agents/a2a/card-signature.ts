import type { AgentCard } from '@a2a-js/sdk'
import { decodeProtectedHeader, flattenedVerify, type JWK } from 'jose'

import { GatewayError } from '../../errors.ts'
import type { A2aSdk } from './a2a-sdk.ts'

/** Only with public keys: whoever knows the key of a MAC could sign. */
const ALGORITHMS = [
  'ES256',
  'ES384',
  'ES512',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'EdDSA',
  'Ed25519',
]

/**
 * Checks that one of the keys signed a card (A2A 1.0, "Agent Card Signing"). Keys are found by `kid` among those given;
 * an address of keys that the card names (`jku`) is not asked, since whoever made the card chose it.
 *
 * @throws GatewayError `REFUSED` for a card that none of them signed
 */
export async function verifyCard(
  card: AgentCard,
  keys: readonly JWK[],
  { core }: A2aSdk,
): Promise<void> {
  // Not by the verifier of the SDK: it writes to stdout, where the protocol may be.
  const payload = Buffer.from(core.canonicalizeAgentCard(card)).toString('base64url')
  for (const { protected: head, signature } of card.signatures) {
    const jws = { payload, protected: head, signature }
    for (const key of keysFor(head, keys)) {
      if (await isSignedBy(jws, key)) return
    }
  }
  throw new GatewayError('REFUSED', 'The agent card has no signature of a key that is known')
}

function keysFor(head: string, keys: readonly JWK[]): readonly JWK[] {
  try {
    const { kid } = decodeProtectedHeader({ protected: head })
    return keys.filter((key) => kid !== undefined && key.kid === kid)
  } catch {
    return []
  }
}

type Jws = Parameters<typeof flattenedVerify>[0]

async function isSignedBy(jws: Jws, key: JWK): Promise<boolean> {
  try {
    await flattenedVerify(jws, key, { algorithms: ALGORITHMS })
    return true
  } catch {
    return false
  }
}
