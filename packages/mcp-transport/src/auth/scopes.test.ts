import { describe, expect, test } from 'vitest'
import { chooseScope, sameScopes, scopeUnion } from './scopes.ts'
import type { ScopeChoice } from './scopes.ts'

test.each([
  [['a b', 'b c'], 'a b c'],
  [[undefined, 'a'], 'a'],
  [['  a   a '], 'a'],
  [[undefined, ''], undefined],
  [[], undefined],
])('the union of %j is %j', (lists, expected) => {
  expect(scopeUnion(...lists)).toBe(expected)
})

test('the order of scopes says nothing', () => {
  expect(sameScopes('a b', 'b a')).toBe(true)
  expect(sameScopes('a', 'a b')).toBe(false)
  expect(sameScopes(undefined, '')).toBe(true)
})

describe('chooseScope', () => {
  const nothing: ScopeChoice = {
    challenged: undefined,
    resourceScopes: undefined,
    clientScope: undefined,
    before: undefined,
    serverScopes: undefined,
    wantsRefresh: true,
  }
  test.each<[string, Partial<ScopeChoice>, string | undefined]>([
    ['omits what nobody names', {}, undefined],
    [
      'takes the challenge first',
      { challenged: 'c', resourceScopes: ['r'], clientScope: 'x' },
      'c',
    ],
    ['then all the server has', { resourceScopes: ['r', 's'], clientScope: 'x' }, 'r s'],
    ['then what the client asks for', { resourceScopes: [], clientScope: 'x' }, 'x'],
    ['adds to what was there in a step-up', { challenged: 'c', before: 'a b' }, 'a b c'],
    [
      'adds offline_access if listed',
      { challenged: 'c', serverScopes: ['offline_access'] },
      'c offline_access',
    ],
    ['not if nothing else is asked', { serverScopes: ['offline_access'] }, undefined],
    ['not if it is not listed', { challenged: 'c', serverScopes: ['c'] }, 'c'],
    [
      'not if no refresh token is wanted',
      { challenged: 'c', serverScopes: ['offline_access'], wantsRefresh: false },
      'c',
    ],
  ])('%s', (_what, choice, expected) => {
    expect(chooseScope({ ...nothing, ...choice })).toBe(expected)
  })
})
