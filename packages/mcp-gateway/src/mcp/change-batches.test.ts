import { expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import type { ArtifactChange } from '../files/artifacts.ts'
import { ChangeBatches } from './change-feed.ts'

function open() {
  const clock = new ManualClock()
  const published: object[] = []
  const at = { clock, published }
  const publish = async (change: object): Promise<void> => void published.push(change)
  const batches = new ChangeBatches({ publish }, clock)
  const change = (name: string, over: Partial<ArtifactChange> = {}): void => {
    batches.add({ uri: `artifact://s/${name}`, owner: 'ada', isNew: true, ...over })
  }
  return Object.assign(at, { batches, change })
}

test('publishes a burst of changes once, with the lists that changed', async () => {
  const at = open()
  for (let n = 0; n < 100; n++) at.change(`file-${n % 3}`, { isNew: n < 3 })
  at.change('his', { owner: 'bob' })
  at.change('shared', { owner: null })
  expect(at.published).toEqual([])
  await at.clock.advance(50)
  const names = ['file-0', 'file-1', 'file-2', 'his', 'shared']
  const updated = names.map((name) => ({ type: 'resource', uri: `artifact://s/${name}` }))
  expect(at.published).toEqual([
    { type: 'resources', owner: 'ada' },
    { type: 'resources', owner: 'bob' },
    ...updated,
  ])
})

test('publishes changes that never stop every half second', async () => {
  const at = open()
  for (let ms = 0; ms < 1000; ms += 40) {
    at.change('log.txt')
    await at.clock.advance(40)
  }
  expect(at.published.length).toBeGreaterThanOrEqual(2)
  expect(at.published.length).toBeLessThanOrEqual(4)
})

test('publishes at close() what it collected, and then nothing', async () => {
  const at = open()
  at.change('a')
  at.batches.close()
  expect(at.published).toHaveLength(2)
  expect(at.clock.pending).toBe(0)
  at.change('b')
  await at.clock.advance(10_000)
  expect(at.published).toHaveLength(2)
})
