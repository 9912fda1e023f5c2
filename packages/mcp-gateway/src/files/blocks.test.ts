import { expect, test } from 'vitest'

import { DEFAULTS } from '../../test/settings.ts'
import type { InlineSettings } from '../options.ts'
import { HeldBytes, InlineBudget, inlineLimitsFrom } from './blocks.ts'

const limitsFrom = (inline: Partial<InlineSettings>): ReturnType<typeof inlineLimitsFrom> =>
  inlineLimitsFrom({ ...DEFAULTS.inline, ...inline })

test.for([
  ['image', 5_242_880],
  ['audio', 10_485_760],
  ['text', 1_048_576],
  ['binary', 524_288],
] as const)('shows %s bytes up to the limit inline, and not one byte more', ([kind, limit]) => {
  const limits = limitsFrom({ resultMaxBytes: 20_000_000 })()
  expect(new InlineBudget(limits).spend(kind, { bytes: limit, chars: 0 })).toBe(true)
  expect(new InlineBudget(limits).spend(kind, { bytes: limit + 1, chars: 0 })).toBe(false)
})

test('leaves the room of a file that does not fit to the next files', () => {
  const budget = new InlineBudget(limitsFrom({ resultMaxBytes: 10 })())
  expect(budget.spend('text', { bytes: 6, chars: 6 })).toBe(true)
  expect(budget.spend('text', { bytes: 5, chars: 5 })).toBe(false)
  expect(budget.spend('text', { bytes: 4, chars: 4 })).toBe(true)
  expect(budget.largest).toBe(0)
})

test('lowers the limits for a client by its name, and never raises them', () => {
  const limitsOf = limitsFrom({
    resultMaxBytes: 100_000,
    clientProfiles: [
      { match: '^small', resultMaxBytes: 20_000, textMaxChars: 3 },
      { match: 'large', resultMaxBytes: 1_000_000 },
    ],
  })
  expect(limitsOf('small-client')).toMatchObject({ resultMaxBytes: 20_000, textMaxChars: 3 })
  expect(limitsOf('large')).toMatchObject({ resultMaxBytes: 100_000 })
  expect(limitsOf(undefined)).toMatchObject({ resultMaxBytes: 100_000, textMaxChars: Infinity })
})

test.each(['claude.*(code|desktop)', '.*small.*', '^[\\w-]+ client$'])(
  'accepts the expression %s',
  (match) => {
    expect(() => limitsFrom({ clientProfiles: [{ match }] })).not.toThrow()
  },
)

test('names an invalid expression', () => {
  expect(() => limitsFrom({ clientProfiles: [{ match: '(' }] })).toThrow(
    expect.objectContaining({ code: 'CONFIG', path: 'inline.clientProfiles[0].match' }),
  )
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
