// A sign-in by code in a graph: the graph stops with the code, and goes on when the user has entered it.
import { AIMessage } from '@langchain/core/messages'
import {
  Command,
  INTERRUPT,
  isInterrupted,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { deviceOAuth, memoryTokenStore, type TokenStore } from '@x/mcp-transport/auth'
import { startModernServer, startGuardedServer } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import {
  authorizationResume,
  authorizationToInterrupt,
  createMcpTools,
  elicitationToInterrupt,
  isAuthorizationInterrupt,
  type McpAuthorizationInterrupt,
} from '../src/index.ts'
import { toolFrom } from './answering-source.ts'
import { askingGraph, type AskingGraph, type Calling } from './asking-graph.ts'
import type { PendingInterrupt } from '../src/graph/interrupt-value.ts'
import { mcpToolsMiddleware } from '../src/middleware.ts'
import { ScriptedModel } from './scripted-model.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
afterEach(() => void vi.useRealTimers())

/** As much time as a person needs: more than the five seconds between two token requests. */
const passTime = (): unknown => vi.setSystemTime(Date.now() + 6000)

interface Processes extends AsyncDisposable {
  /** Returns the graph in a new process. They share the checkpointer, and `store` if there is one. */
  start(calls?: readonly Calling[]): AskingGraph
  readonly checkpointer: MemorySaver
}

function processes(url: string, store?: TokenStore): Processes {
  const clients: McpClient[] = []
  const checkpointer = new MemorySaver()
  return {
    checkpointer,
    start(calls = [{ name: 'add', args: { a: 1, b: 2 } }]) {
      const provider = deviceOAuth({
        clientId: 'agent',
        store: store ?? memoryTokenStore(),
        onCode: () => {
          throw new Error('The code is in the interrupt')
        },
      })
      const authorization = authorizationToInterrupt(provider, url)
      const { authProvider } = authorization
      const elicitation = elicitationToInterrupt({ authorization })
      const source = new McpClient({ url }, { handlers: elicitation.handlers, authProvider })
      clients.push(source)
      const definition = { name: 'add' }
      const own = { name: 'add', definition, server: { slug: 'shop' }, source }
      return askingGraph({
        kind: 'fanOutToolCalls',
        tools: [toolFrom({ ...own, options: { elicitation } })],
        calls,
        checkpointer,
      })
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
    },
  }
}

/** The question of a graph that stopped, and the value that resumes it. */
function askedIn({ interrupts }: Pick<ListingTurn, 'interrupts'>): {
  readonly value: McpAuthorizationInterrupt
  readonly resume: ReturnType<typeof authorizationResume>
} {
  const [interrupt] = interrupts
  const value: unknown = interrupt?.value
  if (interrupt === undefined || !isAuthorizationInterrupt(value)) {
    throw new Error('No person was asked to sign in')
  }
  return { value, resume: authorizationResume(interrupt) }
}

test('stops with the code and its page, and sends the call once the user has entered it', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const { origin } = new URL(server.url)
  const expiresAt = Date.now() + 600_000
  const first = askedIn(await agents.start().start())
  expect(first.value).toMatchObject({
    server: 'shop',
    tool: 'add',
    url: `${origin}/activate?user_code=CODE-1`,
    device: {
      userCode: 'CODE-1',
      url: `${origin}/activate`,
      completeUrl: `${origin}/activate?user_code=CODE-1`,
      expiresAt,
    },
  })

  passTime()
  const tooEarly = askedIn(await agents.start().resume(first.resume))
  expect(tooEarly.value.device).toEqual(first.value.device)
  expect(inner.received).toEqual([])

  passTime()
  server.enterCode('grant')
  const { answers } = await agents.start().resume(tooEarly.resume)
  expect(answers['call-0']).toMatchObject({ status: 'success', content: '3' })
  expect([server.codes, inner.executions('add')]).toEqual([1, 1])
  const { storage, writes } = agents.checkpointer
  const kept = textsIn([storage, writes]).join()
  expect(kept).toContain('CODE-1')
  expect(kept).not.toMatch(/device-secret|granted-/)
})

/** All texts of a checkpointer. It keeps JSON as bytes. */
function textsIn(value: unknown): readonly string[] {
  if (value instanceof Uint8Array) return [Buffer.from(value).toString()]
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(textsIn)
  return [String(value)]
}

test('asks two calls for one code', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const calls = [1, 2].map((a) => ({ name: 'add', args: { a, b: 2 } }))
  const { interrupts } = await agents.start(calls).start()
  const asked = interrupts.map((one) => askedIn({ interrupts: [one] }))
  expect(asked.map(({ value }) => value.device?.userCode)).toEqual(['CODE-1', 'CODE-1'])
  passTime()
  server.enterCode('grant')
  const resume = Object.assign({}, ...asked.map((one) => one.resume))
  const { answers } = await agents.start(calls).resume(resume)
  expect(Object.values(answers).map(({ content }) => content)).toEqual(['3', '4'])
})

test('gets another code in a process that does not have the first one', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url)
  const first = askedIn(await agents.start().start())
  const graph = agents.start()
  const second = askedIn(await graph.resume(first.resume))
  expect(second.value.device?.userCode).toBe('CODE-2')
  passTime()
  server.enterCode('grant')
  expect((await graph.resume(second.resume)).answers['call-0']).toMatchObject({ content: '3' })
})

test('gets another code when the first one has expired', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const first = askedIn(await agents.start().start())
  vi.setSystemTime(first.value.device?.expiresAt ?? 0)
  const second = askedIn(await agents.start().resume(first.resume))
  expect(second.value.device?.userCode).toBe('CODE-2')
})

test('tells the model that the user refused access', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const first = askedIn(await agents.start().start())
  passTime()
  server.enterCode('deny')
  const { answers } = await agents.start().resume(first.resume)
  expect(answers['call-0']).toMatchObject({ status: 'error' })
  expect(inner.received).toEqual([])
})

interface ListingTurn {
  readonly interrupts: readonly PendingInterrupt[]
  readonly text: string
}

/** Processes with an agent that lists the tools of servers before each model call. */
function listingAgents(
  ...urls: readonly string[]
): () => (given: string | Command) => Promise<ListingTurn> {
  const checkpointer = new MemorySaver()
  const places = urls.map((url, index) => ({
    url,
    name: `shop${index}`,
    store: memoryTokenStore(),
  }))
  return () => {
    const servers = places.map(({ url, name, store }) => {
      const provider = deviceOAuth({ clientId: 'agent', store, onCode() {} })
      return { url, name, authorization: authorizationToInterrupt(provider, url) }
    })
    const mcp = createMcpTools({
      servers: Object.fromEntries(
        servers.map(({ url, name, authorization: { authProvider } }) => [
          name,
          { url, authProvider },
        ]),
      ),
      elicitation: elicitationToInterrupt({ authorization: servers[0]?.authorization }),
      prefixToolNames: true,
      onServerError: 'throw',
    })
    onTestFinished(() => mcp.close())
    const middleware = [mcpToolsMiddleware(mcp)]
    const agent = createAgent({ model: new ScriptedModel(), middleware, checkpointer })
    return async (given) => {
      const input = given instanceof Command ? given : { messages: [given] }
      const state = await agent.invoke(input, { configurable: { thread_id: 't1' } })
      const interrupts = isInterrupted(state) ? state[INTERRUPT] : []
      return { interrupts, text: state.messages.at(-1)?.text ?? '' }
    }
  }
}

test.each([
  ['the process that asked', false],
  ['a new process', true],
])('stops if the list of tools needs the sign-in, and goes on in %s', async (_where, isNew) => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  const start = listingAgents(server.url)
  let agent = start()
  const first = askedIn(await agent('call shop0_add {"a":1,"b":2}'))
  expect(first.value).toMatchObject({
    server: 'shop0',
    tool: 'tools/list',
    device: { userCode: 'CODE-1' },
  })
  passTime()
  if (isNew) agent = start()
  const tooEarly = askedIn(await agent(new Command({ resume: first.resume })))
  expect(tooEarly.value.device).toEqual(first.value.device)
  passTime()
  server.enterCode('grant')
  if (isNew) agent = start()
  const { text } = await agent(new Command({ resume: tooEarly.resume }))
  expect(text).toBe('3')
  expect([server.codes, inner.executions('add')]).toEqual([1, 1])
})

test('asks for the sign-ins of two lists one after the other', async () => {
  await using one = await startModernServer()
  await using two = await startModernServer()
  await using first = await startGuardedServer(one)
  await using second = await startGuardedServer(two)
  const agent = listingAgents(first.url, second.url)()
  const asked = askedIn(await agent('call shop1_add {"a":1,"b":2}'))
  passTime()
  first.enterCode('grant')
  const next = askedIn(await agent(new Command({ resume: asked.resume })))
  expect([asked.value.server, next.value.server]).toEqual(['shop0', 'shop1'])
  passTime()
  second.enterCode('grant')
  const { text } = await agent(new Command({ resume: next.resume }))
  expect(text).toBe('3')
  expect([first.codes, second.codes]).toEqual([1, 1])
})

test.each([
  [1, 1],
  [2, 0],
])('a node that makes %i calls and lists the tools twice asks %i times', async (calls, times) => {
  await using server = await startGuardedServer(await startModernServer())
  const provider = deviceOAuth({ clientId: 'agent', store: memoryTokenStore(), onCode() {} })
  const authorization = authorizationToInterrupt(provider, server.url)
  const { authProvider } = authorization
  await using mcp = createMcpTools({
    servers: { shop: { url: server.url, authProvider } },
    elicitation: elicitationToInterrupt({ authorization }),
    log: () => {},
  })
  const counts: number[] = []
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('tools', async () => {
      for (const forceRefresh of [false, true]) {
        counts.push((await mcp.listTools({ forceRefresh })).length)
      }
      return { messages: [] }
    })
    .addEdge(START, 'tools')
    .compile({ checkpointer: new MemorySaver() })
  const toolCalls = Array.from({ length: calls }, (_, index) => ({
    type: 'tool_call' as const,
    id: `call-${index}`,
    name: 'add',
    args: {},
  }))
  const messages = [new AIMessage({ content: '', tool_calls: toolCalls })]
  const config = { configurable: { thread_id: 't1' } }
  const state: unknown = await graph.invoke({ messages }, config)
  const interrupts = isInterrupted(state) ? state[INTERRUPT] : []
  expect(interrupts).toHaveLength(times)
  if (times === 0) return
  passTime()
  server.enterCode('grant')
  const { resume } = askedIn({ interrupts })
  expect(isInterrupted(await graph.invoke(new Command({ resume }), config))).toBe(false)
  expect(counts).toEqual([expect.any(Number), counts[0]])
  expect(counts[0]).toBeGreaterThan(0)
})
