import { expect, test } from 'vitest'
import { MemoryDebugStateStore } from './memory-debug-state-store.ts'

test('removes expired values while others are written', async () => {
  let now = 1_000_000
  await using store = new MemoryDebugStateStore({ now: () => now })
  const put = (key: string): Promise<unknown> =>
    store.put({ agentId: 'agent', key }, Buffer.from('x'), { ttlMs: 1000 })
  for (let n = 0; n < 1200; n++) await put(`old-${n}`)
  now += 120_000
  await put('new')
  now -= 120_000 // a value that was not removed would be visible again
  expect(await store.list('agent', 2000)).toMatchObject([{ key: 'new' }])
})
