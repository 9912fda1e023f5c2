import { seededRandom } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { compareBytes } from './byte-order.ts'

test('is the order of the bytes, for all kinds of characters', () => {
  const random = seededRandom(3)
  const all = ['a', 'b', 'ä', '\u{d7ff}', '\u{e000}', '\u{ffff}', '\u{10000}', '\u{10ffff}', '/']
  const text = (): string =>
    Array.from(
      { length: Math.floor(random() * 5) },
      () => all[Math.floor(random() * all.length)],
    ).join('')
  for (let n = 0; n < 5000; n++) {
    const [a, b] = [text(), text()]
    const expected = Buffer.compare(Buffer.from(a), Buffer.from(b))
    expect(Math.sign(compareBytes(a, b))).toBe(expected)
  }
})
