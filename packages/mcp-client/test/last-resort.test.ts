// Servers that refuse a forgotten session in a form that says nothing about the session.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHttpTransport } from '@x/mcp-transport'
import { startLegacyServer } from '@x/mcp-testing'
import type { CannedAnswer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { is, rejectionOf, startSetting } from './setting.ts'

const rpc =
  (code: number, message: string) =>
  (id: unknown): string =>
    JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })

const forms: readonly (readonly [name: string, form: CannedAnswer])[] = [
  ['a bare 400', { status: 400 }],
  ['a bare 500', { status: 500, body: 'Internal Server Error' }],
  ['a bare 503', { status: 503 }],
  ['400 with -32602', { status: 400, body: rpc(-32602, 'Invalid params') }],
  ['404 with -32601', { status: 404, body: rpc(-32601, 'Method not found') }],
  ['an empty 202', { status: 202 }],
]

describe.each(forms)('a session that is refused with %s', (_name, lossForm) => {
  test.each([0, 1])('is given up after two refusals, with %i retries', async (maxRetries) => {
    await using setting = await startSetting({ client: { maxRetries } })
    const { client, server } = setting
    await client.callTool('counter_add')
    server.lossForm = lossForm
    server.forgetSessions()
    await rejectionOf(client.callTool('counter_add'))
    await rejectionOf(client.callTool('counter_add'))
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
    expect(server.executions('counter_add')).toBe(2)
    expect(server.count('initialize')).toBe(2)
  })

  test("is given up by a transport with 'reinitialize', too", async () => {
    await using server = await startLegacyServer()
    const client = new Client({ name: 'tester', version: '1' })
    const onSessionLost = 'reinitialize'
    await client.connect(new StreamableHttpTransport(server.url, { onSessionLost }))
    server.lossForm = lossForm
    server.forgetSessions()
    await rejectionOf(client.callTool({ name: 'counter_add' }))
    await rejectionOf(client.callTool({ name: 'counter_add' }))
    await client.callTool({ name: 'counter_add' })
    expect(server.executions('counter_add')).toBe(1)
    expect(server.count('initialize')).toBe(2)
    await client.close()
  })
})

describe('a session is kept', () => {
  test.each<readonly [string, CannedAnswer]>([
    ['429', { status: 429 }],
    ['503 with Retry-After', { status: 503, headers: { 'retry-after': '1' } }],
    ['401 with a challenge', { status: 401, headers: { 'www-authenticate': 'Bearer' } }],
  ])('after any number of responses with %s', async (_name, action) => {
    await using setting = await startSetting({ client: { replay: 'never' } })
    const { client, server, proxy } = setting
    await client.callTool('counter_add')
    const undo = proxy.inject({ match: is.method('tools/call'), action })
    for (let n = 0; n < 3; n++) await rejectionOf(client.callTool('counter_add'))
    undo()
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 2 })
    expect(server.count('initialize')).toBe(1)
  })

  test('if a call succeeds between two refusals', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.callTool('counter_add')
    for (let n = 0; n < 3; n++) {
      const action = { status: 500, body: 'on fire' }
      proxy.inject({ match: is.method('tools/call'), times: 1, action })
      await rejectionOf(client.callTool('counter_add'))
      await client.callTool('counter_add')
    }
    expect(server.count('initialize')).toBe(1)
  })
})

test('a session that is given up after two broken answers is terminated, because the server may still have it', async () => {
  await using setting = await startSetting()
  const { client, proxy, server } = setting
  await client.callTool('counter_add')
  const action = { type: 'change-events', change: 'truncate' } as const
  proxy.inject({ match: is.method('tools/call'), times: 2, action })
  await rejectionOf(client.callTool('counter_add'))
  await rejectionOf(client.callTool('counter_add'))
  await client.callTool('counter_add')
  expect(server.count('initialize')).toBe(2)
  await client.dispose()
  expect(server.sessions).toEqual([])
})
