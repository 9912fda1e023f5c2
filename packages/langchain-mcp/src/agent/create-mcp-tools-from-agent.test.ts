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
import type { ToolLogEntry } from '../base/log.ts'
import type { ToolDefinition, ToolResult } from '../base/tool-source.ts'

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

/** Only the options, for tests that do not check the created clients. */
function clientsWith(
  lists?: Parameters<typeof counting>[0],
): Pick<ReturnType<typeof counting>, 'createClient'> {
  const { createClient } = counting(lists)
  return { createClient }
}

const live =
  (...names: string[]): (() => Promise<readonly ToolDefinition[]>) =>
  () =>
    Promise.resolve(names.map((name) => ({ name, description: `Live ${name}` })))

test('creates a client for each server, and a LangChain tool for each of its tools', async () => {
  const agent = { resources: [mcpServer('shop', ['add', 'list']), mcpServer('bank', ['pay'])] }
  const { tools, clients } = await createMcpToolsFromAgent(
    agent,
    clientsWith({ bank: () => Promise.resolve([toolNamed('pay')]) }),
  )
  expect(tools.map((tool) => tool.name)).toEqual(['add', 'list', 'pay'])
  expect(tools.map((tool) => tool.description)).toEqual(['Tool add', 'Tool list', 'Tool pay'])
  expect(clients.map((client) => client.title)).toEqual(['shop', 'bank'])
  await expect(tools[2]?.invoke({})).resolves.toBe('bank: pay')
})

test('requests nothing with cached discovery', async () => {
  const { clients } = await createMcpToolsFromAgent(
    { resources: [mcpServer('shop', ['add'])] },
    clientsWith(),
  )
  expect(clients.map((client) => client.lists)).toEqual([0])
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
      tellSessionReplaced: true,
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
  const entries: ToolLogEntry[] = []
  const { made, createClient } = counting()
  const { tools, clients } = await createMcpToolsFromAgent(
    { resources: [mcpServer('shop', ['add'], { isEnabled: false }), mcpServer('bank', ['pay'])] },
    { createClient, log: (entry) => void entries.push(entry) },
  )
  expect(tools.map((tool) => tool.name)).toEqual(['pay'])
  expect(clients).toEqual(made)
  expect(made).toHaveLength(1)
  expect(entries).toEqual([expect.objectContaining({ code: 'SERVER_DISABLED', server: 'shop' })])
})

test('ignores resources of other types', async () => {
  const agent: AgentDefinition = {
    resources: [{ $resourceType: 'context', name: 'Docs' }, mcpServer('shop', ['add'])],
  }
  const { tools } = await createMcpToolsFromAgent(agent, clientsWith())
  expect(tools).toHaveLength(1)
})

test.each([{}, { resources: [] }])(
  'creates no tools for an agent without servers: %j',
  async (agent) => {
    await expect(createMcpToolsFromAgent(agent, clientsWith())).resolves.toEqual({
      tools: [],
      clients: [],
      failures: [],
    })
  },
)

test('uses the live definitions of the stored tool names with dynamic discovery', async () => {
  const entries: ToolLogEntry[] = []
  const { tools, clients } = await createMcpToolsFromAgent(
    { resources: [mcpServer('shop', ['gone', 'add', 'lost'], dynamic)] },
    {
      ...clientsWith({ shop: live('new', 'add') }),
      log: (entry) => void entries.push(entry),
    },
  )
  expect(tools.map(({ name, description }) => [name, description])).toEqual([['add', 'Live add']])
  expect(clients[0]?.lists).toBe(1)
  expect(entries.map(({ level, code, tool }) => [level, code, tool])).toEqual([
    ['warning', 'TOOL_MISSING', 'gone'],
    ['warning', 'TOOL_MISSING', 'lost'],
  ])
})

test('ignores the stored tools if all tools are allowed', async () => {
  const entries: ToolLogEntry[] = []
  const { tools } = await createMcpToolsFromAgent(
    { resources: [mcpServer('shop', ['gone'], dynamicAll)] },
    {
      ...clientsWith({ shop: live('new', 'add') }),
      log: (entry) => void entries.push(entry),
    },
  )
  expect(tools.map((tool) => tool.name)).toEqual(['new', 'add'])
  expect(entries).toEqual([])
})

test('still reads the old "dynamicTools", with a log entry', async () => {
  const entries: ToolLogEntry[] = []
  const { tools } = await createMcpToolsFromAgent(
    { resources: [mcpServer('shop', [], { dynamicTools: 'all' })] },
    { ...clientsWith({ shop: live('add') }), log: (entry) => void entries.push(entry) },
  )
  expect(tools).toHaveLength(1)
  expect(entries).toEqual([expect.objectContaining({ code: 'DEPRECATED', level: 'warning' })])
})

test('keeps the order of the agent, whichever server answers first', async () => {
  const asked = new EventEmitter()
  const toolset = createMcpToolsFromAgent(
    {
      resources: [
        mcpServer('slow', [], dynamicAll),
        mcpServer('fast', [], dynamicAll),
        mcpServer('cached', ['c']),
      ],
    },
    clientsWith({
      slow: async () => {
        await once(asked, 'fast')
        return [toolNamed('a')]
      },
      fast: () => {
        asked.emit('fast')
        return Promise.resolve([toolNamed('b')])
      },
    }),
  )
  expect((await toolset).tools.map((tool) => tool.name)).toEqual(['a', 'b', 'c'])
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
    const { made, createClient } = counting(lists)
    const entries: ToolLogEntry[] = []
    const log = (entry: ToolLogEntry): void => void entries.push(entry)
    const { tools, clients, failures } = await createMcpToolsFromAgent(
      { resources },
      { createClient, log },
    )
    expect(tools.map(({ name }) => name)).toEqual(['add', 'send'])
    expect(clients).toEqual(made)
    expect(made.map((client) => client.disposals)).toEqual([0, 0, 0])
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
    const { createClient } = counting(lists)
    const { tools } = await createMcpToolsFromAgent(
      { resources },
      { createClient, onServerError: (error, { slug }) => void told.push([slug, error]) },
    )
    expect(tools).toHaveLength(2)
    expect(told).toEqual([['bank', closed]])

    const { made, createClient: another } = counting(lists)
    const building = createMcpToolsFromAgent(
      { resources },
      {
        createClient: another,
        onServerError(_, { slug }) {
          throw new Error(`not without ${slug}`)
        },
      },
    )
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
  const agent = {
    resources: [mcpServer('shop', ['a b', 'a_b']), mcpServer('bank', ['gone'], dynamic)],
  }
  const before = structuredClone(agent)
  const { tools } = await createMcpToolsFromAgent(agent, { ...clientsWith(), log: () => {} })
  await tools[0]?.invoke({})
  expect(agent).toEqual(before)
})

test('creates no client for an invalid definition', async () => {
  const { made, createClient } = counting()
  const agent: AgentDefinition = JSON.parse('{"resources":[{"$resourceType":"mcp"}]}')
  await expect(createMcpToolsFromAgent(agent, { createClient })).rejects.toThrow(
    AgentDefinitionError,
  )
  expect(made).toEqual([])
})
