import { startStatefulServer } from '@x/test-kit'
import { bearer } from '@x/mcp-transport/auth'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'

test('a token provider is asked for every request, and the trace of the caller goes along', async () => {
  await using server = await startStatefulServer({ listenStream: 'refuse-405' })
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  let asked = 0
  await using client = new McpClient(
    { url: server.url },
    { authProvider: bearer(() => `token-${++asked}`), traceContext: () => ({ traceparent }) },
  )
  await client.callTool('counter_add')
  await client.callTool('counter_add')
  const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(new Set(calls.map(({ headers }) => headers['authorization'])).size).toBe(2)
  expect(
    calls.every(({ headers }) => /^Bearer token-\d+$/.test(String(headers['authorization']))),
  ).toBe(true)
  expect(calls[0]?.params).toMatchObject({ _meta: { traceparent } })
})
