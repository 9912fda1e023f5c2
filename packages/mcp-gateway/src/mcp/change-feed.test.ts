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
  test('is notified of a change at any process, once for a version that each process notices', async () => {
    await using w = sessionWorld()
    const [one, other] = [await openSession(w.a), await openSession(w.b)]
    const listening = [await listen(w.a, one), await listen(w.b, other)]
    await Promise.all(
      w.processes.map(({ changes }) => changes.publish({ type: 'tools', version: 'v1' })),
    )
    for (const { changes } of w.processes) await changes.publish({ type: 'tools', version: 'v1' })
    await w.processes[1].changes.publish({ type: 'tools', version: 'v2' })
    await w.processes[0].changes.publish({ type: 'prompts' })
    for (const each of listening) {
      const told = [await each.next(), await each.next(), await each.next()]
      expect(told.map(({ method }) => method)).toEqual([TOOLS, TOOLS, PROMPTS])
      await each.leave()
    }
  })

  test('is notified again once if several processes have a version later at the same time', async () => {
    await using w = sessionWorld({ processes: 4 })
    const listening = await listen(w.a, await openSession(w.a))
    const [first, ...others] = w.processes
    await first.changes.publish({ type: 'tools', version: 'v1' })
    await turnsPass()
    for (const { changes } of others) await changes.publish({ type: 'tools', version: 'v1' })
    await w.clock.advance(10_000)
    await first.changes.publish({ type: 'prompts' })
    const told = [await listening.next(), await listening.next(), await listening.next()]
    expect(told.map(({ method }) => method)).toEqual([TOOLS, TOOLS, PROMPTS])
    await listening.leave()
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
    ['the same process', (w: SessionWorld) => w.a],
    ['another process', (w: SessionWorld) => w.b],
  ])(
    'comes back to %s with its last event id, and gets exactly the changes that it missed',
    async (_, at) => {
      await using w = sessionWorld()
      const id = await openSession(w.a)
      const { changes } = w.processes[0]
      const before = await listen(w.a, id)
      await changes.publish({ type: 'tools' })
      expect((await before.next()).method).toBe(TOOLS)
      const last = before.lastEventId()
      await before.leave()
      await changes.publish({ type: 'prompts' })
      await changes.publish({ type: 'resources', owner: 'somebody else' })
      const after = await listen(at(w), id, { 'last-event-id': last })
      await changes.publish({ type: 'tools' })
      expect([(await after.next()).method, (await after.next()).method]).toEqual([PROMPTS, TOOLS])
      await after.leave()
    },
  )

  test('can come back after its first event, before any change', async () => {
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const { value } = await eventsOf(await w.a(get(inSession(id)))).next()
    const last = (value as ReadEvent).id ?? ''
    expect(value).toMatchObject({ data: '' })
    await w.processes[0].changes.publish({ type: 'prompts' })
    const after = await listen(w.b, id, { 'last-event-id': last })
    expect((await after.next()).method).toBe(PROMPTS)
    await after.leave()
  })

  test('is notified of every list if it comes back without an event id, or after its event was dropped', async () => {
    await using w = sessionWorld({ settings: { events: { maxEvents: 1000, ttlMs: 60_000 } } })
    const id = await openSession(w.a)
    await (await w.a(post(subscribe('file:///a'), inSession(id)))).text()
    const first = await listen(w.a, id)
    await w.processes[0].changes.publish({ type: 'tools' })
    await first.next()
    const last = first.lastEventId()
    await first.leave()
    await w.clock.advance(61_000)
    for (const headers of [{ 'last-event-id': last }, {}]) {
      const again = await listen(w.b, id, headers)
      const told = [await again.next(), await again.next(), await again.next(), await again.next()]
      expect(told.map(({ method }) => method)).toEqual([TOOLS, PROMPTS, RESOURCES, UPDATED])
      await again.leave()
    }
  })

  test('has one stream: a later stream at another process ends it', async () => {
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const first = await listen(w.a, id)
    const second = await listen(w.b, id)
    expect(await first.rest()).toEqual([])
    await w.processes[0].changes.publish({ type: 'tools', version: 'v1' })
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

  test('gets notifications without ids if events are not stored', async () => {
    await using w = sessionWorld({ settings: { events: undefined } })
    const listening = await listen(w.a, await openSession(w.a))
    await w.processes[0].changes.publish({ type: 'tools' })
    expect((await listening.next()).method).toBe(TOOLS)
    expect(listening.lastEventId()).toBe('')
    await listening.leave()
  })
})

test('keeps one of two streams of a session that begin at once', async () => {
  await using w = sessionWorld()
  const id = await openSession(w.a)
  const streams = await Promise.all([w.a, w.b].map((fetch) => fetch(get(inSession(id)))))
  await turnsPass()
  await w.processes[0].changes.publish({ type: 'tools', version: 'v1' })
  for (const { http } of w.processes) await http.close()
  const texts = await Promise.all(streams.map((each) => each.text()))
  const told = texts.filter((text) => /id: .+\ndata: .+tools\/list_changed/.test(text))
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
  await w.processes[0].changes.publish({ type: 'tools', version: 'v1' })
  expect((await here.next()).method).toBe(TOOLS)
  isAway = false
  await w.clock.advance(1000)
  expect((await there.next()).method).toBe(TOOLS)
  await w.processes[1].changes.publish({ type: 'prompts' })
  expect((await here.next()).method).toBe(PROMPTS)
  expect(w.warnings).toEqual([
    'A change could not be sent to other processes. It is sent again later.',
  ])
  await Promise.all([here.leave(), there.leave()])
})
