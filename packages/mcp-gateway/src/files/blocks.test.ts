import { expect, test } from 'vitest'

import { DEFAULTS } from '../../test/settings.ts'
import type { InlineSettings } from '../options.ts'
import { HeldBytes, InlineBudget } from './blocks.ts'

const budgetOf = (inline: Partial<InlineSettings>): InlineBudget =>
  new InlineBudget({ ...DEFAULTS.inline, ...inline })

test.for([
  ['image', 5_242_880],
  ['audio', 5_242_880],
  ['text', 5_242_880],
  ['binary', 524_288],
] as const)('shows %s bytes up to the limit inline, and not one byte more', ([kind, limit]) => {
  const inline = { resultMaxBytes: 20_000_000 }
  expect(budgetOf(inline).spend(kind, limit)).toBe(true)
  expect(budgetOf(inline).spend(kind, limit + 1)).toBe(false)
})

test('holds no file in memory that is larger than the room which is left', () => {
  const budget = budgetOf({ resultMaxBytes: 10 })
  expect(budget.largest).toBe(10)
  budget.spend('text', 6)
  expect(budget.largest).toBe(4)
})

test('keeps only the beginning of a large file', async () => {
  const held = new HeldBytes(100_000)
  const chunk = Buffer.alloc(64 * 1024, 'x')
  async function* large(): AsyncGenerator<Uint8Array> {
    for (let count = 0; count < 160; count++) yield chunk
  }
  let size = 0
  for await (const { byteLength } of held.through(large())) size += byteLength
  expect(size).toBe(160 * 64 * 1024)
  expect(held.all).toBeUndefined()
  expect(held.head.byteLength).toBe(8000)
})

test('keeps a file of exactly the limit whole', async () => {
  const held = new HeldBytes(4)
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('ab')
    yield Buffer.from('cd')
  }
  for await (const piece of held.through(pieces())) expect(piece).toHaveLength(2)
  expect(Buffer.from(held.all ?? []).toString()).toBe('abcd')
})
