import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { startLegacyServer } from '@x/mcp-testing'
import { connect, connectSdk2 } from './connect.ts'

const call = { name: 'cart_add', arguments: { item: 'apples' } }

for (const connectTo of [connect, connectSdk2]) {
  test(`${connectTo.name}: a call after a lost session is executed once, in a new session`, async () => {
    await using server = await startLegacyServer()
    const client = await connectTo(server.url)
    await client.callTool(call)
    server.forgetSessions()
    const { structuredContent } = await client.callTool(call)
    await client.close()
    assert.deepEqual(structuredContent, { items: ['apples'] })
    assert.equal(server.ledger.executions('cart_add'), 2)
    assert.equal(server.count('initialize'), 2)
  })
}

test("the SDK's own transport fails after a lost session", async () => {
  await using server = await startLegacyServer()
  const client = new Client({ name: 'app', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
  await client.callTool(call)
  server.forgetSessions()
  await assert.rejects(client.callTool(call), /session not found/i)
  await client.close()
})
