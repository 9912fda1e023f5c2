import { AIMessage } from '@langchain/core/messages'
import {
  entrypoint,
  InMemoryStore,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  StateGraph,
} from '@langchain/langgraph'
import { createAgent } from 'langchain'
import { expect, test } from 'vitest'

import { ScriptedModel } from '../../../test/scripted-model.ts'
import { threadKeeperOf, type RunnableGraph } from './definition.ts'
import { GraphHost } from './host.ts'

const asking = new StateGraph(MessagesAnnotation)
  .addNode('ask', () => ({ messages: [new AIMessage(String(interrupt('Which size?')))] }))
  .addEdge('__start__', 'ask')

function hostOf(isShared = false): GraphHost {
  const onWarning = (message: string): never => {
    throw new Error(message)
  }
  return new GraphHost({ isShared, onWarning })
}

function storeOf(graph: RunnableGraph): unknown {
  return Reflect.get(graph, 'store')
}

test.each([
  ['a graph', () => asking.compile()],
  ['an agent', () => createAgent({ model: new ScriptedModel('Hi'), tools: [] })],
  ['an entrypoint', () => entrypoint('add', async (input: number) => input + 1)],
])('gives a copy of %s a checkpointer and a store', async (_, make) => {
  const graph = make() as RunnableGraph
  const equipped = await hostOf().equip(graph, false)
  expect(threadKeeperOf(equipped)).toBeInstanceOf(MemorySaver)
  expect(storeOf(equipped)).toBeInstanceOf(InMemoryStore)
  expect(threadKeeperOf(graph)).toBeUndefined()
  expect(storeOf(graph)).toBeUndefined()
})

test('gives all graphs the same checkpointer and store', async () => {
  const host = hostOf()
  const [a, b] = await Promise.all([
    host.equip(asking.compile(), true),
    host.equip(asking.compile(), true),
  ])
  expect(threadKeeperOf(a)).toBe(threadKeeperOf(b))
  expect(storeOf(a)).toBe(storeOf(b))
})

test('leaves a graph what it was compiled with', async () => {
  const given = { checkpointer: new MemorySaver(), store: new InMemoryStore() }
  const { checkpointer, store } = given
  const [both, kept, shared] = await Promise.all(
    [given, { checkpointer }, { store }].map((options) =>
      hostOf().equip(asking.compile(options), false),
    ),
  )
  expect([both, kept].map((graph) => graph?.checkpointer)).toEqual([checkpointer, checkpointer])
  expect([both, shared].map((graph) => graph && storeOf(graph))).toEqual([store, store])
  const without = await hostOf().equip(asking.compile({ checkpointer: false }), false)
  expect(without.checkpointer).toBe(false)
})

test('replaces the checkpointer in memory of a graph that is made for each run', async () => {
  const own = new MemorySaver()
  const host = hostOf()
  const equipped = await host.equip(asking.compile({ checkpointer: own }), true)
  expect(threadKeeperOf(equipped)).toBeInstanceOf(MemorySaver)
  expect(threadKeeperOf(equipped)).not.toBe(own)
})

test('gives no checkpointer if several processes answer', async () => {
  const equipped = await hostOf(true).equip(asking.compile(), false)
  expect(threadKeeperOf(equipped)).toBeUndefined()
  expect(storeOf(equipped)).toBeInstanceOf(InMemoryStore)
})

test('leaves what is no graph of LangGraph as it is', async () => {
  const graph: RunnableGraph = { stream: async () => (async function* () {})() }
  await expect(hostOf().equip(graph, true)).resolves.toBe(graph)
})
