import type { BindToolsInput } from '@langchain/core/language_models/chat_models'
import { MemorySaver } from '@langchain/langgraph'
import { StaticServerDirectory } from '@x/mcp-client'
import { startLegacyServer, type LegacyServer } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import * as z from 'zod'
import { expect, onTestFinished, test } from 'vitest'
import {
  createMcpToolsFromAgent,
  type AgentDefinition,
  type CreateMcpToolsFromAgentOptions,
  type McpToolset,
  type ToolLogEntry,
} from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'

/** An older definition: on the server, the parameter is now called `by`. */
const counterAsItWas = {
  name: 'counter_add',
  description: 'Adds to a counter',
  inputSchema: {
    type: 'object',
    properties: { amount: { type: 'string' } },
    required: ['amount'],
  },
}

const echo = {
  name: 'echo',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
}

const shop = { $resourceType: 'mcp', name: 'Shop', slug: 'shop' }

function agentWith(...availableTools: readonly Record<string, unknown>[]): AgentDefinition {
  return { resources: [{ ...shop, availableTools }] }
}

/** Tools of an agent, over a server of their own. */
async function toolsOf(
  agent: AgentDefinition,
  options: CreateMcpToolsFromAgentOptions = {},
): Promise<McpToolset & { readonly server: LegacyServer }> {
  const server = await startLegacyServer()
  onTestFinished(() => server[Symbol.asyncDispose]())
  const directory = new StaticServerDirectory({ shop: server.url })
  const toolset = await createMcpToolsFromAgent(agent, { directory, ...options })
  onTestFinished(async () => {
    await Promise.all(toolset.clients.map((client) => client.dispose()))
  })
  return { ...toolset, server }
}

/** Records the tools that are bound to it, each time. */
class ListeningModel extends ScriptedModel {
  readonly told: unknown[][] = []

  override bindTools(tools?: BindToolsInput[]): this {
    this.told.push((tools ?? []).map((tool) => ('schema' in tool ? tool.schema : undefined)))
    return this
  }
}

test('tells the model about a changed tool, which then calls it with the new parameters', async () => {
  const { tools, server } = await toolsOf(agentWith(counterAsItWas))
  const model = new ListeningModel()
  const agent = createAgent({ model, tools, checkpointer: new MemorySaver() })
  const thread = { configurable: { thread_id: 't1' } }
  const say = async (content: string): Promise<string> =>
    (await agent.invoke({ messages: [{ role: 'user', content }] }, thread)).messages.at(-1)?.text ??
    ''

  await expect(say('call counter_add {"amount":"2"}')).resolves.toMatch(/not executed.*are now: by/)
  expect(server.executions('counter_add')).toBe(0)
  await expect(say('call counter_add {"by":2}')).resolves.toBe('counter is 2')
  expect(model.told[0]).toEqual([counterAsItWas.inputSchema])
  expect(model.told.at(-1)).toMatchObject([{ properties: { by: { type: 'number' } } }])
  expect(server.count('tools/list')).toBe(1)
})

test('uses one list for many calls, until the session is replaced', async () => {
  const { tools, server } = await toolsOf(agentWith(echo))
  const [tool] = tools
  await Promise.all(tools.flatMap((one) => ['a', 'b', 'c'].map((text) => one.invoke({ text }))))
  expect(server.count('tools/list')).toBe(1)
  server.forgetSessions()
  await tool?.invoke({ text: 'd' }) // replaces the session
  await expect(tool?.invoke({ text: 'e' })).resolves.toBe('e')
  expect(server.count('tools/list')).toBe(2)
})

test('requests no list if the agent disables it', async () => {
  const toolsConfiguration = { discoveryMode: { type: 'cached', refreshSchemaBeforeCall: false } }
  const resource = { ...shop, availableTools: [echo], toolsConfiguration }
  const { tools, server } = await toolsOf({ resources: [resource] })
  await expect(tools[0]?.invoke({ text: 'a' })).resolves.toBe('a')
  expect(server.count('tools/list')).toBe(0)
})

test('takes arguments from the state of the graph, and shows sensitive ones only to the server', async () => {
  const agent = agentWith({
    ...echo,
    argumentProperties: {
      '$.text': {
        variant: 'textBuilder',
        tokens: [
          { type: 'simpleText', rawString: 'for ' },
          { type: 'variable', rawString: 'input.userId' },
        ],
        isSensitive: true,
      },
    },
  })
  const entries: ToolLogEntry[] = []
  const { tools, server } = await toolsOf(agent, {
    log: (entry) => void entries.push(entry),
  })
  const model = new ListeningModel()
  const seen: unknown[] = []
  const graph = createAgent({ model, tools, stateSchema: z.object({ userId: z.string() }) })
  const { messages } = await graph.invoke(
    { messages: [{ role: 'user', content: 'call echo {}' }], userId: 'user-4711' },
    {
      callbacks: [
        {
          handleToolStart: (_tool: unknown, input: unknown) => void seen.push(input),
          handleToolEnd: (output: unknown) => void seen.push(output),
        },
      ],
    },
  )
  const sent = await server.waitFor(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(JSON.stringify(sent)).toContain('for user-4711')
  expect(messages.at(-1)?.text).toBe('<hidden>')
  expect(seen).toHaveLength(2)
  expect(JSON.stringify([seen, model.told, entries, messages])).not.toContain('user-4711')
  expect(model.told[0]).toMatchObject([{ required: [] }])
})

test('replaces arguments of the model by values from the state of the graph', async () => {
  const agent = agentWith({
    ...echo,
    argumentProperties: { '$.text': { variant: 'argument', argumentPath: '$.userId' } },
  })
  const { tools } = await toolsOf(agent)
  const model = new ListeningModel()
  const graph = createAgent({ model, tools, stateSchema: z.object({ userId: z.string() }) })
  const messages = [{ role: 'user', content: 'call echo {"text":"mine"}' }]
  const state = await graph.invoke({ messages, userId: 'ann' })
  expect(state.messages.at(-1)?.text).toBe('ann')
  const text = { type: 'string', description: 'Pre-configured: leave it empty.' }
  expect(model.told[0]).toMatchObject([{ properties: { text } }])
})
