import * as z from 'zod'
import { Annotation, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { expect, test } from 'vitest'
import { quiet } from '../../../test/scripted-source.ts'
import { langGraphSource } from './source.ts'

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
