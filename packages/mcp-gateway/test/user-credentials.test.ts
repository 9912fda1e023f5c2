import { AIMessage } from '@langchain/core/messages'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { expect, test, vi } from 'vitest'
import * as z from 'zod'
import type { Agent, AgentSource, AgentUpdate } from '../src/agents/agent.ts'
import { langGraphServerSource } from '../src/agents/langgraph-server.ts'
import { langGraphSource } from '../src/agents/langgraph/source.ts'
import type { UserCredentials } from '../src/internal/user-credentials.ts'
import { answered, startRemoteLangGraph } from './remote-langgraph.ts'
import { agentCallOf, quiet } from './scripted-source.ts'

/** Credentials that give `token-1`, and another one after each refusal. */
function scripted(): UserCredentials & { readonly asked: unknown[] } {
  const asked: unknown[] = []
  let nth = 1
  return {
    asked,
    token: async ({ resource }) => {
      asked.push(resource)
      return { accessToken: `token-${nth}` }
    },
    rejected: ({ accessToken }) => {
      if (accessToken === `token-${nth}`) nth++
    },
  }
}

const { token: _token, ...unsafe } = { token: 0, credentials: { token: 'of the caller' } }

async function startedFrom(source: AgentSource) {
  const agents: Agent[] = []
  const warnings: string[] = []
  await source.start({
    ...quiet,
    found: (agent) => agents.push(agent),
    warned: (message) => void warnings.push(message),
  })
  const [agent] = agents
  if (agent === undefined) throw new Error('The source has no agent')
  return { agent, warnings }
}

async function updatesOf(
  source: AgentSource,
  over: Partial<Parameters<typeof agentCallOf>[0]> = {},
): Promise<AgentUpdate[]> {
  const { agent } = await startedFrom(source)
  const skillId = agent.skills[0]?.id ?? agent.id
  const updates: AgentUpdate[] = []
  const call = agentCallOf({ agentId: agent.id, skillId, ...over })
  for await (const update of source.run(call)) updates.push(update)
  await source.close()
  return updates
}

const isCredentials = (value: unknown): value is UserCredentials =>
  typeof value === 'object' &&
  value !== null &&
  'token' in value &&
  typeof value.token === 'function'

const schemas = {
  'no schema': undefined,
  'a schema without them': z.object({ userId: z.string().optional() }),
  'a schema that refuses other fields': z.strictObject({ userId: z.string().optional() }),
  'a schema with them': z.object({ credentials: z.custom<UserCredentials>(isCredentials) }),
  'a strict schema with them': z.strictObject({
    credentials: z.custom<UserCredentials>(isCredentials).optional(),
  }),
}

test.each(Object.entries(schemas))('runs a graph with %s', async (title, schema) => {
  let seen: unknown
  const graph = new StateGraph(MessagesAnnotation, schema)
    .addNode('say', (_, { context }) => {
      seen = context
      return { messages: [new AIMessage('Hi')] }
    })
    .addEdge(START, 'say')
    .compile()
  const context = title.includes('without') || title.includes('refuses') ? { userId: 'ada' } : {}
  const source = langGraphSource({ support: { graph, description: 'Says hi', context } })
  const credentials = scripted()
  const updates = await updatesOf(source, { credentials })
  expect(updates.at(-1)).toMatchObject({ type: 'done' })
  const isTaken = !title.includes('refuses')
  expect(seen).toEqual({ ...context, ...(isTaken && { credentials }) })
})

test('lets no caller give the credentials', async () => {
  let seen: unknown
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('say', (_, { context }) => {
      seen = context
      return { messages: [new AIMessage('Hi')] }
    })
    .addEdge(START, 'say')
    .compile()
  const definition = { graph, description: 'Says hi', callerContext: ['credentials'] }
  const credentials = scripted()
  await updatesOf(langGraphSource({ support: definition }), { credentials, context: unsafe })
  expect(seen).toMatchObject({ credentials: { token: expect.any(Function) } })
})

test('sends runs to a LangGraph server with a token of the user, and all else without', async () => {
  await using server = await startRemoteLangGraph()
  const sent: string[] = []
  const send: typeof fetch = async (input, init) => {
    const authorization = new Headers(init?.headers).get('authorization') ?? 'none'
    const { pathname } = new URL(input instanceof Request ? input.url : input)
    sent.push(`${pathname} ${authorization}`)
    if (pathname === '/threads' && authorization === 'Bearer token-1') {
      return new Response(null, { status: 401 })
    }
    return fetch(input, init)
  }
  const resource = 'https://agents.example'
  const source = langGraphServerSource({ url: server.url, resource, fetch: send })
  const credentials = scripted()
  const updates = updatesOf(source, { credentials })
  await vi.waitUntil(() => server.runs.length === 1, { timeout: 300_000 })
  server.end('success', answered('Hi'))
  expect((await updates).at(-1)).toMatchObject({ type: 'done' })
  expect(new Set(credentials.asked)).toEqual(new Set([resource]))
  const ofRun = sent.filter((line) => line.startsWith('/threads'))
  expect(ofRun.slice(0, 2)).toEqual(['/threads Bearer token-1', '/threads Bearer token-2'])
  expect(ofRun.slice(1).every((line) => line.endsWith('Bearer token-2'))).toBe(true)
  expect(
    sent.filter((line) => !line.startsWith('/threads')).every((line) => line.endsWith('none')),
  ).toBe(true)
})

test('starts no run at a LangGraph server without the user', async () => {
  await using server = await startRemoteLangGraph()
  const source = langGraphServerSource({ url: server.url, resource: 'https://agents.example' })
  await expect(updatesOf(source)).rejects.toThrow(/token of a user/)
  expect(server.lines.filter((line) => line.includes('/threads'))).toEqual([])
})
