import { dispatchCustomEvent } from '@langchain/core/callbacks/dispatch'
import { AIMessage } from '@langchain/core/messages'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import { deferred } from '@x/mcp-testing'
import { createAgent, tool } from 'langchain'
import { expect, test } from 'vitest'
import * as z from 'zod'
import type { RunnableGraph } from '../src/agents/langgraph/definition.ts'
import { langGraphSource } from '../src/agents/langgraph/source.ts'
import { calling, ScriptedModel } from './scripted-model.ts'
import { agentCallOf, quiet } from './scripted-source.ts'

const named = { name: 'work', description: 'Works', schema: z.object({}) }

/** An agent that calls one tool. */
function agentWith(work: object): RunnableGraph {
  return createAgent({ model: new ScriptedModel(calling('work'), 'Done'), tools: [work as never] })
}

/** A graph whose node sends something. */
function nodeThat(send: (config: LangGraphRunnableConfig) => unknown): RunnableGraph {
  return new StateGraph(MessagesAnnotation)
    .addNode('work', async (_, config) => {
      await send(config)
      return { messages: [new AIMessage('Done')] }
    })
    .addEdge(START, 'work')
    .compile()
}

/** Calls `onText` with each line of progress. */
async function follow(graph: RunnableGraph, onText: (text: string) => void): Promise<void> {
  const source = langGraphSource({ support: { graph, description: 'Works' } })
  await source.start(quiet)
  for await (const update of source.run(agentCallOf())) {
    if (update.type === 'status' && !update.text.startsWith('Done: ')) {
      onText(update.text)
    }
  }
}

const texts: Parameters<LangGraphRunnableConfig['writer'] & object>[0][] = [
  'a text',
  { progress: 1, total: 4, message: 'a quarter' },
  { progress: 2, total: 4 },
  { message: 'a message' },
  { type: 'progress', message: 'with a type' },
  { type: 'status', text: 'a status' },
  { token: 'not for people' },
  7,
  null,
  '',
]
const shown = [
  'a text',
  'a quarter (1 of 4)',
  'Progress: 2 of 4',
  'a message',
  'with a type',
  'a status',
]

test.each<[string, RunnableGraph]>([
  ['the writer of a node', nodeThat((config) => texts.forEach((each) => config.writer?.(each)))],
  [
    'the writer of a tool',
    agentWith(
      tool(async (_, config: LangGraphRunnableConfig) => {
        for (const each of texts) config.writer?.(each)
        return 'worked'
      }, named),
    ),
  ],
  [
    'the generator of a tool',
    agentWith(
      tool(async function* () {
        yield* texts
      }, named),
    ),
  ],
  [
    'events of a tool',
    agentWith(
      tool(async (_, config) => {
        for (const each of texts) await dispatchCustomEvent('progress', each, config)
        return 'worked'
      }, named),
    ),
  ],
  [
    'events of a node',
    nodeThat(async (config) => {
      for (const each of texts) await dispatchCustomEvent('progress', each, config)
    }),
  ],
])('shows progress from %s', async (_kind, graph) => {
  const seen: string[] = []
  await follow(graph, (text) => seen.push(text))
  expect(seen).toEqual(shown)
})

test('shows an event while its node still works', async () => {
  const isSeen = deferred()
  const graph = nodeThat(async (config) => {
    await dispatchCustomEvent('progress', 'half', config)
    await isSeen.promise // the node ends only if the event arrives before its end
  })
  const seen: string[] = []
  await follow(graph, (text) => {
    seen.push(text)
    isSeen.resolve(undefined)
  })
  expect(seen).toEqual(['half'])
})

test('ends with the error of a graph that sent events before', async () => {
  const graph = nodeThat(async (config) => {
    await dispatchCustomEvent('progress', 'half', config)
    throw new Error('broken')
  })
  const seen: string[] = []
  await expect(follow(graph, (text) => seen.push(text))).rejects.toThrow('broken')
  expect(seen).toEqual(['half'])
})
