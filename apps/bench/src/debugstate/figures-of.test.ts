import { expect, test } from 'vitest'
import { summed } from './cost.ts'
import type { Cost } from './cost.ts'
import { figuresOf, limitOf } from './figures-of.ts'
import type { Round } from './figures-of.ts'
import { WORKLOADS } from './workloads.ts'

const ALL = ['rate', 'cpu', 'p99', 'busy'] as const

const control: Cost = {
  times: 1000,
  cpuUs: 16_000,
  wallUs: 16_000,
  p99Us: 2000,
  loadCpuUs: 12_000,
}
const service: Cost = { ...control, cpuUs: 40_000, wallUs: 50_000, p99Us: 6000 }
const slower: Cost = { ...service, cpuUs: 80_000, wallUs: 80_000 }

function roundOf(normal: Cost): Round {
  return new Map([
    ['control', control],
    ['sqlite-normal', normal],
    ['sqlite-full', slower],
  ])
}

test('rates and CPU time stand beside the control, under one bar', () => {
  const figures = figuresOf(WORKLOADS.get, [roundOf(service)], ALL)
  const named = (name: string): unknown => figures.find((figure) => figure.name === name)
  expect(named('get/control/rate')).toMatchObject({ value: 62_500, unit: 'requests per second' })
  expect(named('get/sqlite-normal/rate')).toMatchObject({
    value: 20_000,
    ratioTo: 'get/control/rate',
    ratio: 0.32,
    bar: '≥ 0.35',
    isMet: false,
  })
  expect(named('get/sqlite-normal/cpu')).toMatchObject({
    value: 40,
    ratio: 2.5,
    bar: '≤ 2.86',
    isMet: true,
  })
  expect(named('get/sqlite-normal/p99')).toMatchObject({ value: 6, unit: 'ms' })
  expect(named('get/sqlite-normal/busy')).toMatchObject({ value: 0.8 })
})

test('a write may cost more, and one that waits for the disk has no bar', () => {
  const figures = figuresOf(WORKLOADS.put, [roundOf(service)], ALL)
  const barsOf = (name: string): unknown => figures.find((figure) => figure.name === name)?.bar
  expect(barsOf('put/sqlite-normal/rate')).toBe('≥ 0.25')
  expect(barsOf('put/sqlite-normal/cpu')).toBe('≤ 4')
  expect(barsOf('put/sqlite-full/rate')).toBeUndefined()
})

test('figures of servers that waited for their load count for nothing', () => {
  expect(limitOf(WORKLOADS.get, [roundOf(service)])).toEqual([])
  const idle = new Map([['control', { ...control, cpuUs: 11_000 }]] as const)
  expect(limitOf(WORKLOADS.get, [idle])).toEqual(['in get the load was busier than the server'])
})

test('turns add up, and one slow moment is not the p99 of all', () => {
  expect(summed([control, { ...control, p99Us: 90_000 }, control])).toEqual({
    times: 3000,
    cpuUs: 48_000,
    wallUs: 48_000,
    p99Us: 2000,
    loadCpuUs: 36_000,
  })
})
