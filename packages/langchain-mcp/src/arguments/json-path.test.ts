import { expect, test } from 'vitest'
import { EVERY_ITEM, firstAt, isAtOrBelow, jsonPathFrom, type PathStep } from './json-path.ts'

function path(text: string): readonly PathStep[] {
  const steps = jsonPathFrom(text)
  if (steps === undefined) throw new Error(`"${text}" cannot be read`)
  return steps
}

test.each<[text: string, steps: readonly PathStep[]]>([
  ['$', []],
  ['$.a.b', ['a', 'b']],
  ["$['a b'].c", ['a b', 'c']],
  ['$["a\\"]"]', ['a"]']],
  ['$.a[0][*]', ['a', 0, EVERY_ITEM]],
  ["$['0']", ['0']],
  ['$.größe', ['größe']],
  ['$.__proto__', ['__proto__']],
])('parses %s', (text, steps) => {
  expect(jsonPathFrom(text)).toEqual(steps)
})

test.each([
  '',
  'a',
  'a.b',
  '$.',
  '$..a',
  '$.*',
  '$.a[',
  '$[?(@.a)]',
  '$[1:2]',
  '$[-1]',
  '$.a[99999]',
  '$.a b',
  '$[a]',
])('returns undefined for %j', (text) => {
  expect(jsonPathFrom(text)).toBeUndefined()
})

test.each([
  ['$.a.b', '$.a', true],
  ['$.ab', '$.a', false],
  ["$['a.b']", '$.a', false],
  ['$.a[0].b', '$.a[*]', true],
  ['$.a[*]', '$.a[0]', false],
  ['$.a', '$.a.b', false],
  ['$.a', '$', true],
])('compares %s with the parent %s: %s', (inner, outer, expected) => {
  expect(isAtOrBelow(path(inner), path(outer))).toBe(expected)
})

test('returns the first existing value', () => {
  const value = { a: [{ b: undefined }, { b: 1 }, { b: 2 }], n: null }
  expect(firstAt(value, path('$.a[*].b'))).toBe(1)
  expect(firstAt(value, path('$.a[2].b'))).toBe(2)
  expect(firstAt(value, path('$.n'))).toBeNull()
  expect(firstAt(value, path('$.constructor'))).toBeUndefined()
  expect(firstAt(undefined, path('$.a'))).toBeUndefined()
})
