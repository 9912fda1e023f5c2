import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { RawClient } from '../../test/raw-client.ts'
import { connectStockClient } from '../../test/stock-client.ts'
import { deferred } from '@x/internal/testing'
import { lossForms } from '../loss-forms.ts'
import type { Exchange } from './exchange.ts'
import type { ExchangeEvent, RecordingProxyOptions } from './recording-proxy.ts'
import { startRecordingProxy } from './recording-proxy.ts'
import { startLegacyServer } from '../legacy-server.ts'
import { startTestServer } from '../loopback-server.ts'

const isCall = (exchange: Exchange): boolean => exchange.rpcMethod === 'tools/call'

/** A client with a session, a proxy, and a server, which end with the test. */
async function connected(
  options?: Parameters<typeof startLegacyServer>[0],
  proxyOptions?: RecordingProxyOptions,
) {
  const server = await startLegacyServer(options)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const proxy = await startRecordingProxy(server.url, proxyOptions)
  onTestFinished(() => proxy[Symbol.asyncDispose]())
  const client = new RawClient(proxy.url)
  onTestFinished(() => client[Symbol.asyncDispose]())
  await (await client.initialize()).text()
  return { server, proxy, client }
}

test('records the exchanges of the client of the SDK', async () => {
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
  expect(proxy.exchanges[3]).toMatchObject({ request: undefined, response: undefined })
  expect(proxy.count({ rpcMethod: 'tools/call', status: 200 })).toBe(1)
  expect(proxy.count({ httpMethod: 'POST' })).toBe(3)
})

test('counts the connections of the client, also without a server', async () => {
  const { server, proxy, client } = await connected()
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
})

test('streams answers, and closes the connection to the server when the client leaves', async () => {
  const { server, proxy, client } = await connected()
  const stream = await client.get()
  server.notify('notifications/tools/list_changed')
  await expect(stream.chunks.next()).resolves.toMatchObject({
    value: expect.stringContaining('list_changed'),
  })
  stream.leave()
  const left = await proxy.waitFor((exchange) => exchange.end === 'client-gone')
  expect(left.httpMethod).toBe('GET')
})

test('answers itself for the given number of times', async () => {
  const { server, proxy, client } = await connected()
  proxy.inject({ match: isCall, times: 2, action: lossForms['400-own-id'] })
  const refused = await client.call('whoami', {}, 9)
  expect(refused.status).toBe(400)
  expect(JSON.parse(await refused.text())).toMatchObject({ id: 9, error: { code: -32000 } })
  expect((await client.call('whoami')).status).toBe(400)
  expect((await client.call('whoami')).status).toBe(200)
  expect(server.executions('whoami')).toBe(1)
  expect(proxy.count({ fault: 'answer-400' })).toBe(2)
})

test('reset-before: does not forward the request', async () => {
  const { server, proxy, client } = await connected()
  const undo = proxy.inject({ match: isCall, action: 'reset-before' })
  await expect(client.call('whoami')).rejects.toMatchObject({ code: 'ECONNRESET' })
  undo()
  undo()
  expect((await client.call('whoami')).status).toBe(200)
  expect(server.executions('whoami')).toBe(1)
  expect(proxy.exchanges.find(isCall)).toMatchObject({ end: 'cut' })
  expect(proxy.exchanges.find(isCall)?.status).toBeUndefined()
})

test.each(['auto', 'sse'] as const)(
  'reset-after: resets after the server has executed the request (%s)',
  async (answerAs) => {
    const { server, proxy, client } = await connected({ answerAs })
    proxy.inject({ match: isCall, times: 1, action: 'reset-after' })
    await expect(client.call('counter_add')).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(server.executions('counter_add')).toBe(1)
    await expect((await client.call('counter_add')).text()).resolves.toContain('counter is 2')
  },
)

test.each(['auto', 'sse'] as const)(
  'cut-stream: forwards only the head of the response (%s)',
  async (answerAs) => {
    const { server, proxy, client } = await connected({ answerAs })
    proxy.inject({ match: isCall, times: 1, action: 'cut-stream' })
    const answer = await client.call('counter_add')
    expect(answer.status).toBe(200)
    await expect(answer.text()).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
    expect(server.executions('counter_add')).toBe(1)
  },
)

test('cut-stream: ends a GET on both sides', async () => {
  const { proxy, client } = await connected()
  proxy.inject({ match: ({ httpMethod }) => httpMethod === 'GET', times: 1, action: 'cut-stream' })
  const stream = await client.get()
  expect(stream.status).toBe(200)
  await expect(stream.text()).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
  expect((await client.get()).status).toBe(200)
})

test('hang: sends nothing until the client or the proxy closes the connection', async () => {
  const { server, proxy, client } = await connected()
  proxy.inject({ match: isCall, action: 'hang' })
  const call = client.call('whoami')
  await proxy.waitFor(isCall)
  await proxy.close()
  await expect(call).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
  expect(server.executions('whoami')).toBe(0)
})

test('holds an exchange until a function has chosen its action', async () => {
  const { server, proxy, client } = await connected()
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

test('calls listeners until they are removed', async () => {
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
  expect(heard).toEqual(['started initialize ', 'answered initialize 200', 'ended initialize 200'])
})

test('breaks the connection of the client when the server breaks off its answer', async () => {
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

test('answers with 502 if there is no server', async () => {
  const server = await startTestServer(() => {})
  await using proxy = await startRecordingProxy(server.url)
  await server[Symbol.asyncDispose]()
  await using client = new RawClient(proxy.url)
  expect((await client.get()).status).toBe(502)
})

test('forwards several cookies and header names unchanged', async () => {
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

test('records no exchange for a client that leaves within its request', async () => {
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

test('keeps headers and the first bytes of bodies, as the client sent and got them', async () => {
  const { proxy, client } = await connected({ answerAs: 'sse' }, { keepBodies: 300 })
  const text = 'ü'.repeat(1000)
  const answer = await (await client.call('echo', { text })).text()
  proxy.inject({ match: isCall, times: 1, action: { status: 503, body: '{"error":"busy"}' } })
  await (await client.call('echo', { text: 'a' })).text()
  await proxy.waitFor(({ status, end }) => status === 503 && end === 'complete')

  const [first, second, third] = proxy.exchanges
  expect(first?.response?.headers).toMatchObject({ 'mcp-session-id': client.sessionId })
  const { request, response } = second ?? {}
  expect(request?.headers).toMatchObject({ 'mcp-session-id': client.sessionId })
  expect(request?.bytes).toBe(Number(request?.headers['content-length']))
  expect(Buffer.byteLength(request?.body ?? '')).toBeGreaterThan(297)
  expect(request?.body).toMatch(/^\{"jsonrpc":"2.0".*ü$/)
  expect(response?.headers).toMatchObject({ 'content-type': 'text/event-stream' })
  expect(response?.bytes).toBe(Buffer.byteLength(answer))
  expect(answer.startsWith(response?.body ?? '-')).toBe(true)
  expect(third?.response).toMatchObject({
    headers: { 'content-type': 'application/json' },
    body: '{"error":"busy"}',
    bytes: 16,
  })
})

test('ends the connections to the server too when both sides are dropped', async () => {
  const arrived = deferred()
  const left = deferred()
  await using server = await startTestServer((_request, response) => {
    response.once('close', () => left.resolve())
    response.writeHead(200).write('the beginning')
    arrived.resolve()
  })
  await using proxy = await startRecordingProxy(server.url)
  const answer = fetch(proxy.url, { method: 'POST' }).then((response) => response.text())
  await arrived.promise
  proxy.dropConnections('both')
  await expect(answer).rejects.toThrow(/terminated|fetch failed/)
  await left.promise
})
