import { expect, test } from 'vitest'
import { LocalLogs } from './local-logs.ts'
import { MemoryLogRows } from './memory-store.ts'

const limits = { maxEvents: 10, ttlMs: 1000 }

test('drops the log with the most characters when all logs together have too many', async () => {
  const logs = new LocalLogs(
    new MemoryLogRows(() => 0, 1000),
    () => 0,
    () => undefined,
  )
  const append = (log: string, length: number): Promise<string> =>
    logs.append(log, 'x'.repeat(length), { limits, isLast: false })
  const first = await append('small', 100)
  const dropped = await append('large', 700)
  await append('middle', 300)
  expect(await logs.read('small', first)).toEqual([])
  expect(await logs.find(dropped)).toBeUndefined()
  await append('small', 300)
  expect(await logs.read('small', first)).toHaveLength(1)
})

test('gives new ids after a restart and for a log that is deleted and begun again', async () => {
  let now = 5
  const open = (): LocalLogs =>
    new LocalLogs(
      new MemoryLogRows(() => now),
      () => now,
      () => undefined,
    )
  const append = (logs: LocalLogs): Promise<string> =>
    logs.append('changes', 1, { limits, isLast: false })
  const before = open()
  const ids = [await append(before), await append(before)]
  await before.delete('changes')
  ids.push(await append(before))
  now += 1
  ids.push(await append(open()))
  expect(new Set(ids).size).toBe(4)
  expect(ids.toSorted()).toEqual(ids)
})

test('holds nothing of logs that have ended', async () => {
  let now = 0
  const rows = new MemoryLogRows(() => now)
  const logs = new LocalLogs(
    rows,
    () => now,
    () => undefined,
  )
  await logs.open('one', { session: 's', owner: 'p', requestId: 1 }, limits)
  await logs.append('two', 1, { limits, isLast: true })
  expect(rows.size).toBe(2)
  now = 1000
  rows.sweep()
  expect(rows.size).toBe(0)
})
