import { McpClient } from '@x/mcp-client'
import { startRecordingProxy, startLegacyServer, startTestServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from '../src/index.ts'
import type { DebugStateErrorCode } from '../src/index.ts'
import { MemoryDebugStateStore, createDebugStateServer } from '../src/server/index.ts'
import { closedGate } from './gate.ts'

function factoryAt(
  baseUrl: string,
  onWarning: (warning: Error & { readonly code: DebugStateErrorCode }) => void,
): SessionInfoDebugStateFactory {
  return new SessionInfoDebugStateFactory({
    baseUrl,
    agentId: 'agent',
    token: 'a-secret-token',
    timeoutMs: 600_000, // a test that waits for it fails
    onWarning,
  })
}

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
  const [reads, writes] = [closedGate(), closedGate()]
  proxy.inject({
    match: () => true,
    async action({ httpMethod }) {
      await (httpMethod === 'GET' ? reads : writes).opened
      return 'forward'
    },
  })
  await using factory = factoryAt(proxy.url, () => {})
  await using client = new McpClient({ url: mcp.url }, { sessionInfoFactory: factory })
  const first = client.callTool('echo', { text: 'a' })
  await proxy.waitFor(({ httpMethod }) => httpMethod === 'GET')
  expect(mcp.received).toEqual([])
  reads.open()
  await first
  await client.callTool('echo', { text: 'b' })
  await proxy.waitFor(({ httpMethod }) => httpMethod === 'PUT')
  expect(
    proxy.exchanges.filter(({ httpMethod, status }) => httpMethod === 'PUT' && status),
  ).toEqual([])
  writes.open()
})
