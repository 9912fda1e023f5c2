import { expect, test } from 'vitest'
import { ResourceSubscriptions } from './resource-subscriptions.ts'

test('tells who follows what, up to a limit each', () => {
  const subscriptions = new ResourceSubscriptions<string>(2)
  expect(subscriptions.add('a', 'u1')).toBe(true)
  expect(subscriptions.add('a', 'u2')).toBe(true)
  expect(subscriptions.add('a', 'u3')).toBe(false)
  expect(subscriptions.add('a', 'u2')).toBe(true)
  expect(subscriptions.add('b', 'u2')).toBe(true)
  expect(subscriptions.of('u2')).toEqual(['a', 'b'])
  expect(subscriptions.urisOf('a')).toEqual(['u1', 'u2'])
  subscriptions.delete('a', 'u2')
  subscriptions.delete('a', 'u2')
  expect(subscriptions.of('u2')).toEqual(['b'])
  expect(subscriptions.add('a', 'u3')).toBe(true)
  subscriptions.forget('a')
  subscriptions.forget('b')
  expect(subscriptions.of('u1')).toEqual([])
  expect(subscriptions.size).toBe(0)
})
