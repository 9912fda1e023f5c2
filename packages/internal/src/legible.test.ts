import { expect, test } from 'vitest'
import { legible, legibleSchema } from './legible.ts'

test.each([
  ['control characters', 'a\u0000b\u0007c\u007Fd\u0085e', 'abcde'],
  ['directions of writing', 'a\u202Eb\u2066c\u2069d\u200Fe', 'abcde'],
  ['tags', 'a\u{E0041}\u{E0042}b', 'ab'],
  ['zero width', 'a\u200Bb\uFEFFc\u2060d\u00ADe', 'abcde'],
  ['colors of a terminal', '\u001B[31mred\u001B[0m \u009B1;4Hhere', 'red here'],
  ['an escape alone', 'a\u001Bb', 'ab'],
  ['half of a character', 'a\uD83Db', 'ab'],
  ['private characters', 'a\uE000b', 'ab'],
])('removes %s', (_what, text, shown) => {
  expect(legible(text)).toBe(shown)
})

test.each(['Lines\n\tand tabs', 'Zażółć 日本語 עברית', '👩‍🚀', 'می‌خواهم', '[31m'])(
  'keeps %j',
  (text) => expect(legible(text)).toBe(text),
)

test('changes texts of a schema, but no names and values', () => {
  const hidden = 'a\u202Eb'
  const value = { type: 'string', const: hidden, default: hidden, pattern: hidden, enum: [hidden] }
  const schema = { description: hidden, properties: { [hidden]: { ...value, title: hidden } } }
  expect(legibleSchema({ ...schema, $defs: { x: { anyOf: [{ description: hidden }] } } })).toEqual({
    description: 'ab',
    properties: { [hidden]: { ...value, title: 'ab' } },
    $defs: { x: { anyOf: [{ description: 'ab' }] } },
  })
  // A property may have the name of a keyword.
  const named = { properties: { title: { type: 'string' }, description: { const: hidden } } }
  expect(legibleSchema(named)).toEqual(named)
})
