/**
 * Stands in for `Math.random`, and gives the same numbers for the same seed, so that a race that was
 * lost once can be run again. For tests only: it is 32 bits of xorshift.
 *
 * @example
 * ```ts
 * import { seededRandom } from '@x/mcp-testing'
 *
 * const random = seededRandom(42)
 * random() // the same number in each run
 * ```
 */
export function seededRandom(seed: number): () => number {
  // Xorshift stays at zero for ever, and starts slowly from small seeds.
  let state = (Math.imul(seed | 0, 0x9e3779b1) ^ 0x6d2b79f5) | 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}
