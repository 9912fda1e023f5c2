import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import {
  get,
  HANDSHAKE,
  initialize,
  inSession,
  openSession,
  OPENING,
  post,
  URL_OF_TESTS,
} from '../../test/rpc-requests.ts'
import { sessionWorld, turnsPass, type SessionWorld } from '../../test/session-world.ts'
import { withLogs } from '../../test/two-replicas.ts'
import { GatewayError } from '../errors.ts'

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

const call = (id: number, name: string, message = name): object => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: { message } },
})

function ending(id: string, headers: Readonly<Record<string, string>> = {}): Request {
  return new Request(URL_OF_TESTS, { method: 'DELETE', headers: inSession(id, headers) })
}

type Rule = [
  title: string,
  request: (session: string) => Request,
  status: number,
  code?: number,
  headers?: Readonly<Record<string, string>>,
]

describe('answers by the table of rules', () => {
  const rules: Rule[] = [
    ['no session id', () => post(list), 400, -32_000],
    ['GET without a session id', () => get({}), 400, -32_000],
    ['an unknown session', () => post(list, inSession('unknown')), 404, -32_001],
    ['GET of an unknown session', () => get(inSession('unknown')), 404, -32_001],
    ['DELETE of an unknown session', () => ending('unknown'), 404, -32_001],
    [
      'a session of another principal',
      (id) => post(list, inSession(id, { authorization: 'bob' })),
      404,
      -32_001,
    ],
    [
      'DELETE of a session of another principal',
      (id) => ending(id, { authorization: 'bob' }),
      404,
      -32_001,
    ],
    ['initialize in a session', (id) => initialize(inSession(id)), 400, -32_600],
    [
      'initialize in an unknown session',
      () => initialize(inSession('chosen-by-a-client')),
      404,
      -32_001,
    ],
    [
      'a malformed initialize',
      () => post({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} }),
      400,
      -32_600,
    ],
    [
      'a long initialize',
      () => {
        const clientInfo = { name: 'x'.repeat(32_768), version: '1' }
        return post({ ...OPENING[0], params: { ...HANDSHAKE, clientInfo } })
      },
      413,
      -32_000,
    ],
    [
      'POST that accepts JSON only',
      (id) => post(list, inSession(id, { accept: 'application/json' })),
      406,
      -32_000,
    ],
    [
      'initialize that accepts JSON only',
      () => initialize({ accept: 'application/json' }),
      406,
      -32_000,
    ],
    [
      'GET that accepts JSON only',
      (id) => get(inSession(id, { accept: 'application/json' })),
      406,
      -32_000,
    ],
    [
      'an unsupported revision',
      (id) => post(list, inSession(id, { 'mcp-protocol-version': '1999-01-01' })),
      400,
      -32_000,
    ],
    [
      'a body that is not JSON-RPC',
      (id) => post({ method: 'ping', id: 1 }, inSession(id)),
      400,
      -32_700,
    ],
    [
      'an id that is not an id',
      (id) => post({ jsonrpc: '2.0', method: 'ping', id: { a: 1 } }, inSession(id)),
      400,
      -32_700,
    ],
    [
      'a notification',
      (id) => post({ jsonrpc: '2.0', method: 'notifications/initialized' }, inSession(id)),
      202,
    ],
    [
      'a response that nobody waits for',
      (id) => post({ jsonrpc: '2.0', id: 7, result: {} }, inSession(id)),
      202,
    ],
    [
      'a response to a question of a process that has ended',
      (id) => post({ jsonrpc: '2.0', id: '0123456789abcdef.1', result: {} }, inSession(id)),
      400,
      -32_000,
    ],
    ['a request', (id) => post(list, inSession(id)), 200],
    [
      'GET with an unknown Last-Event-ID',
      (id) => get(inSession(id, { 'last-event-id': 'unknown' })),
      400,
      -32_000,
    ],
    ['DELETE', (id) => ending(id), 200],
    [
      'another method',
      (id) => new Request(URL_OF_TESTS, { method: 'PUT', headers: inSession(id) }),
      405,
      -32_000,
      { allow: 'GET, POST, DELETE' },
    ],
  ]

  test.each<Rule>(rules)('%s', async (...rule) => {
    const [, request, status, code, headers = {}] = rule
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const response = await w.a(request(id))
    expect(response.status).toBe(status)
    const text = await response.text()
    const error: unknown = code === undefined ? {} : JSON.parse(text)
    expect(error).toMatchObject(code === undefined ? {} : { error: { code }, id: null })
    for (const [name, value] of Object.entries(headers))
      expect(response.headers.get(name)).toBe(value)
  })

  test('refuses a second GET until the first one has ended', async () => {
    await using w = sessionWorld()
    const headers = inSession(await openSession(w.a))
    const first = await w.a(get(headers))
    expect(first.status).toBe(200)
    expect(first.headers.get('content-type')).toBe('text/event-stream')
    expect((await w.a(get(headers))).status).toBe(409)
    await first.body?.cancel()
    const second = await w.a(get(headers))
    expect(second.status).toBe(200)
    await second.body?.cancel()
  })
})

describe('opening a session', () => {
  test('answers with the negotiated revision, and an id that nobody can guess', async () => {
    await using w = sessionWorld()
    const response = await w.a(initialize())
    const id = response.headers.get('mcp-session-id') ?? ''
    expect(Buffer.from(id, 'base64url').byteLength).toBeGreaterThanOrEqual(16)
    expect(await response.json()).toMatchObject({
      id: 0,
      result: {
        protocolVersion: '2025-11-25',
        serverInfo: { name: 'test' },
        instructions: 'Use the tools',
        capabilities: { tools: {} },
      },
    })
    expect(new Set(await Promise.all([openSession(w.a), openSession(w.a)])).size).toBe(2)
  })

  test('offers the latest revision to clients of an unknown one', async () => {
    await using w = sessionWorld()
    const params = { ...HANDSHAKE, protocolVersion: '2030-01-01' }
    const response = await w.a(post({ ...OPENING[0], params }))
    expect(await response.json()).toMatchObject({ result: { protocolVersion: '2025-11-25' } })
  })

  test('admits exactly the limit when many begin at once', async () => {
    await using w = sessionWorld({ settings: { maxPerPrincipal: 5 } })
    const authorization = 'ada'
    const responses = await Promise.all(
      Array.from({ length: 50 }, () => w.a(initialize({ authorization }))),
    )
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(5)
    expect(responses.filter(({ status }) => status === 429)).toHaveLength(45)
    expect(w.processes[0].http.sessions.size).toBe(5)
  })
})

describe('the end of a session', () => {
  test('comes for abandoned sessions, and nothing of them is stored any more', async () => {
    await using w = sessionWorld({ isShared: false, settings: { idleTtlMs: 60_000 } })
    for (let n = 0; n < 300; n++) await openSession(w.a)
    expect(w.processes[0].http.sessions.size).toBe(300)
    await w.clock.advance(30_000)
    expect(w.processes[0].http.sessions.size).toBe(300)
    await w.clock.advance(60_000)
    expect(w.processes[0].http.sessions.size).toBe(0)
    expect(await w.store.records.count('session:')).toBe(0)
    expect(w.observed.filter((each) => each === 'idle')).toHaveLength(300)
    expect(w.clock.pending).toBe(0)
  })

  test('does not come while a call is open', async () => {
    const finish = deferred<string>()
    const tools = { slow: () => finish.promise }
    await using w = sessionWorld({ tools, settings: { idleTtlMs: 1000 } })
    const headers = inSession(await openSession(w.a))
    const text = (await w.a(post(call(1, 'slow'), headers))).text()
    await w.clock.advance(120_000)
    expect(w.processes[0].http.sessions.size).toBe(1)
    expect(await w.store.records.count('session:')).toBe(1)
    finish.resolve('finished')
    expect(await text).toContain('finished')
    await w.clock.advance(5000)
    expect(w.processes[0].http.sessions.size).toBe(0)
    expect(await w.store.records.count('session:')).toBe(0)
  })

  test('does not come while a client listens', async () => {
    await using w = sessionWorld({ settings: { idleTtlMs: 60_000 } })
    const headers = inSession(await openSession(w.a))
    const stream = await w.a(get(headers))
    await w.clock.advance(600_000)
    expect((await w.a(post(list, headers))).status).toBe(200)
    await stream.body?.cancel()
    await w.clock.advance(600_000)
    expect((await w.a(post(list, headers))).status).toBe(404)
  })

  test('comes at its absolute age, however busy the client is, and a call in flight goes on', async () => {
    const finish = deferred<string>()
    const tools = { slow: () => finish.promise }
    await using w = sessionWorld({ tools, settings: { idleTtlMs: 60_000, absoluteTtlMs: 100_000 } })
    const headers = inSession(await openSession(w.a))
    await w.clock.advance(50_000)
    const text = (await w.a(post(call(1, 'slow'), headers))).text()
    await w.clock.advance(50_000)
    for (const fetch of [w.a, w.b]) expect((await fetch(post(list, headers))).status).toBe(404)
    await w.clock.advance(300_000)
    finish.resolve('finished')
    expect(await text).toContain('finished')
  })

  test('aborts what is in flight, ends streams and deletes logs, at all processes', async () => {
    const signals: AbortSignal[] = []
    const tools = {
      endless: ({ signal }: { signal: AbortSignal }) => {
        signals.push(signal)
        return new Promise<string>(() => undefined)
      },
    }
    await using w = sessionWorld({ tools })
    const id = await openSession(w.a)
    const streams = [
      await w.a(post(call(1, 'endless'), inSession(id))),
      await w.b(post(call(2, 'endless'), inSession(id))),
      await w.a(get(inSession(id))),
    ]
    const texts = Promise.all(streams.map((each) => each.text()))
    const deleted = await w.b(ending(id))
    expect(deleted.status).toBe(200)
    for (const text of await texts) expect(text).not.toContain('error')
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
    for (const fetch of [w.a, w.b])
      expect((await fetch(post(list, inSession(id)))).status).toBe(404)
    expect(w.processes.map(({ http }) => http.sessions.size)).toEqual([0, 0])
  })

  test('is noticed with the next request by a process that missed the signal', async () => {
    await using w = sessionWorld({ settings: { idleTtlMs: 60_000 } })
    const headers = inSession(await openSession(w.a))
    const [stored] = await w.store.records.list('session:')
    await w.store.records.delete(stored?.key ?? '')
    await w.clock.advance(8000)
    expect((await w.a(post(list, headers))).status).toBe(404)
  })

  test('does not come when a process stops: sessions go on at another process', async () => {
    await using w = sessionWorld()
    const headers = inSession(await openSession(w.a))
    await w.processes[0].http.close()
    expect((await w.a(post(list, headers))).status).toBe(503)
    expect((await w.a(initialize())).status).toBe(503)
    expect((await w.b(post(list, headers))).status).toBe(200)
  })
})

describe('a session at several processes', () => {
  test('is served by each of them, and loaded once for many requests', async () => {
    await using w = sessionWorld()
    const headers = inSession(await openSession(w.a))
    const statuses = await Promise.all(
      Array.from(
        { length: 20 },
        async (_, id) => (await w.b(post({ ...list, id }, headers))).status,
      ),
    )
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(w.processes[1].http.sessions.size).toBe(1)
    expect(w.observed).toEqual(['opened', 'opened'])
  })

  test('is not idle at one while it is used at another', async () => {
    await using w = sessionWorld({ settings: { idleTtlMs: 60_000 } })
    const used = inSession(await openSession(w.a))
    const unused = inSession(await openSession(w.a))
    for (let n = 0; n < 10; n++) {
      await w.clock.advance(15_000)
      expect((await w.b(post(list, used))).status).toBe(200)
    }
    expect(w.processes[0].http.sessions.size).toBe(0)
    expect((await w.a(post(list, used))).status).toBe(200)
    for (const fetch of [w.a, w.b]) expect((await fetch(post(list, unused))).status).toBe(404)
    await w.clock.advance(200_000)
    expect(w.processes.map(({ http }) => http.sessions.size)).toEqual([0, 0])
    expect(await w.store.records.count('session:')).toBe(0)
  })

  test('is served from memory while the store is away; an unknown one gets 503', async () => {
    let isAway = false
    await using w = sessionWorld({
      wrap: (store) => ({
        ...store,
        records: new Proxy(store.records, {
          get: (target, name) => {
            if (isAway)
              return () => Promise.reject(new GatewayError('UNAVAILABLE', 'The store is away'))
            const method: unknown = Reflect.get(target, name)
            return typeof method === 'function' ? method.bind(target) : method
          },
        }),
      }),
    })
    const headers = inSession(await openSession(w.a))
    isAway = true
    await w.clock.advance(120_000)
    expect((await w.a(post(list, headers))).status).toBe(200)
    const unknown = await w.b(post(list, headers))
    expect(unknown.status).toBe(503)
    expect(unknown.headers.get('retry-after')).toBe('1')
    isAway = false
    expect((await w.b(post(list, headers))).status).toBe(200)
  })

  test('is counted at all of them, in all and for one caller', async () => {
    await using w = sessionWorld({ settings: { max: 5, maxPerPrincipal: 3 } })
    const [ada, bob] = [{ authorization: 'ada' }, { authorization: 'bob' }]
    const first = await openSession(w.a, ada)
    for (const fetch of [w.b, w.a]) await openSession(fetch, ada)
    expect((await w.b(initialize(ada))).status).toBe(429)
    for (const fetch of [w.a, w.b]) await openSession(fetch, bob)
    const full = await w.a(initialize(bob))
    expect([full.status, full.headers.get('retry-after')]).toEqual([503, '60'])
    expect(await w.store.records.count('session:')).toBe(5)
    expect((await w.b(ending(first, ada))).status).toBe(200)
    await openSession(w.b, ada)
  })

  test('ends at each of them, also if the signal is lost', async () => {
    const gaps = new Set<() => void>()
    let isAway = false
    await using w = sessionWorld({
      wrap: (store) =>
        withLogs(store, {
          append: (log, ...event) =>
            isAway && log === 'signals'
              ? Promise.reject(new Error('away'))
              : store.logs.append(log, ...event),
          tail: (log, after, listener) => {
            gaps.add(listener.onGap)
            return store.logs.tail(log, after, listener)
          },
        }),
    })
    const id = await openSession(w.a)
    expect((await w.b(post(list, inSession(id)))).status).toBe(200)
    isAway = true
    expect((await w.b(ending(id))).status).toBe(200)
    isAway = false
    for (const tell of gaps) tell()
    await turnsPass()
    expect(w.processes.map(({ http }) => http.sessions.size)).toEqual([0, 0])
    expect((await w.a(post(list, inSession(id)))).status).toBe(404)
  })

  test('has one log level, which is stored', async () => {
    await using w = sessionWorld()
    const id = await openSession(w.a)
    const params = { level: 'error' }
    const set = { jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params }
    expect(await (await w.a(post(set, inSession(id)))).json()).toMatchObject({ result: {} })
    expect(await levelsOf(w)).toEqual(['error'])
    const wrong = { ...set, params: { level: 'loud' } }
    expect(await (await w.b(post(wrong, inSession(id)))).json()).toMatchObject({
      error: { code: -32_602 },
    })
    expect(await levelsOf(w)).toEqual(['error'])
  })
})

async function levelsOf({ store }: SessionWorld): Promise<unknown[]> {
  const listed = await store.records.list('session:')
  return listed.map(({ value }) => (value as { readonly level?: string }).level)
}
