import { randomBytes } from 'node:crypto'

/** 128 random bits in hex: nobody can guess it, and no two are the same. */
export function randomId(): string {
  return randomBytes(16).toString('hex')
}

/** What `randomId` makes: safe as a part of a path. */
export function isRandomId(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text)
}
