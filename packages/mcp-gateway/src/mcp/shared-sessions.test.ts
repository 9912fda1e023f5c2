import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { settled } from '../../test/manual-clock.ts'
import {
  eventsOf,
  get,
  initialize,
  inSession,
  openSession,
  post,
  toolCall,
  URL_OF_TESTS,
} from '../../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../../test/two-replicas.ts'
import { bearerAuth } from '../http/auth/bearer.ts'

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

async function statusOf(answering: Promise<Response>): Promise<number> {
  const response = await answering
  await response.text()
  return response.status
}

/** Reads until its call has begun. @returns the last event id */
async function begun(response: Response): Promise<string> {
  let last = ''
  for await (const { id, data } of eventsOf(response)) {
    last = id ?? last
    if (data.includes('Accepted')) break // the client leaves
  }
  return last
}

const slowly = (finish: Promise<unknown>): AgentsAtHand =>
  new AgentsAtHand({
    async *slow({ signal }) {
      yield { type: 'text', text: 'begun' }
      await Promise.race([
        finish,
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(new Error('stopped')))
        }),
      ])
      yield { type: 'done', text: 'finished' }
    },
  })

test('does not count a session as idle that is used at another process', async () => {
  await using w = twoReplicas({ sessions: { idleTtlMs: 60_000 } })
  const used = await openSession(w.a)
  const unused = await openSession(w.a)
  expect(await statusOf(w.b(post(list, inSession(unused))))).toBe(200)
  for (let n = 0; n < 10; n++) {
    await w.clock.advance(15_000)
    expect(await statusOf(w.b(post(list, inSession(used))))).toBe(200)
  }
  expect(w.assemblies[0].sessions).toBe(0) // this process dropped its copy, because the session was idle here
  expect(await statusOf(w.a(post(list, inSession(used))))).toBe(200)
  expect(await statusOf(w.a(post(list, inSession(unused))))).toBe(404)
  expect(await statusOf(w.b(post(list, inSession(unused))))).toBe(404)
  await w.clock.advance(200_000)
  expect(w.assemblies.map(({ sessions }) => sessions)).toEqual([0, 0])
  expect(await w.store.records.count('session:')).toBe(0)
})

test('ends a session at its absolute age, at every process', async () => {
  await using w = twoReplicas({ sessions: { idleTtlMs: 60_000, absoluteTtlMs: 100_000 } })
  const id = await openSession(w.a)
  await w.clock.advance(50_000)
  expect(await statusOf(w.b(post(list, inSession(id))))).toBe(200)
  await w.clock.advance(50_000)
  expect(await statusOf(w.b(post(list, inSession(id))))).toBe(404)
  expect(await statusOf(w.a(post(list, inSession(id))))).toBe(404)
})

test('counts the sessions of all processes, in all and for one caller', async () => {
  await using w = twoReplicas({
    auth: bearerAuth({
      ada: { token: 'token-of-ada-0123456789', scopes: ['*'] },
      bob: { token: 'token-of-bob-0123456789', scopes: ['*'] },
    }),
    sessions: { max: 5, maxPerPrincipal: 3 },
  })
  const ada = { authorization: 'Bearer token-of-ada-0123456789' }
  const bob = { authorization: 'Bearer token-of-bob-0123456789' }
  const first = await openSession(w.a, ada)
  await openSession(w.b, ada)
  await openSession(w.a, ada)
  expect(await statusOf(w.b(initialize(ada)))).toBe(429)
  await openSession(w.a, bob)
  await openSession(w.b, bob)
  expect(await statusOf(w.a(initialize(bob)))).toBe(503)
  expect(await statusOf(w.b(post(list, inSession(first, bob))))).toBe(404)
  const headers = { host: 'localhost', ...inSession(first, ada) }
  expect(await statusOf(w.b(new Request(URL_OF_TESTS, { method: 'DELETE', headers })))).toBe(200)
  await openSession(w.b, ada)
})

test('loads a session once for many requests at the same time', async () => {
  await using w = twoReplicas()
  const id = await openSession(w.a)
  const statuses = await Promise.all(
    Array.from({ length: 20 }, (_, n) => statusOf(w.b(post({ ...list, id: n }, inSession(id))))),
  )
  expect(new Set(statuses)).toEqual(new Set([200]))
  expect(w.assemblies[1].sessions).toBe(1)
})

test('cancels a call whose client comes back to neither process', async () => {
  const never = deferred()
  const agents = slowly(never.promise)
  await using w = twoReplicas({ sources: [agents], sessions: { disconnectGraceMs: 10_000 } })
  const id = await openSession(w.a)
  const last = await begun(await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id))))
  const elsewhere = await w.b(get(inSession(id, { 'last-event-id': last })))
  expect(elsewhere.status).toBe(200)
  const reading = elsewhere.body?.getReader()
  await w.clock.advance(60_000)
  expect(agents.calls[0]?.signal.aborted).toBe(false)
  await reading?.cancel()
  await w.clock.advance(9000)
  expect(agents.calls[0]?.signal.aborted).toBe(false)
  await w.clock.advance(2000)
  expect(agents.calls[0]?.signal.aborted).toBe(true)
})

test('sends everything once to a client that comes back to one process, then to the other', async () => {
  const finish = deferred()
  const agents = slowly(finish.promise)
  await using w = twoReplicas({ sources: [agents] })
  const id = await openSession(w.a)
  const last = await begun(await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id))))
  const elsewhere = await w.b(get(inSession(id, { 'last-event-id': last })))
  const there = elsewhere.text()
  const back = await w.a(get(inSession(id, { 'last-event-id': last })))
  const here = back.text()
  await settled()
  finish.resolve()
  await w.clock.advance(1000)
  expect(await here).toContain('finished')
  expect(await there).not.toContain('finished')
  expect(agents.calls).toHaveLength(1)
})

test('sends an answer that was complete before its client came to the other process', async () => {
  const finish = deferred()
  const agents = slowly(finish.promise)
  await using w = twoReplicas({ sources: [agents] })
  const id = await openSession(w.a)
  const last = await begun(await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id))))
  finish.resolve()
  await w.clock.advance(1000)
  const elsewhere = await w.b(get(inSession(id, { 'last-event-id': last })))
  const text = await elsewhere.text()
  expect(text).toContain('finished')
  expect(text).not.toContain('error')
})

test('keeps the sessions and events of a process that stops', async () => {
  const agents = slowly(Promise.resolve())
  await using w = twoReplicas({ sources: [agents] })
  const id = await openSession(w.a)
  const response = await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id)))
  const last = await begun(response)
  await w.clock.advance(1000)
  await w.assemblies[0].close()
  expect(await statusOf(w.b(post(list, inSession(id))))).toBe(200)
  const asking = w.b(get(inSession(id, { 'last-event-id': last })))
  await settled()
  await w.clock.advance(3000)
  expect(await (await asking).text()).toContain('finished')
})

test('ends a session at all processes, also if the signal is lost', async () => {
  const gaps = new Set<() => void>()
  let isAway = false
  await using w = twoReplicas({}, (store) =>
    withLogs(store, {
      append: (log, ...event) =>
        isAway && log === 'signals'
          ? Promise.reject(new Error('away'))
          : store.logs.append(log, ...event),
      tail: (log, after, { onEvent, onGap }) => {
        gaps.add(onGap)
        return store.logs.tail(log, after, { onEvent, onGap })
      },
    }),
  )
  const id = await openSession(w.a)
  expect(await statusOf(w.b(post(list, inSession(id))))).toBe(200)
  isAway = true
  const headers = { host: 'localhost', ...inSession(id) }
  expect(await statusOf(w.b(new Request(URL_OF_TESTS, { method: 'DELETE', headers })))).toBe(200)
  isAway = false
  for (const tell of gaps) tell()
  await settled()
  expect(await statusOf(w.a(post(list, inSession(id))))).toBe(404)
  expect(w.assemblies.map(({ sessions }) => sessions)).toEqual([0, 0])
})

test('stores nothing after both processes have closed', async () => {
  const w = twoReplicas()
  const id = await openSession(w.a)
  await statusOf(w.b(post(list, inSession(id))))
  const stream = await w.b(get(inSession(id)))
  await w[Symbol.asyncDispose]()
  await stream.text()
  expect(w.clock.pending).toBe(0)
})

test('sets a log level at all processes, also by a batch', async () => {
  await using w = twoReplicas()
  const id = await openSession(w.a)
  const levels = async (): Promise<unknown[]> => {
    const listed = await w.store.records.list('session:')
    return listed.map(({ value }) => (value as { readonly level?: string }).level)
  }
  const set = (level: string): object => {
    return { jsonrpc: '2.0', id: level, method: 'logging/setLevel', params: { level } }
  }
  await statusOf(w.a(post(set('error'), inSession(id))))
  expect(await levels()).toEqual(['error'])
  const old = { 'mcp-protocol-version': '2025-03-26' }
  await statusOf(w.a(post([set('debug')], inSession(id, old))))
  expect(await levels()).toEqual(['debug'])
})
