import { expect, test, vi } from 'vitest'
import { connectModernClient } from '../test/modern-client.ts'
import { connectStockClient } from '../test/stock-client.ts'
import { deferred } from '@x/internal/testing'
import { startModernServer } from './modern-server.ts'
import type { TestTool } from './tools.ts'

test('lists and calls tools of a client of SDK v2, without a session', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const { tools } = await client.listTools()
  expect(tools.map((tool) => tool.name)).toEqual([
    'echo',
    'add',
    'fail',
    'slow',
    'progress',
    'confirm',
    'ask_twice',
    'sample',
    'roots',
  ])
  await expect(client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })).resolves.toMatchObject({
    structuredContent: { sum: 3 },
  })
  await expect(client.callTool({ name: 'fail' })).resolves.toMatchObject({ isError: true })
  await expect(client.callTool({ name: 'none' })).rejects.toMatchObject({ code: -32602 })
  expect(server.executions('add')).toBe(1)
  expect(server.count('server/discover')).toBe(1)
  expect(server.count('GET')).toBe(0)
  expect(server.received.every((one) => one.sessionId === undefined)).toBe(true)
  expect(server.received.find((one) => one.toolName === 'add')).toMatchObject({
    rpcMethod: 'tools/call',
    protocolVersion: '2026-07-28',
    headers: { 'mcp-method': 'tools/call', 'mcp-name': 'add' },
  })
})

test('sends structured content that is not an object unchanged', async () => {
  const list: TestTool = {
    name: 'list',
    outputSchema: { type: 'array', items: { type: 'string' } },
    run: () => ({ structuredContent: ['one', 'two'] }),
  }
  await using server = await startModernServer({ tools: [list] })
  await using client = await connectModernClient(server.url)
  const { tools } = await client.listTools()
  expect(tools[0]?.outputSchema).toMatchObject({ type: 'array' })
  await expect(client.callTool({ name: 'list' })).resolves.toMatchObject({
    structuredContent: ['one', 'two'],
  })
})

test('sends progress and a log message before the answer', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const seen: unknown[] = []
  client.setNotificationHandler(
    'notifications/message',
    ({ params }) => void seen.push(params.data),
  )
  await client.callTool(
    { name: 'progress', _meta: { 'io.modelcontextprotocol/logLevel': 'info' } },
    { onprogress: ({ progress }) => void seen.push(progress) },
  )
  expect(seen).toEqual([1, 2, 'two of three', 3])
})

test('reports progress of a call of "slow", and answers it when the test releases it', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const reported = deferred<unknown>()
  const call = client.callTool({ name: 'slow' }, { onprogress: reported.resolve })
  await server.ledger.waitFor({ tool: 'slow', state: 'running' })
  expect(server.held).toBe(1)
  await server.progress(1, 2)
  await expect(reported.promise).resolves.toMatchObject({ progress: 1, total: 2 })
  expect(server.release('done')).toBe(1)
  await expect(call).resolves.toMatchObject({ content: [{ text: 'done' }] })
})

test('cancels a call when its stream is closed', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const abort = new AbortController()
  const call = client.callTool({ name: 'slow' }, { signal: abort.signal })
  await server.ledger.waitFor({ tool: 'slow', state: 'running' })
  abort.abort()
  await expect(call).rejects.toThrow(/abort/i)
  await server.ledger.waitFor({ tool: 'slow', state: 'cancelled' })
  expect(server.held).toBe(0)
})

test.each([
  ['confirm', { confirmation: { content: { value: 're: Go on?' } } }],
  ['sample', { answer: { content: { text: 'hello' } } }],
  ['roots', { roots: { roots: [{ uri: 'file:///work' }] } }],
  ['ask_twice', { first: { content: { value: 're: First name?' } }, last: { action: 'accept' } }],
])('%s returns the answers to its input requests', async (name, structuredContent) => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  await expect(client.callTool({ name })).resolves.toMatchObject({ structuredContent })
  expect(server.executions(name)).toBe(1)
  expect(server.ledger.received({ state: 'asked' })).toBe(name === 'ask_twice' ? 2 : 1)
})

test('refuses a changed request state', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const asked = await client.callTool({ name: 'ask_twice' }, { allowInputRequired: true })
  const { requestState } = asked as unknown as { requestState: string }
  const answers = { first: { action: 'decline' } }
  const again = (state: string): Promise<unknown> =>
    client.callTool(
      { name: 'ask_twice', inputResponses: answers, requestState: state } as { name: string },
      { allowInputRequired: true },
    )
  await expect(again(requestState.trim())).resolves.toMatchObject({ isError: true })
  await expect(again(requestState)).resolves.toMatchObject({ resultType: 'input_required' })
})

test('fails a call that requires an input that the client does not support', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url, {})
  await expect(client.callTool({ name: 'sample' })).rejects.toMatchObject({ code: -32021 })
})

test('reads arguments in headers, and refuses them under an old name', async () => {
  const regionTool = (header: string): TestTool => ({
    name: 'region',
    inputSchema: {
      type: 'object',
      properties: { region: { type: 'string', 'x-mcp-header': header } },
    },
    run: (_args, { headers }) => String(headers[`mcp-param-${header.toLowerCase()}`]),
  })
  await using server = await startModernServer({ tools: [regionTool('Region')] })
  await using client = await connectModernClient(server.url)
  await client.listTools()
  const call = { name: 'region', arguments: { region: 'Zürich' } }
  const answer = { content: [{ text: '=?base64?WsO8cmljaA==?=' }] }
  await expect(client.callTool(call)).resolves.toMatchObject(answer)
  server.tools = [regionTool('Area')]
  await expect(client.callTool(call)).resolves.toMatchObject(answer)
  expect(server.ledger.received('region')).toBe(3)
  expect(server.executions('region')).toBe(2)
})

test('lists a tool with an invalid header annotation, which clients leave out', async () => {
  using warn = vi.spyOn(console, 'warn').mockReturnValue()
  const properties = { amount: { type: 'number', 'x-mcp-header': 'Amount' } }
  const inputSchema = { type: 'object', properties }
  await using server = await startModernServer({
    tools: [{ name: 'invalid_header', inputSchema, run: () => 'never called' }],
  })
  await using client = await connectModernClient(server.url)
  const { tools } = await client.listTools()
  expect(tools).toEqual([])
  expect(warn).toHaveBeenCalled()
})

test('serves resources, prompts and completions', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const { resources } = await client.listResources()
  expect(resources.map(({ uri }) => uri)).toEqual(['static://text', 'counter://value'])
  server.resourceUpdated('counter://value')
  await expect(client.readResource({ uri: 'counter://value' })).resolves.toMatchObject({
    contents: [{ text: '1' }],
  })
  await expect(client.readResource({ uri: 'people://Ada' })).resolves.toMatchObject({
    contents: [{ text: 'About Ada' }],
  })
  await expect(
    client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } }),
  ).resolves.toMatchObject({ messages: [{ content: { text: 'Greet Ada' } }] })
  await expect(
    client.complete({
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: 'Ad' },
    }),
  ).resolves.toMatchObject({ completion: { values: ['Ada', 'Adele'] } })
})

test('sends changes to its listeners, until it drops them', async () => {
  await using server = await startModernServer()
  await using client = await connectModernClient(server.url)
  const toolsChanged = deferred()
  const updated = deferred<unknown>()
  client.setNotificationHandler('notifications/tools/list_changed', () => toolsChanged.resolve())
  client.setNotificationHandler('notifications/resources/updated', ({ params }) =>
    updated.resolve(params.uri),
  )
  const filter = { toolsListChanged: true, resourceSubscriptions: ['counter://value'] }
  const subscription = await client.listen(filter)
  const listener = await server.waitForListener(() => true)
  expect(listener).toMatchObject({ requested: filter, isOpen: true })
  expect(server.listeners).toEqual([listener])

  server.toolsChanged()
  await toolsChanged.promise
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain('added_1')
  server.resourceUpdated('counter://value')
  await expect(updated.promise).resolves.toBe('counter://value')

  expect(server.dropListeners()).toBe(1)
  server.toolsChanged() // lost without an error
  await expect(subscription.closed).resolves.toBe('remote')
  await server.waitForListener((one) => !one.isOpen)
  expect(server.listeners).toEqual([])
})

test('answers every request with an event stream if the option is set', async () => {
  await using server = await startModernServer({ answerAs: 'sse' })
  const types: (string | null)[] = []
  await using client = await connectModernClient(server.url)
  await client.callTool({ name: 'echo', arguments: { text: 'hi' } })
  const { headers, params } = server.received.find((one) => one.toolName === 'echo')!
  const response = await fetch(server.url, {
    method: 'POST',
    headers: Object.entries(headers)
      .filter(([name]) => name.startsWith('mcp-') || name === 'accept' || name === 'content-type')
      .map(([name, value]) => [name, String(value)] as [string, string]),
    body: JSON.stringify({ jsonrpc: '2.0', id: 'raw', method: 'tools/call', params }),
  })
  types.push(response.headers.get('content-type'))
  await response.text()
  expect(types).toEqual(['text/event-stream'])
})

test('refuses a legacy client, or serves it beside modern clients', async () => {
  await using strict = await startModernServer()
  await expect(connectStockClient(strict.url)).rejects.toThrow(/2026-07-28/)
  await using dual = await startModernServer({ legacy: 'serve' })
  await using modern = await connectModernClient(dual.url)
  await using legacy = await connectStockClient(dual.url)
  for (const client of [modern, legacy]) {
    const call = { name: 'add', arguments: { a: 2, b: 2 } }
    expect(await client.callTool(call)).toMatchObject({ structuredContent: { sum: 4 } })
  }
})

test('lists the `_meta` of its tools', async () => {
  const meta = { ui: { resourceUri: 'ui://shop/cart', visibility: ['app'] } }
  await using server = await startModernServer({
    tools: [{ name: 'cart', _meta: meta, run: () => '' }],
  })
  await using client = await connectModernClient(server.url)
  expect((await client.listTools()).tools).toMatchObject([{ name: 'cart', _meta: meta }])
})
