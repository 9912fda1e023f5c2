import { expect, test } from 'vitest'
import { portablePattern } from './portable-pattern.ts'

test.each([
  ['^a$', '^a$'],
  [String.raw`^\d{4}-\d{2}$`, '^[0-9]{4}-[0-9]{2}$'],
  [String.raw`^[\w.-]+@\S+?$`, String.raw`^[A-Za-z0-9_.-]+@[^ \t\n\r]+$`],
  [String.raw`^(?:a|b)\/(?<name>c)*$`, '^(a|b)/(c)*$'],
  [String.raw`^[a\-z\]\^\/"[]$`, String.raw`^[a\x2Dz\]\x5E/"\[]$`],
  [String.raw`^\(\.\)\\\"$`, String.raw`^\(\.\)\\"$`],
  ['^[^a-z]{1,500}$', '^[^a-z]{1,500}$'],
  ['^größe.$', '^größe.$'],
])('writes %s as %s, which matches the same texts', (pattern, portable) => {
  expect(portablePattern(pattern)).toBe(portable)
  const [before, after] = [new RegExp(pattern), new RegExp(portable)]
  const alphabet = [
    'a',
    'b',
    'c',
    'z',
    '-',
    '/',
    '.',
    '@',
    ' ',
    '"',
    '\\',
    '^',
    ']',
    '[',
    '(',
    ')',
    '1',
  ]
  const pairs = alphabet.flatMap((one) => alphabet.map((two) => one + two))
  const texts = ['', '2024-01', 'a/', 'b/cc', 'x.y@z', '(.)\\"', 'größer', ...alphabet, ...pairs]
  expect(texts.filter((text) => after.test(text))).toEqual(
    texts.filter((text) => before.test(text)),
  )
})

test.each([
  ['not for the whole text', String.raw`\S`],
  ['an end that is escaped', String.raw`^a\$`],
  ['empty', ''],
  ['lookahead (cline#14019)', '^(?!.*x)a$'],
  ['lookbehind', '^(?<!x)a$'],
  ['a reference to a group', String.raw`^(a)\1$`],
  ['a property of Unicode', String.raw`^\p{L}+$`],
  ['a code point', String.raw`^\u0041$`],
  ['a null character (zed#64386)', String.raw`^[^/\\\0]+$`],
  ['a word boundary', String.raw`^a\b$`],
  ['alternatives with one anchor each', '^a|b$'],
  ['an anchor inside', '^(^a)$'],
  ['many repetitions', '^a{1,4000}$'],
  ['an operator of sets', '^[a&&b]$'],
  ['all but digits in a set', String.raw`^[\D]$`],
  ['an empty set', '^[]$'],
  ['a brace that repeats nothing', '^{a}$'],
])('has no other form for an expression: %s', (_what, pattern) => {
  expect(portablePattern(pattern)).toBeUndefined()
})
