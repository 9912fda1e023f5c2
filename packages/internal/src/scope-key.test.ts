import { expect, test } from 'vitest'
import { scopeKey } from './scope-key.ts'

test('returns different keys for different scopes, with any characters in them', () => {
  const scopes: Parameters<typeof scopeKey>[0][] = [
    {},
    { principal: 'a' },
    { thread: 'a' },
    { run: 'a' },
    { principal: '' },
    { principal: 'null' },
    { principal: 'a', thread: 'b' },
    { principal: 'a","b' },
    { principal: 'a:b', thread: 'c' },
    { principal: 'a', thread: 'b:c' },
    { principal: 'a\u0000b' },
    { principal: 'a', run: 'b' },
  ]
  expect(new Set(scopes.map((scope) => scopeKey(scope))).size).toBe(scopes.length)
  expect(scopeKey({ principal: undefined })).toBe(scopeKey())
})
