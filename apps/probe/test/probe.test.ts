import { expect, test } from 'vitest'
import { probe, runKind, type Kind, type KindProbes } from '../src/probe.ts'

const kindOf = (prepare: Kind['prepare']): Kind => ({ name: 'kind', rule: '', prepare })
const holding = probe(
  'holds',
  () => 1,
  (seen) => seen === 1,
)
const wrong = probe(
  'does not hold',
  () => ({ status: 500 }),
  () => false,
)
const throwing = probe(
  'throws',
  () => Promise.reject(new Error('reset')),
  () => true,
)
const of = (...probes: KindProbes['probes']): KindProbes => ({ probes, honest: [holding] })

test('counts the probes, the honest clients before and after them, the heap and the end', async () => {
  const begun: string[] = []
  const kind = kindOf(async () => of(holding))
  const { probes, failed } = await runKind(kind, (name) => begun.push(name))
  expect({ probes, failed }).toEqual({ probes: 5, failed: [] })
  expect(begun).toEqual([
    'start',
    'before: holds',
    'holds',
    'after: holds',
    'the heap returns to its size',
    'everything that was started ends',
  ])
})

test('reports what was seen where a probe does not hold, and goes on', async () => {
  const { failed, probes } = await runKind(
    kindOf(async () => of(wrong, throwing, holding)),
    () => 0,
  )
  expect(probes).toBe(7)
  expect(failed).toEqual([
    { name: 'does not hold', seen: '{ status: 500 }' },
    { name: 'throws', seen: expect.stringContaining('it threw Error: reset') },
  ])
})

test('reports what does not end, and ends the rest', async () => {
  let isEnded = false
  const kind = kindOf(async (stack) => {
    stack.defer(() => void (isEnded = true))
    stack.defer(() => Promise.reject(new Error('stays open')))
    return of(holding)
  })
  const { failed } = await runKind(kind, () => 0)
  expect(isEnded).toBe(true)
  expect(failed).toMatchObject([{ name: 'everything that was started ends' }])
})
