import { expect, test } from 'vitest'
import { isRecord } from '@x/internal'
import { connectModernClient } from '../test/modern-client.ts'
import { RawClient } from '../test/raw-client.ts'
import { connectStockClient } from '../test/stock-client.ts'
import { deferred } from '@x/internal/testing'
import { startScriptedServer } from './scripted-server.ts'

const echo = { name: 'echo', inputSchema: { type: 'object' } }
const done = { result: { content: [{ type: 'text', text: 'done' }] } }
const page = { tools: [echo], ttlMs: 0, cacheScope: 'private' }

test('gives a client of SDK v2 the scripted answers, and notes no violation', async () => {
  await using server = await startScriptedServer({
    'tools/list': { result: page },
    'tools/call': [done, { error: { code: -32603, message: 'broken' } }],
  })
  await using client = await connectModernClient(server.url)
  expect((await client.listTools()).tools).toMatchObject([echo])
  await expect(client.callTool({ name: 'echo' })).resolves.toMatchObject(done.result)
  await expect(client.callTool({ name: 'echo' })).rejects.toMatchObject({ code: -32603 })
  await expect(client.callTool({ name: 'echo' })).rejects.toMatchObject({ code: -32603 })
  expect(server.count('tools/call')).toBe(3)
  expect(server.violations).toEqual([])
})

test('passes message and headers to a handler, and answers if the handler returns nothing', async () => {
  await using server = await startScriptedServer(({ message, headers }) =>
    message.method === 'tools/call'
      ? { result: { content: [], structuredContent: { name: headers['mcp-name'] } } }
      : undefined,
  )
  await using client = await connectModernClient(server.url)
  await expect(client.callTool({ name: 'echo' })).resolves.toMatchObject({
    structuredContent: { name: 'echo' },
  })
  await expect(client.listPrompts()).rejects.toMatchObject({ status: 404 })
})

test('notes violations of the client', async () => {
  await using server = await startScriptedServer()
  await using client = new RawClient(server.url)
  client.sessionId = 'old'
  client.headers = { 'mcp-method': 'tools/call' }
  await (await client.post({ method: 'tools/list', id: 1 })).text()
  expect(server.violations).toEqual([
    'tools/list: _meta has no protocolVersion',
    'tools/list: _meta has no clientCapabilities',
    'tools/list: Mcp-Method is not the method',
    'tools/list: there is a session id',
  ])
  await (await client.post({ method: 'notifications/cancelled' })).text()
  await (await client.get()).text()
  expect(server.violations).toContain('notifications/cancelled: the id is no string or integer')
  expect(server.violations).toContain('GET: GET does not exist')
})

test('notes a request id in use and an answer to no request as violations', async () => {
  await using server = await startScriptedServer({
    'tools/list': [{ end: 'hang' }, { result: {} }],
  })
  await using client = new RawClient(server.url)
  await using other = new RawClient(server.url)
  const hanging = client.post({ method: 'tools/list', id: 1 }).catch(() => {})
  await server.waitFor(() => true)
  await other.post({ method: 'tools/list', id: 1, params: { requestState: 'a state' } })
  expect(server.violations).toContain('tools/list: the id is that of an unanswered request')
  expect(server.violations).toContain('tools/list: only some methods can be continued')
  await server.restart()
  await hanging
})

test('answers a client of SDK v1 with the supported revisions', async () => {
  await using server = await startScriptedServer()
  await expect(connectStockClient(server.url)).rejects.toThrow(/-32022/)
})

test.each([
  [-32_601, 404],
  [-32_602, 400],
  [-32_020, 400],
  [-32_021, 400],
  [-32_022, 400],
  [-32_603, 200],
])('sends an error %i with the status of the specification', async (code, status) => {
  await using server = await startScriptedServer({ ping: { error: { code, data: { a: 1 } } } })
  await using client = new RawClient(server.url)
  const answer = await client.post({ method: 'ping', id: 'x' })
  expect(answer.status).toBe(status)
  const error = { code, message: `Error ${code}`, data: { a: 1 } }
  expect(JSON.parse(await answer.text())).toEqual({ jsonrpc: '2.0', id: 'x', error })
})

test('adds, replaces or leaves out resultType', async () => {
  await using server = await startScriptedServer({
    ping: [
      { result: {} },
      { result: { resultType: 'strange' } },
      { result: { resultType: undefined } },
      { result: {}, id: 'other' },
    ],
  })
  await using client = new RawClient(server.url)
  const next = async (): Promise<unknown> =>
    JSON.parse(await (await client.post({ method: 'ping', id: 7 })).text())
  expect(await next()).toEqual({ jsonrpc: '2.0', id: 7, result: { resultType: 'complete' } })
  expect(await next()).toEqual({ jsonrpc: '2.0', id: 7, result: { resultType: 'strange' } })
  expect(await next()).toEqual({ jsonrpc: '2.0', id: 7, result: {} })
  expect(await next()).toMatchObject({ id: 'other' })
})

test('sends events in order, when the test allows it', async () => {
  const gate = deferred<Record<string, unknown>>()
  await using server = await startScriptedServer({
    ping: { events: [': hello\n\n', { method: 'one' }, gate.promise], result: {} },
  })
  await using client = new RawClient(server.url)
  const answer = await client.post({ method: 'ping', id: 1 })
  const seen: string[] = []
  const until = async (text: string): Promise<void> => {
    while (!seen.join('').includes(text)) {
      const { value, done: isOver } = await answer.chunks.next()
      if (isOver === true) throw new Error(`No ${text}`)
      seen.push(value)
    }
  }
  await until('"one"')
  expect(seen.join('')).not.toContain('two')
  gate.resolve({ method: 'two' })
  await until('complete')
  const frames = seen.join('').split('\n\n')
  expect(frames).toEqual([
    ': hello',
    'event: message\ndata: {"jsonrpc":"2.0","method":"one"}',
    'event: message\ndata: {"jsonrpc":"2.0","method":"two"}',
    'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}',
    '',
  ])
  expect(answer.type).toBe('text/event-stream')
})

test.each([
  ['eof', undefined, 'complete'],
  ['eof', [{ method: 'one' }], 'complete'],
  ['cut', [{ method: 'one' }], 'cut'],
  ['truncate', undefined, 'cut'],
  ['truncate', [{ method: 'one' }], 'cut'],
] as const)('ends an answer with %s after %j', async (how, events, end) => {
  await using server = await startScriptedServer({ ping: { events, result: { a: 1 }, end: how } })
  await using client = new RawClient(server.url)
  const answer = await client.post({ method: 'ping', id: 1 })
  let body = ''
  const read = async (): Promise<string> => {
    for await (const chunk of { [Symbol.asyncIterator]: () => answer.chunks }) body += chunk
    return 'complete'
  }
  // The client reads a complete body, or one that breaks off.
  await expect(read().catch(() => 'cut')).resolves.toBe(end)
  expect(body.includes('"one"')).toBe(events !== undefined)
  expect(body.includes('"a":1')).toBe(false)
  expect(body.includes('"id":1')).toBe(how === 'truncate')
  await expect(server.waitFor((one) => one.end !== undefined)).resolves.toMatchObject({ end })
})

test('sends no byte of an answer before a reset', async () => {
  await using server = await startScriptedServer({ ping: { end: 'cut' } })
  await using client = new RawClient(server.url)
  await expect(client.post({ method: 'ping', id: 1 })).rejects.toThrow(/ECONNRESET|closed/)
  await server.waitFor((one) => one.end === 'cut')
})

test('ends an open answer when the client leaves, and aborts the signal of the handler', async () => {
  const left = deferred()
  await using server = await startScriptedServer(({ message, signal }) => {
    if (message.method !== 'tools/call') return undefined
    signal.addEventListener('abort', () => left.resolve())
    return {
      events: [{ method: 'notifications/message', params: { level: 'info', data: 1 } }],
      end: 'hang',
    }
  })
  await using client = await connectModernClient(server.url)
  const abort = new AbortController()
  const call = client.callTool({ name: 'echo' }, { signal: abort.signal })
  await server.waitFor((one) => one.toolName === 'echo')
  abort.abort()
  await expect(call).rejects.toThrow(/abort/i)
  await left.promise
  await server.waitFor((one) => one.toolName === 'echo' && one.end === 'client-gone')
})

test('requires input, and gets the answers with the state', async () => {
  const requestState = 'a state'
  const ask = {
    method: 'elicitation/create',
    params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
  }
  await using server = await startScriptedServer({
    'tools/call': [
      { result: { resultType: 'input_required', inputRequests: { sure: ask }, requestState } },
      done,
    ],
  })
  await using client = await connectModernClient(server.url)
  await expect(client.callTool({ name: 'echo' })).resolves.toMatchObject(done.result)
  const [first, second] = server.received.filter((one) => one.toolName === 'echo')
  expect(second?.params).toMatchObject({
    requestState,
    inputResponses: { sure: { action: 'accept' } },
  })
  expect(second?.rpcId).not.toBe(first?.rpcId)
})

test('lets the test control a listening stream', async () => {
  await using server = await startScriptedServer()
  server.acknowledge = 'later'
  await using client = await connectModernClient(server.url)
  const heard = deferred()
  client.setNotificationHandler('notifications/tools/list_changed', () => heard.resolve())
  const listening = client.listen({ toolsListChanged: true, promptsListChanged: true })
  const listener = await server.waitForListener(() => true)
  listener.acknowledge({ toolsListChanged: true })
  const subscription = await listening
  expect(subscription.honoredFilter).toEqual({ toolsListChanged: true })
  listener.notify('notifications/tools/list_changed')
  await heard.promise
  expect(server.listeners).toEqual([listener])
  listener.end()
  await expect(subscription.closed).resolves.toBe('graceful')
  expect(server.listeners).toEqual([])
  listener.notify('notifications/tools/list_changed') // lost without an error
})

const honour = (requested: unknown): unknown =>
  isRecord(requested) ? { toolsListChanged: requested['toolsListChanged'] } : {}

test.each(['eof', 'reset'] as const)('drops a listening stream: %s', async (how) => {
  await using server = await startScriptedServer()
  server.acknowledge = honour
  await using client = await connectModernClient(server.url)
  const subscription = await client.listen({ toolsListChanged: true, resourcesListChanged: true })
  expect(subscription.honoredFilter).toEqual({ toolsListChanged: true })
  const [listener] = server.listeners
  expect(server.dropListeners(how)).toBe(1)
  expect(server.listeners).toEqual([])
  listener?.notify('notifications/tools/list_changed') // lost without an error
  listener?.end()
  await expect(subscription.closed).resolves.toBe('remote')
  await server.waitForListener((one) => !one.isOpen)
})
