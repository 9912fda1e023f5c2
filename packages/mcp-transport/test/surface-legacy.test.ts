import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { INPUT_META_KEY, StreamableHttpTransport } from '../src/index.ts'

test('does not send input instructions to a server with sessions', async () => {
  await using server = await startLegacyServer()
  const client = new Client({ name: 'app', version: '1' })
  await client.connect(new StreamableHttpTransport(server.url))
  const surface = { [INPUT_META_KEY]: { surface: true }, mine: 1 }
  await client.callTool({ name: 'counter_add', _meta: surface })
  const call = server.received.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(call?.params).toEqual({ name: 'counter_add', _meta: { mine: 1 } })

  const answers = { [INPUT_META_KEY]: { answers: { requestState: 'state' } } }
  await expect(client.callTool({ name: 'counter_add', _meta: answers })).rejects.toMatchObject({
    code: -32602,
    message: expect.stringContaining('2026-07-28'),
  })
  expect(server.executions('counter_add')).toBe(1)
  await client.close()
})
