import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AIMessage } from '@langchain/core/messages'
import { interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { createDeepAgent } from 'deepagents'
import { createAgent, createMiddleware } from 'langchain'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import type { Agent, AgentCall, AgentUpdate } from '../src/agents/agent.ts'
import type { ContextOptions } from '../src/agents/langgraph/context.ts'
import { langGraphSource } from '../src/agents/langgraph/source.ts'
import { langGraphServerSource } from '../src/agents/langgraph-server.ts'
import { createGateway } from '../src/gateway.ts'
import { startGraphServer } from './graph-server.ts'
import { ScriptedModel } from './scripted-model.ts'
import { agentCallOf, quiet } from './scripted-source.ts'

const Context = z.object({
  userId: z.string(),
  tone: z.string().default('kind'),
  limit: z.number().optional(),
})
const CONTEXT_SCHEMA = z.toJSONSchema(Context)

/** Says its context, and asks first if it has a checkpointer. */
function saying(checkpointer?: MemorySaver) {
  return new StateGraph(MessagesAnnotation, Context)
    .addNode('say', (_, { context }) => {
      if (checkpointer) interrupt('Sure?')
      return { messages: [new AIMessage(JSON.stringify(context))] }
    })
    .addEdge(START, 'say')
    .compile(checkpointer && { checkpointer })
}

interface Started extends AsyncDisposable {
  readonly warnings: readonly string[]
  readonly agent: Agent
  call(over?: Partial<AgentCall>): Promise<AgentUpdate | undefined>
}

type Start = (options: ContextOptions, graph?: ReturnType<typeof saying>) => Promise<Started>

async function startedFrom(
  source: ReturnType<typeof langGraphSource>,
  end: () => PromiseLike<void> = async () => undefined,
): Promise<Started> {
  const agents: Agent[] = []
  const warnings: string[] = []
  const warned = (message: string): void => void warnings.push(message)
  await source.start({ ...quiet, found: (agent) => agents.push(agent), warned })
  const [agent] = agents
  if (agent === undefined) throw new Error('The source has no agent')
  const skillId = agent.skills[0]?.id ?? agent.id
  return {
    warnings,
    agent,
    call: async (over) => {
      const updates: AgentUpdate[] = []
      const call = agentCallOf({ agentId: agent.id, skillId, ...over })
      for await (const update of source.run(call)) updates.push(update)
      return updates.at(-1)
    },
    [Symbol.asyncDispose]: async () => {
      await source.close()
      await end()
    },
  }
}

const PLACES: readonly (readonly [string, Start])[] = [
  [
    'in this process',
    (options, graph = saying()) =>
      startedFrom(langGraphSource({ say: { graph, description: '' } }, options)),
  ],
  [
    'in this process, by its definition',
    (options, graph = saying()) =>
      startedFrom(langGraphSource({ say: { graph, description: '', ...options } })),
  ],
  [
    'at a LangGraph server',
    async (options, graph = saying(new MemorySaver())) => {
      const server = await startGraphServer(graph, { contextSchema: CONTEXT_SCHEMA })
      const source = langGraphServerSource({ url: server.url, ...options })
      return startedFrom(source, () => server[Symbol.asyncDispose]())
    },
  ],
]

describe.each(PLACES)('a graph with a context schema %s', (_place, start) => {
  /** The answer of a call; at a server, of one that was asked first. */
  const said = async (world: Started, over: Partial<AgentCall> = {}): Promise<unknown> => {
    const first = await world.call(over)
    if (first?.type !== 'asked') return first?.type === 'done' ? first.text : first
    const answers = { 0: { action: 'accept' as const, content: { answer: 'yes' } } }
    const { context: _, ...rest } = over
    const end = await world.call({ ...rest, resume: { state: first.state, answers } })
    return end?.type === 'done' ? end.text : end
  }

  test('gets the context of the configuration', async () => {
    await using world = await start({ context: { userId: 'u1' } })
    expect(world.warnings).toEqual([])
    expect(await said(world)).toBe('{"userId":"u1"}')
  })

  test('gets the context that a function makes from the principal', async () => {
    await using world = await start({
      context: async ({ principal }) => ({ userId: principal.id, limit: undefined }),
    })
    expect(world.warnings).toEqual([])
    expect(await said(world)).toBe('{"userId":"ada"}')
  })

  test('gets the fields that callers may give, also after a question, and no others', async () => {
    await using world = await start({ context: { tone: 'dry' }, callerContext: ['userId', 'tone'] })
    expect(world.warnings).toEqual([])
    expect(world.agent.skills[0]?.contextSchema).toMatchObject({
      properties: { userId: { type: 'string' } },
      required: ['userId'],
    })
    const context = { userId: 'u2', tone: 'rude', limit: 5 }
    expect(await said(world, { context })).toBe('{"userId":"u2","tone":"dry"}')
  })

  test('warns of a context that nobody gives, and fails with its name', async () => {
    await using world = await start({})
    expect(world.warnings).toEqual([
      expect.stringContaining('will fail: its context needs userId. Set "context"'),
    ])
    await expect(world.call()).rejects.toMatchObject({
      reason: 'agent_failed',
      message: expect.stringContaining('"userId" in its context'),
    })
  })

  test('fails with the name of a field that a function leaves out', async () => {
    await using world = await start({ context: () => ({}) })
    await expect(world.call()).rejects.toMatchObject({
      reason: 'agent_failed',
      message: expect.stringContaining('"userId" in its context'),
    })
  })

  test('blames the arguments for a field that the caller leaves out', async () => {
    await using world = await start({ callerContext: ['userId'] })
    await expect(world.call()).rejects.toMatchObject({
      reason: 'invalid_arguments',
      message: expect.stringContaining('/context/userId'),
    })
  })
})

test('names a field of the context that has the wrong type', async () => {
  const graphs = { say: { graph: saying(), description: '', context: { userId: 5 } } }
  await using world = await startedFrom(langGraphSource(graphs))
  await expect(world.call()).rejects.toMatchObject({
    message: expect.stringContaining('"userId" in its context'),
    cause: { message: expect.stringContaining('expected string') },
  })
})

test.each([
  [
    'createAgent',
    () => createAgent({ model: new ScriptedModel('Hi'), tools: [], contextSchema: Context }),
  ],
  [
    'deep agents',
    () => createDeepAgent({ model: new ScriptedModel('Hi'), contextSchema: Context }),
  ],
  [
    'middleware',
    () => {
      const tenant = createMiddleware({
        name: 'tenant',
        contextSchema: Context,
        beforeModel: () => undefined,
      })
      return createAgent({ model: new ScriptedModel('Hi'), tools: [], middleware: [tenant] })
    },
  ],
])('knows the context that %s needs', async (_kind, make) => {
  await using without = await startedFrom(
    langGraphSource({ a: { graph: make(), description: '' } }),
  )
  expect(without.warnings).toEqual([expect.stringContaining('its context needs userId')])
  await expect(without.call()).rejects.toMatchObject({ reason: 'agent_failed' })
  const graphs = { a: { graph: make(), description: '', context: { userId: 'u1' } } }
  await using world = await startedFrom(langGraphSource(graphs))
  expect(world.warnings).toEqual([])
  expect(await world.call()).toMatchObject({ type: 'done', text: 'Hi' })
})

test.each([
  ['a server for JavaScript', false, { config: { configurable: { skillId: 'support' } } }],
  ['a server for Python, which refuses both', true, {}],
])('sends the context beside the configuration to %s', async (_kind, isPython, config) => {
  const contextSchema = CONTEXT_SCHEMA
  await using server = await startGraphServer(saying(new MemorySaver()), {
    contextSchema,
    isPython,
  })
  const source = langGraphServerSource({ url: server.url, context: { userId: 'u1' } })
  await using world = await startedFrom(source)
  await world.call({ skillId: 'support' })
  const { config: sent, context } = server.runs[0] ?? {}
  expect({ ...(sent !== undefined && { config: sent }), context }).toMatchObject({
    ...config,
    context: { userId: 'u1' },
  })
  expect(sent === undefined).toBe(isPython)
})

test('the tool of a graph takes the context of callers as a parameter, and checks it', async () => {
  const say = { graph: saying(), description: 'Says', callerContext: ['userId'] }
  await using gateway = createGateway({ agents: { say } })
  const { url } = await gateway.listen({ port: 0 })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const { tools } = await client.listTools()
  expect(tools[0]?.inputSchema).toMatchObject({
    properties: { context: { properties: { userId: { type: 'string' } }, required: ['userId'] } },
    required: ['message', 'context'],
  })
  const call = (args: object) =>
    client.callTool({ name: 'say', arguments: { message: 'Hi', ...args } })
  expect(await call({ context: { userId: 'u3' } })).toMatchObject({
    content: [{ text: '{"userId":"u3"}' }],
  })
  for (const context of [undefined, {}, { userId: 5 }, { userId: 'a', tone: 'rude' }, 'u3']) {
    expect(await call({ ...(context !== undefined && { context }) })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('/context') }],
    })
  }
  await client.close()
})
