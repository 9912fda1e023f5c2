import { AIMessage } from '@langchain/core/messages'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { StaticServerDirectory, type McpClient } from '@x/mcp-client'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import {
  createMcpToolsFromAgent,
  type AgentDefinition,
  type CreateMcpToolsFromAgentOptions,
  type McpTool,
} from '../src/index.ts'

interface Toolset extends AsyncDisposable {
  readonly tools: readonly McpTool[]
  readonly clients: readonly McpClient[]
}

async function toolsOf(
  agent: AgentDefinition,
  options: CreateMcpToolsFromAgentOptions,
): Promise<Toolset> {
  const { tools, clients } = await createMcpToolsFromAgent(agent, options)
  return {
    tools,
    clients,
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
    },
  }
}

const cached: AgentDefinition = {
  resources: [
    {
      $resourceType: 'mcp',
      name: 'Shop',
      slug: 'shop',
      folderPath: 'Shared',
      availableTools: [
        { name: 'counter_add', inputSchema: { type: 'object', properties: {} } },
        { name: 'cart_add' },
      ],
    },
  ],
}

const dynamic: AgentDefinition = {
  resources: [
    {
      $resourceType: 'mcp',
      name: 'Shop',
      slug: 'shop',
      toolsConfiguration: { discoveryMode: { type: 'dynamic', allowAll: true } },
    },
  ],
}

function counting(times: number): AIMessage {
  return new AIMessage({
    content: '',
    tool_calls: Array.from({ length: times }, (_, index) => ({
      type: 'tool_call' as const,
      id: `call-${index}`,
      name: 'counter_add',
      args: { by: 1 },
    })),
  })
}

test('sends nothing until a tool is called; then all tools share one session', async () => {
  await using server = await startLegacyServer()
  const directory = new StaticServerDirectory({ shop: server.url })
  await using toolset = await toolsOf(cached, { directory })
  expect(server.received).toEqual([])

  const node = new ToolNode([...toolset.tools])
  const { messages } = await node.invoke({ messages: [counting(5)] })
  expect(messages).toHaveLength(5)
  await toolset.tools[1]?.invoke({ item: 'apple' })
  expect(server.count('initialize')).toBe(1)
  expect(server.executions('counter_add')).toBe(5)
  expect(server.sessions).toHaveLength(1)
})

test('repeats a call in a new session if the server refused the old one, and executes it once', async () => {
  await using server = await startLegacyServer()
  await using toolset = await toolsOf(cached, {
    directory: new StaticServerDirectory({ shop: server.url }),
  })
  const [counter] = toolset.tools
  await counter?.invoke({ by: 1 })
  server.forgetSessions()
  await expect(counter?.invoke({ by: 1 })).resolves.toBe('counter is 1')
  expect(server.count('initialize')).toBe(2)
  expect(server.executions('counter_add')).toBe(2)
})

test('opens a new session for the first call after dispose()', async () => {
  await using server = await startLegacyServer()
  await using toolset = await toolsOf(cached, {
    directory: new StaticServerDirectory({ shop: server.url }),
  })
  const [counter] = toolset.tools
  await counter?.invoke({})
  await toolset.clients[0]?.dispose()
  expect(server.sessions).toEqual([])
  await expect(counter?.invoke({})).resolves.toBe('counter is 1')
})

test('lists once with dynamic discovery, and uses the live schemas', async () => {
  await using server = await startLegacyServer()
  await using toolset = await toolsOf(dynamic, {
    directory: new StaticServerDirectory({ shop: server.url }),
  })
  expect(server.count('tools/list')).toBe(1)
  const counter = toolset.tools.find((tool) => tool.name === 'counter_add')
  expect(counter?.definition.outputSchema).toMatchObject({ required: ['count'] })
})

test('rejects the first call of an unknown server with an error that names it', async () => {
  const directory = new StaticServerDirectory({ bank: 'http://127.0.0.1:9/mcp' })
  await using toolset = await toolsOf(cached, { directory })
  await expect(toolset.tools[0]?.invoke({})).rejects.toMatchObject({
    name: 'McpToolError',
    code: 'CONFIG',
    category: 'user',
    message: expect.stringMatching(/No MCP server "shop"/),
  })
})

test('reports a call to a server that is down as not executed', async () => {
  const server = await startLegacyServer()
  const directory = new StaticServerDirectory({ shop: server.url })
  await server[Symbol.asyncDispose]()
  await using toolset = await toolsOf(cached, { directory })
  await expect(toolset.tools[0]?.invoke({})).resolves.toMatch(/cannot be reached.*not executed/)
})

test('closes all clients if a server fails while the tools are made', async () => {
  await using server = await startLegacyServer()
  const two: AgentDefinition = {
    resources: [
      ...(dynamic.resources ?? []),
      {
        $resourceType: 'mcp',
        name: 'Unknown',
        toolsConfiguration: { discoveryMode: { type: 'dynamic', allowAll: true } },
      },
    ],
  }
  const building = createMcpToolsFromAgent(two, {
    directory: new StaticServerDirectory({ shop: server.url }),
    onServerError: 'throw',
  })
  await expect(building).rejects.toMatchObject({ name: 'McpClientError', code: 'NOT_FOUND' })
  expect(server.sessions).toEqual([])
  expect(server.openStreams).toBe(0)
})

test('reports a call whose response breaks off as possibly executed, and executes it once', async () => {
  await using server = await startLegacyServer({ answerAs: 'sse', listenStream: 'refuse-405' })
  await using toolset = await toolsOf(dynamic, {
    directory: new StaticServerDirectory({ shop: server.url }),
  })
  const slow = toolset.tools.find((tool) => tool.name === 'slow')
  const call = slow?.invoke({})
  await server.waitFor((request) => request.toolName === 'slow')
  await server.restart()
  await expect(call).resolves.toMatch(/may or may not have been executed/)
  expect(server.received.filter((request) => request.toolName === 'slow')).toHaveLength(1)
})
