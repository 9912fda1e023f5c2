import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import { ArtifactNews, type News } from './changes.ts'
import type { ArtifactChange } from './artifacts.ts'

type Listener = (change: ArtifactChange) => void

function open(failures = 0) {
  const clock = new ManualClock()
  const heard: News[] = []
  const errors: Error[] = []
  const subscribers = new Set<{ readonly listener: Listener; readonly onGap?: () => void }>()
  let left = failures
  const artifacts = {
    async onChange(listener: Listener, onGap?: () => void) {
      if (left-- > 0) throw new Error('away')
      const subscriber = { listener, ...(onGap && { onGap }) }
      subscribers.add(subscriber)
      return () => void subscribers.delete(subscriber)
    },
  }
  const news = new ArtifactNews({
    artifacts,
    clock,
    onNews: (each) => heard.push(each),
    onError: (error) => errors.push(error),
  })
  const change = (name: string, over: Partial<ArtifactChange> = {}): void => {
    const all = { uri: `artifact://s/${name}`, scope: 's', list: 'ada' }
    const told = { ...all, isListChange: true, isUpdate: true, ...over }
    for (const { listener } of subscribers) listener(told)
  }
  const gap = (): void => {
    for (const { onGap } of subscribers) onGap?.()
  }
  return { news, clock, heard, errors, subscribers, change, gap }
}

test('reports a burst of changes once, with the lists that changed', async () => {
  const at = open()
  await at.news.start()
  for (let n = 0; n < 100; n++) at.change(`file-${n % 3}`, { isListChange: n < 3 })
  at.change('his', { list: 'bob', isUpdate: false })
  expect(at.heard).toEqual([])
  await at.clock.advance(50)
  const updated = [0, 1, 2].map((n) => [`artifact://s/file-${n}`, 'ada'] as const)
  const lists = new Set(['ada', 'bob'])
  expect(at.heard).toEqual([{ type: 'changes', lists, updated: new Map(updated) }])
})

test('reports changes that never stop every half second', async () => {
  const at = open()
  await at.news.start()
  for (let ms = 0; ms < 1000; ms += 40) {
    at.change('log.txt')
    await at.clock.advance(40)
  }
  expect(at.heard.length).toBeGreaterThanOrEqual(1)
  expect(at.heard.length).toBeLessThanOrEqual(2)
})

test('reports a gap at once, and tries a store that is down again', async () => {
  const at = open(1)
  await at.news.start()
  expect(at.errors).toHaveLength(1)
  await at.clock.advance(5000)
  at.gap()
  expect(at.heard).toEqual([{ type: 'gap' }])
})

test('reports nothing and leaves no timer after close()', async () => {
  const at = open()
  void at.news.start()
  await at.news.start()
  expect(at.subscribers.size).toBe(1)
  at.change('a')
  at.news.close()
  await settled()
  expect([at.subscribers.size, at.clock.pending]).toEqual([0, 0])
  const away = open(9)
  await away.news.start()
  away.news.close()
  expect(away.clock.pending).toBe(0)
  await away.clock.advance(10_000)
  expect([away.heard, at.heard]).toEqual([[], []])
})
