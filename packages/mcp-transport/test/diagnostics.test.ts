import { channel } from 'node:diagnostics_channel'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { startModernServer, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { StreamableHttpTransport } from '../src/index.ts'

interface Heard extends Disposable {
  readonly events: Record<string, unknown>[]
}

function hear(name: string, url: string): Heard {
  const events: Record<string, unknown>[] = []
  const listener = (message: unknown): void => {
    const event = message as Record<string, unknown>
    if (event['url'] === url) events.push(event)
  }
  channel(name).subscribe(listener)
  return {
    events,
    [Symbol.dispose]: () => {
      channel(name).unsubscribe(listener)
    },
  }
}

test('publishes every exchange and session with shortened ids', async () => {
  await using server = await startLegacyServer({ listenStream: 'refuse-405' })
  using exchanges = hear('x:mcp:exchange', server.url)
  using sessions = hear('x:mcp:session', server.url)
  const transport = new StreamableHttpTransport(server.url, { era: 'legacy' })
  const client = new Client({ name: 'app', version: '1' })
  await client.connect(transport)
  await client.callTool({ name: 'counter_add' })
  server.forgetSessions()
  await expect(client.callTool({ name: 'counter_add' })).rejects.toMatchObject({ code: -32001 })
  await client.close()
  const posts = exchanges.events.filter(({ httpMethod }) => httpMethod === 'POST')
  expect(posts.map(({ rpcMethod, status }) => `${String(rpcMethod)} ${String(status)}`)).toEqual([
    'initialize 200',
    'notifications/initialized 202',
    'tools/call 200',
    'tools/call 404',
  ])
  expect(sessions.events.map(({ type, epoch }) => `${String(type)} ${String(epoch)}`)).toEqual([
    'opened 1',
    'lost 1',
  ])
  expect(sessions.events[0]?.['sessionId']).toMatch(/^.{4}…\(36\)$/)
})

test('publishes the era of a stateless server', async () => {
  await using server = await startModernServer()
  using sessions = hear('x:mcp:session', server.url)
  const client = new Client({ name: 'app', version: '1' })
  await client.connect(new StreamableHttpTransport(server.url))
  await client.close()
  expect(sessions.events).toMatchObject([{ type: 'opened', era: 'modern' }])
})

test('sends the trace context of the caller in _meta', async () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await using server = await startLegacyServer()
  const client = new Client({ name: 'app', version: '1' })
  await client.connect(
    new StreamableHttpTransport(server.url, { traceContext: () => ({ traceparent }) }),
  )
  await client.callTool({ name: 'echo', arguments: { text: 'x' } })
  await client.close()
  const call = server.received.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(call?.params).toMatchObject({ _meta: { traceparent } })
})
