import * as z from 'zod'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Annotation, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { principalNamed } from '../../../test/scripted-source.ts'
import type { AgentListener, AgentSource } from '../agent.ts'
import { langGraphSource } from './source.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphs-'))
})

afterEach(() => rm(folder, { recursive: true }))

async function graph(says: string): Promise<void> {
  const answer = `{ messages: [{ type: 'ai', content: '${says}' }] }`
  const stream = `async stream() { return (async function* () { yield [[], 'values', ${answer}] })() }`
  await writeFile(
    join(folder, 'graph.mjs'),
    `export const graph = { channels: { messages: {} }, ${stream} }`,
  )
}

async function config(text: string): Promise<string> {
  const path = join(folder, 'langgraph.json')
  await writeFile(path, text)
  return path
}

function graphs(...names: readonly string[]): string {
  return JSON.stringify({
    graphs: Object.fromEntries(names.map((name) => [name, './graph.mjs:graph'])),
  })
}

/** What a source told, one at a time. */
class Told implements AgentListener {
  readonly #waiting: { readonly what: string; readonly resolve: () => void }[] = []
  found = ({ id }: { readonly id: string }): void => this.#tell(`found ${id}`)
  seen = (): void => undefined
  gone = (id: string): void => this.#tell(`gone ${id}`)

  async next(what: string): Promise<void> {
    const { promise, resolve } = deferred()
    this.#waiting.push({ what, resolve })
    await promise
  }

  #tell(what: string): void {
    for (const each of this.#waiting) if (each.what === what) each.resolve()
  }
}

async function answerOf(source: AgentSource, agentId: string): Promise<string | undefined> {
  const updates = source.run({
    runId: 'run_0123456789abcdef',
    agentId,
    skillId: agentId,
    input: { kind: 'message', text: 'Hello', files: [] },
    principal: principalNamed('ada'),
    signal: new AbortController().signal,
    artifacts: {
      write: () => Promise.reject(new Error('none')),
      read: async () => undefined,
      list: async () => [],
    },
  })
  let text: string | undefined
  for await (const update of updates) if (update.type === 'done') text = update.text
  return text
}

test('reports graphs when their files change, and keeps them after an error in a file', async () => {
  await graph('one')
  const warned = deferred()
  const path = await config(graphs('a', 'b'))
  const source = langGraphSource(path, { watch: true, onWarning: () => warned.resolve() })
  const told = new Told()
  await source.start(told)
  expect(await answerOf(source, 'a')).toBe('one')

  const changed = told.next('found a')
  await graph('two')
  await changed
  expect(await answerOf(source, 'a')).toBe('two')

  await config('{')
  await warned.promise
  expect(await answerOf(source, 'b')).toBe('two')

  const [came, left] = [told.next('found c'), told.next('gone b')]
  await config(graphs('a', 'c'))
  await Promise.all([came, left])
  expect(await answerOf(source, 'c')).toBe('two')
  await source.close()
})

test('warns of a graph with threads in memory if several processes answer', async () => {
  const node = (): object => ({ messages: [] })
  const made = new StateGraph(MessagesAnnotation).addNode('n', node).addEdge('__start__', 'n')
  const definition = { graph: made.compile({ checkpointer: new MemorySaver() }), description: '' }
  const warnings: string[] = []
  const onWarning = (message: string): void => void warnings.push(message)
  for (const isShared of [false, true]) {
    const source = langGraphSource({ shop: definition }, { isShared, onWarning })
    await source.start(new Told())
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
  const source = langGraphSource(all, { onWarning: (message) => warnings.push(message) })
  await source.start(new Told())
  await source.close()
  expect(warnings).toEqual([
    expect.stringMatching(/^Every call of the graph "deaf" will fail: it takes no messages/),
    expect.stringMatching(/"needy" will fail: it needs more than messages: tenant\./),
  ])
})
