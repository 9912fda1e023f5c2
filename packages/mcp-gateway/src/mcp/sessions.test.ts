import { expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { ManualClock, settled } from '../../test/manual-clock.ts'
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
import { Runtime } from '../gateway/runtime.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import type { GatewayOptions } from '../options.ts'

interface World extends AsyncDisposable {
  readonly assembly: Runtime
  readonly agents: AgentsAtHand
  readonly clock: ManualClock
  readonly fetch: (request: Request) => Promise<Response>
}

function world(options: Partial<GatewayOptions> = {}): World {
  const clock = new ManualClock()
  const agents = new AgentsAtHand({ echo, endless })
  const assembly = new Runtime({ sources: [agents], clock, ...options })
  return {
    assembly,
    agents,
    clock,
    fetch: (request) => assembly.fetch(request),
    [Symbol.asyncDispose]: () => assembly.close(),
  }
}

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

test('returns 404 for a session of another principal', async () => {
  await using w = world({
    auth: bearerAuth({
      ada: { token: 'token-of-ada-0123456789', scopes: ['*'] },
      bob: { token: 'token-of-bob-0123456789', scopes: ['*'] },
    }),
  })
  const ada = { authorization: 'Bearer token-of-ada-0123456789' }
  const bob = { authorization: 'Bearer token-of-bob-0123456789' }
  const id = await openSession(w.fetch, ada)
  expect(await statusOf(w.fetch(post(list, inSession(id, bob))))).toBe(404)
  expect(await statusOf(w.fetch(post(list, inSession(id, ada))))).toBe(200)
  expect(await statusOf(w.fetch(post(list, inSession(id))))).toBe(401)
})

test('returns 404 for a session that was idle for too long, also between two sweeps', async () => {
  await using w = world({ sessions: { idleTtlMs: 60_000 } })
  const id = await openSession(w.fetch)
  await w.clock.advance(59_000)
  expect(await statusOf(w.fetch(post(list, inSession(id))))).toBe(200)
  await w.clock.advance(59_000)
  expect(await statusOf(w.fetch(post(list, inSession(id))))).toBe(200)
  await w.clock.advance(60_000)
  expect(await statusOf(w.fetch(post(list, inSession(id))))).toBe(404)
})

test('returns 503 for too many sessions, and 429 for too many of one caller, with Retry-After', async () => {
  await using w = world({ sessions: { max: 2 } })
  await openSession(w.fetch)
  await openSession(w.fetch)
  const full = await w.fetch(initialize())
  expect(full.status).toBe(503)
  expect(Number(full.headers.get('retry-after'))).toBeGreaterThan(0)

  await using v = world({
    auth: bearerAuth('a-token-of-some-length'),
    sessions: { maxPerPrincipal: 1 },
  })
  const credential = { authorization: 'Bearer a-token-of-some-length' }
  await openSession(v.fetch, credential)
  const own = await v.fetch(initialize(credential))
  expect(own.status).toBe(429)
  expect(Number(own.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('cancels a call whose client does not come back within the grace period', async () => {
  await using w = world()
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'endless', 'Go'), inSession(id)))
  for await (const { data } of eventsOf(response)) if (data.includes('Accepted')) break
  await w.clock.advance(9999)
  expect(w.agents.calls[0]?.signal.aborted).toBe(false)
  await w.clock.advance(1)
  expect(w.agents.calls[0]?.signal.aborted).toBe(true)
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
  expect(await w.store.records.count('session:')).toBe(5)
  expect(await statusOf(w.b(post(list, inSession(first, bob))))).toBe(404)
  const headers = { host: 'localhost', ...inSession(first, ada) }
  expect(await statusOf(w.b(new Request(URL_OF_TESTS, { method: 'DELETE', headers })))).toBe(200)
  await openSession(w.b, ada)
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

/** Reads the whole response: otherwise it stays in flight. */
async function statusOf(answering: Promise<Response>): Promise<number> {
  const response = await answering
  await response.text()
  return response.status
}

async function bodyOf(request: Request): Promise<{ headers: Headers; body: string }> {
  const headers = new Headers(request.headers)
  headers.delete('host')
  return { headers, body: await request.text() }
}
