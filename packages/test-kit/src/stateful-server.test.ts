import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect, test } from 'vitest'
import { startRecordingProxy, startStatefulServer } from './index.ts'

async function stockClient(url: string): Promise<Client & AsyncDisposable> {
  const client = new Client({ name: 'kit-test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

for (const answerAs of ['json', 'sse'] as const) {
  test(`the stock client connects, lists and calls (${answerAs})`, async () => {
    await using server = await startStatefulServer({ answerAs, pageSize: 2 })
    await using client = await stockClient(server.url)
    const first = await client.listTools()
    expect(first.tools.map((tool) => tool.name)).toEqual(['counter_add', 'cart_add'])
    expect(first.nextCursor).toBe('2')

    const add = { name: 'counter_add', arguments: { by: 2 } }
    await client.callTool(add)
    await expect(client.callTool(add)).resolves.toMatchObject({
      content: [{ type: 'text', text: 'counter is 4' }],
      structuredContent: { count: 4 },
    })
    expect(server.executions('counter_add')).toBe(2)
    expect(server.count('initialize')).toBe(1)
    expect(server.sessions).toHaveLength(1)
  })
}

test('a forgotten session is refused in the chosen form', async () => {
  await using server = await startStatefulServer()
  await using client = await stockClient(server.url)
  server.forgetSessions()
  await expect(client.callTool({ name: 'whoami' })).rejects.toMatchObject({ code: 404 })
  server.lossForm = '400-no-valid'
  await expect(client.callTool({ name: 'whoami' })).rejects.toMatchObject({ code: 400 })
  expect(server.executions('whoami')).toBe(0)
})

test('the proxy counts what the client does', async () => {
  await using server = await startStatefulServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = await stockClient(proxy.url)
  await proxy.waitFor((exchange) => exchange.httpMethod === 'GET' && exchange.status === 200)
  const mark = proxy.mark()
  await client.callTool({ name: 'echo', arguments: { text: 'a' } })
  await client.callTool({ name: 'echo', arguments: { text: 'b' } })
  expect(mark.count({ httpMethod: 'POST' })).toBe(2)
  expect(mark.postConnections()).toBe(0)
  expect(mark.exchanges()[0]).toMatchObject({
    rpcMethod: 'tools/call',
    toolName: 'echo',
    status: 200,
  })
})
