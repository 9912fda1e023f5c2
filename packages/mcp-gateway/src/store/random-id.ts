import { randomHex } from '../internal/random-hex.ts'

/** 128 random bits in hex: nobody can guess it, and no two are the same. */
export function randomId(): string {
  return randomHex(16)
}

/** What `randomId` makes: safe as a part of a path. */
export function isRandomId(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text)
}
