import { describe, expect, test } from 'vitest'

import {
  eventsOf,
  get,
  inSession,
  openSession,
  post,
  type ReadEvent,
} from '../../test/rpc-requests.ts'
import { sessionWorld, turnsPass, type Fetch, type SessionWorld } from '../../test/session-world.ts'
import { anonymousPrincipal, ownerOf } from '../internal/principal.ts'
import { withLogs } from '../../test/two-replicas.ts'
import { GatewayError } from '../errors.ts'

interface Listening {
  /** The next message. */
  readonly next: () => Promise<{
    readonly method: string
    readonly params?: { readonly uri: string }
  }>
  readonly lastEventId: () => string
  readonly leave: () => Promise<unknown>
  /** All messages until the end of the stream. */
  readonly rest: () => Promise<readonly unknown[]>
}

async function listen(
  fetch: Fetch,
  id: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Listening> {
  const response = await fetch(get(inSession(id, headers)))
  expect(response.status).toBe(200)
  const events = eventsOf(response)
  let last = ''
  const message = async (): Promise<ReadEvent | undefined> => {
    for (;;) {
      const { done, value } = await events.next()
      if (done) return undefined
      last = value.id ?? last
      if (value.data !== '') return value
    }
  }
  return {
    next: async () => JSON.parse((await message())?.data ?? '{}') as never,
    lastEventId: () => last,
    leave: () => events.return(undefined),
    rest: async () => {
      const all = []
      for (let each = await message(); each; each = await message()) all.push(JSON.parse(each.data))
      return all
    },
  }
}

const TOOLS = 'notifications/tools/list_changed'
const PROMPTS = 'notifications/prompts/list_changed'
const RESOURCES = 'notifications/resources/list_changed'
const UPDATED = 'notifications/resources/updated'

const subscribe = (uri: string, method = 'resources/subscribe'): object => ({
  jsonrpc: '2.0',
  id: uri,
  method,
  params: { uri },
})

/** @returns the owner of the resources of a session */
async function listOwnerOf(w: SessionWorld): Promise<string> {
  const listed = await w.store.records.list('session:')
  const [scope] = listed.map(({ value }) => (value as { readonly scope: string }).scope)
  return ownerOf({ principal: anonymousPrincipal(), scope }) ?? ''
}

describe('a client that listens', () => {
  test('is notified of a change at any process at once, and once more if others notice it a little later', async () => {
    await using w = sessionWorld({ processes: 4 })
    const [one, other] = [await openSession(w.a), await openSession(w.b)]
    const listening = [await listen(w.a, one), await listen(w.b, other)]
    const [first, ...others] = w.processes
    await first.changes.publish({ type: 'tools' })
    for (const each of listening) expect((await each.next()).method).toBe(TOOLS)
    for (const { changes } of others) await changes.publish({ type: 'tools' })
    await first.changes.publish({ type: 'prompts' })
    for (const each of listening) expect((await each.next()).method).toBe(PROMPTS)
    await w.clock.advance(250)
    for (const each of listening) expect((await each.next()).method).toBe(TOOLS)
    await w.clock.advance(10_000)
    await first.changes.publish({ type: 'prompts' })
    for (const each of listening) {
      expect((await each.next()).method).toBe(PROMPTS)
      await each.leave()
    }
  })

  test('is notified of its own list of resources, and of resources that it subscribed to', async () => {
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const owner = await listOwnerOf(w)
    const listening = await listen(w.a, id)
    const { changes } = w.processes[1]
    await (await w.b(post(subscribe('file:///a'), inSession(id)))).text()
    await changes.publish({ type: 'resource', uri: 'file:///b' })
    await changes.publish({ type: 'resources', owner: 'somebody else' })
    await changes.publish({ type: 'resource', uri: 'file:///a' })
    await changes.publish({ type: 'resources', owner })
    expect(await listening.next()).toMatchObject({ method: UPDATED, params: { uri: 'file:///a' } })
    expect((await listening.next()).method).toBe(RESOURCES)
    await (await w.b(post(subscribe('file:///a', 'resources/unsubscribe'), inSession(id)))).text()
    await changes.publish({ type: 'resource', uri: 'file:///a' })
    await changes.publish({ type: 'tools' })
    expect((await listening.next()).method).toBe(TOOLS)
    await listening.leave()
  })

  test.each([
    ['the same process', (w: SessionWorld) => w.a, true],
    ['another process', (w: SessionWorld) => w.b, true],
    ['another process without its last event id', (w: SessionWorld) => w.b, false],
  ])('is notified of all that may have changed when it comes back to %s', async (...row) => {
    const [, at, hasId] = row
    await using w = sessionWorld()
    const id = await openSession(w.a)
    await (await w.a(post(subscribe('file:///a'), inSession(id)))).text()
    const lost = await listen(w.a, id)
    await w.processes[0].changes.publish({ type: 'prompts' })
    await lost.next()
    const last = lost.lastEventId()
    expect(last).not.toBe('')
    const again = await listen(at(w), id, hasId ? { 'last-event-id': last } : {})
    const told = [await again.next(), await again.next(), await again.next(), await again.next()]
    expect(told.map(({ method }) => method)).toEqual([TOOLS, PROMPTS, RESOURCES, UPDATED])
    expect(await lost.rest()).toEqual([]) // a stream whose loss was not noticed
    await again.leave()
  })

  test('is notified of all that may have changed since its session began when it listens for the first time', async () => {
    await using w = sessionWorld()
    const headers = inSession(await openSession(w.a))
    await w.clock.advance(1)
    await w.processes[0].changes.publish({ type: 'tools' })
    const events = eventsOf(await w.b(get(headers)))
    const seen = [await events.next(), await events.next()]
    expect(JSON.stringify(seen)).toContain('tools/list_changed')
    await events.return(undefined)
  })

  test('has one stream: a later stream at another process ends it', async () => {
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const first = await listen(w.a, id)
    const second = await listen(w.b, id)
    expect(await first.rest()).toEqual([])
    await w.processes[0].changes.publish({ type: 'tools' })
    const told = [
      await second.next(),
      await second.next(),
      await second.next(),
      await second.next(),
    ]
    expect(told.at(-1)?.method).toBe(TOOLS)
    const third = await listen(w.b, id, { 'last-event-id': second.lastEventId() })
    expect(await second.rest()).toEqual([])
    await third.leave()
  })

  test('keeps its stream when another client of the session record changes', async () => {
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const listening = await listen(w.a, id)
    const params = { level: 'error' }
    await w.b(post({ jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params }, inSession(id)))
    await w.processes[1].changes.publish({ type: 'tools' })
    expect((await listening.next()).method).toBe(TOOLS)
    await listening.leave()
  })
})

test('keeps one of two streams of a session that begin at once', async () => {
  await using w = sessionWorld()
  const id = await openSession(w.a)
  const streams = await Promise.all([w.a, w.b].map((fetch) => fetch(get(inSession(id)))))
  await turnsPass()
  await w.processes[0].changes.publish({ type: 'tools' })
  for (const { http } of w.processes) await http.close()
  const texts = await Promise.all(streams.map((each) => each.text()))
  const told = texts.filter((text) => text.includes(TOOLS))
  expect(told).toHaveLength(1)
})

test('follows a store that fails at the start later, and notifies clients of every list then', async () => {
  let isAway = true
  await using w = sessionWorld({
    wrap: (store) =>
      withLogs(store, {
        tail: (log, ...tail) =>
          isAway && log === 'changes'
            ? Promise.reject(new GatewayError('UNAVAILABLE', 'The store is away'))
            : store.logs.tail(log, ...tail),
      }),
  })
  const listening = await listen(w.a, await openSession(w.a))
  isAway = false
  await w.clock.advance(1000)
  const told = [await listening.next(), await listening.next(), await listening.next()]
  expect(told.map(({ method }) => method)).toEqual([TOOLS, PROMPTS, RESOURCES])
  await w.processes[1].changes.publish({ type: 'tools' })
  expect((await listening.next()).method).toBe(TOOLS)
  await listening.leave()
})

test('delivers changes to other processes after a failure of the store', async () => {
  let isAway = false
  await using w = sessionWorld({
    wrap: (store) =>
      withLogs(store, {
        append: (...event) =>
          isAway
            ? Promise.reject(new GatewayError('UNAVAILABLE', 'The store is away'))
            : store.logs.append(...event),
      }),
  })
  const [one, other] = [await openSession(w.a), await openSession(w.b)]
  const [here, there] = [await listen(w.a, one), await listen(w.b, other)]
  isAway = true
  await w.processes[0].changes.publish({ type: 'tools' })
  expect((await here.next()).method).toBe(TOOLS)
  isAway = false
  await w.clock.advance(1000)
  expect((await there.next()).method).toBe(TOOLS)
  expect((await here.next()).method).toBe(TOOLS)
  await w.processes[1].changes.publish({ type: 'prompts' })
  expect((await here.next()).method).toBe(PROMPTS)
  expect(w.warnings).toEqual([
    'A change could not be sent to other processes. It is sent again later.',
  ])
  await Promise.all([here.leave(), there.leave()])
})
