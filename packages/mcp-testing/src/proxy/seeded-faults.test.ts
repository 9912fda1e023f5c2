import { expect, test } from 'vitest'
import type { Exchange } from './exchange.ts'
import { faultFrom } from './faults.ts'
import { seededFaults } from './seeded-faults.ts'
import type { SeededFaultOptions } from './seeded-faults.ts'

const exchange = (key: string, more: Partial<Exchange> = {}): Exchange => ({
  n: 1,
  connection: 1,
  httpMethod: 'POST',
  path: '/mcp',
  rpcMethod: 'tools/call',
  toolName: 'pay',
  key,
  rpcId: undefined,
  sessionId: undefined,
  assignedSessionId: undefined,
  protocolVersion: undefined,
  lastEventId: undefined,
  principal: undefined,
  status: undefined,
  delivered: 'none',
  fault: undefined,
  startedAt: 0,
  ms: undefined,
  end: undefined,
  request: undefined,
  response: undefined,
  ...more,
})

/** Returns the fault of each exchange as JSON, in order. */
async function faultsOf(
  seed: number,
  exchanges: readonly Exchange[],
  options?: SeededFaultOptions,
): Promise<(string | undefined)[]> {
  const rule = seededFaults(seed, options)
  const faults: (string | undefined)[] = []
  for (const one of exchanges) {
    if (!rule.match(one)) faults.push(undefined)
    else if (typeof rule.action === 'function') {
      const action = await rule.action(one)
      faults.push(JSON.stringify({ ...faultFrom(action), name: undefined }))
    }
  }
  return faults
}

const keys = (count: number): string[] => Array.from({ length: count }, (_, index) => `k${index}`)
const calls = keys(2_000).map((key) => exchange(key))

test('gives the same faults for the same seed, on any connection at any time', async () => {
  const faults = await faultsOf(1, calls, { rate: 0.5 })
  const elsewhere = calls.map((call, n) => ({ ...call, n, connection: n, startedAt: n }))
  expect(await faultsOf(1, elsewhere, { rate: 0.5 })).toEqual(faults)
  expect(await faultsOf(2, calls, { rate: 0.5 })).not.toEqual(faults)
})

test('gives the same faults when the exchanges come in another order', async () => {
  const faults = await faultsOf(7, calls, { rate: 0.5 })
  expect((await faultsOf(7, calls.toReversed(), { rate: 0.5 })).toReversed()).toEqual(faults)
})

test('decides again for each repetition of an identity', async () => {
  const repeated = Array.from({ length: 1_000 }, () => exchange('same'))
  const faults = await faultsOf(3, repeated, { rate: 0.5 })
  const given = faults.filter((fault) => fault !== undefined)
  expect(given.length).toBeGreaterThan(400)
  expect(given.length).toBeLessThan(600)
  expect(await faultsOf(3, repeated, { rate: 0.5 })).toEqual(faults)
})

test.each([
  ['tool', { toolName: 'refund' }],
  ['method', { rpcMethod: 'ping' }],
  ['HTTP method', { httpMethod: 'GET' }],
])('gives exchanges that differ in their %s other faults', async (_name, more) => {
  const others = calls.map((call) => ({ ...call, ...more }))
  expect(await faultsOf(1, others, { rate: 0.5 })).not.toEqual(
    await faultsOf(1, calls, { rate: 0.5 }),
  )
})

test.each([0, 0.01, 0.1, 0.5, 1])('gives a share of %s of the exchanges a fault', async (rate) => {
  const given = (await faultsOf(5, calls, { rate })).filter((fault) => fault !== undefined)
  const tolerance = 4 * Math.sqrt(calls.length * rate * (1 - rate))
  expect(Math.abs(given.length - calls.length * rate)).toBeLessThanOrEqual(tolerance)
})

test('gives all kinds equally often', async () => {
  const rule = seededFaults(11, { rate: 1 })
  const counts = new Map<string, number>()
  for (const call of calls) {
    if (!rule.match(call) || typeof rule.action !== 'function') continue
    const name = faultFrom(await rule.action(call))?.name ?? ''
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  expect([...counts.keys()].toSorted()).toEqual([
    'answer-after',
    'answer-instead',
    'close-answer',
    'close-before',
    'delay-answer',
    'delay-request',
    'html-after',
    'html-instead',
    'reorder-events',
    'repeat-answer',
    'repeat-events',
    'reset-after',
    'reset-answer',
    'reset-before',
    'reset-request',
    'split',
    'stall-after',
    'stall-answer',
    'stall-before',
    'stall-request',
    'truncate-events',
  ])
  for (const count of counts.values()) {
    expect(count).toBeGreaterThan(50)
    expect(count).toBeLessThan(140)
  }
})

test('leaves out what `match` refuses, and does not count it', async () => {
  const isPost = (one: Exchange): boolean => one.httpMethod === 'POST'
  const mixed = calls.flatMap((call) => [{ ...call, httpMethod: 'DELETE' }, call])
  const faults = await faultsOf(1, mixed, { rate: 0.5, match: isPost })
  expect(faults.filter((_, index) => index % 2 === 0)).toEqual(calls.map(() => undefined))
  expect(faults.filter((_, index) => index % 2 === 1)).toEqual(
    await faultsOf(1, calls, { rate: 0.5 }),
  )
})

test.each([-0.1, 1.1, Number.NaN])('rejects the rate %s', (rate) => {
  expect(() => seededFaults(1, { rate })).toThrow(RangeError)
})
