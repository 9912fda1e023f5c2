import { inspect } from 'node:util'
import { startLegacyServer } from '@x/mcp-testing'
import { TransportError } from '@x/mcp-transport'
import { bearer } from '@x/mcp-transport/auth'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { is, recordEvents, rejectionOf, startSetting } from './setting.ts'

test('asks a token provider for every request, and sends the trace of the caller', async () => {
  await using server = await startLegacyServer({ listenStream: 'refuse-405' })
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  let asked = 0
  await using client = new McpClient(
    { url: server.url },
    { authProvider: bearer(() => `token-${++asked}`), traceContext: () => ({ traceparent }) },
  )
  await client.callTool('counter_add')
  await client.callTool('counter_add')
  const calls = server.received.filter(is.method('tools/call'))
  expect(new Set(calls.map(({ headers }) => headers['authorization'])).size).toBe(2)
  expect(
    calls.every(({ headers }) => /^Bearer token-\d+$/.test(String(headers['authorization']))),
  ).toBe(true)
  expect(calls[0]?.params).toMatchObject({ _meta: { traceparent } })
  const [handshake] = server.received.filter(is.method('initialize'))
  expect(handshake?.params).toMatchObject({ _meta: { traceparent } })
})

test('credentials of a header function appear in no error, event, log or status, even if the server repeats them', async () => {
  await using setting = await startSetting()
  const { proxy } = setting
  const headers = (): Record<string, string> => ({ authorization: 'Bearer s3cret-token' })
  await using client = new McpClient({ url: proxy.url, headers })
  const observed = recordEvents(client)
  await client.ping()
  proxy.inject({
    match: is.tool('echo'),
    action: { status: 403, body: 'The token s3cret-token has expired' },
  })
  const error = await rejectionOf(client.callTool('echo'))
  expect(String(error)).toContain('The token [removed] has expired')
  const everything = inspect({ error, observed, status: client.status() }, { depth: 20 })
  expect(everything).not.toContain('s3cret-token')
})

test('calls without a token keep the session', async () => {
  await using server = await startLegacyServer({ listenStream: 'refuse-405' })
  let isSignedIn = true
  const authProvider = bearer(() => {
    if (isSignedIn) return 'token'
    throw new TransportError('UNAUTHORIZED', 'signed out')
  })
  await using client = new McpClient({ url: server.url }, { authProvider })
  const observed = recordEvents(client)
  await client.callTool('counter_add')
  isSignedIn = false
  for (let call = 0; call < 4; call++) {
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({ code: 'UNAUTHORIZED', outcome: 'not-executed' })
  }
  isSignedIn = true
  await client.callTool('counter_add')
  expect(server.received.filter(is.method('initialize'))).toHaveLength(1)
  expect(server.received.filter(is.method('ping'))).toEqual([]) // the session was not in doubt
  expect(observed.filter(({ event }) => event === 'sessionReplaced')).toEqual([])
})
