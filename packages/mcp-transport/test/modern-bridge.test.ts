// The client of SDK v1 on stateless servers: requests, answers and notifications.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { deferred, startModernServer, startScriptedServer } from '@x/mcp-testing'
import { headerAnnotationForms } from './header-annotation-forms.ts'
import type { ScriptedServer, TestTool } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import { failureIn, RawClient, rawClient } from './raw-client.ts'
import { connectStock, getText } from './stock-client.ts'

const text = (value: string): { content: object[] } => ({
  content: [{ type: 'text', text: value }],
})
const empty = { type: 'object' }

/** A raw client that has initialized a connection to a stateless server. */
async function rawOn(server: { url: string }, capabilities = {}): Promise<RawClient> {
  const client = rawClient(server.url, { reconnect: { firstMs: 1, maxMs: 1 } })
  await client.handshake(capabilities)
  return client
}

const paramsOf = (server: ScriptedServer, method: string, at = 0): Record<string, unknown> =>
  server.received.filter(({ rpcMethod }) => rpcMethod === method)[at]?.params ?? {}

describe('initialize', () => {
  test('is answered with the result of server/discover, as an InitializeResult', async () => {
    await using server = await startModernServer()
    await using stock = await connectStock(server.url)
    const { client, transport } = stock
    expect(client.getServerVersion()).toMatchObject({ name: 'modern-test-server' })
    expect(client.getInstructions()).toBe('A stateless test server.')
    expect(client.getServerCapabilities()).toMatchObject({ tools: { listChanged: true } })
    expect(transport).toMatchObject({ era: 'modern', protocolVersion: '2026-07-28' })
    expect(transport.sessionId).toBeUndefined()
    await transport.terminateSession() // does nothing without a session
    expect([server.count('initialize'), server.count('DELETE'), server.count('GET')]).toEqual([
      0, 0, 0,
    ])
  })

  test('sends the identity of the client and valid headers with every request', async () => {
    await using server = await startScriptedServer({
      'tools/call': { result: text('ok') },
      'resources/read': { result: { contents: [] } },
      'prompts/get': { result: { messages: [] } },
    })
    await using stock = await connectStock(server.url, {
      capabilities: { roots: { listChanged: true }, sampling: {} },
    })
    await stock.client.callTool({ name: 'größe' })
    await stock.client.readResource({ uri: 'file:///a b' })
    await stock.client.getPrompt({ name: ' padded ' })
    expect(server.violations).toEqual([])
    expect(paramsOf(server, 'tools/call')['_meta']).toEqual({
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': { roots: {}, sampling: {} },
      'io.modelcontextprotocol/clientInfo': { name: 'stock', version: '1.0.0' },
    })
    const ids = server.received.map(({ rpcId }) => rpcId)
    expect(new Set(ids).size).toBe(ids.length)
  })
})

describe('requests of the client', () => {
  test('get the results of a real server for lists, reads, prompts and completion', async () => {
    await using server = await startModernServer()
    await using stock = await connectStock(server.url)
    const { client } = stock
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toContain('echo')
    expect(getText(await client.callTool({ name: 'echo', arguments: { text: 'hi' } }))).toBe('hi')
    await expect(client.readResource({ uri: 'static://text' })).resolves.toHaveProperty('contents')
    await expect(client.listResourceTemplates()).resolves.toHaveProperty('resourceTemplates')
    await expect(client.getPrompt({ name: 'hello' })).resolves.toHaveProperty('messages')
    const completed = await client.complete({
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: '' },
    })
    expect(completed.completion.values).not.toEqual([])
    expect(stock.errors).toEqual([])
  })

  test('send ping as server/discover, and fail if that fails', async () => {
    await using server = await startScriptedServer()
    await using stock = await connectStock(server.url)
    await expect(stock.client.ping()).resolves.toEqual({})
    expect(server.count('server/discover')).toBe(2)
    server.answers = { 'server/discover': { status: 500, error: { code: -32603 } } }
    await expect(stock.client.ping()).rejects.toMatchObject({ code: -32603 })
  })

  test('close the stream of a cancelled ping', async () => {
    await using server = await startScriptedServer()
    await using stock = await connectStock(server.url)
    server.answers = { 'server/discover': { end: 'hang' } }
    const abort = new AbortController()
    const ping = stock.client.ping({ signal: abort.signal })
    await server.waitFor(
      ({ end, rpcMethod }) => rpcMethod === 'server/discover' && end === undefined,
    )
    abort.abort()
    await expect(ping).rejects.toThrow('aborted')
    await server.waitFor(({ end }) => end === 'client-gone')
  })

  test('send the log level with every later request, and no request for it', async () => {
    await using server = await startScriptedServer({ 'tools/call': { result: text('ok') } })
    await using stock = await connectStock(server.url)
    await stock.client.callTool({ name: 'a' })
    await stock.client.setLoggingLevel('warning')
    await stock.client.callTool({ name: 'a' })
    const levels = [0, 1].map(
      (at) =>
        (paramsOf(server, 'tools/call', at)['_meta'] as Record<string, unknown>)[
          'io.modelcontextprotocol/logLevel'
        ],
    )
    expect(levels).toEqual([undefined, 'warning'])
    expect(server.count('logging/setLevel')).toBe(0)
  })

  test.each([
    ['tasks/list', {}, -32601],
    ['tools/call', { name: 'a', task: { ttl: 1 } }, -32601],
  ])('reject %s %j, which 2026-07-28 does not have', async (method, params, code) => {
    await using server = await startScriptedServer()
    await using client = await rawOn(server)
    await expect(client.request(method, params)).resolves.toMatchObject({
      error: { code, message: expect.stringContaining('2026-07-28') },
    })
    expect(server.count(method)).toBe(0)
  })

  test('reject a resumption token, and never return one', async () => {
    await using server = await startScriptedServer({
      'tools/call': { events: ['id: 1\ndata:\n\n'], result: {} },
    })
    await using client = await rawOn(server)
    const refused = await client.request('tools/call', {}, { resumptionToken: 'e1' })
    expect(refused).toMatchObject({ error: { code: -32602 } })
    expect(server.count('tools/call')).toBe(0)
    const tokens: string[] = []
    const onresumptiontoken = (token: string): void => void tokens.push(token)
    await client.request('tools/call', { name: 'a' }, { onresumptiontoken })
    expect(tokens).toEqual([])
  })

  test('send no notifications and no late responses', async () => {
    await using server = await startScriptedServer()
    await using client = await rawOn(server, { roots: {} })
    const before = server.received.length
    await client.notify('notifications/roots/list_changed')
    await client.notify('notifications/progress', { progressToken: 1, progress: 1 })
    await client.notify('notifications/cancelled', { requestId: 99 })
    await client.transport.send({ jsonrpc: '2.0', id: 'unknown', result: {} })
    await client.request('ping')
    expect(server.received.slice(before).map(({ rpcMethod }) => rpcMethod)).not.toContain(
      'notifications/roots/list_changed',
    )
    expect(server.violations).toEqual([])
  })
})

describe('an answer', () => {
  test('arrives after its progress and log messages, in order', async () => {
    await using server = await startModernServer()
    const seen: string[] = []
    await using stock = await connectStock(server.url)
    stock.client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      seen.push(`log ${params.level}`)
    })
    await stock.client.setLoggingLevel('debug')
    const result = await stock.client.callTool({ name: 'progress' }, undefined, {
      onprogress: ({ progress }) => seen.push(`progress ${progress}`),
    })
    seen.push('answer')
    expect(result.isError).not.toBe(true)
    expect(seen.map((one) => one.split(' ')[0])).toEqual([
      'progress',
      'progress',
      'log',
      'progress',
      'answer',
    ])
  })

  test('arrives after all earlier events of its stream', async () => {
    const events = Array.from({ length: 50 }, (_, at) => ({
      method: 'notifications/progress',
      params: { progressToken: 0, progress: at },
    }))
    await using server = await startScriptedServer({ 'tools/call': { events, result: {} } })
    await using client = await rawOn(server)
    client.messages.length = 0
    await client.request('tools/call', { name: 'a', _meta: { progressToken: 7 } })
    const progress = client.messages
      .slice(0, -1)
      .map((one) => 'params' in one && one.params?.['progress'])
    expect(progress).toEqual(events.map(({ params }) => params.progress))
    expect(client.messages.at(-1)).toMatchObject({ id: 1, result: {} })
  })

  test.each([
    [400, -32602],
    [404, -32601],
    [409, -32000],
    [422, 1],
    [500, -32603],
    [503, -32050],
    [200, -32001],
  ])('with status %i and code %i is the unchanged error of the server', async (status, code) => {
    const error = { code, message: 'Because', data: { why: 'because' } }
    await using server = await startScriptedServer({ 'tools/call': { status, error } })
    await using client = await rawOn(server)
    await expect(client.request('tools/call', { name: 'a' })).resolves.toEqual({
      jsonrpc: '2.0',
      id: 1,
      error,
    })
  })

  test('is accepted with its id as a string, or as an error without an id', async () => {
    await using server = await startScriptedServer({
      'tools/call': { id: null, status: 400, error: { code: -32700, message: 'Unreadable' } },
    })
    await using client = await rawOn(server)
    await expect(client.request('tools/call', { name: 'a' })).resolves.toMatchObject({
      id: 1,
      error: { code: -32700 },
    })
  })

  test.each([
    ['a regular end without an answer', { events: [], end: 'eof' }, 'OUTCOME_UNKNOWN'],
    ['a broken connection', { events: [], end: 'cut' }, 'OUTCOME_UNKNOWN'],
    ['half of an answer', { events: [], result: {}, end: 'truncate' }, 'OUTCOME_UNKNOWN'],
    [
      'half of a body',
      { result: {}, end: 'truncate', headers: { 'content-length': '500' } },
      'OUTCOME_UNKNOWN',
    ],
    ['a reset before the response', { end: 'cut' }, 'OUTCOME_UNKNOWN'],
    ['the id of another request', { result: {}, id: 'other' }, 'OUTCOME_UNKNOWN'],
    [
      'an HTML page',
      { status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' },
      'UNEXPECTED_RESPONSE',
    ],
    ['an empty response with status 502', { status: 502 }, 'REJECTED'],
    ['an empty response with status 401', { status: 401 }, 'UNAUTHORIZED'],
  ] as const)('that ends with %s fails the call at once', async (_name, answer, code) => {
    await using server = await startScriptedServer({ 'tools/call': answer })
    await using client = await rawOn(server)
    const before = server.received.length
    expect(await client.failureOf('tools/call', { name: 'a' })).toMatchObject({ code })
    // Nothing is resumed or sent again.
    expect(
      server.received.slice(before).filter(({ rpcMethod }) => rpcMethod !== 'subscriptions/listen'),
    ).toHaveLength(1)
    expect(client.errors).toEqual([])
  })

  test('with an unknown resultType fails the call', async () => {
    await using server = await startScriptedServer({
      'tools/call': { result: { resultType: 'task', taskId: '1' } },
    })
    await using client = await rawOn(server)
    await expect(client.request('tools/call', { name: 'a' })).resolves.toMatchObject({
      error: { code: -32603, message: expect.stringContaining('"task"') },
    })
  })

  test('reaches the client without its resultType, otherwise unchanged', async () => {
    const listed = { tools: [], ttlMs: 1000, cacheScope: 'private' }
    await using server = await startScriptedServer({ 'tools/list': { result: listed } })
    await using client = await rawOn(server)
    const answer = await client.request('tools/list')
    expect(answer).toEqual({ jsonrpc: '2.0', id: 1, result: listed })
  })
})

/** A tool with arguments that are repeated in `Mcp-Param-*` headers. */
function regionTool(regionHeader = 'Region'): TestTool {
  const inHeader = (type: string, name: string): unknown => ({ type, 'x-mcp-header': name })
  const target = { type: 'object', properties: { zone: inHeader('string', 'Zone') } }
  return {
    name: 'region',
    inputSchema: {
      type: 'object',
      properties: {
        region: inHeader('string', regionHeader),
        count: inHeader('integer', 'Count'),
        target,
        note: { type: 'string' },
      },
      required: ['region'],
    },
    annotations: { readOnlyHint: false, idempotentHint: true },
    run: () => 'done',
  }
}

describe('tools', () => {
  test('with an invalid header annotation are left out and reported once', async () => {
    const tools = Object.entries(headerAnnotationForms).map(([name, { inputSchema }]) => ({
      name,
      inputSchema,
    }))
    const faulty = Object.entries(headerAnnotationForms).filter(
      ([, { fault }]) => fault !== undefined,
    )
    await using server = await startScriptedServer({ 'tools/list': { result: { tools } } })
    await using stock = await connectStock(server.url)
    await stock.client.listTools()
    const listed = await stock.client.listTools()
    expect(listed.tools.map(({ name }) => name)).toEqual([
      'string',
      'integer',
      'boolean',
      'nested',
      'plain',
    ])
    expect(stock.errors).toHaveLength(faulty.length)
    expect(stock.errors[0]?.message).toContain('on_number')
  })

  test('may have any output schema, and their results fit the schema that the client got', async () => {
    const outputs = {
      a_number: [{ type: 'number' }, 0],
      a_boolean: [{ type: 'boolean' }, false],
      a_null: [{ type: 'null' }, null],
      a_list: [
        { type: 'array', items: { $ref: '#/$defs/n' }, $defs: { n: { type: 'number' } } },
        [1, 2],
      ],
      a_choice: [{ anyOf: [{ type: 'object', required: ['a'] }, { type: 'null' }] }, { a: 1 }],
      an_object: [{ type: 'object', properties: { any: true } }, { any: [1] }],
    } as const
    await using server = await startScriptedServer(({ message: { method, params } }) => {
      if (method === 'tools/list') {
        const tools = Object.entries(outputs).map(([name, [outputSchema]]) => ({
          name,
          inputSchema: empty,
          outputSchema,
        }))
        return { result: { tools } }
      }
      if (method !== 'tools/call') return undefined
      const [, structuredContent] = outputs[params?.['name'] as keyof typeof outputs]
      return { result: { content: [], structuredContent } }
    })
    await using stock = await connectStock(server.url)
    await stock.client.listTools()
    for (const [name, [, value]] of Object.entries(outputs)) {
      // The client validates against the output schema that it was given.
      const { structuredContent } = await stock.client.callTool({ name })
      expect(structuredContent).toEqual(name === 'an_object' ? value : { result: value })
    }
  })

  test('get their headers, also in the next process without a list request', async () => {
    await using server = await startModernServer({ tools: [regionTool()] })
    const sessionInfo = new SessionInfo()
    const call = { name: 'region', arguments: { region: 'west', count: 2, target: { zone: 'ü' } } }
    {
      await using first = await connectStock(server.url, { sessionInfo })
      await first.client.listTools()
      expect((await first.client.callTool(call)).isError).not.toBe(true)
    }
    expect((await sessionInfo.getRecord())?.toolHeaders).toMatchObject({
      region: expect.arrayContaining([{ name: 'mcp-param-region', path: ['region'] }]),
    })
    const lists = server.count('tools/list')
    await using second = await connectStock(server.url, { sessionInfo })
    expect(second.transport.isResumed).toBe(true)
    expect((await second.client.callTool(call)).isError).not.toBe(true)
    expect(server.count('tools/list')).toBe(lists)
    const { headers } = server.received.at(-1) ?? {}
    expect(headers).toMatchObject({ 'mcp-param-region': 'west', 'mcp-param-count': '2' })
  })

  test('get headers only in calls, not in other requests with the same parameters', async () => {
    const { name, inputSchema } = regionTool()
    await using server = await startScriptedServer({
      'tools/list': { result: { tools: [{ name, inputSchema }] } },
      'tools/call': { result: { content: [] } },
      'prompts/get': { result: { messages: [] } },
    })
    await using client = await rawOn(server)
    await client.request('tools/list')
    const params = { name: 'region', arguments: { region: 'west' } }
    await client.request('tools/call', params)
    expect(server.received.at(-1)?.headers).toHaveProperty('mcp-param-region', 'west')
    await client.request('prompts/get', params)
    expect(server.received.at(-1)?.headers).not.toHaveProperty('mcp-param-region')
  })

  test('are listed again and called again if their headers have changed', async () => {
    await using server = await startModernServer({ tools: [regionTool()] })
    await using stock = await connectStock(server.url)
    await stock.client.listTools()
    server.tools = [regionTool('Area')]
    const result = await stock.client.callTool({ name: 'region', arguments: { region: 'west' } })
    expect(result.isError).not.toBe(true)
    expect([server.count('tools/call'), server.count('tools/list')]).toEqual([2, 2])
    expect(server.executions('region')).toBe(1)
  })

  test('fail after a second call with wrong headers', async () => {
    await using server = await startScriptedServer({
      'tools/call': { error: { code: -32020, message: 'Wrong header' } },
      'tools/list': [{ result: { tools: [], nextCursor: '2' } }, { result: { tools: [] } }],
    })
    await using stock = await connectStock(server.url)
    await expect(stock.client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32020 })
    expect([server.count('tools/call'), server.count('tools/list')]).toEqual([2, 2])
  })

  test('are not called again if the list request fails', async () => {
    await using server = await startScriptedServer({
      'tools/call': { error: { code: -32020, message: 'Wrong header' } },
    })
    await using stock = await connectStock(server.url)
    await expect(stock.client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32020 })
    expect([server.count('tools/call'), server.count('tools/list')]).toEqual([1, 1])
  })
})

describe('cancelling a request', () => {
  test('closes the stream, and sends no message', async () => {
    await using server = await startModernServer()
    await using stock = await connectStock(server.url)
    const abort = new AbortController()
    const call = stock.client.callTool({ name: 'slow' }, undefined, { signal: abort.signal })
    await server.ledger.waitFor({ tool: 'slow', state: 'running' })
    const before = server.received.length
    abort.abort()
    await expect(call).rejects.toThrow('aborted')
    await server.ledger.waitFor({ state: 'cancelled' })
    await stock.client.ping()
    expect(server.received.slice(before).map(({ rpcMethod }) => rpcMethod)).toEqual([
      'server/discover',
    ])
    expect(stock.errors).toEqual([])
  })

  test('sends nothing if the request was not sent yet', async () => {
    const held = deferred<Record<string, string>>()
    await using server = await startScriptedServer({ 'tools/call': { result: text('ok') } })
    let isHeld = false
    await using stock = await connectStock(server.url, {
      headers: () => (isHeld ? held.promise : {}),
    })
    isHeld = true
    const abort = new AbortController()
    const call = stock.client.callTool({ name: 'a' }, undefined, { signal: abort.signal })
    abort.abort()
    await expect(call).rejects.toThrow('aborted')
    isHeld = false
    held.resolve({})
    await stock.client.ping()
    expect(server.count('tools/call')).toBe(0)
  })

  test('during the list request before a second call ends both', async () => {
    await using server = await startScriptedServer({
      'tools/call': { error: { code: -32020, message: 'Wrong header' } },
      'tools/list': { end: 'hang' },
    })
    await using stock = await connectStock(server.url)
    const abort = new AbortController()
    const call = stock.client.callTool({ name: 'a' }, undefined, { signal: abort.signal })
    await server.waitFor(({ rpcMethod }) => rpcMethod === 'tools/list')
    abort.abort()
    await expect(call).rejects.toThrow('aborted')
    await server.waitFor(
      ({ rpcMethod, end }) => rpcMethod === 'tools/list' && end === 'client-gone',
    )
    expect(server.count('tools/call')).toBe(1)
  })
})

test('close() answers each open request once, and closes each stream', async () => {
  const ask = {
    method: 'elicitation/create',
    params: { message: 'Go on?', requestedSchema: empty },
  }
  await using server = await startScriptedServer(({ message: { method, params } }) => {
    if (method !== 'tools/call') return undefined
    switch (params?.['name']) {
      case 'streams':
        return { events: [], end: 'hang' }
      case 'asks':
        return { result: { resultType: 'input_required', inputRequests: { a: ask } } }
      default:
        return { end: 'hang' }
    }
  })
  const client = await rawOn(server, { elicitation: {} })
  const listener = await server.waitForListener(() => true)
  server.acknowledge = 'later'
  const open = [
    client.request('tools/call', { name: 'hangs' }),
    client.request('tools/call', { name: 'streams' }),
    client.request('tools/call', { name: 'asks' }),
    client.request('resources/subscribe', { uri: 'counter://value' }),
    client.request('resources/subscribe', { uri: 'queued://behind' }),
  ]
  await server.waitForListener((one) => one !== listener)
  await client.until(() =>
    client.messages.some((one) => 'method' in one && one.method === ask.method),
  )
  await server.waitFor(({ params }) => params?.['name'] === 'streams')
  await client.transport.close()
  const answers = await Promise.all(open)
  expect(answers.map((answer) => failureIn(answer).code)).toEqual(open.map(() => 'CLOSED'))
  await Promise.all(
    server.received.map((one) =>
      server.waitFor((other) => other === one && other.end !== undefined),
    ),
  )
  expect(server.count('subscriptions/listen')).toBe(2) // the queued subscription was never sent
  const ids = client.messages.flatMap((one) => ('method' in one ? [] : [one.id]))
  expect(new Set(ids).size).toBe(ids.length)
  expect([client.errors, client.closed]).toEqual([[], 1])
})

test('close() leaves no socket and no timer that keeps a process alive', async () => {
  const ask = {
    method: 'elicitation/create',
    params: { message: 'Go on?', requestedSchema: empty },
  }
  await using server = await startScriptedServer(({ message: { method, params } }) => {
    if (method !== 'tools/call') return undefined
    switch (params?.['name']) {
      case 'streams':
        return { events: [], end: 'hang' }
      case 'asks':
        return { result: { resultType: 'input_required', inputRequests: { a: ask } } }
      case 'polls':
        return { result: { resultType: 'input_required', requestState: 's' } }
      default:
        return { end: 'hang' }
    }
  })
  const script = fileURLToPath(new URL('close-with-modern-requests.ts', import.meta.url))
  const args = ['--conditions=mcp-source', '--no-warnings', script, server.url]
  const child = execFile(process.execPath, args)
  const exited = once(child, 'exit')
  let output = ''
  child.stdout?.on('data', (chunk) => (output += String(chunk)))
  await server.waitForListener(({ requested }) => JSON.stringify(requested).includes('counter'))
  child.stdin?.write('close\n')
  expect(await exited).toEqual([0, null])
  expect(output).toMatch(/^6 answers\n$/)
})

test('start() opens a closed transport again', async () => {
  await using server = await startModernServer()
  const transport = new StreamableHttpTransport(server.url)
  for (const round of [1, 2]) {
    await using client = new RawClient(transport)
    await client.handshake()
    await expect(client.request('ping')).resolves.toMatchObject({ result: {} })
    expect(client.messages).toHaveLength(2)
    expect(server.count('server/discover')).toBe(round === 1 ? 2 : 3)
  }
})

test('a second initialize on the same transport ends all streams and requests of the first', async () => {
  await using server = await startScriptedServer()
  await using client = await rawOn(server)
  const first = await server.waitForListener(() => true)
  await client.request('initialize', { protocolVersion: '2025-11-25', capabilities: { roots: {} } })
  await server.waitForListener((one) => one === first && !one.isOpen)
  await client.notify('notifications/initialized')
  await server.waitForListener((one) => one !== first && one.isOpen)
  expect(server.listeners).toHaveLength(1)
})
