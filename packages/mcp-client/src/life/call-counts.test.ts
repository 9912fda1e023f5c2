import { expect, test } from 'vitest'

import { CallCounts } from './call-counts.ts'
import type { Epoch } from './epoch.ts'

const epoch = (number: number): Epoch => ({ number }) as unknown as Epoch

test('each epoch has its own count, also once there is a newer one', () => {
  const counts = new CallCounts()
  const [first, second] = [epoch(1), epoch(2)]
  expect(counts.of(first)).toBeUndefined()
  counts.add(first)
  counts.set(first, 2)
  counts.add(second)
  counts.set(second, 1)
  expect([counts.of(first), counts.of(second)]).toEqual([2, 1])
  counts.set(first, 0)
  counts.delete(first)
  expect([counts.of(first), counts.of(second)]).toEqual([undefined, 1])
})

test('the newest one can leave before the others', () => {
  const counts = new CallCounts()
  const [first, second] = [epoch(1), epoch(2)]
  counts.add(first)
  counts.add(second)
  counts.delete(second)
  expect([counts.of(first), counts.of(second)]).toEqual([0, undefined])
})

test('one that is added again begins anew, and none is left when all were taken', () => {
  const counts = new CallCounts()
  const [first, second] = [epoch(1), epoch(2)]
  counts.add(first)
  counts.set(first, 3)
  counts.add(first)
  expect(counts.of(first)).toBe(0)
  counts.add(second)
  expect(counts.takeAll()).toEqual([first, second])
  expect(counts.takeAll()).toEqual([])
})
