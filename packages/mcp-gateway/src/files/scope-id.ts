import { randomBytes } from 'node:crypto'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** 128 random bits in base32 (RFC 4648, section 6; lower case): nobody can guess it. */
export function newScopeId(): string {
  let bits = BigInt(`0x${randomBytes(16).toString('hex')}`) << 2n
  let text = ''
  for (let n = 0; n < 26; n++) {
    text = `${ALPHABET[Number(bits & 31n)]}${text}`
    bits >>= 5n
  }
  return text
}

export function isScopeId(text: string): boolean {
  return /^[a-z2-7]{26}$/.test(text)
}
