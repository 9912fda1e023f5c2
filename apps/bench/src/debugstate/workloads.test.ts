import { expect, test } from 'vitest'
import { KEYS, pathOf, seedOf, valueOf, WORKLOADS } from './workloads.ts'

test.each(Object.values(WORKLOADS))(
  'sends the requests of $name to all of its keys in turn',
  (workload) => {
    const paths = Array.from({ length: KEYS }, (_, index) => pathOf(workload, index))
    expect(new Set(paths).size).toBe(KEYS)
    expect(pathOf(workload, KEYS)).toBe(paths[0])
  },
)

test.each(Object.values(WORKLOADS))('gives all values of $name the same size', (workload) => {
  expect(seedOf(workload)).toHaveLength(workload.bytes)
  expect(valueOf(workload, 7)).toHaveLength(workload.bytes)
  expect(valueOf(workload, 7)).not.toBe(valueOf(workload, 8))
})

test('gives each workload its own keys', () => {
  const first = Object.values(WORKLOADS).map((workload) => pathOf(workload, 0))
  expect(new Set(first).size).toBe(first.length)
})
