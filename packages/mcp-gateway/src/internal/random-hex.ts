import { randomFillSync } from 'node:crypto'

/** Asking the system for eight bytes costs as much as asking it for thousands. */
const POOL = Buffer.alloc(4096)
let taken = POOL.byteLength

/** Random bytes in hex, as good as those of `randomBytes`. Each is given out once, and not kept. @param bytes at most 4096 */
export function randomHex(bytes: number): string {
  if (taken + bytes > POOL.byteLength) {
    randomFillSync(POOL)
    taken = 0
  }
  const end = taken + bytes
  const text = POOL.toString('hex', taken, end)
  POOL.fill(0, taken, end)
  taken = end
  return text
}

/** Returns 128 random bits in hex. */
export function randomId(): string {
  return randomHex(16)
}

/** Whether a text may be a `randomId()`. Such a text is safe as a part of a path. */
export function isRandomId(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text)
}
