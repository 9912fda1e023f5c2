import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BurstGate } from './burst-gate.ts'

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => vi.useRealTimers())

const { signal } = new AbortController()

function closedGate(): BurstGate {
  const gate = new BurstGate()
  gate.close()
  return gate
}

/** What has become of a wait, after everything that is due has run. */
async function stateOf(wait: Promise<void>): Promise<'held' | 'released'> {
  let state: 'held' | 'released' = 'held'
  void wait.then(() => (state = 'released'))
  await vi.advanceTimersByTimeAsync(0)
  return state
}

test('64 go out at once; with an answer, everything does until nothing is in flight', () => {
  const gate = closedGate()
  expect(gate.holds(63)).toBe(false)
  expect(gate.holds(64)).toBe(true)
  gate.open()
  expect(gate.holds(100_000)).toBe(false)
  gate.close()
  expect(gate.holds(64)).toBe(true)
})

test('all that is held is released by the first call that ends', async () => {
  const gate = closedGate()
  const waits = [gate.opened(signal), gate.opened(signal)]
  gate.open()
  expect(await Promise.all(waits.map(stateOf))).toEqual(['released', 'released'])
  expect(vi.getTimerCount()).toBe(0)
})

test('nobody waits for longer than 200 ms', async () => {
  const gate = closedGate()
  const wait = gate.opened(signal)
  await vi.advanceTimersByTimeAsync(199)
  expect(await stateOf(wait)).toBe('held')
  await vi.advanceTimersByTimeAsync(1)
  await new Promise(setImmediate)
  expect(await stateOf(wait)).toBe('released')
  expect(gate.holds(64)).toBe(false)
  expect(vi.getTimerCount()).toBe(0)
})

test('who gives up leaves the others waiting', async () => {
  const gate = closedGate()
  const controller = new AbortController()
  const left = gate.opened(controller.signal)
  const other = gate.opened(signal)
  controller.abort(new Error('enough'))
  await expect(left).rejects.toThrow('enough')
  expect(await stateOf(other)).toBe('held')
  gate.open()
  expect(await stateOf(other)).toBe('released')
})
