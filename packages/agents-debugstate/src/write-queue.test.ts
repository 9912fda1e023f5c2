import { expect, test } from 'vitest'
import { closedGate } from '../test/gate.ts'
import { WriteQueue } from './session-info-debug-state.ts'

test('turns requests during a step into one write with the newest value', async () => {
  const first = closedGate()
  const written: number[] = []
  let value = 0
  const writes = new WriteQueue(async () => {
    written.push(value)
    if (written.length === 1) await first.opened
  })
  value = 1
  writes.requestWrite()
  await Promise.resolve()
  for (value = 2; value < 5; value++) writes.requestWrite()
  first.open()
  await writes.idle()
  expect(written).toEqual([1, 5])
})

test('waits in idle() for writes that were requested meanwhile', async () => {
  const log: string[] = []
  const writes: WriteQueue = new WriteQueue(async () => {
    log.push('write')
  })
  void writes.run(async () => {
    log.push('read')
    writes.requestWrite()
  })
  await writes.idle()
  expect(log).toEqual(['read', 'write'])
})
