// One test for each row of MIGRATION.md.
import { readFileSync } from 'node:fs'
import { ToolMessage } from '@langchain/core/messages'
import { Command, INTERRUPT, isInterrupted, MemorySaver } from '@langchain/langgraph'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { everythingStdioCommand } from '@x/internal/testing'
import { deferred, startModernServer, startLegacyServer, type LegacyServer } from '@x/mcp-testing'
import { createAgent, humanInTheLoopMiddleware, type AgentMiddleware } from 'langchain'
import { describe, expect, test } from 'vitest'
import {
  createMcpTools,
  elicitationResume,
  isElicitationInterrupt,
  loadMcpTools,
  type CreateMcpToolsOptions,
  type McpTool,
  type McpTools,
  type McpToolSource,
  type QuarantinedTool,
  type ToolResult,
  type ToolsChanged,
} from '../src/index.ts'
import { interruptOnFrom } from '../src/middleware.ts'
import { loadMcpResources } from '../src/resources.ts'
import { startChangingServer } from './changing-server.ts'
import { namesOf, toolCall, toolOf } from './listed-tools.ts'
import { ScriptedModel } from './scripted-model.ts'

/** A row: the old API, and a test of its replacement. */
type Row = readonly [had: string, check: (server: LegacyServer) => void | Promise<void>]

type Options = Omit<CreateMcpToolsOptions, 'servers'>

const mathOf = ({ url }: { readonly url: string }, options: Options = {}): McpTools =>
  createMcpTools({ servers: { math: { url } }, ...options })

/** A tool that returns this answer. */
async function toolThatAnswers(
  result: ToolResult,
  options: Parameters<typeof loadMcpTools>[1] = {},
): Promise<McpTool> {
  const source: McpToolSource = {
    listTools: () => Promise.resolve([{ name: 'ask' }]),
    callTool: () => Promise.resolve(result),
  }
  const [tool] = await loadMcpTools(source, options)
  if (tool === undefined) throw new Error('There is no tool')
  return tool
}

const say = (content: string) => ({ messages: [{ role: 'user', content }] })
const sumOf = { structuredContent: { sum: 5 }, content: [{ type: 'text', text: 'It is five' }] }

const from1: readonly Row[] = [
  [
    'new MultiServerMCPClient({ mcpServers })',
    async (server) => {
      await using mcp = createMcpTools({
        servers: { math: { url: server.url }, everything: everythingStdioCommand() },
      })
      expect(server.connections).toBe(0)
      const servers = (await mcp.listTools()).map(({ origin }) => origin.server.name)
      expect(new Set(servers)).toEqual(new Set(['math', 'everything']))
    },
  ],
  [
    'a program that starts in the current directory',
    async () => {
      const args = ['-e', 'process.stderr.write(process.cwd()); process.exit(1)']
      const folderOf = async (cwd: string | undefined): Promise<unknown> => {
        const servers = { math: { command: process.execPath, args, cwd } }
        await using mcp = createMcpTools({ servers, log: () => {} })
        expect(await mcp.listTools()).toEqual([])
        return mcp.status()[0]?.error
      }
      expect(await folderOf(process.cwd())).toMatchObject({ stderr: process.cwd() })
      expect(await folderOf(undefined)).not.toMatchObject({ stderr: process.cwd() })
    },
  ],
  [
    'await client.getTools()',
    async (server) => {
      await using mcp = mathOf(server)
      expect(namesOf(await mcp.listTools())).toContain('counter_add')
    },
  ],
  [
    "getTools('math')",
    async (server) => {
      await using mcp = createMcpTools({
        servers: { math: { url: server.url }, other: { url: server.url } },
        allow: [{ server: 'math' }],
      })
      const servers = (await mcp.listTools()).map(({ origin }) => origin.server.name)
      expect(new Set(servers)).toEqual(new Set(['math']))
    },
  ],
  [
    'getTools(servers, { headers }) for each tenant',
    async (server) => {
      await using mcp = createMcpTools({
        servers: {
          math: {
            url: server.url,
            headers: ({ configurable }) => ({ 'x-tenant': String(configurable['tenant']) }),
          },
        },
        principal: ({ configurable }) => String(configurable?.['tenant']),
      })
      const of = (tenant: string) => ({ configurable: { tenant } })
      const [counter] = await mcp.listTools({ config: of('A') })
      await mcp.listTools({ config: of('B') })
      expect(await counter?.invoke({}, of('A'))).toBe('counter is 1')
      expect(await counter?.invoke({}, of('B'))).toBe('counter is 1')
      expect(await counter?.invoke({}, of('A'))).toBe('counter is 2')
      const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
      expect(calls.map(({ headers }) => headers['x-tenant'])).toEqual(['A', 'B', 'A'])
      expect(new Set(calls.map(({ sessionId }) => sessionId)).size).toBe(2)
    },
  ],
  [
    'loadMcpTools(serverName, client)',
    async (server) => {
      const client = new Client({ name: 'app', version: '1.0.0' })
      // The SDK's transport declares optional members without `undefined`.
      const transport: unknown = new StreamableHTTPClientTransport(new URL(server.url))
      await client.connect(transport as Parameters<Client['connect']>[0])
      const tools = await loadMcpTools(client, { server: { name: 'math' } })
      expect(await tools.find(({ name }) => name === 'counter_add')?.invoke({})).toBe(
        'counter is 1',
      )
      expect(tools[0]?.metadata).toMatchObject({ server_name: 'math' })
      await client.close()
    },
  ],
  [
    'prefixToolNameWithServerName: true',
    async (server) => {
      await using mcp = mathOf(server, { prefixToolNames: true })
      expect(namesOf(await mcp.listTools())).toContain('math_counter_add')
    },
  ],
  [
    "additionalToolNamePrefix: 'mcp'",
    async (server) => {
      await using mcp = mathOf(server, { prefixToolNames: ({ name }) => `mcp_${name}` })
      expect(namesOf(await mcp.listTools())).toContain('mcp_math_counter_add')
    },
  ],
  [
    'authProvider of an entry',
    async (server) => {
      const authProvider = { token: () => Promise.resolve('t0ken') }
      await using mcp = createMcpTools({ servers: { math: { url: server.url, authProvider } } })
      await mcp.listTools()
      const tokens = server.received.map(({ headers }) => headers['authorization'])
      expect(new Set(tokens)).toEqual(new Set(['Bearer t0ken']))
    },
  ],
  [
    'two servers with a tool of one name',
    async (server) => {
      await using mcp = createMcpTools({
        servers: { a: { url: server.url }, b: { url: server.url } },
        log: () => {},
      })
      const names = namesOf(await mcp.listTools())
      expect(new Set(names).size).toBe(names.length)
      expect(names).toContain('echo')
    },
  ],
  [
    'throwOnLoadError',
    async () => {
      const source: McpToolSource = {
        listTools: () =>
          Promise.resolve([{ name: 'good' }, { name: 'bad', inputSchema: { type: 'string' } }]),
        callTool: () => Promise.resolve({}),
      }
      const left: QuarantinedTool[] = []
      const tools = await loadMcpTools(source, {
        onQuarantine: (tool) => left.push(tool),
        log: () => {},
      })
      expect(namesOf(tools)).toEqual(['good'])
      expect(left).toMatchObject([{ toolName: 'bad', reason: expect.any(String) }])
    },
  ],
  [
    "onConnectionError: 'ignore'",
    async (server) => {
      const servers = { down: { url: 'http://127.0.0.1:9/mcp' }, math: { url: server.url } }
      await using mcp = createMcpTools({ servers, log: () => {} })
      expect(namesOf(await mcp.listTools())).toContain('counter_add')
      expect(mcp.status()).toMatchObject([{ state: 'down' }, { state: 'up' }])
      await using strict = createMcpTools({ servers, onServerError: 'throw' })
      await expect(strict.listTools()).rejects.toMatchObject({ code: 'UNREACHABLE' })
    },
  ],
  [
    'useStandardContentBlocks: true',
    async () => {
      const image = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }
      const tool = await toolThatAnswers({ content: [{ type: 'text', text: 'See' }, image] })
      expect(await tool.invoke({})).toEqual([{ type: 'text', text: 'See' }, image])
    },
  ],
  [
    'a single text',
    async () => {
      const tool = await toolThatAnswers({ content: [{ type: 'text', text: 'five' }] })
      expect(await tool.invoke({})).toBe('five')
      expect(await tool.invoke(toolCall('ask'))).toMatchObject({ content: 'five' })
    },
  ],
  [
    "outputHandling: { resource: 'artifact' }",
    async () => {
      const resource = { uri: 'file:///a', text: 'All of it' }
      const content = [{ type: 'resource', resource }]
      const tool = await toolThatAnswers({ content })
      expect(await tool.invoke(toolCall('ask'))).toMatchObject({
        content: [{ type: 'text', text: expect.stringContaining('All of it') }],
        artifact: [{ type: 'mcp_content', data: content }],
      })
      const hiding = await toolThatAnswers(
        { content },
        {
          interceptors: [
            () =>
              new ToolMessage({ content: 'Kept aside', artifact: content, tool_call_id: 'call-1' }),
          ],
        },
      )
      expect(await hiding.invoke(toolCall('ask'))).toMatchObject({ content: 'Kept aside' })
    },
  ],
  [
    "outputHandling: { image: 'artifact' }",
    async () => {
      const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' }
      const content = [{ type: 'text', text: 'See' }, image]
      const tool = await toolThatAnswers({ content }, { maxMediaBytes: 0 })
      const message: unknown = await tool.invoke(toolCall('ask'))
      expect(message).toMatchObject({ artifact: [{ type: 'mcp_content', data: content }] })
      expect(JSON.stringify((message as ToolMessage).content)).not.toContain('aGk=')
    },
  ],
  [
    'structuredContent appended to the text',
    async () => {
      const tool = await toolThatAnswers(sumOf)
      expect(await tool.invoke(toolCall('ask'))).toMatchObject({
        content: 'It is five',
        artifact: [{ type: 'mcp_structured_content', data: { sum: 5 } }, { type: 'mcp_content' }],
      })
      const showing = await toolThatAnswers(sumOf, { showToModel: ['structuredContent'] })
      expect(await showing.invoke({})).toEqual([
        { type: 'text', text: 'It is five' },
        { type: 'text', text: '{"sum":5}' },
      ])
    },
  ],
  [
    'a ToolException for isError',
    async () => {
      const tool = await toolThatAnswers({ ...sumOf, isError: true })
      expect(await tool.invoke(toolCall('ask'))).toMatchObject({
        status: 'error',
        content: 'It is five',
        artifact: [{ type: 'mcp_structured_content', data: { sum: 5 } }, { type: 'mcp_content' }],
      })
      const throwing = await toolThatAnswers({ ...sumOf, isError: true }, { onToolError: 'throw' })
      await expect(throwing.invoke({})).rejects.toMatchObject({
        name: 'McpToolError',
        code: 'TOOL_FAILED',
        artifact: [{ type: 'mcp_structured_content', data: { sum: 5 } }, { type: 'mcp_content' }],
      })
    },
  ],
  [
    'defaultToolTimeout',
    async (server) => {
      await using mcp = mathOf(server, { timeoutMs: 200, onToolError: 'throw' })
      await expect((await toolOf(mcp, 'slow')).invoke({})).rejects.toMatchObject({
        code: 'TIMEOUT',
      })
    },
  ],
  [
    'tool.invoke(args, { timeout })',
    async (server) => {
      await using mcp = mathOf(server, { onToolError: 'throw' })
      const slow = await toolOf(mcp, 'slow')
      await expect(slow.invoke({}, { timeout: 200 })).rejects.toThrow(/time/i)
      const enough = new AbortController()
      const aborted = slow.invoke({}, { signal: enough.signal }).catch((error: unknown) => error)
      await expect.poll(() => server.ledger.received({ tool: 'slow' })).toBe(2)
      enough.abort(new Error('enough'))
      expect(await aborted).toMatchObject({ message: 'enough' })
      await expect.poll(() => server.ledger.received({ tool: 'slow', state: 'cancelled' })).toBe(2)
    },
  ],
  [
    'beforeToolCall',
    async (server) => {
      await using mcp = mathOf(server, {
        interceptors: [(_request, next) => next({ args: { by: 7 }, headers: { 'x-id': '42' } })],
      })
      const counter = await toolOf(mcp, 'counter_add')
      expect(await counter.invoke({ by: 1 })).toBe('counter is 7')
      expect(await counter.invoke({ by: 1 })).toBe('counter is 14')
      const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
      expect(calls.map(({ headers }) => headers['x-id'])).toEqual(['42', '42'])
      expect(server.count('initialize')).toBe(1)
    },
  ],
  [
    'afterToolCall',
    async (server) => {
      await using mcp = mathOf(server, {
        interceptors: [
          async ({ tool, config }, next) => {
            const result = await next()
            const { id = '' } = config.toolCall ?? {}
            if (tool.name === 'echo') return { content: [{ type: 'text', text: 'changed' }] }
            if (tool.name !== 'whoami') return result
            const messages = [new ToolMessage({ content: 'told', tool_call_id: id })]
            return new Command({ update: { messages } })
          },
        ],
      })
      expect(await (await toolOf(mcp, 'echo')).invoke({ text: 'x' })).toBe('changed')
      expect(await (await toolOf(mcp, 'counter_add')).invoke({})).toBe('counter is 1')
      const command: unknown = await (await toolOf(mcp, 'whoami')).invoke(toolCall('whoami'))
      expect(command).toBeInstanceOf(Command)
    },
  ],
  [
    'onProgress',
    async () => {
      await using server = await startModernServer()
      await using mcp = mathOf(server, { log: () => {} })
      const agent = createAgent({ model: new ScriptedModel(), tools: await mcp.listTools() })
      const told: unknown[] = []
      const stream = await agent.stream(say('call progress'), { streamMode: 'custom' })
      for await (const event of stream) told.push(event)
      expect(told).toContainEqual(
        expect.objectContaining({ type: 'mcp_progress', tool: 'progress', progress: 1, total: 3 }),
      )
    },
  ],
  [
    'onMessage',
    async (server) => {
      await using mcp = mathOf(server)
      const heard = deferred<unknown>()
      mcp.server('math').on('serverLog', ({ data }) => heard.resolve(data))
      await mcp.listTools()
      await server.waitFor(({ httpMethod }) => httpMethod === 'GET')
      server.notify('notifications/message', { level: 'info', data: 'hello' })
      expect(await heard.promise).toBe('hello')
    },
  ],
  [
    "client.setLoggingLevel('debug')",
    async (server) => {
      await using mcp = mathOf(server)
      await mcp.server('math').setLoggingLevel('debug')
      const { params } = await server.waitFor(({ rpcMethod }) => rpcMethod === 'logging/setLevel')
      expect(params).toEqual({ level: 'debug' })
    },
  ],
  [
    'onToolsListChanged',
    async () => {
      await using server = await startChangingServer()
      await using mcp = mathOf(server)
      const changed = deferred<ToolsChanged>()
      mcp.on('toolsChanged', changed.resolve)
      await (await toolOf(mcp, 'look')).invoke({})
      server.add('sell')
      expect(await changed.promise).toEqual({
        server: 'math',
        added: ['sell'],
        removed: [],
        changed: [],
      })
    },
  ],
  [
    'restart, reconnect',
    async (server) => {
      await using mcp = mathOf(server)
      const counter = await toolOf(mcp, 'counter_add')
      expect(await counter.invoke({})).toBe('counter is 1')
      server.forgetSessions()
      expect(await counter.invoke({})).toBe('counter is 1')
    },
  ],
  [
    'client.listResources(), client.readResource()',
    async () => {
      await using server = await startModernServer()
      await using mcp = mathOf(server)
      const { documents } = await loadMcpResources(mcp.server('math'))
      expect(documents.map(({ metadata }) => metadata.uri)).toContain('static://text')
    },
  ],
  [
    "client.getClient('math')",
    async () => {
      await using server = await startModernServer()
      await using mcp = mathOf(server)
      const math = mcp.server('math')
      const { contents } = await math.readResource('static://text')
      expect(contents).toMatchObject([{ text: 'always the same' }])
      expect((await math.listPrompts()).map(({ name }) => name)).toContain('greet')
      expect(await math.request({ method: 'prompts/list' })).toHaveProperty('prompts')
      expect(() => mcp.server('other')).toThrow(expect.objectContaining({ code: 'CONFIG' }))
    },
  ],
  [
    'client.close()',
    async (server) => {
      const mcp = mathOf(server)
      await (await toolOf(mcp, 'counter_add')).invoke({})
      await mcp.close()
      expect(server.sessions).toEqual([])
    },
  ],
]

const from2: readonly Row[] = [
  [
    'new MCPAdapter({ servers })',
    async (server) => {
      await using mcp = createMcpTools({ servers: { math: { url: server.url } } })
      expect(mcp.status()).toMatchObject([{ name: 'math', state: 'untried' }])
    },
  ],
  [
    'listTools()',
    async (server) => {
      await using mcp = mathOf(server)
      expect(namesOf(await mcp.listTools())).toContain('counter_add')
    },
  ],
  [
    'listToolsets()',
    async (server) => {
      await using modern = await startModernServer()
      await using mcp = createMcpTools({
        servers: { math: { url: server.url }, calc: { url: modern.url } },
        log: () => {},
      })
      const sets = new Map<string | undefined, string[]>()
      for (const { name, origin } of await mcp.listTools()) {
        sets.set(origin.server.name, [...(sets.get(origin.server.name) ?? []), name])
      }
      expect([...sets.keys()]).toEqual(['math', 'calc'])
      expect(sets.get('calc')).toContain('add')
    },
  ],
  [
    'names {server}_{tool}',
    async (server) => {
      await using mcp = mathOf(server, { prefixToolNames: true })
      expect(namesOf(await mcp.listTools())).toContain('math_echo')
    },
  ],
  [
    'duplicate names throw',
    async (server) => {
      await using mcp = createMcpTools({
        servers: { a: { url: server.url }, b: { url: server.url } },
        onNameCollision: 'throw',
      })
      await expect(mcp.listTools()).rejects.toMatchObject({ code: 'NAME_COLLISION' })
    },
  ],
  [
    "cacheMode: 'refresh'",
    async (server) => {
      await using mcp = mathOf(server)
      await mcp.listTools()
      await mcp.listTools()
      expect(server.count('tools/list')).toBe(1)
      await mcp.listTools({ forceRefresh: true })
      expect(server.count('tools/list')).toBe(2)
    },
  ],
  [
    'mcp_structured_content, mcp_meta, mcp_content',
    async () => {
      const tool = await toolThatAnswers({ ...sumOf, _meta: { took: 5 } })
      expect(await tool.invoke(toolCall('ask'))).toMatchObject({
        artifact: [
          { type: 'mcp_structured_content', data: { sum: 5 } },
          { type: 'mcp_meta', data: { took: 5 } },
          { type: 'mcp_content', data: sumOf.content },
        ],
      })
    },
  ],
  [
    'a resource link as a file block',
    async () => {
      const link = { type: 'resource_link', uri: 'file:///a.pdf', name: 'a', mimeType: 'text/pdf' }
      const tool = await toolThatAnswers({ content: [link] })
      expect(await tool.invoke({})).toEqual([
        { type: 'text', text: 'Resource link "a" file:///a.pdf (text/pdf)' },
      ])
    },
  ],
  [
    "isError as status: 'error'",
    async (server) => {
      await using mcp = mathOf(server)
      const fail = await toolOf(mcp, 'fail')
      expect(await fail.invoke(toolCall('fail'))).toMatchObject({ status: 'error' })
      expect(await fail.invoke({})).toBe('This tool always fails')
    },
  ],
  [
    "tools that stop working with the adapter's connection",
    async (server) => {
      await using mcp = mathOf(server)
      const echo = await toolOf(mcp, 'echo')
      server.forgetSessions()
      expect(await echo.invoke({ text: 'here' })).toBe('here')
    },
  ],
  [
    'interruptOn keyed by prefixed names',
    async (server) => {
      await using mcp = mathOf(server, { prefixToolNames: true })
      const tools = await mcp.listTools()
      const interruptOn = interruptOnFrom(tools)
      expect(Object.keys(interruptOn)).toContain('math_cart_add')
      expect(Object.keys(interruptOn)).not.toContain('math_echo')
      // Its types do not fit `exactOptionalPropertyTypes`.
      const asking = humanInTheLoopMiddleware as unknown as (options: {
        interruptOn: typeof interruptOn
      }) => AgentMiddleware
      const agent = createAgent({
        model: new ScriptedModel(),
        tools,
        middleware: [asking({ interruptOn })],
        checkpointer: new MemorySaver(),
      })
      const stopped = await agent.invoke(say('call math_cart_add {"item":"pear"}'), {
        configurable: { thread_id: 't1' },
      })
      expect(isInterrupted(stopped)).toBe(true)
      expect(server.count('tools/call')).toBe(0)
    },
  ],
  [
    'createMCPElicitationResume',
    async () => {
      await using server = await startModernServer()
      await using mcp = mathOf(server, { log: () => {} })
      const agent = createAgent({
        model: new ScriptedModel(),
        tools: await mcp.listTools(),
        checkpointer: new MemorySaver(),
      })
      const config = { configurable: { thread_id: 't1' } }
      const stopped: object = await agent.invoke(say('call confirm {"question":"Sure?"}'), config)
      const [pending] = isInterrupted(stopped) ? stopped[INTERRUPT] : []
      if (pending === undefined || !isElicitationInterrupt(pending.value)) {
        throw new Error('Nothing was asked')
      }
      const { id, value } = pending
      const answers = Object.fromEntries(
        Object.keys(value.inputRequests).map((key) => [
          key,
          { action: 'accept' as const, content: { value: 'yes' } },
        ]),
      )
      const resume = elicitationResume({ id, value }, answers)
      const { messages } = await agent.invoke(new Command({ resume }), config)
      expect(messages.at(-1)?.text).toContain('yes')
      expect(server.executions('confirm')).toBe(1)
    },
  ],
]

describe('from 1.x', () => {
  test.each(from1)('%s', async (_had, check) => {
    await using server = await startLegacyServer()
    await check(server)
    expect.hasAssertions()
  })
})

describe('from 2.x', () => {
  test.each(from2)('%s', async (_had, check) => {
    await using server = await startLegacyServer()
    await check(server)
    expect.hasAssertions()
  })
})

test('has a test for each row of the page, and a row for each test', () => {
  const page = readFileSync(new URL('../MIGRATION.md', import.meta.url), 'utf8')
  const rowsOf = (title: string): string[] => {
    const [, section = ''] = page.split(`## ${title}\n`)
    const [table = ''] = section.split('\n## ')
    const rows = table.split('\n').filter((line) => line.startsWith('|'))
    return rows
      .slice(2)
      .map((line) => (line.split(' | ')[0] ?? '').slice(1).replaceAll('`', '').trim())
  }
  expect(rowsOf('From 1.x')).toEqual(from1.map(([had]) => had))
  expect(rowsOf('From 2.x')).toEqual(from2.map(([had]) => had))
})
