import { expect, test } from 'vitest'
import { jsonPathFrom, valueAt, type PathStep } from './json-path.ts'

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
  ['$.a[0][1]', ['a', 0, 1]],
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
  '$.a[*]',
  '$[1:2]',
  '$[-1]',
  '$.a[99999]',
  '$.a b',
  '$[a]',
])('returns undefined for %j', (text) => {
  expect(jsonPathFrom(text)).toBeUndefined()
})

test('returns the value at a path', () => {
  const value = { a: [{ b: undefined }, { b: 1 }, { b: 2 }], n: null }
  expect(valueAt(value, path('$.a[2].b'))).toBe(2)
  expect(valueAt(value, path('$.n'))).toBeNull()
  expect(valueAt(value, path('$.constructor'))).toBeUndefined()
  expect(valueAt(undefined, path('$.a'))).toBeUndefined()
})
