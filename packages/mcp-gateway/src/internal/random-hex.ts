import { randomFillSync } from 'node:crypto'

/** Random bytes in stock: one call for eight bytes costs as much as one for thousands. */
const POOL = Buffer.alloc(4096)
let taken = POOL.byteLength

/** Returns random bytes in hex, as strong as `randomBytes`. Each byte is used once. @param bytes at most 4096 */
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
