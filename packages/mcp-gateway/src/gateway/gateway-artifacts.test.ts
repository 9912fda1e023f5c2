import { expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import type { ArtifactChange } from '../files/artifacts.ts'
import { ChangeBatches, type ChangeBatch } from './gateway-artifacts.ts'

function open() {
  const clock = new ManualClock()
  const reported: ChangeBatch[] = []
  const batches = new ChangeBatches(clock, (batch) => reported.push(batch))
  const change = (name: string, over: Partial<ArtifactChange> = {}): void => {
    const all = { uri: `artifact://s/${name}`, list: 'ada' }
    batches.add({ ...all, isListChange: true, isUpdate: true, ...over })
  }
  return { batches, clock, reported, change }
}

test('reports a burst of changes once, with the lists that changed', async () => {
  const at = open()
  for (let n = 0; n < 100; n++) at.change(`file-${n % 3}`, { isListChange: n < 3 })
  at.change('his', { list: 'bob', isUpdate: false })
  expect(at.reported).toEqual([])
  await at.clock.advance(50)
  const updated = [0, 1, 2].map((n) => [`artifact://s/file-${n}`, 'ada'] as const)
  expect(at.reported).toEqual([{ lists: new Set(['ada', 'bob']), updated: new Map(updated) }])
})

test('reports changes that never stop every half second', async () => {
  const at = open()
  for (let ms = 0; ms < 1000; ms += 40) {
    at.change('log.txt')
    await at.clock.advance(40)
  }
  expect(at.reported.length).toBeGreaterThanOrEqual(1)
  expect(at.reported.length).toBeLessThanOrEqual(2)
})

test('reports at close() what it collected, and then nothing', async () => {
  const at = open()
  at.change('a')
  at.batches.close()
  expect(at.reported).toMatchObject([{ lists: new Set(['ada']) }])
  expect(at.clock.pending).toBe(0)
  at.change('b')
  await at.clock.advance(10_000)
  expect(at.reported).toHaveLength(1)
})
