// Detection of the era from the responses of real servers and gateways.
import {
  deferred,
  discoverResult,
  startModernServer,
  startRecordingProxy,
  startLegacyServer,
  startScriptedServer,
  startTestServer,
} from '@x/mcp-testing'
import type { RecordingProxy } from '@x/mcp-testing'
import { stopClock } from '@x/internal/testing/clock'
import { describe, expect, test, vi } from 'vitest'
import { bearer } from '../src/auth/index.ts'
import { SessionInfo } from '../src/index.ts'
import type { SessionRecord, StreamableHttpTransportOptions } from '../src/index.ts'
import { probeForms } from './probe-forms.ts'
import type { ProbeForm } from './probe-forms.ts'
import { failureIn, rawClient } from './raw-client.ts'
import type { RawClient } from './raw-client.ts'
import { errorOf, json, resultOf, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer } from './scripted-server.ts'

function clientOf(
  server: { readonly url: string },
  options: StreamableHttpTransportOptions = {},
): RawClient {
  return rawClient(server.url, { listen: false, ...options })
}

const discovers = (proxy: RecordingProxy): number => proxy.exchanges.filter(isProbe).length

const initializes = (proxy: RecordingProxy): number =>
  proxy.exchanges.filter(({ rpcMethod }) => rpcMethod === 'initialize').length

const isProbe = ({ rpcMethod }: { readonly rpcMethod?: string | undefined }): boolean =>
  rpcMethod === 'server/discover'

/** A legacy server behind a proxy that answers probes. */
async function probedServer(
  form: ProbeForm,
  times?: number,
): Promise<{ proxy: RecordingProxy } & AsyncDisposable> {
  const server = await startLegacyServer()
  const proxy = await startRecordingProxy(server.url)
  proxy.inject({
    match: isProbe,
    action: form.answer,
    ...(times === undefined ? {} : { times }),
  })
  return {
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

const forms = Object.entries(probeForms)
const formsOf = (verdict: ProbeForm['verdict']): typeof forms =>
  forms.filter(([, form]) => form.verdict === verdict)

describe('the response to a probe shows a modern server', () => {
  test.each(formsOf('modern'))('%s', async (_name, form) => {
    await using probed = await probedServer(form)
    await using client = clientOf(probed.proxy)
    const answer = await client.handshake()
    expect(answer).toMatchObject({ result: { protocolVersion: '2025-11-25' } })
    expect(client.transport).toMatchObject({ era: 'modern', protocolVersion: '2026-07-28' })
    expect(client.transport.sessionId).toBeUndefined()
    expect([discovers(probed.proxy), initializes(probed.proxy)]).toEqual([1, 0])
  })
})

describe('the response to a probe shows a legacy server', () => {
  test.each(formsOf('legacy'))('%s', async (_name, form) => {
    await using probed = await probedServer(form)
    await using client = clientOf(probed.proxy)
    await client.handshake()
    expect(client.transport).toMatchObject({ era: 'legacy', protocolVersion: '2025-11-25' })
    const { probes = 1 } = form
    expect([discovers(probed.proxy), initializes(probed.proxy)]).toEqual([probes, 1])
    await expect(client.request('ping')).resolves.toMatchObject({ result: {} })
    const { orphanSessionId } = form
    if (orphanSessionId === undefined) return
    expect(client.transport.sessionId).not.toBe(orphanSessionId)
    const end = await probed.proxy.waitFor(({ httpMethod }) => httpMethod === 'DELETE')
    expect(end.sessionId).toBe(orphanSessionId)
  })
})

describe('the response to a probe shows no era', () => {
  test.each(formsOf('error'))(
    'with %s and a provider of credentials: fails without initialize',
    async (_name, form) => {
      await using probed = await probedServer(form)
      await using client = clientOf(probed.proxy, { authProvider: bearer(() => 'token') })
      const failure = failureIn(await client.handshake())
      expect(failure.url).toBe(probed.proxy.url)
      expect(client.transport.era).toBeUndefined()
      expect(initializes(probed.proxy)).toBe(0)
    },
  )

  // A proxy refuses the method with a credential that it accepts otherwise (adcontextprotocol/adcp-client#2434).
  test.each(formsOf('error').filter(([name]) => /^40[13]/.test(name)))(
    'with %s and no provider: sends initialize with the same headers',
    async (_name, form) => {
      await using probed = await probedServer(form)
      await using client = clientOf(probed.proxy)
      await client.handshake()
      expect(client.transport.era).toBe('legacy')
      expect([discovers(probed.proxy), initializes(probed.proxy)]).toEqual([1, 1])
    },
  )

  test('with 401 for initialize too: gives the error of the probe', async () => {
    await using probed = await probedServer(probeForms['401'])
    probed.proxy.inject({
      match: ({ rpcMethod }) => rpcMethod === 'initialize',
      action: { status: 403, body: 'No' },
    })
    await using client = clientOf(probed.proxy)
    expect(failureIn(await client.handshake())).toMatchObject({ code: 'UNAUTHORIZED', status: 401 })
    expect(client.transport.era).toBeUndefined()
  })

  test.concurrent.each(formsOf('retry'))(
    'with %s: probes again, then fails',
    async (name, form) => {
      await using probed = await probedServer(form)
      await using client = clientOf(probed.proxy)
      const failure = failureIn(await client.handshake())
      expect(failure).toMatchObject({ code: 'REJECTED', status: Number(name.slice(0, 3)) })
      expect([discovers(probed.proxy), initializes(probed.proxy)]).toEqual([
        name.startsWith('400') ? 2 : 3,
        0,
      ])
    },
  )

  test.concurrent.each(formsOf('retry'))(
    'with %s: probes again, and connects when the server answers',
    async (_name, form) => {
      await using server = await startModernServer()
      await using proxy = await startRecordingProxy(server.url)
      proxy.inject({ match: isProbe, times: 1, action: form.answer })
      await using client = clientOf(proxy)
      await client.handshake()
      expect(client.transport.era).toBe('modern')
      expect(discovers(proxy)).toBe(2)
    },
  )
})

describe('both eras fail', () => {
  test.each(forms.filter(([, form]) => form.firstErrorWins))(
    'with %s: reports the first error',
    async (name, form) => {
      await using probed = await probedServer(form)
      probed.proxy.inject({
        match: ({ rpcMethod }) => rpcMethod === 'initialize',
        action: { status: 400, body: 'No' },
      })
      await using client = clientOf(probed.proxy)
      const answer = await client.handshake()
      expect(answer).toMatchObject({ error: { code: Number(/-\d+/.exec(name)?.[0]) } })
      expect(failureIn(answer).status).toBe(400)
    },
  )

  test.each([400, 404, 405])('with status %i: mentions a server of HTTP+SSE', async (status) => {
    await using server = await startTestServer((request, response) => {
      request.resume()
      if (request.method !== 'GET') return response.writeHead(status).end()
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      return response.write('event: endpoint\ndata: /messages\n\n')
    })
    for (const era of ['auto', 'legacy-first', 'legacy'] as const) {
      await using client = clientOf(server, { era })
      const failure = failureIn(await client.handshake())
      expect(failure.message).toContain('HTTP+SSE transport of 2024-11-05')
      expect(failure).toMatchObject({ code: 'REJECTED', status })
    }
  })

  test.each([
    [403, 'No'],
    [400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"No"}}'],
  ])('with status %i and %s: gives the error of the server', async (status, body) => {
    await using server = await startTestServer((request, response) => {
      request.resume()
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    })
    await using client = clientOf(server, { era: 'legacy' })
    const { message } = failureIn(await client.handshake())
    expect(message).toMatch(new RegExp(`\\(HTTP ${status}: No\\)\\. See \\S+$`))
  })

  test('and the error names the versions that the server offers', async () => {
    await using probed = await probedServer(probeForms['200-discover-unknown-only'])
    probed.proxy.inject({
      match: ({ rpcMethod }) => rpcMethod === 'initialize',
      action: { status: 400, body: 'No' },
    })
    await using client = clientOf(probed.proxy)
    expect(failureIn(await client.handshake()).message).toContain('2099-01-01')
  })
})

describe('the option era', () => {
  test('legacy-first does not probe a server that accepts initialize', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    await using client = clientOf(proxy, { era: 'legacy-first' })
    await client.handshake()
    expect(client.transport.era).toBe('legacy')
    expect([discovers(proxy), initializes(proxy)]).toEqual([0, 1])
  })

  test('legacy-first probes a server that refuses initialize with an error of 2026-07-28', async () => {
    await using server = await startScriptedServer()
    await using client = clientOf(server, { era: 'legacy-first' })
    await client.handshake()
    expect(client.transport.era).toBe('modern')
    expect(server.received.map(({ rpcMethod }) => rpcMethod)).toEqual([
      'initialize',
      'server/discover',
    ])
    expect(server.violations).toEqual([])
  })

  test('legacy-first sends initialize only once', async () => {
    const error = { error: { code: -32601 } }
    await using server = await startScriptedServer({ initialize: error, 'server/discover': error })
    await using client = clientOf(server, { era: 'legacy-first' })
    await expect(client.handshake()).resolves.toMatchObject({ error: { code: -32601 } })
    expect([server.count('initialize'), server.count('server/discover')]).toEqual([1, 1])
  })

  test('legacy fails on a modern server with an error that names its versions', async () => {
    await using server = await startScriptedServer()
    await using client = clientOf(server, { era: 'legacy' })
    const { message } = failureIn(await client.handshake())
    expect(message).toMatch(/offers only 2026-07-28; .*'legacy' allows only 2025-11-25/)
    expect(server.count('server/discover')).toBe(0)
  })

  test('modern fails on a legacy server with an error that names its versions', async () => {
    await using server = await startLegacyServer()
    await using client = clientOf(server, { era: 'modern' })
    const { message } = failureIn(await client.handshake())
    expect(message).toMatch(
      /offers only revisions with sessions; .*'modern' allows only 2026-07-28/,
    )
    expect(server.count('initialize')).toBe(0)
    await using named = await startScriptedServer({
      'server/discover': { result: { ...discoverResult, supportedVersions: ['2025-06-18'] } },
    })
    await using other = clientOf(named, { era: 'modern' })
    expect(failureIn(await other.handshake()).message).toContain('2025-06-18')
    expect(named.count('initialize')).toBe(0)
  })
})

const recordOf = async (info: SessionInfo): Promise<SessionRecord> => {
  const record = await info.getRecord()
  if (record === undefined) throw new Error('There is no record')
  return record
}

const hoursAgo = (hours: number): string => new Date(Date.now() - hours * 3_600_000).toISOString()

describe('the detected era is stored', () => {
  test('of a legacy server: stays after the session, without another probe', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    const sessionInfo = new SessionInfo()
    for (const epoch of [1, 2]) {
      await using client = clientOf(proxy, { sessionInfo })
      await client.handshake()
      expect(client.transport).toMatchObject({ era: 'legacy', epoch })
      await client.transport.terminateSession()
    }
    expect([discovers(proxy), initializes(proxy)]).toEqual([1, 2])
    expect(await recordOf(sessionInfo)).toMatchObject({ era: 'legacy', epoch: 2 })
  })

  test.each([
    [23, 0],
    [25, 1],
  ])('of a legacy server for one day: after %i h, %i probes', async (hours, times) => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    const sessionInfo = new SessionInfo()
    {
      await using first = clientOf(proxy, { sessionInfo })
      await first.handshake()
      await first.transport.terminateSession()
    }
    const stored = await recordOf(sessionInfo)
    await sessionInfo.setRecord({ ...stored, eraCheckedAt: hoursAgo(hours) })
    const before = discovers(proxy)
    await using second = clientOf(proxy, { sessionInfo })
    await second.handshake()
    expect(discovers(proxy) - before).toBe(times)
    const { eraCheckedAt } = await recordOf(sessionInfo)
    expect(Date.parse(eraCheckedAt) > Date.parse(hoursAgo(1))).toBe(times === 1)
  })

  test('of a server that did not answer the probe: for one hour', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: isProbe, times: 1, action: 'hang' })
    const sessionInfo = new SessionInfo()
    await using client = clientOf(proxy, { sessionInfo, timeouts: { probeMs: 50 } })
    await client.handshake()
    const { eraCheckedAt } = await recordOf(sessionInfo)
    expect(client.transport.era).toBe('legacy')
    expect([hoursAgo(23.5), eraCheckedAt, hoursAgo(22.5)].toSorted()[1]).toBe(eraCheckedAt)
  })

  test('of a legacy server that became a modern one: is replaced at once', async () => {
    await using server = await startScriptedServer()
    const sessionInfo = new SessionInfo()
    {
      await using first = clientOf(server, { sessionInfo })
      await first.handshake()
    }
    const { discoverResult: _forgotten, ...stored } = await recordOf(sessionInfo)
    await sessionInfo.setRecord({ ...stored, era: 'legacy', eraCheckedAt: hoursAgo(1) })
    await using second = clientOf(server, { sessionInfo })
    await second.handshake()
    expect(second.transport.era).toBe('modern')
    expect(await recordOf(sessionInfo)).toMatchObject({ era: 'modern' })
  })

  test('of a modern server: another client continues without a request', async () => {
    await using server = await startModernServer()
    const sessionInfo = new SessionInfo()
    await using first = clientOf(server, { sessionInfo })
    const answer = await first.handshake()
    expect(first.transport.isResumed).toBe(false)
    expect(await recordOf(sessionInfo)).toMatchObject({
      era: 'modern',
      epoch: 1,
      protocolVersion: '2026-07-28',
      discoverResult: { supportedVersions: expect.arrayContaining(['2026-07-28']) },
    })
    await using second = clientOf(server, { sessionInfo })
    await expect(second.handshake()).resolves.toEqual(answer)
    expect(second.transport).toMatchObject({ era: 'modern', isResumed: true, epoch: 1 })
    expect(server.received).toHaveLength(1)
    await expect(second.request('tools/list')).resolves.toHaveProperty('result.tools')
  })

  test('of a modern server: only for clients with the same capabilities', async () => {
    await using server = await startModernServer()
    const sessionInfo = new SessionInfo()
    for (const capabilities of [{}, { roots: {} }, { roots: {} }]) {
      await using client = clientOf(server, { sessionInfo })
      await client.handshake(capabilities)
    }
    expect(server.count('server/discover')).toBe(2)
    expect((await recordOf(sessionInfo)).epoch).toBe(2)
  })

  test('of a server of both eras that is used with sessions: is legacy', async () => {
    await using server = await startModernServer({ legacy: 'serve' })
    const sessionInfo = new SessionInfo()
    {
      await using modern = clientOf(server, { sessionInfo })
      await modern.handshake()
    }
    await using client = clientOf(server, { sessionInfo, era: 'legacy' })
    await client.handshake()
    const record = await recordOf(sessionInfo)
    expect(record).toMatchObject({
      era: 'legacy',
      initializeResult: { protocolVersion: '2025-11-25' },
    })
    expect(record).not.toHaveProperty('discoverResult')
  })

  test.each([
    ['400 with -32000', { status: 400, error: { code: -32000, message: 'Bad Request' } }],
    ['an unknown session', { status: 404, body: 'Session not found' }],
  ])('of a modern server: until it answers like a legacy server with %s', async (_name, answer) => {
    await using server = await startScriptedServer()
    const sessionInfo = new SessionInfo()
    {
      await using first = clientOf(server, { sessionInfo })
      await first.handshake()
    }
    const initialized = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      serverInfo: { name: 'older', version: '1' },
    }
    server.answers = ({ message }) => {
      if (message.method === 'server/discover') return { error: { code: -32601 } }
      if (message.method === 'initialize') return { result: initialized }
      return message.id === undefined ? undefined : answer
    }
    {
      await using second = clientOf(server, { sessionInfo })
      await second.handshake()
      expect(second.transport).toMatchObject({ era: 'modern', isResumed: true })
      // The request fails with the error of the server.
      const failed = await second.request('tools/call', { name: 'a' })
      expect(failed).toMatchObject({
        error: { message: expect.stringMatching(/Bad Request|not found/) },
      })
    }
    expect(await recordOf(sessionInfo)).not.toHaveProperty('discoverResult')
    await using third = clientOf(server, { sessionInfo })
    await third.handshake()
    expect(third.transport).toMatchObject({ era: 'legacy', isResumed: false })
  })
})

describe('an error that mentions a session', () => {
  test('is the answer of a tool if the server is still a modern one', async () => {
    await using server = await startScriptedServer()
    const sessionInfo = new SessionInfo()
    await using client = clientOf(server, { sessionInfo })
    await client.handshake()
    const before = await recordOf(sessionInfo)
    const error = { code: -32000, message: 'browser session not found' }
    server.answers = ({ message }) =>
      message.method === 'tools/call' ? { status: 400, error } : undefined
    await expect(client.request('tools/call', { name: 'a' })).resolves.toMatchObject({ error })
    expect(await recordOf(sessionInfo)).toEqual(before)
  })
})

describe('a cancelled initialize', () => {
  test('closes the connection of the probe, and sends nothing more', async () => {
    await using server = await startScriptedServer({ 'server/discover': { end: 'hang' } })
    await using client = clientOf(server)
    await client.transport.start()
    void client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {} })
    await server.waitFor(({ rpcMethod }) => rpcMethod === 'server/discover')
    await client.notify('notifications/cancelled', { requestId: 0 })
    await server.waitFor(({ end }) => end === 'client-gone')
    expect(server.received).toHaveLength(1)
    expect([client.messages, client.errors]).toEqual([[], []])
    // The transport can be used again.
    server.answers = {}
    const answer = await client.request('initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
    })
    expect(answer).toHaveProperty('result')
  })

  test('sends no second probe', async () => {
    const asked = deferred()
    await using server = await startScriptedServer({
      'server/discover': () => {
        asked.resolve()
        return { status: 503, headers: { 'retry-after': '5' } }
      },
    })
    await using client = clientOf(server)
    await client.transport.start()
    void client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {} })
    await asked.promise
    await server.waitFor(({ end }) => end !== undefined)
    await client.notify('notifications/cancelled', { requestId: 0 })
    expect(server.received).toHaveLength(1)
    expect(client.messages).toEqual([])
  })

  test('closes the connection of initialize after the probe found a legacy server', async () => {
    await using server = await startScriptedServer({
      'server/discover': { error: { code: -32601 } },
      initialize: { end: 'hang' },
    })
    await using client = clientOf(server)
    await client.transport.start()
    void client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {} })
    await server.waitFor(({ rpcMethod }) => rpcMethod === 'initialize')
    await client.notify('notifications/cancelled', { requestId: 0 })
    await server.waitFor(({ end }) => end === 'client-gone')
    expect(server.received.map(({ rpcMethod }) => rpcMethod)).toEqual([
      'server/discover',
      'initialize',
    ])
    expect(client.messages).toEqual([])
  })

  test.each(['server/discover', 'initialize'])(
    'by close() during %s: rejects once with CLOSED',
    async (method) => {
      const script = {
        'server/discover': { error: { code: -32601 } },
        [method]: { end: 'hang' },
      } as const
      await using server = await startScriptedServer(script)
      await using client = clientOf(server)
      await client.transport.start()
      const answer = client.request('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
      })
      await server.waitFor(({ rpcMethod }) => rpcMethod === method)
      await client.transport.close()
      expect(failureIn(await answer).code).toBe('CLOSED')
      await server.waitFor(({ end }) => end === 'client-gone')
      expect(client.messages).toHaveLength(1)
      expect([client.errors, client.closed]).toEqual([[], 1])
    },
  )

  test.each(['auto', 'legacy'] as const)('that is not JSON fails, era %s', async (era) => {
    await using server = await startScriptedServer()
    await using client = clientOf(server, { era })
    await client.transport.start()
    const answer = await client.request('initialize', { capabilities: { big: 1n } })
    expect(failureIn(answer)).toMatchObject({ cause: expect.any(TypeError) })
    expect(server.received).toEqual([])
  })

  test('gives the probe its own time limit', async () => {
    await using server = await startScriptedServer({ 'server/discover': { end: 'hang' } })
    await using client = clientOf(server, { era: 'modern', timeouts: { probeMs: 50 } })
    expect(failureIn(await client.handshake())).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringMatching(/50 ms to server\/discover.*era: 'legacy'/),
    })
    expect(server.received.length).toBeLessThanOrEqual(1) // none if the connection came too late
  })
})

test('probes again if the server was silent before, and refuses initialize as a modern one', async () => {
  stopClock()
  const late = deferred<Response>()
  const discovered = { supportedVersions: ['2026-07-28'], capabilities: {} }
  const server: ScriptedServer = scriptedServer({
    'POST server/discover': (seen) =>
      server.count(seen.what) === 1 ? late.promise : json(resultOf(seen, discovered)),
    'POST initialize': (seen) => json(errorOf(seen, -32022, 'Unsupported version'), {}, 400),
  })
  await using client = rawClient(server, { era: 'auto', listen: false })
  const answer = client.handshake()
  await server.waitFor('POST server/discover')
  vi.advanceTimersByTime(10_000)
  expect(await answer).toHaveProperty('result')
  late.resolve(new Response(null, { status: 503 }))
  expect(client.transport.era).toBe('modern')
  const discover = 'POST server/discover'
  expect(server.wire).toEqual([discover, 'POST initialize', discover])
})
