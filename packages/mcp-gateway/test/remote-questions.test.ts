import {
  Annotation,
  Command,
  END,
  interrupt,
  MemorySaver,
  Send,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { describe, expect, test, vi } from 'vitest'
import type { RunnableGraph } from '../src/agents/langgraph/definition.ts'
import { langGraphServerSource } from '../src/agents/langgraph-server.ts'
import type { LangGraphServerSourceOptions } from '../src/agents/langgraph-server.ts'
import { createGateway, type Gateway } from '../src/gateway.ts'
import { startGraphServer } from './graph-server.ts'
import { ManualClock, settled } from './manual-clock.ts'
import { modern } from './rpc-requests.ts'

// Questions of graphs at a LangGraph server that somebody answers there, for example in Studio.

type Json = Readonly<Record<string, unknown>>

const State = Annotation.Root({
  messages: Annotation<unknown[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  done: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
})

const says = (content: unknown): object => ({
  messages: [{ role: 'assistant', content: String(content) }],
})

/** What the graphs did. */
let paid: string[] = []

function pay(what: unknown): object {
  paid.push(String(what))
  return says(`Paid ${String(what)}`)
}

const ask = (): object => pay(interrupt('Which size?'))

const GRAPHS: Readonly<Record<string, (saver: MemorySaver) => RunnableGraph>> = {
  'a node': (checkpointer) =>
    new StateGraph(State).addNode('ask', ask).addEdge(START, 'ask').compile({ checkpointer }),
  'a node with work after it': (checkpointer) =>
    new StateGraph(State)
      .addNode('ask', () => ({ done: [String(interrupt('Which size?'))] }))
      .addNode('pay', ({ done }) => pay(done.at(-1)))
      .addEdge(START, 'ask')
      .addEdge('ask', 'pay')
      .compile({ checkpointer }),
  'a subgraph': (checkpointer) =>
    new StateGraph(State)
      .addNode('inner', new StateGraph(State).addNode('ask', ask).addEdge(START, 'ask').compile())
      .addEdge(START, 'inner')
      .compile({ checkpointer }),
  'parallel tasks': (checkpointer) =>
    new StateGraph(State)
      .addNode('ask', ask)
      .addConditionalEdges(START, () => [new Send('ask', {}), new Send('ask', {})], ['ask'])
      .addEdge('ask', END)
      .compile({ checkpointer }),
}

async function world(
  make: (saver: MemorySaver) => RunnableGraph,
  options: Pick<LangGraphServerSourceOptions, 'clock' | 'fetch'> = {},
) {
  paid = []
  const graph = make(new MemorySaver())
  const server = await startGraphServer(graph)
  const gateway = createGateway({
    sources: [langGraphServerSource({ url: server.url, ...options })],
    log: false,
  })
  await gateway.registry.start()
  // On a busy machine, only a later search finds the assistant.
  await vi.waitUntil(() => gateway.registry.plan().byName('support'), { timeout: 300_000 })
  return {
    graph,
    gateway,
    server,
    [Symbol.asyncDispose]: async () => {
      await gateway.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

async function call({ fetch }: Gateway, more: Json = {}): Promise<Json> {
  const meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
  const params = { name: 'support', arguments: { message: 'Buy' }, _meta: meta, ...more }
  const response = await fetch(modern('tools/call', params))
  const { result } = (await response.json()) as { result: Json }
  return result
}

function answersTo({ inputRequests, requestState }: Json, answer: unknown): Json {
  const keys = Object.keys(inputRequests as object)
  const inputResponses = Object.fromEntries(
    keys.map((key) => [key, { action: 'accept', content: { answer } }]),
  )
  return { requestState, inputResponses }
}

/** Answers all questions of a thread. */
async function answerInStudio(
  { graph }: Awaited<ReturnType<typeof world>>,
  thread: string,
  answer: string,
): Promise<void> {
  const config = { configurable: { thread_id: thread } }
  const state = (await graph.getState?.(config)) as {
    readonly tasks: readonly { readonly interrupts: readonly { readonly id?: string }[] }[]
  }
  const ids = state.tasks.flatMap(({ interrupts }) => interrupts.map(({ id = '' }) => id))
  const resume = Object.fromEntries(ids.map((id) => [id, answer]))
  const stream = await graph.stream(new Command({ resume }), { ...config, streamMode: ['values'] })
  for await (const _ of stream);
}

describe.each(Object.keys(GRAPHS))('a question of %s', (kind) => {
  const make = GRAPHS[kind]!

  test('is answered', async () => {
    await using at = await world(make)
    const asked = await call(at.gateway)
    expect(asked).toMatchObject({ resultType: 'input_required' })
    const ended = await call(at.gateway, answersTo(asked, 'L'))
    expect(ended).not.toHaveProperty('isError')
    expect(new Set(paid)).toEqual(new Set(['L']))
  })

  test('that was answered in Studio is not answered again', async () => {
    await using at = await world(make)
    const asked = await call(at.gateway)
    const [thread = ''] = at.server.threads
    await answerInStudio(at, thread, 'M')
    const before = [...paid]
    expect(before).toContain('M')
    const ended = await call(at.gateway, answersTo(asked, 'L'))
    expect(ended).toMatchObject({ isError: true, _meta: { reason: 'outcome_unknown' } })
    expect(paid).toEqual(before)
    expect(at.server.runs).toHaveLength(1)
  })
})

test('a breakpoint that was passed in Studio is not passed again', async () => {
  await using at = await world((checkpointer) =>
    new StateGraph(State)
      .addNode('plan', () => says('A plan'))
      .addNode('first', () => pay('first'))
      .addNode('second', () => pay('second'))
      .addEdge(START, 'plan')
      .addEdge('plan', 'first')
      .addEdge('first', 'second')
      .compile({ checkpointer, interruptBefore: ['first', 'second'] }),
  )
  const asked = await call(at.gateway)
  expect(asked).toMatchObject({ resultType: 'input_required' })
  const [thread = ''] = at.server.threads
  const config = { configurable: { thread_id: thread }, streamMode: ['values'] }
  for await (const _ of await at.graph.stream(null, config));
  expect(paid).toEqual(['first'])
  const ended = await call(at.gateway, answersTo(asked, true))
  expect(ended).toMatchObject({ isError: true, _meta: { reason: 'outcome_unknown' } })
  expect(paid).toEqual(['first'])
})

test('an answer can be given again if the state of its thread could not be read', async () => {
  const clock = new ManualClock()
  let isAway = false
  await using at = await world(GRAPHS['a node']!, {
    clock,
    fetch: async (input, init) =>
      isAway && new Request(input).url.includes('/state')
        ? new Response('', { status: 503 })
        : fetch(input, init),
  })
  const asked = await call(at.gateway)
  isAway = true
  const answering = call(at.gateway, answersTo(asked, 'L'))
  const passing = async (): Promise<undefined> => {
    await settled()
    await clock.advance(1000)
    return undefined
  }
  let ended = await Promise.race([answering, passing()])
  while (ended === undefined) ended = await Promise.race([answering, passing()])
  expect(ended).toMatchObject({ isError: true, _meta: { reason: 'unavailable' } })
  expect(JSON.stringify(ended)).toContain('the answer was not sent')
  expect(paid).toEqual([])
  isAway = false
  expect(await call(at.gateway, answersTo(asked, 'L'))).not.toHaveProperty('isError')
  expect(paid).toEqual(['L'])
})
