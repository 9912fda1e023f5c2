import { inspect } from 'node:util'

import { expect, test } from 'vitest'

import type { Principal } from '../../internal/principal.ts'
import { VerifiedTokens } from './verified-tokens.ts'

const ada: Principal = { id: 'ada', scopes: [], isAnonymous: false, claims: {} }
const times = { now: 0, expiresAt: 60_000 }

test('a thousand tokens are remembered, and none of them could be read', () => {
  const tokens = new VerifiedTokens(30_000)
  for (let n = 0; n < 1001; n++) tokens.set(`token-${n}`, ada, times)
  expect(tokens.get('token-0', 0)).toBeUndefined()
  expect(tokens.get('token-1', 0)).toBe(ada)
  expect(tokens.get('token-1000', 0)).toBe(ada)
  expect(inspect(tokens, { depth: null, showHidden: true })).not.toContain('token-1')
})

test('a token is remembered for its time, and not past its end', () => {
  const tokens = new VerifiedTokens(30_000)
  tokens.set('long', ada, times)
  tokens.set('short', ada, { now: 0, expiresAt: 10_000 })
  expect([tokens.get('long', 29_999), tokens.get('long', 30_000)]).toEqual([ada, undefined])
  expect([tokens.get('short', 9999), tokens.get('short', 10_000)]).toEqual([ada, undefined])
  const none = new VerifiedTokens(0)
  none.set('long', ada, times)
  expect(none.get('long', 0)).toBeUndefined()
})
