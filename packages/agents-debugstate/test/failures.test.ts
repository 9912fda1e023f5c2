import { McpClient } from '@x/mcp-client'
import { startRecordingProxy, startLegacyServer, startTestServer } from '@x/mcp-testing'
import type { InjectedAction } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from '../src/index.ts'
import type { DebugStateErrorCode } from '../src/index.ts'
import { MemoryDebugStateStore, createDebugStateServer } from '../src/server/index.ts'

/** Much shorter than the default of 2 s, and much longer than a normal response takes. */
const TIMEOUT_MS = 250
const SECRET = 'https-secret-token'

type Fault = readonly [name: string, code: DebugStateErrorCode, action: InjectedAction]

const html = { 'content-type': 'text/html' }
const faults: readonly Fault[] = [
  ['hangs', 'TIMEOUT', 'hang'],
  ['answers 500', 'REJECTED', { status: 500, body: 'no' }],
  ['answers 503', 'REJECTED', { status: 503, headers: { 'retry-after': '60' } }],
  ['resets before it works', 'UNREACHABLE', 'reset-before'],
  ['resets after it has worked', 'UNREACHABLE', 'reset-after'],
  ['answers 401', 'UNAUTHORIZED', { status: 401, headers: { 'www-authenticate': 'Bearer' } }],
  ['answers 403', 'UNAUTHORIZED', { status: 403 }],
  ['answers 413', 'TOO_LARGE', { status: 413 }],
]

/** Responses that look like a value and are none. They do not affect writes. */
const impostors: readonly Fault[] = [
  ['answers with a page', 'UNEXPECTED_RESPONSE', { status: 200, headers: html, body: '<html/>' }],
  ['answers with JSON', 'UNEXPECTED_RESPONSE', { status: 200, body: '{"error":"no"}' }],
  ['answers with garbage', 'UNEXPECTED_RESPONSE', { status: 200, body: 'a\u0000b \u{1F4A5}' }],
  ['answers with a huge body', 'TOO_LARGE', { status: 200, body: 'x'.repeat(5_000_000) }],
]

function factoryAt(
  baseUrl: string,
  onWarning: (warning: Error & { readonly code: DebugStateErrorCode }) => void,
): SessionInfoDebugStateFactory {
  return new SessionInfoDebugStateFactory({
    baseUrl,
    agentId: 'agent',
    token: () => SECRET,
    timeoutMs: TIMEOUT_MS,
    onWarning,
  })
}

test.each([...faults, ...impostors])(
  'a service that %s fails no call, causes one warning, and is used again with the next write',
  async (_name, code, action) => {
    await using mcp = await startLegacyServer()
    await using service = createDebugStateServer({
      store: new MemoryDebugStateStore(),
      tokens: [{ token: SECRET, agentIds: ['agent'] }],
    })
    await using proxy = await startRecordingProxy(await service.listen())
    const undo = proxy.inject({ match: () => true, action })
    const warnings: string[] = []
    const texts: string[] = []
    await using factory = factoryAt(proxy.url, (warning) => {
      warnings.push(warning.code)
      texts.push(`${warning.stack}`, JSON.stringify(warning))
    })
    await using client = new McpClient({ url: mcp.url }, { sessionInfoFactory: factory })
    client.on('log', (event) => texts.push(JSON.stringify(event)))
    client.on('exchange', (event) => texts.push(JSON.stringify(event)))

    const began = performance.now()
    await client.callTool('counter_add')
    const firstMs = performance.now() - began
    await client.callTool('counter_add')
    // The first call waits only for the read.
    expect(firstMs).toBeLessThan(2000)
    expect(warnings).toContain(code)
    undo()
    // A new session causes the next write.
    mcp.forgetSessions()
    await client.callTool('counter_add')
    const id = await client.getSessionId()
    await client.dispose()
    expect(new Set(warnings).size).toBe(warnings.length)
    await using next = factoryAt(proxy.url, (warning) => void warnings.push(warning.code))
    expect(await next.createSession({ mcpUrl: mcp.url }).getSessionId()).toBe(id)
    expect(mcp.executions('counter_add')).toBe(3)
    for (const sessionId of [id, mcp.received.find((one) => one.sessionId)?.sessionId]) {
      expect(texts.join()).not.toContain(sessionId)
    }
    expect(texts.join()).not.toContain(SECRET)
  },
)

test('does not follow redirects, so that the token stays with one host', async () => {
  await using mcp = await startLegacyServer()
  const asked: unknown[] = []
  await using elsewhere = await startTestServer((request, response) => {
    asked.push(request.headers.authorization)
    response.end('planted-session')
  })
  await using service = createDebugStateServer({ store: new MemoryDebugStateStore() })
  await using proxy = await startRecordingProxy(await service.listen())
  proxy.inject({
    match: () => true,
    action: { status: 307, headers: { location: elsewhere.url } },
  })
  const warnings: string[] = []
  await using factory = factoryAt(proxy.url, ({ code }) => void warnings.push(code))
  await using client = new McpClient({ url: mcp.url }, { sessionInfoFactory: factory })
  await client.callTool('echo', { text: 'a' })
  await client.dispose()
  expect(asked).toEqual([])
  expect(warnings).toEqual(['REJECTED'])
})

test('waits for a slow service in the first call only', async () => {
  await using mcp = await startLegacyServer()
  await using service = createDebugStateServer({ store: new MemoryDebugStateStore() })
  await using proxy = await startRecordingProxy(await service.listen())
  let open: (() => void) | undefined
  const reads = new Promise<void>((resolve) => {
    open = resolve
  })
  const writes = new Promise<never>(() => {})
  proxy.inject({
    match: () => true,
    async action({ httpMethod }) {
      await (httpMethod === 'GET' ? reads : writes)
      return 'forward'
    },
  })
  await using factory = factoryAt(proxy.url, () => {})
  await using client = new McpClient({ url: mcp.url }, { sessionInfoFactory: factory })
  const first = client.callTool('echo', { text: 'a' })
  await proxy.waitFor(({ httpMethod }) => httpMethod === 'GET')
  expect(mcp.received).toEqual([])
  open?.()
  await first
  await client.callTool('echo', { text: 'b' })
  expect(
    proxy.exchanges.filter(({ httpMethod, end }) => httpMethod === 'PUT' && !end),
  ).toHaveLength(1)
})
