import { expect, test } from 'vitest'
import { closedGate } from '../test/gate.ts'
import { WriteBehind } from './write-behind.ts'

test('requests during a step become one write with the newest value', async () => {
  const first = closedGate()
  const written: number[] = []
  let value = 0
  const writes = new WriteBehind(async () => {
    written.push(value)
    if (written.length === 1) await first.opened
  })
  value = 1
  writes.request()
  await Promise.resolve()
  for (value = 2; value < 5; value++) writes.request()
  first.open()
  await writes.idle()
  expect(written).toEqual([1, 5])
})

test('idle also waits for what was asked for meanwhile', async () => {
  const log: string[] = []
  const writes: WriteBehind = new WriteBehind(async () => {
    log.push('write')
  })
  void writes.run(async () => {
    log.push('read')
    writes.request()
  })
  await writes.idle()
  expect(log).toEqual(['read', 'write'])
})
