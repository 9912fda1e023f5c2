import * as z from 'zod'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { dispatchCustomEvent } from '@langchain/core/callbacks/dispatch'
import { AIMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { FakeListChatModel } from '@langchain/core/utils/testing'
import {
  Command,
  END,
  entrypoint,
  getWriter,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import { sourceNode } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { ManualClock } from '../../../test/manual-clock.ts'
import {
  agentCallOf,
  callRuns,
  principalNamed,
  quiet,
  requestOf,
  tool as supportTool,
} from '../../../test/scripted-source.ts'
import { callsOf } from '../../../test/settings.ts'
import type { Calls } from '../../runs/calls.ts'
import type { OutputFile } from '../../files/result-files.ts'
import { MemoryGatewayStore } from '../../store/memory-store.ts'
import { skillsOf } from '../agent.ts'
import type { Agent, AgentCall, AgentUpdate, RunnableAgents, RunTool } from '../agent.ts'
import type { GraphDefinition } from './definition.ts'
import { langGraphSource } from './source.ts'

type Messages = typeof MessagesAnnotation.State

function talking(answer: (state: Messages, config: LangGraphRunnableConfig) => unknown) {
  return new StateGraph(MessagesAnnotation)
    .addNode('answer', async (state, config) => {
      const content = await answer(state, config)
      return { messages: [new AIMessage({ content: content as string })] }
    })
    .addEdge(START, 'answer')
    .addEdge('answer', END)
}

async function started(graphs: Parameters<typeof langGraphSource>[0]) {
  const agents: Agent[] = []
  const source = langGraphSource(graphs)
  await source.start({ ...quiet, found: (agent) => agents.push(agent) })
  return { source, agents }
}

async function updatesOf(definition: GraphDefinition, over: Partial<AgentCall> = {}) {
  const { source } = await started({ support: definition })
  const updates: AgentUpdate[] = []
  for await (const update of source.run(agentCallOf(over))) updates.push(update)
  return updates
}

function filesIn(updates: readonly AgentUpdate[]): readonly OutputFile[] {
  return updates.flatMap((update) => (update.type === 'file' ? [update.file] : []))
}

test('streams the text of a graph with messages, and ends with the whole answer', async () => {
  const model = new FakeListChatModel({ responses: ['Hello you'] })
  const graph = talking(async ({ messages }) => (await model.invoke(messages)).content).compile()
  const updates = await updatesOf({ graph, description: 'Answers questions' })
  const texts = updates.flatMap((update) => (update.type === 'text' ? [update.text] : []))
  expect(texts.length).toBeGreaterThan(1)
  expect(updates).toContainEqual({ type: 'status', text: 'Done: answer' })
  expect(updates.at(-1)).toEqual({ type: 'done', text: 'Hello you', structured: undefined })
})

test('starts the text of each message on a line of its own', async () => {
  const speak = (text: string) => {
    const model = new FakeListChatModel({ responses: [text] })
    return async () => ({ messages: [await model.invoke([])] })
  }
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', speak('2 figs'))
    .addNode('second', speak('The basket is full'))
    .addEdge(START, 'first')
    .addEdge('first', 'second')
    .compile()
  const updates = await updatesOf({ graph, description: '' })
  const texts = updates.flatMap((update) => (update.type === 'text' ? [update.text] : []))
  expect(texts.join('')).toBe('2 figs\nThe basket is full')
})

test('makes the answer with the output function of the definition', async () => {
  const graph = talking(() => 'Hello').compile()
  const updates = await updatesOf({
    graph,
    description: '',
    output: (state) => state.messages.at(-1).text.toUpperCase(),
  })
  expect(updates.at(-1)).toMatchObject({ type: 'done', text: 'HELLO' })
})

test('gives the graph the caller, the run and the files in its configuration', async () => {
  const seen: unknown[] = []
  const graph = talking((_, { configurable }) => {
    seen.push(configurable)
    return 'Hello'
  }).compile()
  const { source } = await started({ support: { graph, description: '' } })
  const call = agentCallOf()
  for await (const _ of source.run(call));
  for await (const _ of source.run(agentCallOf({ principal: principalNamed('bob') })));
  expect(seen).toEqual([
    expect.objectContaining({
      principal: principalNamed('ada'),
      runId: call.runId,
      skillId: 'support',
      artifacts: call.artifacts,
    }),
    expect.objectContaining({ principal: principalNamed('bob') }),
  ])
})

test('gives each call its own thread, and deletes it after the call', async () => {
  const checkpointer = new MemorySaver()
  const sizes: number[] = []
  const graph = talking(({ messages }) => {
    sizes.push(messages.length)
    return 'Hello'
  }).compile({ checkpointer })
  const { source, agents } = await started({ support: { graph, description: '' } })
  for await (const _ of source.run(agentCallOf()));
  for await (const _ of source.run(agentCallOf()));
  expect(agents[0]?.canAsk).toBe(true)
  expect(sizes).toEqual([1, 1])
  expect(Object.keys(checkpointer.storage)).toEqual([])
})

test('returns images and files of the last message', async () => {
  const data = Buffer.from('png').toString('base64')
  const graph = talking(() => [
    { type: 'text', text: 'Look: ' },
    { type: 'image', mimeType: 'image/png', data },
    { type: 'file', mimeType: 'application/pdf', data, metadata: { filename: 'a.pdf' } },
    { type: 'image_url', image_url: { url: `data:image/jpeg;base64,${data}` } },
  ]).compile()
  const updates = await updatesOf({ graph, description: '' })
  expect(filesIn(updates)).toEqual([
    { name: 'image-1.png', mimeType: 'image/png', data: Buffer.from('png') },
    { name: 'a.pdf', mimeType: 'application/pdf', data: Buffer.from('png') },
    { name: 'image-3.jpg', mimeType: 'image/jpeg', data: Buffer.from('png') },
  ])
  expect(updates.at(-1)).toMatchObject({ type: 'done', text: 'Look: ' })
})

test('returns files and progress that a node sends with its writer', async () => {
  const graph = talking((_, { writer }) => {
    writer?.({ type: 'status', text: 'Drawing' })
    writer?.({ type: 'artifact', name: 'a.txt', mimeType: 'text/plain', text: 'x' })
    writer?.({ type: 'artifact', name: 'b', url: 'https://a.test/b' })
    writer?.({ type: 'mine', anything: true })
    return 'Done'
  }).compile()
  const updates = await updatesOf({ graph, description: '' })
  expect(updates).toContainEqual({ type: 'status', text: 'Drawing' })
  expect(filesIn(updates)).toEqual([
    { name: 'a.txt', mimeType: 'text/plain', data: Buffer.from('x') },
    { name: 'b', mimeType: undefined, data: { url: 'https://a.test/b' } },
  ])
})

test('passes arguments to a graph with a schema, and returns its output', async () => {
  const State = z.object({
    city: z.string(),
    days: z.number().optional(),
    plan: z.string().optional(),
  })
  const graph = new StateGraph({
    state: State,
    input: State.pick({ city: true, days: true }),
    output: State.pick({ plan: true }),
  })
    .addNode('think', ({ city, days }) => ({ plan: `${days} days in ${city}` }))
    .addEdge(START, 'think')
    .addEdge('think', END)
    .compile()
  const ui = { resourceUri: 'ui://plans', page: '<p>Plan</p>' }
  const { source, agents } = await started({ support: { graph, description: 'Plans', ui } })
  expect(agents[0]?.ui).toEqual(ui)
  expect(agents[0]?.skills).toMatchObject([
    { id: 'support', inputSchema: { properties: { city: { type: 'string' } } } },
  ])
  const run = async (input: AgentCall['input']): Promise<AgentUpdate | undefined> => {
    let last: AgentUpdate | undefined
    for await (const update of source.run(agentCallOf({ input }))) last = update
    return last
  }
  const value = { city: 'Rome', days: 2 }
  expect(await run({ kind: 'arguments', value, files: [] })).toEqual({
    type: 'done',
    text: '',
    structured: { plan: '2 days in Rome' },
  })
  // The one text that it takes is where a message goes.
  expect(await run({ kind: 'message', text: 'Oslo', files: [] })).toMatchObject({
    structured: { plan: 'undefined days in Oslo' },
  })
})

test('fails for a graph over its limit of steps or with an exposed error, and hides other errors', async () => {
  const circle = new StateGraph(MessagesAnnotation)
    .addNode('a', () => ({}))
    .addEdge(START, 'a')
    .addEdge('a', 'a')
    .compile()
  expect(await updatesOf({ graph: circle, description: '', recursionLimit: 3 })).toContainEqual({
    type: 'failed',
    reason: 'It did not end within its limit of steps.',
  })
  const shown = talking(() => {
    throw Object.assign(new Error('No such order'), { expose: true })
  }).compile()
  expect(await updatesOf({ graph: shown, description: '' })).toEqual([
    { type: 'failed', reason: 'No such order' },
  ])
  const hidden = talking(() => {
    throw new Error('secret')
  }).compile()
  await expect(updatesOf({ graph: hidden, description: '' })).rejects.toThrow('secret')
})

test('fails with a reason if a graph asks without a checkpointer', async () => {
  const graph = talking(() => interrupt('Which size?')).compile()
  expect(await updatesOf({ graph, description: '' })).toEqual([
    { type: 'failed', reason: expect.stringContaining('no checkpointer to wait') },
  ])
})

test('fails with a reason if a graph stops at a breakpoint without a checkpointer', async () => {
  const graph = talking(() => 'Hello').compile({ interruptBefore: ['answer'] })
  const updates = await updatesOf({ graph, description: '' })
  expect(updates.at(-1)).toEqual({
    type: 'failed',
    reason: expect.stringMatching(/breakpoint .*has no checkpointer/),
  })
})

test.each<[string, { interruptBefore?: ['act']; interruptAfter?: ['plan'] }]>([
  ['before a node', { interruptBefore: ['act'] }],
  ['after a node', { interruptAfter: ['plan'] }],
])('asks again for a breakpoint %s at which an earlier process died', async (_kind, at) => {
  let plans = 0
  let acts = 0
  const checkpointer = new MemorySaver()
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('plan', () => ({ messages: [new AIMessage(`Plan ${++plans}`)] }))
    .addNode('act', () => ({ messages: [new AIMessage(`Act ${++acts}`)] }))
    .addEdge(START, 'plan')
    .addEdge('plan', 'act')
    .compile({ checkpointer, ...at })
  const definition = { graph, description: '' }
  const lastOf = async (over: Partial<AgentCall>) => (await updatesOf(definition, over)).at(-1)
  await lastOf({ attempt: 1 }) // its process dies before the question is stored
  const asked = await lastOf({ attempt: 2 })
  if (asked?.type !== 'asked') throw new Error('It did not ask')
  expect([plans, acts]).toEqual([1, 0])
  const answers = { '0': { action: 'accept' as const, content: { answer: true } } }
  const resume = { state: asked.state, answers }
  expect(await lastOf({ attempt: 2, resume })).toMatchObject({ type: 'done', text: 'Act 1' })
  checkpointer.storage = {}
  const lost = lastOf({ resume })
  await expect(lost).rejects.toMatchObject({ reason: 'outcome_unknown' })
  expect([plans, acts]).toEqual([1, 1])
})

test('stops a cancelled graph, and deletes its thread', async () => {
  const checkpointer = new MemorySaver()
  const isThere = deferred()
  const caller = new AbortController()
  let seen: AbortSignal | undefined
  const graph = talking(async (_, { signal }) => {
    seen = signal
    isThere.resolve()
    await new Promise((_resolve, reject) => {
      signal?.addEventListener('abort', () => reject(new Error('stopped')))
    })
  }).compile({ checkpointer })
  const run = updatesOf({ graph, description: '' }, { signal: caller.signal })
  await isThere.promise
  caller.abort(new Error('gone'))
  expect(seen?.aborted).toBe(true)
  await expect(run).rejects.toThrow('gone')
  expect(Object.keys(checkpointer.storage)).toEqual([])
})

test('refuses a value that is not a graph at the start', async () => {
  const graph = (() => ({})) as unknown as GraphDefinition['graph']
  await expect(started({ support: { graph, description: '' } })).rejects.toMatchObject({
    code: 'CONFIG',
    path: 'agents.support.graph',
  })
})

test('offers the graphs of a langgraph.json with their descriptions', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'langgraph-json-'))
  try {
    await writeFile(
      join(folder, 'graphs.mjs'),
      `export const echo = { async *run() {}, async stream(input) {
         return (async function* () { yield [[], 'values', { messages: [...input.messages, { type: 'ai', content: 'Echo' }] }] })()
       } }
       export default async () => echo`,
    )
    const config = {
      graphs: {
        echo: { path: './graphs.mjs:echo', description: 'Says it again' },
        made: './graphs.mjs',
      },
    }
    await writeFile(join(folder, 'langgraph.json'), JSON.stringify(config))
    const { source, agents } = await started(join(folder, 'langgraph.json'))
    expect(agents.map(({ id, description }) => [id, description])).toEqual([
      ['echo', 'Says it again'],
      ['made', ''],
    ])
    const updates: AgentUpdate[] = []
    for await (const update of source.run(agentCallOf({ agentId: 'made' }))) updates.push(update)
    expect(updates.at(-1)).toMatchObject({ type: 'done', text: 'Echo' })

    await writeFile(join(folder, 'broken.mjs'), 'export const a = ')
    const mixed = {
      bad: './graphs.mjs:missing',
      broken: './broken.mjs:a',
      odd: 7,
      ...config.graphs,
    }
    await writeFile(join(folder, 'langgraph.json'), JSON.stringify({ graphs: mixed }))
    const warnings: string[] = []
    const again = langGraphSource(join(folder, 'langgraph.json'))
    const names: string[] = []
    await again.start({
      ...quiet,
      found: ({ id }) => names.push(id),
      warned: (message) => warnings.push(message),
    })
    expect(names).toEqual(Object.keys(config.graphs))
    expect(warnings).toEqual(
      ['bad', 'broken', 'odd'].map((name) =>
        expect.stringContaining(`The graph "${name}" is not offered`),
      ),
    )
    await again.close()
    await writeFile(join(folder, 'langgraph.json'), '{"graphs":{"a":"./graphs.mjs:missing"}}')
    await expect(started(join(folder, 'langgraph.json'))).rejects.toMatchObject({
      path: 'graphs.a',
    })
    await writeFile(join(folder, 'langgraph.json'), '{"graph":{"a":"./graphs.mjs:a"}}')
    await expect(started(join(folder, 'langgraph.json'))).rejects.toThrow(
      'must be an object with graphs by name. Did you mean "graphs" by "graph"?',
    )
  } finally {
    await rm(folder, { recursive: true })
  }
})

/** Two gateways with one store and one checkpointer. */
async function replicas(definition: () => GraphDefinition) {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore({ now: () => clock.now() })
  const make = async (): Promise<{ runs: Calls; tool: RunTool }> => {
    const { source, agents } = await started({ support: definition() })
    const [agent] = agents
    if (agent === undefined) throw new Error('there is no agent')
    const [skill] = skillsOf(agent)
    if (skill === undefined) throw new Error('there is no skill')
    const known: RunnableAgents = {
      sourceOf: () => source,
      watchedRun: (_source, call) => source.run(call),
      degrade: () => {},
    }
    return {
      runs: callsOf({ agents: known, records: store.records, clock }),
      tool: { ...supportTool, agent, skill },
    }
  }
  const [a, b] = await Promise.all([make(), make()])
  return {
    a,
    b,
    clock,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.runs.close(), b.runs.close()])
      await store.close()
    },
  }
}

test('continues a graph that asked in another process, with the answer', async () => {
  const checkpointer = new MemorySaver()
  const answers: unknown[] = []
  await using world = await replicas(() => ({
    description: '',
    graph: talking(() => {
      const schema = { type: 'object', properties: { size: { enum: ['S', 'L'] } } }
      const answer: unknown = interrupt({ message: 'Which size?', schema })
      const isSure: unknown = interrupt({ message: 'Sure?', choices: [true, false] })
      answers.push(answer, isSure)
      return 'Ordered'
    }).compile({ checkpointer }),
  }))
  const { a, b } = world
  const asked = requestOf('Order', { canAsk: true })
  const first = await callRuns(a.runs, a.tool, asked)
  expect(first).toMatchObject({ type: 'input', forms: [{ message: 'Which size?' }] })
  if (first.type !== 'input') return
  const responses = { i0: { action: 'accept', content: { size: 'L' } } }
  const resume = { state: first.state, responses }
  const second = await callRuns(b.runs, b.tool, { ...asked, resume })
  expect(second).toMatchObject({ type: 'input', state: { round: 2 } })
  if (second.type !== 'input') return
  const yes = { i0: { action: 'accept', content: { answer: true } } }
  const end = await callRuns(a.runs, a.tool, {
    ...asked,
    resume: { state: second.state, responses: yes },
  })
  expect(end).toMatchObject({ type: 'result', result: { content: [{ text: 'Ordered' }] } })
  expect(answers).toEqual([{ size: 'L' }, true])
  expect(Object.keys(checkpointer.storage)).toEqual([])
})

test('asks several interrupts in one round, and gives each its own answer', async () => {
  const checkpointer = new MemorySaver()
  const State = z.object({ a: z.string().optional(), b: z.string().optional() })
  const make = (): GraphDefinition => ({
    description: '',
    input: () => ({}),
    graph: new StateGraph(State)
      .addNode('one', () => ({ a: interrupt<string, string>('First?') }))
      .addNode('two', () => ({ b: interrupt<string, string>('Second?') }))
      .addEdge(START, 'one')
      .addEdge(START, 'two')
      .addEdge('one', END)
      .addEdge('two', END)
      .compile({ checkpointer }),
  })
  await using world = await replicas(make)
  const { a, b } = world
  const asked = requestOf('Go', { canAsk: true })
  const outcome = await callRuns(a.runs, a.tool, asked)
  if (outcome.type !== 'input') throw new Error('it did not ask')
  const responses = Object.fromEntries(
    outcome.forms.map(({ key, message }) => [
      key,
      { action: 'accept', content: { answer: message } },
    ]),
  )
  const end = await callRuns(b.runs, b.tool, {
    ...asked,
    resume: { state: outcome.state, responses },
  })
  expect(end).toMatchObject({
    type: 'result',
    result: { structuredContent: { a: 'First?', b: 'Second?' } },
  })
})

test('deletes the thread of a question that nobody answered', async () => {
  const checkpointer = new MemorySaver()
  await using world = await replicas(() => ({
    description: '',
    graph: talking(() => interrupt('Which size?')).compile({ checkpointer }),
  }))
  const { a, clock } = world
  await callRuns(a.runs, a.tool, requestOf('Order', { canAsk: true }))
  expect(Object.keys(checkpointer.storage)).toHaveLength(1)
  await clock.advance(3_660_000)
  expect(Object.keys(checkpointer.storage)).toEqual([])
})

const script = `
  import { registerHooks } from 'node:module'
  const loaded = new Set()
  registerHooks({
    resolve(specifier, context, next) {
      if (/^(@langchain|@a2a-js|redis|@opentelemetry)/.test(specifier)) loaded.add(specifier)
      return next(specifier, context)
    },
  })
  const { langGraphSource } = await import(process.argv[1])
  const graph = { channels: { messages: {} }, async stream() { return [] } }
  const source = langGraphSource({ a: { graph, description: '' } })
  await source.start({ found() {}, seen() {}, gone() {} })
  console.log(JSON.stringify([...loaded]))
`

test('loads no library for schemas or questions for a graph with messages', async () => {
  const source = fileURLToPath(new URL('source.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(sourceNode, [
    '--conditions=mcp-source',
    '--input-type=module',
    '--eval',
    script,
    source,
  ])
  expect(JSON.parse(stdout)).toEqual([])
})

test.each([
  { second: 'Which color?', isNested: false },
  { second: 'Which size?', isNested: false },
  { second: 'Which size?', isNested: true },
])(
  'gives an answer to its own question only, in another process: $second, $isNested',
  async (row) => {
    const answers: unknown[][] = []
    const reached = deferred<undefined>()
    const asking = talking(async (_, { signal }) => {
      const given = [interrupt('Which size?'), interrupt(row.second)]
      answers.push(given)
      reached.resolve(undefined)
      if (answers.length === 1)
        await new Promise((_resolve, reject) => signal?.addEventListener('abort', reject))
      return given.join(' ')
    })
    const checkpointer = new MemorySaver()
    const graph = row.isNested
      ? new StateGraph(MessagesAnnotation)
          .addNode('inner', asking.compile())
          .addEdge('__start__', 'inner')
          .compile({ checkpointer })
      : asking.compile({ checkpointer })
    const definition = { graph, description: 'Sells shirts' }
    const accept = (answer: string) => ({ '0': { action: 'accept' as const, content: { answer } } })
    const lastOf = async (over: Partial<AgentCall>) => (await updatesOf(definition, over)).at(-1)

    const size = await lastOf({ attempt: 1 })
    if (size?.type !== 'asked') throw new Error('It did not ask')
    const withSize = { state: size.state, answers: accept('L') }
    // The first process dies before the second question is stored.
    await lastOf({ attempt: 1, resume: withSize })
    const color = await lastOf({ attempt: 2, resume: withSize })
    if (color?.type !== 'asked') throw new Error('It did not ask')
    expect(color.questions).toMatchObject([{ message: row.second }])

    const withColor = { state: color.state, answers: accept('red') }
    const stop = new AbortController()
    const stopped = lastOf({ attempt: 1, resume: withColor, signal: stop.signal })
    await reached.promise
    stop.abort(new Error('The process stops'))
    await expect(stopped).rejects.toThrow('The process stops')
    expect(await lastOf({ attempt: 2, resume: withColor })).toMatchObject({ text: 'L red' })
    expect(answers).toEqual([
      ['L', 'red'],
      ['L', 'red'],
    ])
  },
)

test.each([{ part: 'edge' }, { part: 'send' }])(
  'does not pass off a part of the call as its result if the next node is gone ($part)',
  async ({ part }) => {
    const checkpointer = new MemorySaver()
    const asking = (name: string) =>
      new StateGraph(MessagesAnnotation)
        .addNode('plan', () => ({ messages: [new AIMessage('A plan')] }))
        .addNode(name, () => ({ messages: [new AIMessage(String(interrupt('Which size?')))] }))
        .addEdge(START, 'plan')
        .addConditionalEdges(
          'plan',
          (state) => (part === 'send' ? [new Send(name, state)] : name),
          [name],
        )
        .compile({ checkpointer })
    const support = (name: string) => ({ graph: asking(name), description: 'Asks' })
    const [asked] = (await updatesOf(support('ask'), { attempt: 1 })).slice(-1)
    if (asked?.type !== 'asked') throw new Error('It did not ask')
    const answers = { '0': { action: 'accept' as const, content: { answer: 'L' } } }
    const resume = { state: asked.state, answers }
    for (const over of [{ attempt: 2 }, { attempt: 2, resume }, { attempt: 1, resume }]) {
      const next = updatesOf(support('question'), over)
      await expect(next).rejects.toMatchObject({ reason: 'outcome_unknown' })
    }
    const [done] = (await updatesOf(support('ask'), { resume })).slice(-1)
    expect(done).toMatchObject({ type: 'done' })
  },
)

describe('an answer after the thread has gone', () => {
  const accept = { '0': { action: 'accept' as const, content: { answer: 'yes' } } }

  /** Charges, asks, and charges again. `isNested`: in a subgraph. */
  function charging(charges: string[], isNested: boolean) {
    const asking = new StateGraph(MessagesAnnotation)
      .addNode('charge', () => {
        charges.push('before')
        return {}
      })
      .addNode('ask', () => {
        charges.push(`after ${String(interrupt('Go on?'))}`)
        return { messages: [{ role: 'assistant', content: 'done' }] }
      })
      .addEdge('__start__', 'charge')
      .addEdge('charge', 'ask')
    return (checkpointer: MemorySaver): GraphDefinition => {
      const graph = isNested
        ? new StateGraph(MessagesAnnotation)
            .addNode('inner', asking.compile())
            .addEdge('__start__', 'inner')
            .compile({ checkpointer })
        : asking.compile({ checkpointer })
      return { graph, description: 'Charges' }
    }
  }

  const unknown = expect.objectContaining({ reason: 'outcome_unknown' })

  test.each([
    { isNested: false, over: {} },
    { isNested: true, over: {} },
    { isNested: false, over: { attempt: 1 } },
    { isNested: false, over: { thread: 'f5ea22fd-6f71-47f5-a0fb-0a5f9ad7ac4f' } },
  ])('does not run the graph again from its start: %j', async ({ isNested, over }) => {
    const charges: string[] = []
    const definitionOf = charging(charges, isNested)
    const asked = (await updatesOf(definitionOf(new MemorySaver()), over)).at(-1)
    if (asked?.type !== 'asked') throw new Error('It did not ask')
    const resume = { state: JSON.parse(JSON.stringify(asked.state)), answers: accept }
    // Another process, whose memory has no threads.
    const again = updatesOf(definitionOf(new MemorySaver()), { ...over, resume })
    await expect(again).rejects.toEqual(unknown)
    expect(charges).toEqual(['before'])
  })

  test('does not continue a thread that has passed the question, or stands at another', async () => {
    const charges: string[] = []
    const definition = charging(charges, false)(new MemorySaver())
    const thread = '0aab23ee-2f8b-4f9e-8b60-52a21f1f3c11'
    const asked = (await updatesOf(definition, { thread })).at(-1)
    if (asked?.type !== 'asked') throw new Error('It did not ask')
    const resume = { state: asked.state, answers: accept }
    const other = { thread, interrupts: [{ id: 'x', value: 'Something else?' }] }
    const toOther = updatesOf(definition, { thread, resume: { ...resume, state: other } })
    await expect(toOther).rejects.toEqual(unknown)
    expect((await updatesOf(definition, { thread, resume })).at(-1)).toMatchObject({ text: 'done' })
    await expect(updatesOf(definition, { thread, resume })).rejects.toEqual(unknown)
    expect(charges).toEqual(['before', 'after yes'])
  })
})

describe('a process that dies while it stores a file of a node', () => {
  const receipt = { type: 'artifact', name: 'receipt.txt', mimeType: 'text/plain', text: 'paid' }
  const writing = (state: Messages, { writer }: LangGraphRunnableConfig): Messages => {
    writer?.(receipt)
    return state
  }
  const two = (first: (state: Messages, config: LangGraphRunnableConfig) => unknown) =>
    new StateGraph(MessagesAnnotation)
      .addNode('first', async (state, config) => {
        await first(state, config)
        return {}
      })
      .addNode('second', () => ({ messages: [new AIMessage('done')] }))
      .addEdge(START, 'first')
      .addEdge('first', 'second')
  const naming = new StateGraph(MessagesAnnotation)
    .addNode('first', (state, config) => {
      writing(state, config)
      return new Command({ graph: Command.PARENT, goto: 'end' })
    })
    .addEdge(START, 'first')
  const printing = tool(
    async function* () {
      yield receipt
      return 'printed'
    },
    { name: 'print', schema: z.object({}) },
  )
  const calls = [{ name: 'print', args: {}, id: '1', type: 'tool_call' as const }]
  const paying = task('pay', async () => getWriter()?.(receipt))

  test.each<[string, (checkpointer: MemorySaver) => GraphDefinition['graph']]>([
    ['its writer', (checkpointer) => two(writing).compile({ checkpointer })],
    [
      'dispatchCustomEvent()',
      (checkpointer) => two(() => dispatchCustomEvent('file', receipt)).compile({ checkpointer }),
    ],
    [
      'a subgraph',
      (checkpointer) =>
        new StateGraph(MessagesAnnotation)
          .addNode('inner', two(writing).compile())
          .addEdge(START, 'inner')
          .compile({ checkpointer }),
    ],
    [
      'a tool',
      (checkpointer) =>
        new StateGraph(MessagesAnnotation)
          .addNode('model', () => ({
            messages: [new AIMessage({ content: '', tool_calls: calls })],
          }))
          .addNode('tools', new ToolNode([printing]))
          .addNode('end', () => ({ messages: [new AIMessage('done')] }))
          .addEdge(START, 'model')
          .addEdge('model', 'tools')
          .addEdge('tools', 'end')
          .compile({ checkpointer }),
    ],
    [
      'a node of a subgraph that names the next node of its graph',
      (checkpointer) =>
        new StateGraph(MessagesAnnotation)
          .addNode('inner', naming.compile(), { ends: ['end'] })
          .addNode('end', () => ({ messages: [new AIMessage('done')] }))
          .addEdge(START, 'inner')
          .compile({ checkpointer }),
    ],
    [
      'a task of an entrypoint',
      (checkpointer) =>
        entrypoint({ name: 'support', checkpointer }, async () => {
          await paying()
          return 'done'
        }),
    ],
  ])('sends a file of %s again', async (_kind, graphOf) => {
    const updates = await updatesOfNext(graphOf(new MemorySaver()))
    expect(filesIn(updates)).toMatchObject([{ name: 'receipt.txt' }])
    expect(updates.at(-1)).toMatchObject({ type: 'done', text: 'done' })
  })

  test('ends a run whose graph has ended, and sends a file of a node that asks again', async () => {
    const checkpointer = new MemorySaver()
    const asking = two((state, config) => {
      writing(state, config)
      interrupt('Sure?')
    })
    const updates = await updatesOfNext(asking.compile({ checkpointer }))
    expect(filesIn(updates)).toMatchObject([{ name: 'receipt.txt' }])
    expect(updates.at(-1)).toMatchObject({ type: 'asked' })
  })

  /** Leaves a run at its first file, and returns the updates of the process that continues it. */
  async function updatesOfNext(graph: GraphDefinition['graph']): Promise<readonly AgentUpdate[]> {
    const input = (): unknown => ({ messages: [] })
    const { source } = await started({ support: { graph, description: '', input } })
    for await (const update of source.run(agentCallOf({ attempt: 1 }))) {
      if (update.type !== 'file') continue
      for (let turns = 0; turns < 100; turns++) await setImmediate()
      break
    }
    const updates: AgentUpdate[] = []
    for await (const update of source.run(agentCallOf({ attempt: 2 }))) updates.push(update)
    return updates
  }
})
