import { expect, test } from 'vitest'

import { MemoryLogs } from './memory-logs.ts'

const limits = { maxEvents: 10, ttlMs: 1000 }

test('drops the largest stream when all streams together have too many characters', async () => {
  const logs = new MemoryLogs(() => 0, 1000)
  const first = await logs.append('small', 'x'.repeat(100), limits)
  const lost = await logs.append('large', 'x'.repeat(700), limits)
  await logs.append('middle', 'x'.repeat(300), limits)
  expect(await logs.after('small', first)).toEqual([])
  expect(await logs.streamOf(lost)).toBeUndefined()
  await logs.append('small', 'x'.repeat(300), limits)
  expect(await logs.after('small', first)).toHaveLength(1)
})
