import { McpClient, StaticServerDirectory } from '@x/mcp-client'
import {
  startLegacyServer,
  startScriptedServer,
  type Script,
  type ScriptedServer,
} from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import {
  createMcpTools,
  createMcpToolsFromMetadataForMcpServer,
  loadMcpTools,
  type McpToolSource,
  type ToolLogEntry,
} from '../src/index.ts'
import { loadMcpResources } from '../src/resources.ts'
import { namesOf, toolCall, toolOf } from './listed-tools.ts'

const inputSchema = { type: 'object' }
const SHOW = 'ui://shop/cart.html'
const show = {
  name: 'show',
  inputSchema,
  _meta: { ui: { resourceUri: SHOW, visibility: ['model', 'app'] } },
}
const submit = { name: 'submit', inputSchema, _meta: { ui: { visibility: ['app'] } } }
const page = { uri: SHOW, mimeType: 'text/html;profile=mcp-app', text: '<h1>Cart</h1>' }

/** A server with an app: `show` opens it, and `submit` is for its buttons. */
const startApp = (answers: Script = {}): Promise<ScriptedServer> =>
  startScriptedServer({
    'tools/list': { result: { tools: [show, submit], ttlMs: 0, cacheScope: 'private' } },
    'tools/call': ({ message: { params } }) => ({
      result: {
        content: [{ type: 'text', text: `${String(params?.['name'])} done` }],
        _meta: { cart: 7 },
      },
    }),
    'resources/list': {
      result: {
        resources: [
          { uri: SHOW, name: 'cart' },
          { uri: 'shop://terms', name: 'terms' },
        ],
        ttlMs: 0,
        cacheScope: 'private',
      },
    },
    'resources/read': ({ message: { params } }) => ({
      result: {
        contents: [params?.['uri'] === SHOW ? page : { uri: params?.['uri'], text: 'Pay first.' }],
        ttlMs: 0,
        cacheScope: 'private',
      },
    }),
    ...answers,
  })

test('a tool for apps only is hidden from the model, and in status() and the log once', async () => {
  await using server = await startApp()
  const log = vi.fn<(entry: ToolLogEntry) => void>()
  await using mcp = createMcpTools({ servers: { shop: server.url }, log })
  for (let times = 0; times < 2; times++) expect(namesOf(await mcp.listTools())).toEqual(['show'])
  expect(mcp.status()).toEqual([{ name: 'shop', state: 'up', appTools: ['submit'] }])
  expect(log.mock.calls).toEqual([
    [expect.objectContaining({ level: 'info', code: 'TOOL_FOR_APPS', tool: 'submit' })],
  ])
})

test('a host reads the user interface of a result, and calls the tools of its app', async () => {
  await using server = await startApp()
  await using mcp = createMcpTools({ servers: { shop: server.url } })
  const tool = await toolOf(mcp, 'show')
  const { artifact } = (await tool.invoke(toolCall('show'))) as { artifact: unknown }
  expect(artifact).toEqual([
    { type: 'mcp_meta', data: expect.objectContaining({ cart: 7 }) },
    { type: 'mcp_content', data: [{ type: 'text', text: 'show done' }] },
    {
      type: 'mcp_ui',
      data: { server: 'shop', tool: 'show', resourceUri: SHOW, visibility: ['model', 'app'] },
    },
  ])
  const shop = mcp.server('shop')
  expect((await shop.readResource(SHOW)).contents).toEqual([page])
  expect((await shop.listTools()).map(({ name }) => name)).toEqual(['show', 'submit'])
  expect(await shop.callTool('submit', { item: 1 })).toMatchObject({
    content: [{ text: 'submit done' }],
  })
  expect(server.violations).toEqual([])
})

test('the server of a user interface is named as in `servers`, also if a directory knows it', async () => {
  await using server = await startApp()
  const directory = new StaticServerDirectory({ 'shop-7': server.url })
  await using mcp = createMcpTools({ servers: { shop: { slug: 'shop-7' } }, directory })
  const answer: unknown = await (await toolOf(mcp, 'show')).invoke(toolCall('show'))
  expect(answer).toMatchObject({
    artifact: expect.arrayContaining([
      { type: 'mcp_ui', data: expect.objectContaining({ server: 'shop' }) },
    ]),
  })
})

test('a tool for apps only is not offered by any other function', async () => {
  await using server = await startApp()
  await using client = new McpClient(server.url)
  expect(namesOf(await loadMcpTools(client))).toEqual(['show'])
  const resource = { $resourceType: 'mcp', name: 'Shop', availableTools: [show, submit] } as const
  const stored = await createMcpToolsFromMetadataForMcpServer(resource, client)
  expect(namesOf(stored)).toEqual(['show'])
  expect(await client.callTool('submit')).toMatchObject({ content: [{ text: 'submit done' }] })
})

test('neither `allow` nor `tools.alwaysShow` offers a tool for apps only', async () => {
  await using server = await startApp()
  const allow = vi.fn<() => boolean>(() => true)
  const tools = { alwaysShow: ['submit'] }
  await using mcp = createMcpTools({ servers: { shop: server.url }, allow, tools })
  expect(namesOf(await mcp.listTools())).toEqual(['show'])
  expect(allow).toHaveBeenCalledOnce()
})

test('a stored tool that has become one for apps only is not called', async () => {
  const callTool = vi.fn<McpToolSource['callTool']>()
  const source: McpToolSource = { listTools: () => Promise.resolve([submit]), callTool }
  const availableTools = [{ name: 'submit', inputSchema }]
  const resource = { $resourceType: 'mcp', name: 'Shop', availableTools } as const
  const [tool] = await createMcpToolsFromMetadataForMcpServer(resource, source, { log: () => {} })
  expect(await tool?.invoke(toolCall('submit'))).toMatchObject({
    status: 'error',
    content: expect.stringContaining('no longer offered'),
  })
  expect(callTool).not.toHaveBeenCalled()
})

test('a tool for apps only of a server with sessions is hidden too', async () => {
  const tool = { ...submit, run: () => 'done' }
  await using server = await startLegacyServer({ tools: [tool] })
  await using mcp = createMcpTools({ servers: { shop: server.url } })
  expect(namesOf(await mcp.listTools())).not.toContain('submit')
  expect(mcp.status()).toMatchObject([{ state: 'up', appTools: ['submit'] }])
})

test('a failed call has its user interface too', async () => {
  await using server = await startApp({
    'tools/call': { result: { content: [{ type: 'text', text: 'Sold out' }], isError: true } },
  })
  await using mcp = createMcpTools({ servers: { shop: server.url } })
  const answer: unknown = await (await toolOf(mcp, 'show')).invoke(toolCall('show'))
  expect(answer).toMatchObject({
    status: 'error',
    artifact: expect.arrayContaining([expect.objectContaining({ type: 'mcp_ui' })]),
  })
})

test('user interfaces are no documents, unless they are named', async () => {
  await using server = await startApp()
  await using client = new McpClient(server.url)
  const of = async (uris?: readonly string[]): Promise<unknown> =>
    (await loadMcpResources(client, { uris })).documents.map(({ pageContent }) => pageContent)
  expect(await of()).toEqual(['Pay first.'])
  expect(await of([SHOW])).toEqual([page.text])
})

test('a host that can show apps says so, beside what the client declares itself', async () => {
  await using server = await startApp()
  const extensions = { 'io.modelcontextprotocol/ui': { mimeTypes: [page.mimeType] } }
  await using mcp = createMcpTools({
    servers: { shop: server.url },
    capabilities: { extensions },
  })
  await mcp.listTools()
  const listed = server.received.find(({ rpcMethod }) => rpcMethod === 'tools/list')
  expect(listed?.params).toMatchObject({
    _meta: {
      'io.modelcontextprotocol/clientCapabilities': {
        extensions: { ...extensions, 'io.modelcontextprotocol/tasks': {} },
      },
    },
  })
})
