import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { deferred, startModernServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { createMcpTools, type ToolsChanged } from '../src/index.ts'
import { startChangingServer } from './changing-server.ts'
import { namesOf, toolOf } from './listed-tools.ts'
import { startShop } from './shop.ts'

test('names the servers for the name of another one', async () => {
  await using mcp = createMcpTools({ servers: { calc: { url: 'http://127.0.0.1:9/mcp' } } })
  expect(() => mcp.server('shop')).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining('"calc"') }),
  )
})

test('refuses resources and prompts after close()', async () => {
  await using server = await startModernServer()
  const mcp = createMcpTools({ servers: { calc: { url: server.url } } })
  await mcp.close()
  await expect(mcp.server('calc').listResources()).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(mcp.server('calc').getPrompt('hello')).rejects.toMatchObject({ code: 'CLOSED' })
  expect(server.connections).toBe(0)
})

test('reads resources in the session of the caller', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({
    servers: {
      calc: {
        url: server.url,
        headers: ({ configurable }) => ({ 'x-user': String(configurable['user']) }),
      },
    },
    principal: ({ configurable }) => String(configurable?.['user']),
  })
  await mcp
    .server('calc')
    .readResource('static://text', { config: { configurable: { user: 'ada' } } })
  const read = server.received.find(({ rpcMethod }) => rpcMethod === 'resources/read')
  expect(read?.headers['x-user']).toBe('ada')
})

test('ends a request with its run', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({ servers: { calc: { url: server.url } } })
  const reason = new Error('enough')
  const config = { signal: AbortSignal.abort(reason) }
  await expect(mcp.server('calc').readResource('static://text', { config })).rejects.toBe(reason)
  await expect(mcp.server('calc').callTool('echo', { text: 'x' }, { config })).rejects.toBe(reason)
})

test('calls and lists tools for a host as the user of the current run', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({
    servers: {
      calc: {
        url: server.url,
        headers: ({ configurable }) => ({ 'x-user': String(configurable['user']) }),
      },
    },
    principal: ({ configurable }) => String(configurable?.['user']),
  })
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('call', async () => {
      await mcp.server('calc').callTool('echo', { text: 'hello' })
      await mcp.server('calc').listTools()
      return {}
    })
    .addEdge(START, 'call')
    .compile()
  await graph.invoke({ messages: [] }, { configurable: { user: 'ada' } })
  for (const method of ['tools/call', 'tools/list']) {
    const request = server.received.find(({ rpcMethod }) => rpcMethod === method)
    expect(request?.headers['x-user']).toBe('ada')
  }
})

test('has prompts, completion, subscriptions and other requests on a server handle', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({ servers: { calc: { url: server.url } } })
  const calc = mcp.server('calc')
  expect((await calc.listPrompts()).map(({ name }) => name)).toContain('greet')
  expect((await calc.listResourceTemplates()).map(({ uriTemplate }) => uriTemplate)).toContain(
    'people://{name}',
  )
  const ref = { type: 'ref/prompt', name: 'greet' } as const
  const { completion } = await calc.complete({ ref, argument: { name: 'name', value: 'A' } })
  expect(completion.values).not.toEqual([])
  const updated = deferred<string>()
  const undo = calc.on('resourceUpdated', ({ uri }) => updated.resolve(uri))
  await calc.subscribeResource('counter://value')
  await server.waitForListener(({ isOpen }) => isOpen)
  server.resourceUpdated('counter://value')
  expect(await updated.promise).toBe('counter://value')
  undo()
  await calc.unsubscribeResource('counter://value')
  const params = { uri: 'static://text' }
  const { contents } = await calc.request({ method: 'resources/read', params })
  expect(contents).toMatchObject([{ text: 'always the same' }])
})

test('uses the session of the given config: log levels and logs of one user do not reach another', async () => {
  const { server, mcp } = await startShop({
    principal: ({ configurable }) => String(configurable?.['user']),
  })
  const shop = mcp.server('shop')
  const of = (user: string) => ({ config: { configurable: { user } } })
  const logged: [string, unknown][] = []
  const heard = deferred()
  for (const user of ['ada', 'bob']) {
    shop.on(
      'serverLog',
      ({ data }) => {
        logged.push([user, data])
        heard.resolve()
      },
      of(user).config,
    )
  }
  await shop.setLoggingLevel('debug', of('ada'))
  expect(server.count('logging/setLevel')).toBe(1)
  expect(server.sessions).toHaveLength(1)
  server.notify('notifications/message', { level: 'info', data: 'hello' })
  await heard.promise
  expect(logged).toEqual([['ada', 'hello']])
})

describe('toolsChanged', () => {
  test('reports added, removed and changed tools as soon as the server reports a change', async () => {
    await using server = await startChangingServer()
    await using mcp = createMcpTools({ servers: { bank: { url: server.url } } })
    const told: ToolsChanged[] = []
    let next = deferred()
    mcp.on('toolsChanged', (change) => {
      told.push(change)
      next.resolve()
    })
    const after = async (change: () => void): Promise<void> => {
      next = deferred()
      change()
      await next.promise
    }
    await mcp.listTools()
    await (await toolOf(mcp, 'look')).invoke({}) // its listening stream is open now
    await after(() => server.add('sell'))
    await after(() => server.redefine('look', 'Looks elsewhere.'))
    await after(() => server.remove('pay'))
    expect(told).toEqual([
      { server: 'bank', added: ['sell'], removed: [], changed: [] },
      { server: 'bank', added: [], removed: [], changed: ['look'] },
      { server: 'bank', added: [], removed: ['pay'], changed: [] },
    ])
  })

  test('reports changes of a stateless server too', async () => {
    await using server = await startModernServer()
    await using mcp = createMcpTools({ servers: { calc: { url: server.url } }, log: () => {} })
    const changed = deferred<ToolsChanged>()
    mcp.on('toolsChanged', changed.resolve)
    await mcp.listTools()
    await server.waitForListener(({ isOpen }) => isOpen)
    server.toolsChanged()
    expect(await changed.promise).toMatchObject({ server: 'calc', added: ['added_1'] })
  })

  test('reports a change of many sessions at the next list, for each principal', async () => {
    await using server = await startChangingServer()
    await using mcp = createMcpTools({
      servers: { bank: { url: server.url } },
      principal: ({ configurable }) => String(configurable?.['user']),
    })
    const told: ToolsChanged[] = []
    const undo = mcp.on('toolsChanged', (change) => told.push(change))
    const config = { configurable: { user: 'ada' } }
    await mcp.listTools({ config })
    server.add('sell')
    await expect.poll(async () => namesOf(await mcp.listTools({ config }))).toContain('sell')
    expect(told).toEqual([
      { server: 'bank', principal: 'ada', added: ['sell'], removed: [], changed: [] },
    ])
    undo()
    server.add('rent')
    await expect.poll(async () => namesOf(await mcp.listTools({ config }))).toContain('rent')
    expect(told).toHaveLength(1)
  })
})
