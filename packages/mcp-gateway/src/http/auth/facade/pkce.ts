import { createHash, timingSafeEqual } from 'node:crypto'

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/
const VERIFIER = /^[A-Za-z0-9\-._~]{43,128}$/

/** Whether this is an S256 challenge (RFC 7636 section 4.2). */
export function isChallenge(text: string | undefined): text is string {
  return text !== undefined && CHALLENGE.test(text)
}

/** Whether the verifier is the one that the challenge was made of (RFC 7636 section 4.6). */
export function fitsChallenge(verifier: string | undefined, challenge: string): boolean {
  if (verifier === undefined || !VERIFIER.test(verifier)) return false
  const made = createHash('sha256').update(verifier).digest()
  const expected = Buffer.from(challenge, 'base64url')
  return expected.byteLength === made.byteLength && timingSafeEqual(made, expected)
}
