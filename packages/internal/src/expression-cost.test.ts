import { expect, test } from 'vitest'

import { longestTextFor, waysToMatch } from './expression-cost.ts'

test.each([
  '(a+)+',
  '(a|a)*',
  '(a*)*b',
  '((ab)*c)+',
  '(a{2,})+',
  '(x|y){50}',
  '(a?){30}b',
  `${'a?'.repeat(30)}b`,
  '(a{1,9}){1,9}b',
  String.raw`(a)\1`,
  String.raw`(?<x>a)\k<x>`,
  '.*a.*b.*c',
  'x'.repeat(1001),
])('%s may be slow with 256 characters', (expression) => {
  expect(longestTextFor(waysToMatch(expression))).toBeLessThan(256)
})

test.each([
  '^weather_.*_get',
  '^a.*b.*c.*d',
  '(get|list)_.*_v',
  '(?:ab)+',
  '(?!old).*x',
  String.raw`\(+\)+`,
  String.raw`^\p{L}+\u{61}+$`,
  '[(+*\\]]+',
  '(a+)?',
  'a{2,3}',
  '(a|b){3}',
  '[^]]+?',
])('%s is fast with 256 characters', (expression) => {
  expect(longestTextFor(waysToMatch(expression))).toBeGreaterThanOrEqual(256)
})

test('returns a lower limit for more repetitions', () => {
  expect(longestTextFor(waysToMatch('^abc$'))).toBe(Number.POSITIVE_INFINITY)
  expect(longestTextFor(waysToMatch('^[a-z]+$'))).toBe(2 ** 25)
  expect(longestTextFor(waysToMatch('[a-z]+'))).toBe(5792)
  expect(longestTextFor(waysToMatch(String.raw`^\w+@\w+\.\w+$`))).toBe(322)
  expect(longestTextFor(waysToMatch('(a+)+'))).toBe(0)
})
