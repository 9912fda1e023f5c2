import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { connect } from '../../test/mcp-clients.ts'
import { eventsOf, get, inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../../test/two-replicas.ts'
import type { GatewayStore } from '../store/gateway-store.ts'

const cancel = (requestId: number): object => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId, reason: 'Enough' },
})

interface Reading {
  readonly text: string
  readonly lastEventId: string
}

/** Waits until the call has begun. @returns the events after that, to the end */
async function begun(response: Response): Promise<{ readonly rest: Promise<Reading> }> {
  const events = eventsOf(response)
  let lastEventId = ''
  for (;;) {
    const { done, value } = await events.next()
    if (done) throw new Error('It ended before')
    lastEventId = value.id ?? lastEventId
    if (value.data.includes('Accepted')) break
  }
  const readOn = async (): Promise<Reading> => {
    let text = ''
    for await (const { id, data } of events) {
      lastEventId = id ?? lastEventId
      text += data
    }
    return { text, lastEventId }
  }
  return { rest: readOn() }
}

/** Returns the store, which calls `before` before it stores an event. */
function withAppend(store: GatewayStore, before: (event: unknown) => Promise<void>): GatewayStore {
  const { logs } = store
  return withLogs(store, {
    open: async (log, header, limits) => {
      await before(header)
      return logs.open(log, header, limits)
    },
    append: async (log, event, options) => {
      await before(event)
      return logs.append(log, event, options)
    },
  })
}

test('ends the stream of a cancelled call at once, without an answer', async () => {
  await using w = twoReplicas()
  const id = await openSession(w.a)
  const reading = await begun(await w.a(post(toolCall(1, 'endless', 'Go'), inSession(id))))
  const answer = await w.a(post(cancel(1), inSession(id)))
  expect(answer.status).toBe(202)
  expect((await reading.rest).text).not.toContain('"id":1')
  expect(w.agents.calls[0]?.signal.aborted).toBe(true)
  expect(w.warnings).toEqual([])
})

test('counts a session as idle after its only call was cancelled', async () => {
  await using w = twoReplicas({ sessions: { idleTtlMs: 60_000 } })
  const id = await openSession(w.a)
  const response = await w.a(post(toolCall(1, 'endless', 'Go'), inSession(id)))
  await w.a(post(cancel(1), inSession(id)))
  await response.text()
  await w.clock.advance(200_000)
  expect(w.assemblies[0].sessions).toBe(0)
})

test('tells a client that resumes the stream of a cancelled call that nothing follows, at any process', async () => {
  await using w = twoReplicas()
  const id = await openSession(w.a)
  const reading = await begun(await w.a(post(toolCall(1, 'endless', 'Go'), inSession(id))))
  await w.a(post(cancel(1), inSession(id)))
  const { lastEventId } = await reading.rest
  for (const fetch of [w.a, w.b]) {
    const again = await fetch(get(inSession(id, { 'last-event-id': lastEventId })))
    expect(again.status).toBe(405)
  }
})

test('tells a client that resumes after the last event that nothing follows, at any process', async () => {
  await using w = twoReplicas()
  const id = await openSession(w.a)
  let last = ''
  for await (const event of eventsOf(await w.a(post(toolCall(1, 'echo', 'Hi'), inSession(id))))) {
    last = event.id ?? last
  }
  for (const fetch of [w.a, w.b]) {
    const again = await fetch(get(inSession(id, { 'last-event-id': last })))
    expect(again.status).toBe(405)
  }
})

test('cancels a call of another process', async () => {
  await using w = twoReplicas()
  const id = await openSession(w.a)
  const reading = await begun(await w.a(post(toolCall(1, 'endless', 'Go'), inSession(id))))
  expect((await w.b(post(cancel(1), inSession(id)))).status).toBe(202)
  expect((await reading.rest).text).not.toContain('"id":1')
  expect(w.agents.calls[0]?.signal.aborted).toBe(true)
})

test('ends the stream of a cancelled call that the client reads at another process', async () => {
  await using w = twoReplicas({ sessions: { idleTtlMs: 60_000 } })
  const id = await openSession(w.a)
  let last = ''
  for await (const event of eventsOf(
    await w.a(post(toolCall(1, 'endless', 'Go'), inSession(id))),
  )) {
    last = event.id ?? last
    if (event.data.includes('Accepted')) break // the client leaves
  }
  const elsewhere = await w.b(get(inSession(id, { 'last-event-id': last })))
  expect(elsewhere.status).toBe(200)
  const rest = elsewhere.text()
  await w.b(post(cancel(1), inSession(id)))
  expect(await rest).not.toContain('"id":1')
  await w.clock.advance(200_000)
  expect(w.assemblies.map(({ sessions }) => sessions)).toEqual([0, 0])
})

test('aborts a call that is cancelled before it begins', async () => {
  const [kept, isKeeping] = [deferred(), deferred()]
  let isOpen = false
  await using w = twoReplicas({}, (store) => {
    return withAppend(store, async () => {
      if (!isOpen) return
      isKeeping.resolve()
      await kept.promise
    })
  })
  const headers = inSession(await openSession(w.a))
  isOpen = true
  const answering = w.a(post(toolCall(1, 'endless', 'Go'), headers)) // its first event is stored first
  await isKeeping.promise
  await w.a(post(cancel(1), headers))
  kept.resolve()
  expect(await (await answering).text()).not.toContain('"id":1')
  expect(w.agents.calls.filter(({ signal }) => !signal.aborted)).toHaveLength(0)
})

test.each(['v1', 'v2 legacy'] as const)(
  'lets a client go on after it cancelled a call: SDK %s',
  async (kind) => {
    await using w = twoReplicas({}, undefined, { retryMs: 1 })
    const { url } = await w.assemblies[0].listen({ port: 0 })
    const resumed: number[] = []
    const resumption = deferred()
    await using client = await connect(kind, url, {
      fetch: async (target, init) => {
        const response = await fetch(target, init)
        if (new Headers(init?.headers).has('last-event-id')) {
          resumed.push(response.status)
          resumption.resolve()
        }
        return response
      },
    })
    const leaving = new AbortController()
    const calling = client.callTool('endless', 'Go', {
      signal: leaving.signal,
      onProgress: () => leaving.abort(),
    })
    await expect(calling).rejects.toThrow(/abort/i)
    await resumption.promise // the client takes the end for a lost connection, once
    await client.ping()
    await expect(client.callTool('echo', 'Hi')).resolves.toMatchObject({
      content: [{ text: 'Hi' }],
    })
    expect(resumed).toEqual([405])
    expect(w.agents.calls[0]?.signal.aborted).toBe(true)
    expect(w.warnings).toEqual([])
  },
)
