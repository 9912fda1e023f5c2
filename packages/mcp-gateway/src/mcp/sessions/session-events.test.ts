import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { MemoryLogs } from '../../store/memory-logs.ts'
import { SessionEvents } from './session-events.ts'

const said = (data: string): { jsonrpc: '2.0'; method: string; params: { data: string } } => ({
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { data },
})

function eventsOf(logs: MemoryLogs): { events: SessionEvents; lost: unknown[] } {
  const lost: unknown[] = []
  const events = new SessionEvents({
    logs,
    session: 'session',
    limits: { maxEvents: 10, ttlMs: 1000 },
    onEvent: () => undefined,
    onLost: (error) => void lost.push(error),
    now: () => 0,
  })
  return { events, lost }
}

test('what is kept while a stream is read again is written when its reader is there', async () => {
  const logs = new MemoryLogs(() => 0)
  const { events } = eventsOf(logs)
  const first = await events.storeEvent('stream', said('first'))
  const [read, isRead] = [deferred(), deferred()]
  const after = logs.after.bind(logs)
  logs.after = async (...place) => {
    const kept = await after(...place)
    isRead.resolve()
    await read.promise
    return kept
  }
  const order: string[] = []
  const replaying = events
    .replayEventsAfter(first, { send: async () => undefined })
    .then(() => order.push('its reader is there'))
  await isRead.promise
  const storing = events.storeEvent('stream', said('second')).then(() => order.push('written'))
  read.resolve()
  await Promise.all([replaying, storing])
  expect(order).toEqual(['its reader is there', 'written'])
})

test('what cannot be kept has no id, and nobody comes back to its stream', async () => {
  const logs = new MemoryLogs(() => 0)
  const { events, lost } = eventsOf(logs)
  const first = await events.storeEvent('stream', said('first'))
  logs.append = () => Promise.reject(new Error('disk full'))
  expect(await events.storeEvent('stream', said('second'))).toBe('')
  expect(await events.placeOf(first)).toBeUndefined()
  expect(lost).toHaveLength(1)
})

test('what JSON has no text for is not taken for a failure of the store', async () => {
  const { events, lost } = eventsOf(new MemoryLogs(() => 0))
  const answer = { jsonrpc: '2.0' as const, id: 1, result: { many: 1n } }
  await expect(events.storeEvent('stream', answer)).rejects.toThrow(TypeError)
  expect(lost).toEqual([])
})

test('after its end nothing is kept', async () => {
  const logs = new MemoryLogs(() => 0)
  const { events } = eventsOf(logs)
  const first = await events.storeEvent('stream', said('first'))
  await events.close()
  expect(await events.storeEvent('stream', said('late'))).toBe('')
  expect(await logs.streamOf(first)).toBeUndefined()
})
