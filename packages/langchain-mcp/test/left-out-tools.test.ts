import { McpClient } from '@x/mcp-client'
import {
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
  type LegacyServer,
  type ModernServer,
} from '@x/mcp-testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  createMcpTools,
  createMcpToolsFromMetadataForMcpServer,
  loadMcpTools,
} from '../src/index.ts'

const inputSchema = { type: 'object' }
const good = { name: 'good', inputSchema }

/** Tools that cannot be used, as servers of others list them. */
const unusable: Readonly<Record<string, readonly [tool: unknown, name: string, reason: RegExp]>> = {
  'no schema': [{ name: 'bad' }, 'bad', /inputSchema/],
  'a schema that is a text': [{ name: 'bad', inputSchema: 'none' }, 'bad', /inputSchema/],
  'a schema of a list': [{ name: 'bad', inputSchema: { type: 'array' } }, 'bad', /inputSchema/],
  'a reference that leads nowhere': [
    { name: 'bad', inputSchema: { ...inputSchema, properties: { a: { $ref: '#/nowhere' } } } },
    'bad',
    /does not lead to one schema/,
  ],
  'no name': [{ inputSchema }, 'tool 2', /name/],
  'a number as its name': [{ name: 7, inputSchema }, 'tool 2', /name/],
}

const invalidHeader = {
  name: 'bad',
  inputSchema: {
    ...inputSchema,
    properties: { a: { type: 'string', 'x-mcp-header': 'no header' } },
  },
}

/** A server that lists `good` and this tool. */
async function startListing(
  tool: unknown,
  start: () => Promise<LegacyServer | ModernServer> = startLegacyServer,
) {
  const server = await start()
  const proxy = await startRecordingProxy(server.url)
  const result = { tools: [good, tool], resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'tools/list',
    action: { status: 200, body: (id) => JSON.stringify({ jsonrpc: '2.0', id, result }) },
  })
  return {
    url: proxy.url,
    async [Symbol.asyncDispose]() {
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** What a user without a log sees of these tools. Other tests share the process, and its warnings. */
function watchWarnings(): () => unknown[] {
  const spy = vi.spyOn(process, 'emitWarning').mockReturnValue()
  return () => spy.mock.calls.flatMap(([text]) => (/left out/.test(String(text)) ? [text] : []))
}

afterEach(() => vi.restoreAllMocks())

describe.each(Object.entries(unusable))('a tool with %s', (_what, [tool, toolName, reason]) => {
  const warning = expect.stringMatching(
    new RegExp(`"${toolName}".* is left out: .*${reason.source}`),
  )

  test('is named once in the default log of createMcpTools(), and in status()', async () => {
    await using server = await startListing(tool)
    const warnings = watchWarnings()
    await using mcp = createMcpTools({ servers: { shop: server.url } })
    for (let times = 0; times < 2; times++) {
      expect((await mcp.listTools()).map(({ name }) => name)).toEqual(['good'])
    }
    expect(warnings()).toEqual([warning])
    const left = expect.objectContaining({ toolName, reason: expect.stringMatching(reason) })
    expect(mcp.status()).toEqual([{ name: 'shop', state: 'partial', quarantined: [left] }])
  })
})

test.each(['shared', 'run', 'thread'] as const)(
  'a tool that the client left out is in status() with sessions of kind %s',
  async (session) => {
    await using server = await startListing({ name: 'bad' })
    watchWarnings()
    await using mcp = createMcpTools({ servers: { shop: server.url }, session })
    await mcp.listTools()
    await mcp.listTools()
    expect(mcp.status()).toMatchObject([{ state: 'partial', quarantined: [{ toolName: 'bad' }] }])
  },
)

test('a tool that the client left out is named by loadMcpTools() for a server of createMcpTools()', async () => {
  await using server = await startListing({ name: 'bad' })
  const warnings = watchWarnings()
  await using mcp = createMcpTools({ servers: { shop: server.url } })
  const tools = await loadMcpTools(mcp.server('shop'), { server: { name: 'shop' } })
  expect(tools.map(({ name }) => name)).toEqual(['good'])
  expect(warnings()).toEqual([expect.stringMatching(/"bad" of MCP server "shop" is left out/)])
})

describe('a tool that the transport left out', () => {
  const warning = expect.stringMatching(/"bad" of MCP server ".*" is left out: .*x-mcp-header/)

  test('is in status(), and named once in the default log of createMcpTools()', async () => {
    await using server = await startListing(invalidHeader, startModernServer)
    const warnings = watchWarnings()
    await using mcp = createMcpTools({ servers: { shop: server.url } })
    await mcp.listTools()
    await mcp.listTools()
    expect(mcp.status()).toMatchObject([{ state: 'partial', quarantined: [{ toolName: 'bad' }] }])
    expect(warnings()).toEqual([warning])
  })

  test('is named once in the default log of loadMcpTools()', async () => {
    await using server = await startListing(invalidHeader, startModernServer)
    const warnings = watchWarnings()
    await using client = new McpClient(server.url)
    expect(await loadMcpTools(client)).toHaveLength(1)
    expect(warnings()).toEqual([warning])
  })

  test('is not reported if `allow` does not name it', async () => {
    await using server = await startListing(invalidHeader, startModernServer)
    const warnings = watchWarnings()
    await using mcp = createMcpTools({ servers: { shop: server.url }, allow: ['good'] })
    await mcp.listTools()
    expect(mcp.status()).toEqual([{ name: 'shop', state: 'up' }])
    expect(warnings()).toEqual([])
  })
})

test.each([
  [true, ['good'], [/"bad" of MCP server "shop" is left out/]],
  [false, [], [/"bad" of MCP server "shop" is left out/]],
])(
  'an agent that allows all tools (%s) is told the reason once',
  async (allowAll, names, logged) => {
    await using server = await startListing({ name: 'bad' })
    const warnings = watchWarnings()
    await using client = new McpClient(server.url)
    const tools = await createMcpToolsFromMetadataForMcpServer(
      {
        $resourceType: 'mcp',
        name: 'shop',
        slug: 'shop',
        folderPath: '',
        availableTools: [{ name: 'bad' }],
        toolsConfiguration: { discoveryMode: { type: 'dynamic', allowAll } },
      } as never,
      client,
    )
    expect(tools.map(({ name }) => name)).toEqual(names)
    expect(warnings()).toEqual(logged.map((text) => expect.stringMatching(text)))
  },
)
