// A LangGraph that does not have one of the inner names: each call is still sent once, and only answers that are
// certainly for it count.
import { McpClient } from '@x/mcp-client'
import { startModernServer } from '@x/mcp-testing'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type * as LangGraph from '../src/graph/langgraph.ts'
import { elicitationToInterrupt, loadMcpTools, type ToolLogEntry } from '../src/index.ts'
import { askingGraph, type Turn } from './asking-graph.ts'

const hidden = new Set<string>()

vi.mock('../src/graph/langgraph.ts', async (original) => {
  const real = await original<typeof LangGraph>()
  return {
    ...real,
    innerNames: (configurable: Readonly<Record<string, unknown>> = {}) =>
      real.innerNames(
        Object.fromEntries(Object.entries(configurable).filter(([name]) => !hidden.has(name))),
      ),
  }
})

beforeEach(() => hidden.clear())

async function setting() {
  const server = await startModernServer()
  const log: ToolLogEntry[] = []
  const elicitation = elicitationToInterrupt({ log: (entry) => void log.push(entry) })
  const client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
  const tools = await loadMcpTools(client, { elicitation })
  const graph = (calls: number) =>
    askingGraph({
      kind: 'createAgent',
      tools,
      calls: Array.from({ length: calls }, () => ({ name: 'confirm', args: { question: 'Ada?' } })),
    })
  return {
    graph,
    warnings: () => log.map(({ code }) => code),
    executions: () => server.executions('confirm'),
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await server[Symbol.asyncDispose]()
    },
  }
}

const responses = { confirmation: { action: 'accept', content: { value: 'Ada' } } }
const byKey = ({ interrupts: [one] }: Turn) => ({ key: one?.value.key, responses })
const byId = ({ interrupts: [one] }: Turn) => ({ [String(one?.id)]: { responses } })

describe.each(['__pregel_checkpointer', '__pregel_resume_map', 'checkpoint_map'])(
  'without %s',
  (name) => {
    test('an answer with the key of its question counts, and the call is sent once', async () => {
      await using here = await setting()
      hidden.add(name)
      const graph = here.graph(2)
      let turn = await graph.start()
      expect(turn.interrupts).toHaveLength(2)
      turn = await graph.resume(byKey(turn))
      expect(turn.interrupts).toHaveLength(1)
      expect(here.executions()).toBe(1)
      turn = await graph.resume(byKey(turn))
      expect(turn.interrupts).toEqual([])
      expect(here.executions()).toBe(2)
    })

    test('an answer without a key for one of two calls counts for neither, and the question says what to send', async () => {
      await using here = await setting()
      hidden.add(name)
      const graph = here.graph(2)
      await graph.start()
      const again = await graph.resume({ responses })
      expect(here.executions()).toBe(0)
      for (const { value } of again.interrupts) expect(value.problem).toContain(value.key)
    })
  },
)

test.each([
  ['__pregel_checkpointer', 1, 1], // it cannot be read which questions wait
  ['__pregel_resume_map', 0, 1], // the id may have been that of the other call
  ['checkpoint_map', 0, 0],
] as const)(
  'without %s, an answer by id is asked again where it could be for another call',
  async (name, ofOne, ofTwo) => {
    await using here = await setting()
    hidden.add(name)
    for (const [calls, left] of [
      [1, ofOne],
      [2, 1 + ofTwo],
    ] as const) {
      const graph = here.graph(calls)
      const { interrupts } = await graph.resume(byId(await graph.start()))
      expect(interrupts).toHaveLength(left)
    }
  },
)

test.each([
  ['__pregel_checkpointer', 1],
  ['checkpoint_map', 1],
  ['nothing', 0],
])('warns once without %s', async (name, warnings) => {
  await using here = await setting()
  hidden.add(name)
  const graph = here.graph(2)
  const turn = await graph.start()
  await graph.resume(byKey(turn))
  expect(here.warnings()).toEqual(Array.from({ length: warnings }, () => 'LANGGRAPH_UNKNOWN'))
})
