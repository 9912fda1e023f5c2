import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpClient, StaticServerDirectory } from '@x/mcp-client'
import { startLegacyServer, type LegacyServer, type LegacyServerOptions } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { loadMcpTools } from './load-mcp-tools.ts'
import type { ToolLogEntry } from './log.ts'
import type { McpTool } from './tools/mcp-tool.ts'
import { toolSourceFrom, type SdkClient } from './sdk-client.ts'

interface ConnectedServer extends AsyncDisposable {
  readonly server: LegacyServer
  readonly client: Client
}

/** A real server, and the SDK's client connected to it. */
async function connectedServer(options?: LegacyServerOptions): Promise<ConnectedServer> {
  const server = await startLegacyServer(options)
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      await client.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

function toolNamed(tools: readonly McpTool[], name: string): McpTool {
  const tool = tools.find((candidate) => candidate.name === name)
  if (tool === undefined) throw new Error(`no tool ${name}`)
  return tool
}

test('names the server in metadata and errors as an McpClient does', async () => {
  await using server = await startLegacyServer()
  await using byUrl = new McpClient({ url: `${server.url}?key=secret` })
  const fail = toolNamed(await loadMcpTools(byUrl, { onToolError: 'throw' }), 'fail')
  expect(fail.metadata).toMatchObject({ server_name: server.url })
  await expect(fail.invoke({})).rejects.toThrow(`server "${server.url}"`)
  const directory = new StaticServerDirectory({ shop: server.url })
  await using bySlug = new McpClient({ slug: 'shop' }, { directory })
  const [tool] = await loadMcpTools(bySlug)
  expect(tool?.origin.server).toMatchObject({ slug: 'shop', name: undefined })
})

describe('the client of SDK v1', () => {
  test('is accepted, and its tools share the session', async () => {
    await using connected = await connectedServer()
    const tools = await loadMcpTools(connected.client)
    const counter = toolNamed(tools, 'counter_add')
    await counter.invoke({ by: 2 })
    const call = { type: 'tool_call' as const, id: 'c1', name: 'counter_add', args: { by: 3 } }
    expect(await counter.invoke(call)).toMatchObject({
      status: 'success',
      content: 'counter is 5',
      artifact: [{ type: 'mcp_structured_content', data: { count: 5 } }, { type: 'mcp_content' }],
    })
    expect(connected.server.sessions).toHaveLength(1)
    expect(counter.metadata).toMatchObject({
      tool_type: 'mcp',
      display_name: 'counter_add',
      server_name: connected.client.getServerVersion()?.name,
      annotations: { idempotentHint: false },
    })
  })

  test('lists all pages', async () => {
    await using one = await connectedServer()
    await using paged = await connectedServer({ pageSize: 1 })
    const names = (await loadMcpTools(paged.client)).map((tool) => tool.name)
    expect(names).toEqual((await loadMcpTools(one.client)).map((tool) => tool.name))
    expect(paged.server.count('tools/list')).toBe(names.length)
  })

  test("cancels the call on the server when the run is aborted, and rejects with the run's reason", async () => {
    await using connected = await connectedServer()
    const { server, client } = connected
    const slow = toolNamed(await loadMcpTools(client), 'slow')
    const controller = new AbortController()
    const reason = new Error('the user left')
    const call = slow.invoke({}, { signal: controller.signal })
    await server.waitFor((request) => request.toolName === 'slow')
    controller.abort(reason)
    await expect(call).rejects.toBe(reason)
    await server.waitFor((request) => request.rpcMethod === 'notifications/cancelled')
  })

  test('reports a call without an answer in time as possibly executed', async () => {
    await using connected = await connectedServer()
    const tools = await loadMcpTools(connected.client, { timeoutMs: 1 })
    await expect(toolNamed(tools, 'slow').invoke({})).resolves.toMatch(
      /may or may not have been executed.*No answer came in time.*Check what happened/,
    )
  })

  test('reports a call whose connection is closed as possibly executed', async () => {
    await using connected = await connectedServer()
    const slow = toolNamed(await loadMcpTools(connected.client), 'slow')
    const call = slow.invoke({})
    await connected.server.waitFor((request) => request.toolName === 'slow')
    await connected.client.close()
    await expect(call).resolves.toMatch(/sent, but no usable answer came.*Check what happened/)
  })

  /** A client whose pages have these cursors. */
  function circlingClient(cursorOf: (page: number) => string): SdkClient {
    let pages = 0
    return {
      connect: () => Promise.resolve(),
      getServerVersion: () => ({ name: 'carousel' }),
      listTools: () =>
        Promise.resolve({ tools: [{ name: 'again' }], nextCursor: cursorOf(++pages) }),
      callTool: () => Promise.resolve({}),
    }
  }

  test('ends a list whose pages repeat, and says so', async () => {
    const logged: ToolLogEntry[] = []
    const log = (entry: ToolLogEntry): unknown => logged.push(entry)
    const circling = circlingClient(() => 'same')
    expect((await loadMcpTools(circling, { log })).map(({ name }) => name)).toEqual(['again'])
    expect(logged).toMatchObject([
      { code: 'TOOL_QUARANTINED', message: expect.stringContaining('same cursor') },
    ])
  })

  test('throws an error that names the server if there are too many pages', async () => {
    const endless = loadMcpTools(circlingClient(String))
    await expect(endless).rejects.toThrow(/"carousel" does not end/)
  })

  test('refuses a task, which the SDK does not finish', async () => {
    const declaring: SdkClient = {
      connect: () => Promise.resolve(),
      getServerVersion: () => ({ name: 'jobs' }),
      listTools: () => Promise.resolve({ tools: [] }),
      callTool: () => Promise.resolve({ content: [], resultType: 'task', taskId: 't1' }),
    }
    await expect(toolSourceFrom(declaring).callTool('x')).rejects.toMatchObject({
      code: 'UNEXPECTED_RESPONSE',
      outcome: 'unknown',
      message: expect.stringContaining('use an McpClient'),
    })
  })
})

test('any source needs no name', async () => {
  const listTools = () => Promise.resolve([{ name: 'x' }])
  const [tool] = await loadMcpTools({ listTools, callTool: () => Promise.resolve({}) })
  expect(tool?.metadata).toEqual({ tool_type: 'mcp', display_name: 'x' })
})
