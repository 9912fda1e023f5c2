import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { ManualClock } from '../../test/manual-clock.ts'
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

test('returns 400 without a session id, and 404 for an unknown one', async () => {
  await using w = world()
  const missing = await w.fetch(post(list))
  expect(missing.status).toBe(400)
  await expect(missing.json()).resolves.toMatchObject({ error: { code: -32_000 } })
  const unknown = await w.fetch(post(list, inSession('nobody-has-this')))
  expect(unknown.status).toBe(404)
  await expect(unknown.json()).resolves.toMatchObject({ error: { code: -32_001 } })
  const stream = await w.fetch(get(inSession('nobody-has-this')))
  expect(stream.status).toBe(404)
})

test('makes unguessable session ids, and accepts none that a client chose', async () => {
  await using w = world()
  expect((await w.fetch(initialize(inSession('chosen-by-a-client')))).status).toBe(404)
  const ids = await Promise.all(Array.from({ length: 20 }, () => openSession(w.fetch)))
  expect(new Set(ids).size).toBe(20)
  for (const id of ids) {
    expect(id).toMatch(/^[\x21-\x7e]+$/)
    expect(Buffer.from(id, 'base64url').byteLength).toBeGreaterThanOrEqual(16)
  }
})

test('refuses an initialize that is too long', async () => {
  await using w = world()
  const clientInfo = { name: 'test', version: '1.0.0', title: 'x'.repeat(32_768) }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
  const refused = await w.fetch(post({ jsonrpc: '2.0', id: 0, method: 'initialize', params }))
  expect(refused.status).toBe(413)
  await expect(refused.json()).resolves.toMatchObject({
    error: { message: 'A handshake may have 32768 characters' },
  })
  expect(w.assembly.sessions).toBe(0)
})

test('returns 404 for a session that was deleted', async () => {
  await using w = world()
  const id = await openSession(w.fetch)
  expect(w.assembly.sessions).toBe(1)
  const deleting = new Request(URL_OF_TESTS, {
    method: 'DELETE',
    headers: { host: 'localhost', ...inSession(id) },
  })
  expect(await statusOf(w.fetch(deleting))).toBe(200)
  expect(w.assembly.sessions).toBe(0)
  expect(await statusOf(w.fetch(post(list, inSession(id))))).toBe(404)
})

test('cancels the calls of a session that is deleted', async () => {
  await using w = world()
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'endless', 'Go'), inSession(id)))
  for await (const { data } of eventsOf(response)) if (data.includes('begun')) break
  // The client still reads: it is connected, and deleted the session.
  const other = await w.fetch(post(toolCall(2, 'endless', 'Go'), inSession(id)))
  const reading = other.text()
  await w.fetch(
    new Request(URL_OF_TESTS, {
      method: 'DELETE',
      headers: { host: 'localhost', ...inSession(id) },
    }),
  )
  await reading
  expect(w.agents.calls.every(({ signal }) => signal.aborted)).toBe(true)
})

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

test('ends abandoned sessions, and stores nothing of them any more', async () => {
  await using w = world({ sessions: { idleTtlMs: 60_000 } })
  for (let n = 0; n < 300; n++) await openSession(w.fetch)
  expect(w.assembly.sessions).toBe(300)
  await w.clock.advance(30_000)
  expect(w.assembly.sessions).toBe(300)
  await w.clock.advance(60_000)
  expect(w.assembly.sessions).toBe(0)
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

test('does not count a session with an open call as idle', async () => {
  const finish = deferred()
  const agents = new AgentsAtHand({
    async *slow() {
      yield { type: 'text', text: 'begun' }
      await finish.promise
      yield { type: 'done', text: 'finished' }
    },
  })
  await using w = world({
    sources: [agents],
    sessions: { idleTtlMs: 1000 },
    runs: { idleTimeoutMs: 0, timeoutMs: 1_000_000 },
  })
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'slow', 'Go'), inSession(id)))
  const text = response.text()
  await w.clock.advance(120_000)
  expect(w.assembly.sessions).toBe(1)
  finish.resolve()
  await expect(text).resolves.toContain('finished')
  await w.clock.advance(5000)
  expect(w.assembly.sessions).toBe(0)
})

test('ends a session at its absolute age, also if it is in use', async () => {
  await using w = world({ sessions: { idleTtlMs: 60_000, absoluteTtlMs: 100_000 } })
  const id = await openSession(w.fetch)
  await w.clock.advance(50_000)
  expect(await statusOf(w.fetch(post(list, inSession(id))))).toBe(200)
  await w.clock.advance(50_000)
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

test('admits no more sessions than the limit when many begin at once', async () => {
  const sessions = { max: 20, maxPerPrincipal: 5 }
  await using w = world({ sessions, auth: bearerAuth({ a: { token: 'a' }, b: { token: 'b' } }) })
  const authorization = 'Bearer a'
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => w.fetch(initialize({ authorization }))),
  )
  await Promise.all(answers.map((answer) => answer.text()))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(45)
  expect(w.assembly.sessions).toBe(5)
  await openSession(w.fetch, { authorization: 'Bearer b' })
})

test('limits the rate of new sessions from one address', async () => {
  await using w = world({ sessions: { initializePerMinutePerIp: 3 } })
  const { url } = await w.assembly.listen({ port: 0 })
  const statuses: number[] = []
  let last: Response | undefined
  for (let n = 0; n < 5; n++) {
    const { headers, body } = await bodyOf(initialize())
    last = await fetch(url, { method: 'POST', headers, body })
    await last.text()
    statuses.push(last.status)
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429])
  expect(Number(last?.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('resumes a lost stream with Last-Event-ID, without a lost event or a second run', async () => {
  const finish = deferred()
  const agents = new AgentsAtHand({
    async *slow() {
      yield { type: 'text', text: 'begun' }
      await finish.promise
      yield { type: 'done', text: 'finished' }
    },
  })
  await using w = world({ sources: [agents], sessions: { disconnectGraceMs: 10_000 } })
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'slow', 'Go'), inSession(id)))
  let lastEventId = ''
  for await (const event of eventsOf(response)) {
    lastEventId = event.id ?? lastEventId
    if (event.data.includes('Accepted')) break // the client leaves
  }
  await w.clock.advance(9000)
  const again = await w.fetch(get(inSession(id, { 'last-event-id': lastEventId })))
  expect(again.status).toBe(200)
  const text = again.text()
  await w.clock.advance(60_000)
  finish.resolve()
  await expect(text).resolves.toContain('finished')
  expect(agents.calls).toHaveLength(1)
  expect(agents.calls[0]?.signal.aborted).toBe(false)
})

test('keeps an answer for a client that comes back later', async () => {
  const finish = deferred()
  const agents = new AgentsAtHand({
    async *slow() {
      yield { type: 'text', text: 'begun' }
      await finish.promise
      yield { type: 'done', text: 'finished' }
    },
  })
  await using w = world({ sources: [agents] })
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'slow', 'Go'), inSession(id)))
  let lastEventId = ''
  for await (const event of eventsOf(response)) {
    lastEventId = event.id ?? ''
    break // after the first event, which has an id and no data
  }
  finish.resolve()
  await w.clock.advance(60_000)
  const again = await w.fetch(get(inSession(id, { 'last-event-id': lastEventId })))
  const text = await again.text()
  expect(text).toContain('finished')
  expect(text).not.toContain('data: {}')
})

test('cancels a call whose client does not come back within the grace period', async () => {
  await using w = world({ sessions: { disconnectGraceMs: 10_000 } })
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'endless', 'Go'), inSession(id)))
  for await (const { data } of eventsOf(response)) if (data.includes('Accepted')) break
  await w.clock.advance(9999)
  expect(w.agents.calls[0]?.signal.aborted).toBe(false)
  await w.clock.advance(1)
  expect(w.agents.calls[0]?.signal.aborted).toBe(true)
})

test('cancels a call whose stream is lost at once if events are not stored', async () => {
  await using w = world({ sessions: { eventStore: { enabled: false } } })
  const id = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'endless', 'Go'), inSession(id)))
  for await (const { data } of eventsOf(response)) if (data.includes('Accepted')) break
  await w.clock.advance(0)
  expect(w.agents.calls[0]?.signal.aborted).toBe(true)
})

test('returns 400 for an event id of another session', async () => {
  await using w = world()
  const ours = await openSession(w.fetch)
  const theirs = await openSession(w.fetch)
  const response = await w.fetch(post(toolCall(1, 'echo', 'A secret'), inSession(theirs)))
  const events = []
  for await (const event of eventsOf(response)) events.push(event)
  const stolen = inSession(ours, { 'last-event-id': events[0]?.id ?? '' })
  const replay = await w.fetch(get(stolen))
  expect(replay.status).toBe(400)
  expect(await replay.text()).not.toContain('secret')
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
