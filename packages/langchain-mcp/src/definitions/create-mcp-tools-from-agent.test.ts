import { EventEmitter, once } from 'node:events'
import { SessionInfoFactory, type McpClientOptions } from '@x/mcp-client'
import { describe, expect, test } from 'vitest'
import { AgentDefinitionError } from './agent-definition.ts'
import type { AgentDefinition } from './agent-definition.ts'
import {
  toolsetFrom,
  type CreateMcpToolsFromAgentOptions,
  type McpServerReference,
  type McpToolClient,
  type McpToolset,
} from './create-mcp-tools-from-agent.ts'
import type { ToolLogEntry } from '../log.ts'
import type { McpServerLabel, ToolDefinition, ToolResult } from '../tool-source.ts'

/** A client that answers with its name, and counts calls. */
class CountingClient implements McpToolClient {
  readonly server: McpServerReference
  readonly options: McpClientOptions
  readonly #list: () => Promise<readonly ToolDefinition[]>
  lists = 0
  disposals = 0

  constructor(
    server: McpServerReference,
    options: McpClientOptions,
    list: () => Promise<readonly ToolDefinition[]> = () => Promise.resolve([]),
  ) {
    this.server = server
    this.options = options
    this.#list = list
  }

  get title(): string {
    return 'slug' in this.server ? this.server.slug : this.server.name
  }

  listTools(): Promise<readonly ToolDefinition[]> {
    this.lists++
    return this.#list()
  }

  callTool(name: string): Promise<ToolResult> {
    return Promise.resolve({ content: [{ type: 'text', text: `${this.title}: ${name}` }] })
  }

  dispose(): Promise<void> {
    this.disposals++
    return Promise.resolve()
  }
}

type CreateClient = (server: McpServerReference, options: McpClientOptions) => CountingClient

function createMcpToolsFromAgent(
  agent: AgentDefinition,
  { createClient, ...options }: CreateMcpToolsFromAgentOptions & { createClient: CreateClient },
): Promise<McpToolset<CountingClient>> {
  return toolsetFrom(agent, options, createClient)
}

function toolNamed(name: string): { name: string; description: string } {
  return { name, description: `Tool ${name}` }
}

function mcpServer(
  slug: string,
  tools: readonly string[],
  more: Readonly<Record<string, unknown>> = {},
): { $resourceType: string; name: string } & Readonly<Record<string, unknown>> {
  return {
    $resourceType: 'mcp',
    name: `The ${slug}`,
    slug,
    folderPath: 'Shared',
    availableTools: tools.map(toolNamed),
    ...more,
  }
}

const dynamic = { toolsConfiguration: { discoveryMode: { type: 'dynamic', allowAll: false } } }
const dynamicAll = { toolsConfiguration: { discoveryMode: { type: 'dynamic', allowAll: true } } }

function counting(lists: Readonly<Record<string, () => Promise<readonly ToolDefinition[]>>> = {}): {
  readonly made: CountingClient[]
  readonly createClient: CreateClient
} {
  const made: CountingClient[] = []
  return {
    made,
    createClient(reference, options) {
      const client = new CountingClient(
        reference,
        options,
        'slug' in reference ? lists[reference.slug] : undefined,
      )
      made.push(client)
      return client
    },
  }
}

/** Creates the tools of servers, and tells what was logged. */
async function toolsOf(
  resources: AgentDefinition['resources'],
  lists?: Parameters<typeof counting>[0],
  options: CreateMcpToolsFromAgentOptions = {},
): Promise<McpToolset<CountingClient> & { readonly entries: readonly ToolLogEntry[] }> {
  const { createClient } = counting(lists)
  const entries: ToolLogEntry[] = []
  const log = (entry: ToolLogEntry): void => void entries.push(entry)
  const all = { log, ...options, createClient }
  return { ...(await createMcpToolsFromAgent({ resources }, all)), entries }
}

const live =
  (...names: string[]): (() => Promise<readonly ToolDefinition[]>) =>
  () =>
    Promise.resolve(names.map((name) => ({ name, description: `Live ${name}` })))

test('creates a client for each MCP server, and a LangChain tool for each of its tools', async () => {
  const docs = { $resourceType: 'context', name: 'Docs' }
  const { tools, clients } = await toolsOf(
    [mcpServer('shop', ['add', 'list']), docs, mcpServer('bank', ['pay'])],
    { bank: live('pay') },
  )
  expect(tools.map((tool) => tool.name)).toEqual(['add', 'list', 'pay'])
  expect(tools.map((tool) => tool.description)).toEqual(['Tool add', 'Tool list', 'Tool pay'])
  expect(clients.map((client) => client.title)).toEqual(['shop', 'bank'])
  expect(clients.map((client) => client.lists)).toEqual([0, 0]) // with cached discovery
  await expect(tools[2]?.invoke({})).resolves.toBe('bank: pay')
})

test('passes only the server and client options to a client', async () => {
  const sessionInfoFactory = new SessionInfoFactory()
  const { made, createClient } = counting()
  await createMcpToolsFromAgent(
    {
      resources: [
        mcpServer('shop', []),
        { $resourceType: 'mcp', name: 'Bank', availableTools: [] },
      ],
    },
    {
      createClient,
      sessionInfoFactory,
      terminateOnClose: false,
      onToolError: 'throw',
      interceptors: [(_request, next) => next()],
      allow: ['echo'],
      maxMediaBytes: 1000,
      taskMode: 'wait',
    },
  )
  expect(made.map((client) => client.server)).toEqual([
    { slug: 'shop', folderPath: 'Shared' },
    { name: 'Bank', folderPath: undefined },
  ])
  expect(made[0]?.options).toEqual({
    sessionInfoFactory,
    terminateOnClose: false,
    handlers: { elicitation: expect.any(Function) },
  })
})

test('creates no tools and no client for a disabled server, and logs it', async () => {
  const { tools, clients, entries } = await toolsOf([
    mcpServer('shop', ['add'], { isEnabled: false }),
    mcpServer('bank', ['pay']),
  ])
  expect(tools.map((tool) => tool.name)).toEqual(['pay'])
  expect(clients.map((client) => client.title)).toEqual(['bank'])
  expect(entries).toEqual([expect.objectContaining({ code: 'SERVER_DISABLED', server: 'shop' })])
})

test.each([{}, { resources: [] }])(
  'creates no tools for an agent without servers: %j',
  async (agent) => {
    const { createClient } = counting()
    await expect(createMcpToolsFromAgent(agent, { createClient })).resolves.toEqual({
      tools: [],
      clients: [],
      failures: [],
    })
  },
)

test('uses the live definitions of the stored tool names with dynamic discovery', async () => {
  const { tools, clients, entries } = await toolsOf(
    [mcpServer('shop', ['gone', 'add', 'lost'], dynamic)],
    { shop: live('new', 'add') },
  )
  expect(tools.map(({ name, description }) => [name, description])).toEqual([['add', 'Live add']])
  expect(clients[0]?.lists).toBe(1)
  expect(entries.map(({ level, code, tool }) => [level, code, tool])).toEqual([
    ['warning', 'TOOL_MISSING', 'gone'],
    ['warning', 'TOOL_MISSING', 'lost'],
  ])
})

test.each([
  ['ignores the stored tools if all tools are allowed', dynamicAll, []],
  ['still reads the old "dynamicTools"', { dynamicTools: 'all' }, [['DEPRECATED', 'warning']]],
])('%s', async (_, configuration, logged) => {
  const { tools, entries } = await toolsOf([mcpServer('shop', ['gone'], configuration)], {
    shop: live('new', 'add'),
  })
  expect(tools.map((tool) => tool.name)).toEqual(['new', 'add'])
  expect(entries.map(({ code, level }) => [code, level])).toEqual(logged)
})

test('keeps the order of the agent, whichever server answers first', async () => {
  const asked = new EventEmitter()
  const { tools } = await toolsOf(
    [mcpServer('slow', [], dynamicAll), mcpServer('fast', [], dynamicAll), mcpServer('c', ['c'])],
    {
      slow: async () => {
        await once(asked, 'fast')
        return [toolNamed('a')]
      },
      fast: async () => {
        asked.emit('fast')
        return [toolNamed('b')]
      },
    },
  )
  expect(tools.map((tool) => tool.name)).toEqual(['a', 'b', 'c'])
})

describe('a server that gives no list', () => {
  const resources = [
    mcpServer('shop', ['add']),
    mcpServer('bank', ['pay'], dynamicAll),
    mcpServer('post', [], dynamicAll),
  ]
  const closed = new Error('bank is closed')
  const lists = {
    bank: () => Promise.reject(closed),
    post: () => Promise.resolve([toolNamed('send')]),
  }

  test('does not affect the others, and is in failures', async () => {
    const { tools, clients, failures, entries } = await toolsOf(resources, lists)
    expect(tools.map(({ name }) => name)).toEqual(['add', 'send'])
    expect(clients.map((client) => client.disposals)).toEqual([0, 0, 0])
    expect(failures).toEqual([{ server: expect.objectContaining({ slug: 'bank' }), error: closed }])
    expect(entries).toEqual([
      expect.objectContaining({
        level: 'warning',
        code: 'SERVER_DOWN',
        server: 'bank',
        message: expect.stringContaining('bank is closed'),
      }),
    ])
  })

  test("rejects with 'throw', and disposes of all clients", async () => {
    const { made, createClient } = counting(lists)
    const options = { createClient, onServerError: 'throw' } as const
    await expect(createMcpToolsFromAgent({ resources }, options)).rejects.toBe(closed)
    expect(made.map((client) => client.disposals)).toEqual([1, 1, 1])
  })

  test('is passed to an onServerError function', async () => {
    const told: unknown[] = []
    const { tools } = await toolsOf(resources, lists, {
      onServerError: (error, { slug }) => void told.push([slug, error]),
    })
    expect(tools).toHaveLength(2)
    expect(told).toEqual([['bank', closed]])

    const { made, createClient } = counting(lists)
    const onServerError = (_error: unknown, { slug }: McpServerLabel): never => {
      throw new Error(`not without ${slug}`)
    }
    const building = createMcpToolsFromAgent({ resources }, { createClient, onServerError })
    await expect(building).rejects.toThrow('not without bank')
    expect(made.map((client) => client.disposals)).toEqual([1, 1, 1])
  })
})

test('keeps the original error if a client cannot be created or disposed of', async () => {
  const { made, createClient } = counting()
  const building = createMcpToolsFromAgent(
    { resources: [mcpServer('shop', []), mcpServer('bank', []), mcpServer('post', [])] },
    {
      createClient(reference, options) {
        const client = createClient(reference, options)
        if (client.title === 'shop') client.dispose = () => Promise.reject(new Error('stuck'))
        if (client.title === 'post') throw new Error('no such server')
        return client
      },
    },
  )
  await expect(building).rejects.toThrow('no such server')
  expect(made[1]?.disposals).toBe(1)
})

test('does not change the agent', async () => {
  const resources = [mcpServer('shop', ['a b', 'a_b']), mcpServer('bank', ['gone'], dynamic)]
  const before = structuredClone(resources)
  const { tools } = await toolsOf(resources)
  await tools[0]?.invoke({})
  expect(resources).toEqual(before)
})

test('creates no client for an invalid definition', async () => {
  const { made, createClient } = counting()
  const agent: AgentDefinition = JSON.parse('{"resources":[{"$resourceType":"mcp"}]}')
  await expect(createMcpToolsFromAgent(agent, { createClient })).rejects.toThrow(
    AgentDefinitionError,
  )
  expect(made).toEqual([])
})
