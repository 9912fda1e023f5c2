import { afterEach, expect, test, vi } from 'vitest'
import { MemoryDebugStateStore } from './memory-debug-state-store.ts'

afterEach(() => vi.useRealTimers())

test('removes expired values while others are written', async () => {
  vi.setSystemTime(1_000_000)
  await using store = new MemoryDebugStateStore()
  const put = (key: string): Promise<unknown> =>
    store.put({ agentId: 'agent', key }, Buffer.from('x'), 1000)
  for (let n = 0; n < 1200; n++) await put(`old-${n}`)
  vi.setSystemTime(1_120_000)
  await put('new')
  vi.setSystemTime(1_000_000) // a value that was not removed would be visible again
  for (const key of ['old-0', 'old-1199']) {
    expect(await store.get({ agentId: 'agent', key })).toBeUndefined()
  }
  expect(await store.get({ agentId: 'agent', key: 'new' })).toBeDefined()
})
