import { expect, test } from 'vitest'

import { randomHex } from './random-hex.ts'

test('returns as many digits as requested, and never the same twice', () => {
  const all = Array.from({ length: 2000 }, () => randomHex(8))
  expect(all.every((each) => /^[0-9a-f]{16}$/.test(each))).toBe(true)
  expect(new Set(all).size).toBe(2000)
  expect(randomHex(4096)).not.toContain('0'.repeat(32))
})
