import type { ServerNotifier } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../../test/manual-clock.ts'
import { MemoryMessages } from '../../store/memory-messages.ts'
import type { Messages } from '../../store/gateway-store.ts'
import { Changes } from './changes.ts'
import { SharedChanges } from './shared-changes.ts'

interface Replica {
  readonly changes: Changes
  readonly heard: string[]
  readonly errors: Error[]
  readonly shared: SharedChanges
}

async function replica(name: string, messages: Messages, clock: ManualClock): Promise<Replica> {
  const heard: string[] = []
  const errors: Error[] = []
  const onError = (error: Error): void => void errors.push(error)
  const changes = new Changes(onError)
  const notifier: ServerNotifier = {
    toolsChanged: () => heard.push('tools'),
    promptsChanged: () => heard.push('prompts'),
    resourcesChanged: () => heard.push('resources'),
    resourceUpdated: (uri) => heard.push(uri),
  }
  changes.tellBy(notifier)
  const lists = ['tools', 'prompts'] as const
  const shared = new SharedChanges({ messages, changes, lists, replica: name, clock, onError })
  await shared.start()
  return { changes, heard, errors, shared }
}

function memory(): MemoryMessages {
  return new MemoryMessages((error) => {
    throw error
  })
}

test('a change at one process is told at all, there once', async () => {
  const messages = memory()
  const clock = new ManualClock()
  const a = await replica('a', messages, clock)
  const b = await replica('b', messages, clock)
  a.changes.toolsChanged()
  a.changes.promptsChanged()
  await settled()
  expect(b.heard).toEqual(['tools', 'prompts'])
  await clock.advance(10_000)
  expect(a.heard).toEqual(['tools', 'prompts'])
  expect(b.heard).toHaveLength(2)
  a.shared.close()
  b.shared.close()
  expect(clock.pending).toBe(0)
})

test('what all processes notice for themselves is told twice at most', async () => {
  const messages = memory()
  const clock = new ManualClock()
  const replicas = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) => replica(name, messages, clock)),
  )
  for (const { changes } of replicas) changes.toolsChanged()
  await clock.advance(10_000)
  for (const { heard } of replicas) expect(heard.length).toBeLessThanOrEqual(2)
})

test('who may have missed messages tells its clients once that all may have changed', async () => {
  const clock = new ManualClock()
  const inner = memory()
  const gaps = new Set<() => void>()
  const lossy: Messages = {
    publish: (topic, message) => inner.publish(topic, message),
    subscribe: (topic, listener, onGap = () => undefined) => {
      gaps.add(onGap)
      return inner.subscribe(topic, listener)
    },
  }
  const a = await replica('a', lossy, clock)
  for (const tell of gaps) tell()
  await clock.advance(10_000)
  expect(a.heard).toEqual(['tools', 'prompts'])
})

test('a change that could not be sent is made good when the store is back', async () => {
  const messages = memory()
  const clock = new ManualClock()
  let isAway = false
  const shaky: Messages = {
    publish: (topic, message) =>
      isAway ? Promise.reject(new Error('away')) : messages.publish(topic, message),
    subscribe: (topic, listener) => messages.subscribe(topic, listener),
  }
  const a = await replica('a', shaky, clock)
  const b = await replica('b', messages, clock)
  isAway = true
  a.changes.promptsChanged()
  await clock.advance(2000)
  expect(b.heard).toEqual([])
  expect(a.errors).toHaveLength(1)
  isAway = false
  await clock.advance(1000)
  expect(b.heard).toEqual(['tools', 'prompts'])
})

test('a store that is away at the start is heard of later', async () => {
  const messages = memory()
  const clock = new ManualClock()
  let isAway = true
  const shaky: Messages = {
    publish: (topic, message) => messages.publish(topic, message),
    subscribe: (topic, listener) =>
      isAway ? Promise.reject(new Error('away')) : messages.subscribe(topic, listener),
  }
  const a = await replica('a', shaky, clock)
  const b = await replica('b', messages, clock)
  isAway = false
  await clock.advance(1000)
  expect(a.heard).toEqual(['tools', 'prompts'])
  b.changes.toolsChanged()
  await settled()
  expect(a.heard).toHaveLength(3)
})
