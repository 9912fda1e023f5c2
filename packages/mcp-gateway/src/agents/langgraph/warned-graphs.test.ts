import * as z from 'zod'
import {
  Annotation,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  StateGraph,
} from '@langchain/langgraph'
import { RemoteGraph } from '@langchain/langgraph/remote'
import { FakeListChatModel } from '@langchain/core/utils/testing'
import { createAgent } from 'langchain'
import { expect, test } from 'vitest'
import { agentCallOf, quiet } from '../../../test/scripted-source.ts'
import type { Agent, AgentCall, AgentSource, AgentUpdate } from '../agent.ts'
import { langGraphSource } from './source.ts'

async function updatesOf(
  source: AgentSource,
  over: Partial<AgentCall> = {},
): Promise<readonly AgentUpdate[]> {
  const updates: AgentUpdate[] = []
  for await (const update of source.run(agentCallOf({ agentId: 'shop', ...over }))) {
    updates.push(update)
  }
  return updates
}

test('warns of a graph with threads in memory if several processes answer', async () => {
  const node = (): object => ({ messages: [] })
  const made = new StateGraph(MessagesAnnotation).addNode('n', node).addEdge('__start__', 'n')
  const definition = { graph: made.compile({ checkpointer: new MemorySaver() }), description: '' }
  const warnings: string[] = []
  const warned = (message: string): void => void warnings.push(message)
  for (const isShared of [false, true]) {
    const source = langGraphSource({ shop: definition }, { isShared })
    await source.start({ ...quiet, warned })
    await source.close()
  }
  expect(warnings).toEqual([expect.stringContaining('cannot be answered in another')])
})

test('warns of a graph whose calls all fail, unless it has an input function', async () => {
  const state = Annotation.Root({ city: Annotation<string> })
  const made = new StateGraph(state).addNode('n', () => ({})).addEdge('__start__', 'n')
  const deaf = { graph: made.compile(), description: 'Knows cities' }
  const told = { ...deaf, input: () => ({ city: 'Oslo' }) }
  const warnings: string[] = []
  const needy = new StateGraph({
    state: z.object({ messages: z.array(z.unknown()), tenant: z.string() }),
    input: z.object({ messages: z.array(z.unknown()), tenant: z.string() }),
  })
    .addNode('n', () => ({}))
    .addEdge('__start__', 'n')
  const all = { deaf, told, needy: { graph: needy.compile(), description: 'Needs more' } }
  const source = langGraphSource(all)
  await source.start({ ...quiet, warned: (message) => warnings.push(message) })
  await source.close()
  expect(warnings).toEqual([
    expect.stringMatching(/^Every call of the graph "deaf" will fail: it takes no messages/),
    expect.stringMatching(/"needy" will fail: it needs more than messages: tenant\./),
  ])
})

test('warns of a graph with breakpoints that has no checkpointer to continue from', async () => {
  const made = new StateGraph(MessagesAnnotation).addNode('n', () => ({})).addEdge('__start__', 'n')
  const outer = new StateGraph(MessagesAnnotation)
    .addNode('inner', made.compile({ interruptAfter: '*' }))
    .addEdge('__start__', 'inner')
  const checkpointer = new MemorySaver()
  const graphs = {
    none: made.compile(),
    kept: made.compile({ interruptBefore: ['n'], checkpointer }),
    own: made.compile({ interruptBefore: ['n'] }),
    inner: outer.compile(),
  }
  const warnings: string[] = []
  const all = Object.entries(graphs).map(([name, graph]) => [name, { graph, description: '' }])
  const source = langGraphSource(Object.fromEntries(all))
  await source.start({ ...quiet, warned: (message) => warnings.push(message) })
  await source.close()
  expect(warnings).toEqual([
    expect.stringMatching(/^The graph "own" has breakpoints and no checkpointer/),
    expect.stringMatching(/^The graph "inner" has breakpoints and no checkpointer/),
  ])
})

test('reports which graphs certainly keep nothing between their calls', async () => {
  const made = new StateGraph(MessagesAnnotation).addNode('n', () => ({})).addEdge('__start__', 'n')
  const checkpointer = new MemorySaver()
  const outer = new StateGraph(MessagesAnnotation)
    .addNode('inner', made.compile({ checkpointer }))
    .addEdge('__start__', 'inner')
  const agentOf = { model: new FakeListChatModel({ responses: ['Hi'] }), tools: [] }
  const graphs = {
    forgets: made.compile(),
    made: () => made.compile(),
    agent: createAgent(agentOf),
    keeps: made.compile({ checkpointer }),
    agentKeeps: createAgent({ ...agentOf, checkpointer }),
    inner: outer.compile(),
    remote: new RemoteGraph({ graphId: 'shop', client: {} as never }),
    other: { stream: () => Promise.reject(new Error('Not called')) },
  }
  const all = Object.entries(graphs).map(([name, graph]) => [name, { graph, description: '' }])
  const found: Agent[] = []
  const source = langGraphSource(Object.fromEntries(all))
  await source.start({ ...quiet, found: (agent) => found.push(agent) })
  await source.close()
  const forgetful = found.filter(({ keepsThreads }) => keepsThreads === false)
  expect(found).toHaveLength(all.length)
  expect(forgetful.map(({ id }) => id)).toEqual(['forgets', 'made', 'agent'])
})

/** As some checkpointers of other authors are. */
class NoDeletion extends MemorySaver {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a checkpointer of JavaScript may lack it
  override deleteThread = undefined as never
}

class NotImplemented extends MemorySaver {
  override deleteThread(): Promise<void> {
    throw new Error('Method not implemented.')
  }
}

test.each([NoDeletion, NotImplemented])(
  'asks through a checkpointer of %o, and warns once',
  async (Saver) => {
    const ask = (): object => ({
      messages: [{ role: 'ai', content: `So ${String(interrupt('Which?'))}` }],
    })
    const made = new StateGraph(MessagesAnnotation).addNode('n', ask).addEdge('__start__', 'n')
    const graph = made.compile({ checkpointer: new Saver() })
    const warnings: string[] = []
    const source = langGraphSource({ shop: { graph, description: 'Asks' } })
    const found: Agent[] = []
    await source.start({
      ...quiet,
      found: (agent) => found.push(agent),
      warned: (message) => warnings.push(message),
    })
    expect(found).toMatchObject([{ canAsk: true }])
    const [asked] = (await updatesOf(source)).filter(({ type }) => type === 'asked')
    if (asked?.type !== 'asked') throw new Error('it did not ask')
    const { questions, state } = asked
    const id = questions[0]?.id ?? ''
    const answers = { [id]: { action: 'accept' as const, content: { answer: 'red' } } }
    expect(await updatesOf(source, { resume: { state, answers } })).toContainEqual(
      expect.objectContaining({ type: 'done', text: 'So red' }),
    )
    await source.forget?.('shop', state)
    await source.forget?.('shop', state)
    await source.close()
    expect(warnings).toEqual([expect.stringMatching(/"shop" has no deleteThread\(\)/)])
  },
)

test('names langGraphServerSource() for a RemoteGraph, at the start and when it asks', async () => {
  const modes: unknown[] = []
  const events = [
    { event: 'values', data: { messages: [] } },
    { event: 'updates', data: { __interrupt__: [{ value: 'Which?' }] } },
  ]
  const runs = {
    async *stream(_thread: unknown, _graph: unknown, { streamMode }: { streamMode: unknown }) {
      modes.push(streamMode)
      yield* events
    },
  }
  const graph = new RemoteGraph({ graphId: 'shop', client: { runs } as never })
  const warnings: string[] = []
  const outer = new StateGraph(MessagesAnnotation)
    .addNode('inner', graph)
    .addEdge('__start__', 'inner')
  const source = langGraphSource({
    // Its types do not fit, but programs in JavaScript and a langgraph.json may name one.
    shop: { graph: graph as never, description: 'Asks' },
    outer: { graph: outer.compile(), description: 'Asks another graph' },
  })
  const found: string[] = []
  await source.start({
    ...quiet,
    found: ({ id }) => found.push(id),
    warned: (message) => warnings.push(message),
  })
  expect(found).toEqual(['shop', 'outer'])
  expect(warnings).toEqual([expect.stringContaining('Offer it with langGraphServerSource()')])
  expect(await updatesOf(source)).toContainEqual({
    type: 'failed',
    reason: expect.stringContaining('with langGraphServerSource()'),
  })
  expect(modes.flat()).not.toContain('tools')
  await source.close()
})
