import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { RawClient } from '../../test/raw-client.ts'
import { connectStockClient } from '../../test/stock-client.ts'
import { deferred } from '@x/internal/testing'
import { lossForms } from '../loss-forms.ts'
import type { Exchange } from './exchange.ts'
import type { ExchangeEvent } from './recording-proxy.ts'
import { startRecordingProxy } from './recording-proxy.ts'
import { startLegacyServer } from '../legacy-server.ts'
import { startTestServer } from '../loopback-server.ts'

const isCall = (exchange: Exchange): boolean => exchange.rpcMethod === 'tools/call'

test('records what the stock client does', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  expect(new URL(proxy.url).pathname).toBe('/mcp')
  await using client = await connectStockClient(proxy.url)
  await proxy.waitFor((exchange) => exchange.httpMethod === 'GET' && exchange.status === 200)
  await client.callTool({ name: 'echo', arguments: { text: 'a' } })
  await proxy.waitFor((exchange) => isCall(exchange) && exchange.end === 'complete')

  const [sessionId] = server.sessions
  const session = { sessionId, protocolVersion: '2025-11-25', path: '/mcp' }
  expect(proxy.exchanges).toMatchObject([
    { n: 1, rpcMethod: 'initialize', rpcId: 0, status: 200, assignedSessionId: sessionId },
    { n: 2, rpcMethod: 'notifications/initialized', status: 202, ...session },
    { n: 3, httpMethod: 'GET', status: 200, ...session },
    { n: 4, rpcMethod: 'tools/call', rpcId: 1, toolName: 'echo', end: 'complete', ...session },
  ])
  expect(proxy.exchanges[0]?.sessionId).toBeUndefined()
  expect(proxy.exchanges[2]?.end).toBeUndefined()
  expect(proxy.exchanges[3]?.ms).toBeGreaterThan(0)
  expect(proxy.count({ rpcMethod: 'tools/call', status: 200 })).toBe(1)
  expect(proxy.count({ httpMethod: 'POST' })).toBe(3)
})

test('counts the connections of the client, whatever happens behind', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await (await client.initialize()).text()
  const mark = proxy.mark()
  await (await client.call('counter_add')).text()
  await server.restart()
  await (await client.call('counter_add')).text()
  await (await client.initialize()).text()
  await (await client.call('counter_add')).text()
  expect(mark.exchanges().map((exchange) => exchange.status)).toEqual([200, 404, 200, 200])
  expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
  expect(mark.postConnections()).toBe(0)
  expect(mark.connections()).toBe(0)

  await using other = new RawClient(proxy.url)
  await (await other.initialize()).text()
  expect(mark.postConnections()).toBe(1)
  expect(proxy.postConnections).toBe(2)
})

test('answers stream, and leaving reaches the server', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await client.initialize()
  const stream = await client.get()
  server.notify('notifications/tools/list_changed')
  await expect(stream.chunks.next()).resolves.toMatchObject({
    value: expect.stringContaining('list_changed'),
  })
  stream.leave()
  const left = await proxy.waitFor((exchange) => exchange.end === 'client-gone')
  expect(left.httpMethod).toBe('GET')
})

test('instead of the server: an answer, so many times', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await client.initialize()
  proxy.inject({ match: isCall, times: 2, action: lossForms['400-own-id'] })
  const refused = await client.call('whoami', {}, 9)
  expect(refused.status).toBe(400)
  expect(JSON.parse(await refused.text())).toMatchObject({ id: 9, error: { code: -32000 } })
  expect((await client.call('whoami')).status).toBe(400)
  expect((await client.call('whoami')).status).toBe(200)
  expect(server.executions('whoami')).toBe(1)
  expect(proxy.exchanges.filter((exchange) => exchange.injected)).toHaveLength(2)
})

test('reset-before: the server never sees it', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await client.initialize()
  const undo = proxy.inject({ match: isCall, action: 'reset-before' })
  await expect(client.call('whoami')).rejects.toMatchObject({ code: 'ECONNRESET' })
  undo()
  undo()
  expect((await client.call('whoami')).status).toBe(200)
  expect(server.executions('whoami')).toBe(1)
  expect(proxy.exchanges.find(isCall)).toMatchObject({ end: 'cut', injected: true })
  expect(proxy.exchanges.find(isCall)?.status).toBeUndefined()
})

test.each(['json', 'sse'] as const)('reset-after: the server did it (%s)', async (answerAs) => {
  await using server = await startLegacyServer({ answerAs })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await (await client.initialize()).text()
  proxy.inject({ match: isCall, times: 1, action: 'reset-after' })
  await expect(client.call('counter_add')).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(server.executions('counter_add')).toBe(1)
  await expect((await client.call('counter_add')).text()).resolves.toContain('counter is 2')
})

test.each(['json', 'sse'] as const)(
  'cut-stream: the head arrives, the rest does not (%s)',
  async (answerAs) => {
    await using server = await startLegacyServer({ answerAs })
    await using proxy = await startRecordingProxy(server.url)
    await using client = new RawClient(proxy.url)
    await (await client.initialize()).text()
    proxy.inject({ match: isCall, times: 1, action: 'cut-stream' })
    const answer = await client.call('counter_add')
    expect(answer.status).toBe(200)
    await expect(answer.text()).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
    expect(server.executions('counter_add')).toBe(1)
  },
)

test('cut-stream on a GET ends it on both sides', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await client.initialize()
  proxy.inject({ match: ({ httpMethod }) => httpMethod === 'GET', times: 1, action: 'cut-stream' })
  const stream = await client.get()
  expect(stream.status).toBe(200)
  await expect(stream.text()).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
  expect((await client.get()).status).toBe(200)
})

test('hang: nothing comes until the client or the proxy gives up', async () => {
  await using server = await startLegacyServer()
  const proxy = await startRecordingProxy(server.url)
  proxy.inject({ match: isCall, action: 'hang' })
  await using client = new RawClient(proxy.url)
  await client.initialize()
  const call = client.call('whoami')
  await proxy.waitFor(isCall)
  await proxy.stop()
  await expect(call).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
  expect(server.executions('whoami')).toBe(0)
  await proxy.stop()
})

test('a function holds an exchange and then says what happens', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await client.initialize()
  const gate = deferred()
  proxy.inject({
    match: isCall,
    action: async () => {
      await gate.promise
      return 'forward'
    },
  })
  const call = client.call('whoami')
  await proxy.waitFor(isCall)
  expect(server.count('tools/call')).toBe(0)
  gate.resolve()
  expect((await call).status).toBe(200)
})

test('listeners follow what happens until they are taken out', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  const heard: string[] = []
  const undo = proxy.on(({ type, exchange }: ExchangeEvent) => {
    heard.push(`${type} ${exchange.rpcMethod} ${exchange.status ?? ''}`)
  })
  await (await client.initialize()).text()
  await proxy.waitFor((exchange) => exchange.end === 'complete')
  undo()
  await client.call('whoami')
  expect(heard).toEqual(['started initialize ', 'ended initialize 200'])
})

test('a server that breaks in mid-answer breaks the client too', async () => {
  await using server = await startTestServer((_request, response) => {
    response.write('some')
  })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  const answer = await client.get()
  await expect(answer.chunks.next()).resolves.toMatchObject({ value: 'some' })
  await server.restart()
  await expect(answer.chunks.next()).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(proxy.exchanges).toMatchObject([{ status: 200, end: 'server-gone' }])
})

test('a server that is not there is a 502', async () => {
  const server = await startTestServer(() => {})
  await using proxy = await startRecordingProxy(server.url)
  await server[Symbol.asyncDispose]()
  await using client = new RawClient(proxy.url)
  expect((await client.get()).status).toBe(502)
})

test('several cookies and header names pass unchanged', async () => {
  await using server = await startTestServer((request, response) => {
    response.setHeader('set-cookie', ['a=1', 'b=2'])
    response.setHeader('X-Host', request.headers.host ?? '')
    response.end()
  })
  await using proxy = await startRecordingProxy(server.url)
  const response = await fetch(proxy.url)
  expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
  expect(response.headers.get('x-host')).toBe(new URL(server.url).host)
})

test('a client that leaves in mid-request is no exchange, and harms nobody', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  const { port } = new URL(proxy.url)
  const socket = connect(Number(port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write('POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"half":')
  socket.destroySoon()
  await once(socket, 'close')
  await using client = new RawClient(proxy.url)
  expect((await client.initialize()).status).toBe(200)
  expect(proxy.exchanges.map((exchange) => exchange.rpcMethod)).toEqual(['initialize'])
  expect(proxy.connections).toBe(2)
})
