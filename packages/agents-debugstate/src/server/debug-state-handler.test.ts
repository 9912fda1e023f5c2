import { withErrorLink } from '@x/internal'
import type { Logger } from 'pino'
import { afterEach, describe, expect, expectTypeOf, test, vi } from 'vitest'
import { createDebugStateServer } from './create-debug-state-server.ts'
import { getKeyDigest } from './debug-state-handler.ts'
import type { DebugStateLogger, DebugStateServerOptions, WriteLog } from './debug-state-handler.ts'
import { MemoryDebugStateStore } from './memory-debug-state-store.ts'

const BASE = 'http://service.test/agenthub_/design/debugstate'
const KEY = `${BASE}/agent/mcpsession%3Af1%3Ashop`

afterEach(() => vi.useRealTimers())

type Ask = (method: string, url: string, init?: RequestInit) => Promise<Response>

function startService(options: Partial<DebugStateServerOptions> = {}): Ask {
  const { fetch } = createDebugStateServer({ store: new MemoryDebugStateStore(), ...options })
  return (method, url, init) => fetch(new Request(url, { method, ...init }))
}

async function expectProblem(response: Response, status: number, code: string): Promise<void> {
  expect(response.status).toBe(status)
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(response.headers.get('cache-control')).toBe('no-store')
  expect(await response.json()).toMatchObject({
    type: 'about:blank',
    status,
    code,
    detail: expect.stringMatching(/\w+ \w+/),
  })
}

const withToken = (token: string): RequestInit => ({
  headers: { authorization: `Bearer ${token}` },
})

describe('a value', () => {
  test('can be put, read, replaced and deleted', async () => {
    const ask = startService()
    await expectProblem(await ask('GET', KEY), 404, 'NOT_FOUND')
    const put = await ask('PUT', KEY, { body: 'session-1' })
    expect([put.status, put.headers.get('cache-control')]).toEqual([204, 'no-store'])
    const got = await ask('GET', KEY)
    expect(await got.text()).toBe('session-1')
    expect(got.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(got.headers.get('cache-control')).toBe('no-store')
    await ask('PUT', KEY, { body: 'session-2' })
    expect(await (await ask('GET', KEY)).text()).toBe('session-2')
    const head = await ask('HEAD', KEY)
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect((await ask('DELETE', KEY)).status).toBe(204)
    await expectProblem(await ask('DELETE', KEY), 404, 'NOT_FOUND')
  })

  test('must be text: other bytes get 400 and are not stored', async () => {
    const ask = startService()
    const bytes = { body: new Uint8Array([0x73, 0xff, 0xfe]) }
    await expectProblem(await ask('PUT', KEY, bytes), 400, 'BAD_VALUE')
    await expectProblem(await ask('GET', KEY), 404, 'NOT_FOUND')
    expect((await ask('PUT', KEY, { body: 'Zürich ✓' })).status).toBe(204)
    expect(await (await ask('GET', KEY)).text()).toBe('Zürich ✓')
  })

  test('expires after its own time to live', async () => {
    vi.setSystemTime(0)
    const ask = startService({ limits: { ttlMs: 1000 } })
    await ask('PUT', KEY, { body: 'early' })
    vi.setSystemTime(600)
    await ask('PUT', `${KEY}-2`, { body: 'late' })
    vi.setSystemTime(1000)
    await expectProblem(await ask('GET', KEY), 404, 'NOT_FOUND')
    expect(await (await ask('GET', `${KEY}-2`)).text()).toBe('late')
  })

  test('is not stored when its body breaks off, which is not reported as a failure of the store', async () => {
    const { lines, logger } = listener()
    const ask = startService({ logger })
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.from('half'))
        controller.error(new Error('aborted'))
      },
    })
    const broken = await ask('PUT', KEY, { body, duplex: 'half' })
    await expectProblem(broken, 400, 'BAD_REQUEST')
    await expectProblem(await ask('GET', KEY), 404, 'NOT_FOUND')
    expect(lines.filter(([level]) => level === 'error')).toEqual([])
  })

  test('keeps an escaped slash in its key apart from a real one', async () => {
    const ask = startService()
    await ask('PUT', `${BASE}/agent/a%2Fb`, { body: 'slash' })
    await ask('PUT', `${BASE}/agent/a%252Fb`, { body: 'percent' })
    expect(await (await ask('GET', `${BASE}/agent/a%2Fb`)).text()).toBe('slash')
    expect(await (await ask('GET', `${BASE}/agent/a%252Fb`)).text()).toBe('percent')
  })
})

describe('a limit', () => {
  test('for the body applies with and without content-length, and nothing is stored', async () => {
    const ask = startService()
    expect((await ask('PUT', KEY, { body: 'x'.repeat(65_536) })).status).toBe(204)
    const headers = { 'content-length': '65537' }
    await expectProblem(
      await ask('PUT', KEY, { body: 'x'.repeat(65_537), headers }),
      413,
      'BODY_TOO_LARGE',
    )
    const body = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(4096)), // without end
    })
    const streamed = await ask('PUT', KEY, { body, duplex: 'half' })
    await expectProblem(streamed, 413, 'BODY_TOO_LARGE')
    expect(await (await ask('GET', KEY)).text()).toBe('x'.repeat(65_536))
  })

  test.each([
    [`${BASE}/agent/${'x'.repeat(1025)}`, 414, 'KEY_TOO_LONG'],
    [`${BASE}/agent/a/b`, 400, 'BAD_KEY'],
    [`${BASE}/agent/`, 400, 'BAD_KEY'],
    [`${BASE}/agent`, 400, 'BAD_KEY'],
    [`${BASE}/agent/%zz`, 400, 'BAD_KEY'],
    [`${BASE}/-agent/key`, 400, 'BAD_AGENT_ID'],
    [`http://service.test/elsewhere`, 404, 'NOT_FOUND'],
  ])('PUT %s gets %i %s', async (url, status, code) => {
    const response = await startService()('PUT', url, { body: 'a' })
    expect(response.status).toBe(status)
    await expectProblem(response, status, code)
  })

  test.each([
    ['POST', KEY, 'GET, HEAD, PUT, DELETE'],
    ['OPTIONS', KEY, 'GET, HEAD, PUT, DELETE'],
    ['POST', 'http://service.test/health', 'GET, HEAD'],
    ['DELETE', 'http://service.test/health/live', 'GET, HEAD'],
  ])('for methods is named in 405: %s %s', async (method, url, allow) => {
    const response = await startService()(method, url)
    expect(response.headers.get('allow')).toBe(allow)
    await expectProblem(response, 405, 'METHOD_NOT_ALLOWED')
  })
})

describe('a token', () => {
  const ask = startService({
    tokens: [
      { token: 'token-of-agent-one', agentIds: ['one'] },
      { token: 'token-of-everybody', agentIds: '*' },
    ],
  })
  test('is required, and gives access to its own agents only', async () => {
    const missing = await ask('GET', `${BASE}/one/key`)
    expect(missing.headers.get('www-authenticate')).toBe('Bearer')
    await expectProblem(missing, 401, 'UNAUTHORIZED')
    const wrong = withToken('token-of-agent-two')
    await expectProblem(await ask('GET', `${BASE}/one/key`, wrong), 401, 'UNAUTHORIZED')
    const one = withToken('token-of-agent-one')
    expect((await ask('PUT', `${BASE}/one/key`, { ...one, body: 'a' })).status).toBe(204)
    await expectProblem(await ask('GET', `${BASE}/two/key`, one), 403, 'FORBIDDEN')
    const all = withToken('token-of-everybody')
    expect(await (await ask('GET', `${BASE}/one/key`, all)).text()).toBe('a')
  })

  test.each(['/health', '/health/live'])('is not required for %s', async (path) => {
    const response = await ask('GET', `http://service.test${path}`)
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }])
    expect(response.headers.get('cache-control')).toBe('no-store')
    const head = await ask('HEAD', `http://service.test${path}`)
    expect([head.status, await head.text()]).toEqual([200, ''])
  })
})

test('warns about a store failure, and answers 503 without details', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockReturnValue()
  const store = new MemoryDebugStateStore()
  await store.close()
  const ask = startService({ store })
  for (const url of [KEY, 'http://service.test/health']) {
    const response = await ask('GET', url)
    expect(await response.clone().text()).not.toContain('closed')
    await expectProblem(response, 503, 'STORE_FAILED')
  }
  expect(warn.mock.calls).toEqual(
    [1, 2].map(() => [withErrorLink('The store is closed', 'CLOSED'), 'DebugStateServerWarning']),
  )
  expect((await ask('GET', 'http://service.test/health/live')).status).toBe(200)
  warn.mockRestore()
})

type Line = readonly [level: string, message: string, fields: Readonly<Record<string, unknown>>]

function listener(): { readonly lines: Line[]; readonly logger: DebugStateLogger } {
  const lines: Line[] = []
  const at =
    (level: string): WriteLog =>
    (fields, message) =>
      void lines.push([level, message, fields])
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  return { lines, logger }
}

describe('the log', () => {
  test('has a line for each request, with a digest of the key and no secrets', async () => {
    const { lines, logger } = listener()
    const tokens = [{ token: 'token-of-agent-one', agentIds: ['agent'] }]
    const ask = startService({ logger, tokens })
    const one = withToken('token-of-agent-one')
    await ask('PUT', KEY, { ...one, body: 'secret-session' })
    await ask('GET', `${KEY}?secret`, one)
    await ask('GET', KEY, withToken('secret-token-of-nobody'))
    await ask('GET', 'http://service.test/health')
    const ms = expect.any(Number)
    const key = getKeyDigest('mcpsession:f1:shop')
    expect(lines).toEqual([
      ['info', 'request', { method: 'PUT', agentId: 'agent', key, status: 204, ms }],
      ['info', 'request', { method: 'GET', agentId: 'agent', key, status: 200, ms }],
      ['info', 'request', { method: 'GET', status: 401, ms }],
      ['debug', 'request', { method: 'GET', status: 200, ms }],
    ])
    expect(JSON.stringify(lines)).not.toMatch(/secret|token-of|shop/)
    expect(key).toMatch(/^sha256:[0-9a-f]{12}$/)
  })

  test('has the reason of a store failure, which the answer does not have', async () => {
    const { lines, logger } = listener()
    const store = new MemoryDebugStateStore()
    await store.close()
    const ask = startService({ logger, store })
    await expectProblem(await ask('PUT', KEY, { body: 'session-1' }), 503, 'STORE_FAILED')
    expect(lines).toMatchObject([
      [
        'error',
        'store failed',
        { error: withErrorLink('The store is closed', 'CLOSED'), code: 'CLOSED' },
      ],
      ['info', 'request', { method: 'PUT', status: 503 }],
    ])
  })

  test('takes a pino logger', () => {
    expectTypeOf<Logger>().toExtend<DebugStateLogger>()
  })
})
