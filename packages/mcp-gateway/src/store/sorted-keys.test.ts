import { expect, test } from 'vitest'

import { compareBytes } from '@x/internal'
import { SortedKeys } from './sorted-keys.ts'

/** More than two blocks, in an order that is the same in each run. */
const ADDED = Array.from({ length: 3000 }, (_, index) => `key-${(index * 7919) % 3000}`)

function keysOf(keys: SortedKeys): readonly string[] {
  const found: string[] = []
  for (let key = keys.firstFrom(''); key !== undefined; key = keys.firstAfter(key)) found.push(key)
  return found
}

function keysWith(added: readonly string[]): SortedKeys {
  const keys = new SortedKeys()
  for (const key of added) keys.add(key)
  return keys
}

test('keeps many keys in the order of their bytes', () => {
  expect(keysOf(keysWith(ADDED))).toEqual(ADDED.toSorted(compareBytes))
  expect(keysOf(keysWith(['b', '\u{10000}', 'a', '\uffff']))).toEqual([
    'a',
    'b',
    '\uffff',
    '\u{10000}',
  ])
})

test('finds the first key from a text, and the first after it', () => {
  const keys = keysWith(ADDED)
  expect(keys.firstFrom('key-1500')).toBe('key-1500')
  expect(keys.firstAfter('key-1500')).toBe('key-1501')
  expect(keys.firstFrom('l')).toBeUndefined()
  expect(new SortedKeys().firstFrom('')).toBeUndefined()
})

test('drops a key before and after it has a place', () => {
  const keys = keysWith(['b', 'a', 'c'])
  keys.delete('a')
  expect(keysOf(keys)).toEqual(['b', 'c'])
  keys.delete('b')
  keys.add('a')
  expect(keysOf(keys)).toEqual(['a', 'c'])
})

test('drops many keys, and takes new ones when none is left', () => {
  const keys = keysWith(ADDED)
  const isOdd = (key: string): boolean => key.charCodeAt(key.length - 1) % 2 === 1
  for (const key of ADDED) if (!isOdd(key)) keys.delete(key)
  const odd = ADDED.filter(isOdd).toSorted(compareBytes)
  expect(keysOf(keys)).toEqual(odd)
  for (const key of odd) keys.delete(key)
  expect(keysOf(keys)).toEqual([])
  keys.add('a')
  expect(keysOf(keys)).toEqual(['a'])
})
