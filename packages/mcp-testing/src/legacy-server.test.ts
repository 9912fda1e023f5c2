import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { inputRequired } from '@modelcontextprotocol/server'
import { expect, onTestFinished, test } from 'vitest'
import { RawClient } from '../test/raw-client.ts'
import { connectStockClient } from '../test/stock-client.ts'
import { deferred } from '@x/internal/testing'
import type { LossFormName } from './loss-forms.ts'
import { lossForms } from './loss-forms.ts'
import { startLegacyServer } from './legacy-server.ts'
import { startRecordingProxy } from './proxy/recording-proxy.ts'
import type { TestTool } from './tools.ts'
import { legacyTools } from './tools.ts'

/** A server, and a client with a session, which end with the test. */
async function connected(options?: Parameters<typeof startLegacyServer>[0]) {
  const server = await startLegacyServer(options)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const client = new RawClient(server.url)
  onTestFinished(() => client[Symbol.asyncDispose]())
  await (await client.initialize()).text()
  return { server, client }
}

test.each(['auto', 'sse'] as const)(
  'connects the client of the SDK, lists tools and calls one (%s)',
  async (answerAs) => {
    await using server = await startLegacyServer({ answerAs, pageSize: 4 })
    await using client = await connectStockClient(server.url)
    const first = await client.listTools()
    const second = await client.listTools({ cursor: first.nextCursor })
    expect([...first.tools, ...second.tools].map((tool) => tool.name)).toEqual([
      'counter_add',
      'cart_add',
      'echo',
      'fail',
      'slow',
      'whoami',
    ])
    expect(second.nextCursor).toBeUndefined()

    await client.callTool({ name: 'counter_add', arguments: { by: 2 } })
    await expect(client.callTool({ name: 'counter_add' })).resolves.toMatchObject({
      content: [{ type: 'text', text: 'counter is 3' }],
      structuredContent: { count: 3 },
    })
    await client.callTool({ name: 'cart_add', arguments: { item: 'apple' } })
    await expect(
      client.callTool({ name: 'cart_add', arguments: { item: 'pear' } }),
    ).resolves.toMatchObject({ structuredContent: { items: ['apple', 'pear'] } })
    await expect(client.callTool({ name: 'fail' })).resolves.toMatchObject({ isError: true })
    await expect(client.callTool({ name: 'none' })).rejects.toMatchObject({ code: -32602 })
    const [id = ''] = server.sessions
    await expect(client.callTool({ name: 'whoami' })).resolves.toMatchObject({
      content: [{ text: `${id.slice(0, 4)}… (36)` }],
    })
    expect(server.executions('counter_add')).toBe(2)
    expect(server.count('initialize')).toBe(1)
    expect(server.count('GET')).toBe(1)
  },
)

test('keeps state for the lifetime of a session', async () => {
  await using server = await startLegacyServer()
  await using one = await connectStockClient(server.url)
  await using two = await connectStockClient(server.url)
  await one.callTool({ name: 'counter_add', arguments: { by: 5 } })
  await expect(two.callTool({ name: 'counter_add' })).resolves.toMatchObject({
    structuredContent: { count: 1 },
  })
  server.forgetSessions()
  expect(server.sessions).toEqual([])
  await expect(one.callTool({ name: 'counter_add' })).rejects.toMatchObject({ code: 404 })
  expect(server.executions('counter_add')).toBe(2)
})

test.each(Object.keys(lossForms) as LossFormName[])('refuses a lost session: %s', async (name) => {
  const { server, client } = await connected({ lossForm: name })
  server.forgetSessions()
  const answer = await client.call('whoami', {}, 41)
  const text = await answer.text()
  expect(answer.status).toBe(lossForms[name].status)
  const { body } = lossForms[name]
  expect(text).toBe(typeof body === 'function' ? body(41) : (body ?? ''))
  expect(server.executions('whoami')).toBe(0)
})

test('accepts the requested revision if it knows it', async () => {
  await using server = await startLegacyServer()
  await using client = new RawClient(server.url)
  const version = async (asked: string): Promise<unknown> =>
    JSON.parse(await (await client.initialize(asked)).text()).result.protocolVersion
  await expect(version('2025-03-26')).resolves.toBe('2025-03-26')
  await expect(version('2025-06-18')).resolves.toBe('2025-06-18')
  await expect(version('2026-07-28')).resolves.toBe('2025-11-25')
})

test('refuses a second initialize in a live session', async () => {
  const { server, client } = await connected()
  const answer = await client.post({ method: 'initialize', id: 1, params: {} })
  expect(answer.status).toBe(400)
  await expect(answer.text()).resolves.toContain('already initialized')
  expect(server.sessions).toHaveLength(1)
})

test('sends an event stream for a call with notifications, and else JSON', async () => {
  const talking: TestTool = {
    name: 'talking',
    async run(_args, { progress, log }) {
      await progress(1, 2)
      await log('info', 'half')
      await progress(2, 2)
      return 'done'
    },
  }
  await using server = await startLegacyServer({ tools: [talking, ...legacyTools] })
  await using proxy = await startRecordingProxy(server.url, { keepBodies: 1000 })
  await using client = await connectStockClient(proxy.url)
  const heard: unknown[] = []
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    heard.push(params.data)
  })
  await client.callTool({ name: 'talking' }, undefined, {
    onprogress: ({ progress }) => heard.push(progress),
  })
  expect(heard).toEqual([1, 'half', 2])
  await client.callTool({ name: 'whoami' })
  const calls = proxy.exchanges.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(calls.map(({ response }) => response?.headers['content-type'])).toEqual([
    'text/event-stream',
    'application/json',
  ])
})

test.each(['auto', 'sse'] as const)(
  'answers a call of "slow" when the test releases it (%s)',
  async (answerAs) => {
    await using server = await startLegacyServer({ answerAs })
    await using client = await connectStockClient(server.url)
    const call = client.callTool({ name: 'slow' })
    await server.waitFor((request) => request.toolName === 'slow')
    expect(server.held).toBe(1)
    expect(server.release('done')).toBe(1)
    await expect(call).resolves.toMatchObject({ content: [{ text: 'done' }] })
  },
)

test('reports the progress of the test for a call of "slow"', async () => {
  await using server = await startLegacyServer()
  await using client = await connectStockClient(server.url)
  const heard = deferred<unknown>()
  const call = client.callTool({ name: 'slow' }, undefined, { onprogress: heard.resolve })
  await server.waitFor((request) => request.toolName === 'slow')
  await server.progress(1, 2)
  await expect(heard.promise).resolves.toMatchObject({ progress: 1, total: 2 })
  server.release()
  await call
})

test.each(['auto', 'sse'] as const)(
  'ends a cancelled call of "slow" without an answer (%s)',
  async (answerAs) => {
    const { server, client } = await connected({ answerAs })
    await using canceller = new RawClient(server.url)
    canceller.sessionId = client.sessionId
    const call = client.call('slow', {}, 7)
    await server.waitFor((request) => request.toolName === 'slow')
    const accepted = await canceller.post({
      method: 'notifications/cancelled',
      params: { requestId: 7 },
    })
    expect(accepted.status).toBe(202)
    const text = await (await call).text()
    expect(text).not.toContain('result')
    expect(server.ledger.received({ tool: 'slow', state: 'cancelled' })).toBe(1)
    expect(server.held).toBe(0)
  },
)

test('sends a notification to the listening stream, and to a resumed stream', async () => {
  const { server, client } = await connected()
  const first = await client.get()
  expect(server.openStreams).toBe(1)
  expect(server.notify('notifications/tools/list_changed')).toBe(1)
  const { value: event } = await first.chunks.next()
  expect(event).toContain('notifications/tools/list_changed')
  const eventId = /id: (.*)/.exec(event)?.[1]

  expect(server.dropListenStreams()).toBe(1)
  await expect(first.chunks.next()).resolves.toMatchObject({ done: true })
  expect(server.openStreams).toBe(0)
  expect(server.notify('notifications/message', { level: 'info', data: 'missed' })).toBe(0)

  const second = await client.get(eventId)
  const { value: replayed } = await second.chunks.next()
  expect(replayed).toContain('missed')
  expect(replayed).not.toContain('list_changed')
  expect(server.received.at(-1)).toMatchObject({ httpMethod: 'GET', lastEventId: eventId })
})

test('resumes a response stream that was dropped', async () => {
  const { server, client } = await connected({ answerAs: 'sse' })
  const call = await client.call('slow')
  const { value: primed } = await call.chunks.next()
  expect(server.dropAnswerStreams()).toBe(1)
  await expect(call.chunks.next()).resolves.toMatchObject({ done: true })

  server.release('after all')
  const resumed = await client.get(/id: (.*)/.exec(primed)?.[1])
  await expect(resumed.text()).resolves.toContain('after all')
  expect(server.executions('slow')).toBe(1)
})

test('sends nothing on a dropped response stream without event ids', async () => {
  await using server = await startLegacyServer({ answerAs: 'sse', eventIds: false })
  await using client = new RawClient(server.url)
  await expect((await client.initialize()).text()).resolves.not.toContain('id: ')
  const call = await client.call('slow')
  server.dropAnswerStreams()
  await expect(call.text()).resolves.toBe('')
})

test('ends the listening streams of forgotten sessions, and not their calls', async () => {
  const { server, client } = await connected()
  const stream = await client.get()
  const call = client.call('slow')
  await server.waitFor((request) => request.toolName === 'slow')
  server.forgetSessions()
  await expect(stream.text()).resolves.toBe('')
  server.release()
  expect((await call).status).toBe(200)
})

test('refuses a GET, or one with an unknown event id', async () => {
  const { server, client } = await connected({ listenStream: 'refuse-405' })
  expect((await client.get()).status).toBe(405)
  server.listenStream = 'open'
  expect((await client.get('nonsense')).status).toBe(400)
})

test('ends the session after a DELETE, unless it refuses the DELETE', async () => {
  const { server, client } = await connected({ terminate: 'refuse-405' })
  expect((await client.delete()).status).toBe(405)
  server.terminate = 'allow'
  expect((await client.delete()).status).toBe(200)
  expect((await client.delete()).status).toBe(404)
  expect(server.sessions).toEqual([])
})

test('assigns no session id and refuses none without sessions', async () => {
  await using server = await startLegacyServer({ assignSessions: false })
  await using client = await connectStockClient(server.url)
  await client.callTool({ name: 'counter_add' })
  await expect(client.callTool({ name: 'counter_add' })).resolves.toMatchObject({
    structuredContent: { count: 2 },
  })
  expect(server.sessions).toEqual([])
  expect(server.received.every((request) => request.sessionId === undefined)).toBe(true)
})

test('closes all connections and forgets the sessions in a restart', async () => {
  const { server, client } = await connected()
  const { url } = server
  const call = client.call('slow')
  await server.waitFor((request) => request.toolName === 'slow')
  await server.restart()
  await expect(call).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(server.url).toBe(url)
  expect(server.held).toBe(0)
  expect((await client.call('whoami')).status).toBe(404)
  expect((await client.initialize()).status).toBe(200)
})

test('refuses requests that are not MCP', async () => {
  await using server = await startLegacyServer()
  const status = async (init: RequestInit, path = ''): Promise<number> => {
    const response = await fetch(server.url + path, { method: 'POST', ...init })
    await response.text()
    return response.status
  }
  const accept = 'application/json, text/event-stream'
  const json = { accept, 'content-type': 'application/json' }
  await expect(status({ headers: { accept: '*/*' } })).resolves.toBe(406)
  await expect(status({ headers: { accept } })).resolves.toBe(415)
  await expect(status({ headers: json, body: '[]' })).resolves.toBe(400)
  await expect(
    status({ headers: json, body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' }),
  ).resolves.toBe(400)
  await expect(status({ headers: json, body: '{}' }, '/other')).resolves.toBe(404)
  await expect(status({ method: 'PUT' })).resolves.toBe(405)
})

test('refuses a protocol version that it does not support', async () => {
  const { client } = await connected()
  client.headers = { 'mcp-protocol-version': '2024-11-05' }
  const answer = await client.call('whoami')
  expect(answer.status).toBe(400)
  await expect(answer.text()).resolves.toContain('Unsupported protocol version')
})

test('asks the client for the inputs that a tool requires, on the stream of the call', async () => {
  const book: TestTool = {
    name: 'book',
    run(_args, { inputResponses, requestState }) {
      if (inputResponses === undefined) {
        const name = inputRequired.elicit({
          message: 'Name?',
          requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
        })
        return inputRequired({ inputRequests: { name }, requestState: 'room 7' })
      }
      return `${String(requestState)}: ${JSON.stringify(inputResponses['name'])}`
    },
  }
  await using server = await startLegacyServer({ tools: [book] })
  const client = new Client(
    { name: 'test', version: '1' },
    { capabilities: { elicitation: { form: {} } } },
  )
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    if (params.message !== 'Name?') throw new Error('Unexpected question')
    return { action: 'accept', content: { name: 'Ada' } }
  })
  await expect(client.callTool({ name: 'book' })).resolves.toMatchObject({
    content: [{ text: 'room 7: {"action":"accept","content":{"name":"Ada"}}' }],
  })
  expect(server.executions('book')).toBe(1)

  client.setRequestHandler(ElicitRequestSchema, () => {
    throw new Error('Nobody is here')
  })
  await expect(client.callTool({ name: 'book' })).rejects.toThrow('Nobody is here')

  const asked = deferred()
  client.setRequestHandler(ElicitRequestSchema, () => {
    asked.resolve()
    return new Promise<never>(() => {})
  })
  const abort = new AbortController()
  const call = client.callTool({ name: 'book' }, undefined, { signal: abort.signal })
  await asked.promise
  abort.abort()
  await expect(call).rejects.toThrow('aborted')
  await server.ledger.waitFor({ tool: 'book', state: 'cancelled' })
  await client.close()
})
