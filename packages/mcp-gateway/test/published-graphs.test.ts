import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import {
  Annotation,
  END,
  entrypoint,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { createSupervisor } from '@langchain/langgraph-supervisor'
import { createHandoffTool, createSwarm } from '@langchain/langgraph-swarm'
import { createDeepAgent } from 'deepagents'
import { createAgent, tool, toolStrategy } from 'langchain'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import type { Agent, AgentUpdate, Answer, FinalUpdate } from '../src/agents/agent.ts'
import type { GraphDefinition, RunnableGraph } from '../src/agents/langgraph/definition.ts'
import { langGraphSource } from '../src/agents/langgraph/source.ts'
import { langGraphServerSource } from '../src/agents/langgraph-server.ts'
import { startGraphServer } from './graph-server.ts'
import { calling, ScriptedModel } from './scripted-model.ts'
import { agentCallOf, quiet } from './scripted-source.ts'

type Checkpointer = MemorySaver | undefined
type Make = (checkpointer: Checkpointer) => RunnableGraph

const PLACES = ['in this process', 'at a LangGraph server'] as const
type Place = (typeof PLACES)[number]

interface Ended {
  readonly updates: readonly AgentUpdate[]
  readonly final: FinalUpdate | undefined
  /** Names and texts of the files. */
  readonly files: Readonly<Record<string, string>>
}

/** Serves a graph, and calls it. */
async function served(place: Place, make: Make, input?: GraphDefinition['input']) {
  const graph = make(new MemorySaver())
  const server = place === 'in this process' ? undefined : await startGraphServer(graph)
  const source = server
    ? langGraphServerSource(server.url)
    : langGraphSource({ support: { graph, description: 'Answers questions', input } })
  const agents: Agent[] = []
  await source.start({ ...quiet, found: (agent) => agents.push(agent) })
  const agentId = agents[0]?.id ?? ''
  const call = async (over: Parameters<typeof agentCallOf>[0] = {}): Promise<Ended> => {
    const updates: AgentUpdate[] = []
    for await (const update of source.run(agentCallOf({ agentId, ...over }))) updates.push(update)
    const files = updates.flatMap((update) => {
      if (update.type !== 'file' || !(update.file.data instanceof Uint8Array)) return []
      return [[update.file.name, Buffer.from(update.file.data).toString()]]
    })
    const last = updates.at(-1)
    const isEnd = last?.type !== 'text' && last?.type !== 'status' && last?.type !== 'file'
    return { updates, final: isEnd ? last : undefined, files: Object.fromEntries(files) }
  }
  const answer = (asked: Ended, content: Readonly<Record<string, unknown>>): Promise<Ended> => {
    if (asked.final?.type !== 'asked') throw new Error('it did not ask')
    const { questions, state } = asked.final
    const accepted = (id: string): [string, Answer] => [id, { action: 'accept', content }]
    const answers = Object.fromEntries(questions.map(({ id }) => accepted(id)))
    return call({ resume: { state: JSON.parse(JSON.stringify(state)), answers } })
  }
  const end = async (): Promise<void> => {
    await source.close()
    await server?.[Symbol.asyncDispose]()
  }
  return { call, answer, [Symbol.asyncDispose]: end }
}

function messagesOf(ended: Ended): readonly string[] {
  return ended.final?.type === 'asked' ? ended.final.questions.map(({ message }) => message) : []
}

/** A graph whose node `model` adds these messages, and leaves other values in the state. */
function ending(...messages: readonly (AIMessage | ToolMessage | HumanMessage)[]): Make {
  return endingWith({ messages })
}

const Ending = Annotation.Root({
  ...MessagesAnnotation.spec,
  structuredResponse: Annotation<unknown>,
  structured_response: Annotation<unknown>,
  files: Annotation<unknown>,
})

function endingWith(values: Readonly<Record<string, unknown>>): Make {
  return (checkpointer) =>
    new StateGraph(Ending)
      .addNode('model', () => values)
      .addEdge(START, 'model')
      .addEdge('model', END)
      .compile({ ...(checkpointer && { checkpointer }) })
}

const search = { name: 'search', description: 'Searches', schema: z.object({ q: z.string() }) }
const direct = tool(async ({ q }) => `found ${q}`, { ...search, returnDirect: true })
const plain = tool(async ({ q }) => `found ${q}`, search)
const handedBack = [
  new AIMessage({ content: 'It is 42', name: 'math' }),
  calling('transfer_back_to_supervisor', {}, 'Transferring back to supervisor'),
  new ToolMessage({ content: 'Back', name: 'transfer_back_to_supervisor', tool_call_id: 'c' }),
]

function toolMessage(content: string, name = 'search'): ToolMessage {
  return new ToolMessage({ content, name, tool_call_id: content })
}

function withCheckpointer(checkpointer: Checkpointer): { checkpointer?: MemorySaver } {
  return checkpointer ? { checkpointer } : {}
}

const math = () => createAgent({ model: new ScriptedModel('It is 42'), tools: [], name: 'math' })

/** What people publish, and the answer that its callers should get. */
const ANSWERS: readonly (readonly [
  kind: string,
  make: Make,
  answer: Partial<Extract<FinalUpdate, { type: 'done' }>>,
])[] = [
  [
    'createAgent',
    (checkpointer) =>
      createAgent({
        model: new ScriptedModel(calling('search', { q: 'x' }), 'Here you are'),
        tools: [plain],
        ...withCheckpointer(checkpointer),
      }),
    { text: 'Here you are' },
  ],
  [
    'createAgent with a tool that returns directly',
    (checkpointer) =>
      createAgent({
        model: new ScriptedModel(calling('search', { q: 'x' }, 'Let me see')),
        tools: [direct],
        ...withCheckpointer(checkpointer),
      }),
    { text: 'found x' },
  ],
  [
    'createAgent with a response format',
    (checkpointer) => {
      const responseFormat = toolStrategy(z.object({ a: z.number() }))
      return createAgent({
        model: new ScriptedModel(calling(responseFormat[0]?.name ?? '', { a: 1 })),
        tools: [],
        responseFormat,
        ...withCheckpointer(checkpointer),
      })
    },
    { structured: { a: 1 } },
  ],
  [
    'a supervisor that says nothing at the end',
    (checkpointer) =>
      createSupervisor({
        agents: [math().graph],
        llm: new ScriptedModel(calling('transfer_to_math'), ''),
      }).compile(withCheckpointer(checkpointer)),
    { text: 'It is 42' },
  ],
  [
    'a supervisor that says nothing at the end, without messages of the way back',
    (checkpointer) =>
      createSupervisor({
        agents: [math().graph],
        llm: new ScriptedModel(calling('transfer_to_math'), ''),
        addHandoffBackMessages: false,
        outputMode: 'full_history',
      }).compile(withCheckpointer(checkpointer)),
    { text: 'It is 42' },
  ],
  [
    'a swarm',
    (checkpointer) => {
      const alice = createAgent({
        model: new ScriptedModel(calling('transfer_to_bob')),
        tools: [createHandoffTool({ agentName: 'bob' })],
        name: 'alice',
      })
      const bob = createAgent({ model: new ScriptedModel('Ahoy'), tools: [], name: 'bob' })
      const agents = [alice.graph, bob.graph] as unknown as Parameters<
        typeof createSwarm
      >[0]['agents']
      return createSwarm({ agents, defaultActiveAgent: 'alice' }).compile(
        withCheckpointer(checkpointer),
      )
    },
    { text: 'Ahoy' },
  ],
  [
    'an empty message after the report',
    ending(
      calling('write_todos', {}, 'The report'),
      toolMessage('Updated', 'write_todos'),
      new AIMessage(''),
    ),
    { text: 'The report' },
  ],
  [
    'an empty message after a tool',
    ending(calling('search'), toolMessage('found x'), new AIMessage('')),
    { text: 'found x' },
  ],
  [
    'several tools that return directly',
    ending(calling('search', {}, 'Let me see'), toolMessage('one'), toolMessage('two')),
    { text: 'one\ntwo' },
  ],
  ['a handover as the last message', ending(...handedBack), { text: 'It is 42' }],
  [
    'a message in the name of the user at the end',
    ending(new AIMessage('Draft'), new HumanMessage('Good')),
    { text: 'Draft' },
  ],
  [
    'thoughts only',
    ending(
      new AIMessage('Draft'),
      new AIMessage({ content: [{ type: 'reasoning', reasoning: 'hm' }] }),
    ),
    { text: 'Draft' },
  ],
  [
    'a refusal',
    ending(new AIMessage({ content: '', additional_kwargs: { refusal: 'I cannot' } })),
    { text: 'I cannot' },
  ],
  [
    'structured_response of Python',
    endingWith({ messages: [new AIMessage('')], structured_response: { a: 1 } }),
    { structured: { a: 1 } },
  ],
  [
    'a list as structuredResponse',
    endingWith({ messages: [new AIMessage('')], structuredResponse: ['a', 'b'] }),
    { text: '["a","b"]' },
  ],
  [
    'a text as structuredResponse',
    endingWith({ messages: [new AIMessage('')], structuredResponse: 'short' }),
    { text: 'short' },
  ],
  [
    'a number as structuredResponse',
    endingWith({ messages: [new AIMessage('')], structuredResponse: 0 }),
    { text: '0' },
  ],
  [
    'a list that the last message says, too',
    endingWith({ messages: [new AIMessage('["a", "b"]')], structuredResponse: ['a', 'b'] }),
    { text: '["a", "b"]' },
  ],
  [
    'a structure before an earlier text',
    endingWith({
      messages: [new AIMessage('Draft'), new AIMessage('')],
      structuredResponse: { a: 1 },
    }),
    { text: '', structured: { a: 1 } },
  ],
  ['no message of a model', ending(), { text: undefined }],
]

describe.each(PLACES)('a graph %s', (place) => {
  test.each(ANSWERS)('answers: %s', async (_kind, make, expected) => {
    await using world = await served(place, make)
    const { final } = await world.call()
    expect(final).toMatchObject({ type: 'done', ...expected })
  })

  test.each([
    ['a message', async () => new AIMessage('Said'), { text: 'Said' }],
    [
      'a list of messages',
      async () => [new HumanMessage('Hi'), new AIMessage('Said')],
      { text: 'Said' },
    ],
    [
      'a state with messages',
      async () => ({ messages: [new AIMessage('Said')] }),
      { text: 'Said' },
    ],
    ['a text', async () => 'Said', { text: 'Said' }],
    ['a number', async () => 42, { text: '42' }],
    ['an object', async () => ({ a: 1 }), { structured: { a: 1 } }],
    ['a list', async () => [1, 2], { text: '[1,2]' }],
  ])('answers with %s of the functional API', async (_kind, work, expected) => {
    const make: Make = (checkpointer) =>
      entrypoint({ name: 'support', ...withCheckpointer(checkpointer) }, async (_input: unknown) =>
        work(),
      )
    await using world = await served(place, make, ({ kind }) => kind)
    const { final } = await world.call()
    expect(final).toMatchObject({ type: 'done', ...expected })
  })

  test('returns the files of deep agents as files', async () => {
    await using world = await served(place, (checkpointer) =>
      createDeepAgent({
        model: new ScriptedModel(
          calling('write_file', { file_path: '/reports/one.md', content: '# One' }),
          calling('write_file', { file_path: '/large_tool_results/c1', content: 'internal' }),
          'Done',
        ),
        ...withCheckpointer(checkpointer),
      }),
    )
    const { final, files } = await world.call()
    expect(files).toEqual({ 'reports/one.md': '# One' })
    expect(final).toMatchObject({ type: 'done', text: 'Done' })
  })

  test.each([
    ['lines', { '/a.txt': { content: ['one', 'two'] } }, 'one\ntwo'],
    ['a plain text', { 'a.txt': 'one' }, 'one'],
    ['bytes', { '/a.txt': { content: Buffer.from('one'), mimeType: 'text/plain' } }, 'one'],
    ['base64', { '/a.txt': { content: 'b25l', encoding: 'base64' } }, 'one'],
  ])('reads files of deep agents with %s', async (_kind, files, text) => {
    await using world = await served(
      place,
      endingWith({ messages: [new AIMessage('Done')], files }),
    )
    expect((await world.call()).files).toEqual({ 'a.txt': text })
  })

  test('returns no answer and no file of an earlier call of the conversation', async () => {
    let count = 0
    await using world = await served(place, (checkpointer) =>
      new StateGraph(Ending)
        .addNode('model', () => {
          count += 1
          return count > 1
            ? { messages: [new AIMessage('')] }
            : { messages: [new AIMessage('First')], files: { '/a.txt': { content: 'one' } } }
        })
        .addEdge(START, 'model')
        .compile(withCheckpointer(checkpointer)),
    )
    const thread = '0c3fd5f8-9c53-4b9c-9d9d-2f3c7e9d1d11'
    const first = await world.call({ thread })
    const second = await world.call({ thread })
    expect(first).toMatchObject({ final: { text: 'First' }, files: { 'a.txt': 'one' } })
    expect(second).toMatchObject({ final: { type: 'done', text: undefined }, files: {} })
  })

  const nodes = () =>
    new StateGraph(MessagesAnnotation)
      .addNode('plan', () => ({ messages: [new AIMessage('Plan')] }))
      .addNode('act', () => ({ messages: [new AIMessage('Acted')] }))
      .addEdge(START, 'plan')
      .addEdge('plan', 'act')
      .addEdge('act', END)
  const inner = () => nodes().compile({ interruptBefore: ['act'] })
  const outer = () =>
    new StateGraph(MessagesAnnotation)
      .addNode('team', inner())
      .addNode('end', () => ({ messages: [new AIMessage('Acted')] }))
      .addEdge(START, 'team')
      .addEdge('team', 'end')

  test.each<readonly [string, Make, readonly string[]]>([
    [
      'before a node',
      (checkpointer) =>
        nodes().compile({ ...withCheckpointer(checkpointer), interruptBefore: ['act'] }),
      ['"act"'],
    ],
    [
      'after a node',
      (checkpointer) =>
        nodes().compile({ ...withCheckpointer(checkpointer), interruptAfter: ['plan'] }),
      ['"act"'],
    ],
    [
      'before all nodes',
      (checkpointer) =>
        nodes().compile({ ...withCheckpointer(checkpointer), interruptBefore: '*' }),
      ['"plan"', '"act"'],
    ],
    [
      'after all nodes',
      (checkpointer) => nodes().compile({ ...withCheckpointer(checkpointer), interruptAfter: '*' }),
      ['"act"'],
    ],
    [
      'after the last node',
      (checkpointer) =>
        nodes().compile({ ...withCheckpointer(checkpointer), interruptAfter: ['act'] }),
      [],
    ],
    ['in a subgraph', (checkpointer) => outer().compile(withCheckpointer(checkpointer)), ['"act"']],
    [
      'in a graph that a node calls',
      (checkpointer) =>
        new StateGraph(MessagesAnnotation)
          .addNode('team', async (state) => ({ messages: (await inner().invoke(state)).messages }))
          .addEdge(START, 'team')
          .compile(withCheckpointer(checkpointer)),
      ['"team"'],
    ],
  ])('asks to continue at a breakpoint %s', async (_kind, make, stops) => {
    await using world = await served(place, make)
    let ended = await world.call()
    for (const stop of stops) {
      expect(messagesOf(ended)).toEqual([`The agent stopped before ${stop}.\nContinue?`])
      ended = await world.answer(ended, { answer: true })
    }
    expect(ended.final).toMatchObject({ type: 'done', text: 'Acted' })
  })

  test('names the calls of tools at a breakpoint before them', async () => {
    await using world = await served(place, (checkpointer) =>
      new StateGraph(MessagesAnnotation)
        .addNode('model', () => ({ messages: [calling('pay', { amount: 5 })] }))
        .addNode('tools', () => ({ messages: [toolMessage('paid', 'pay')] }))
        .addEdge(START, 'model')
        .addEdge('model', 'tools')
        .compile({ ...withCheckpointer(checkpointer), interruptBefore: ['tools'] }),
    )
    const asked = await world.call()
    expect(messagesOf(asked)).toEqual([
      'The agent stopped before "tools".\nIt is about to call:\npay {"amount":5}\nContinue?',
    ])
    expect((await world.answer(asked, {})).final).toMatchObject({ type: 'done', text: 'paid' })
  })

  test('executes nothing after a breakpoint if the answer is no', async () => {
    let acts = 0
    await using world = await served(place, (checkpointer) =>
      new StateGraph(MessagesAnnotation)
        .addNode('act', () => {
          acts += 1
          return {}
        })
        .addEdge(START, 'act')
        .compile({ ...withCheckpointer(checkpointer), interruptBefore: ['act'] }),
    )
    const ended = await world.answer(await world.call(), { answer: false })
    expect(ended.final).toMatchObject({ type: 'failed', isCancelled: true })
    expect(acts).toBe(0)
  })

  test('gives an answer to the question that it is for, and not to a breakpoint', async () => {
    await using world = await served(place, (checkpointer) =>
      new StateGraph(MessagesAnnotation)
        .addNode('ask', () => ({ messages: [new AIMessage(String(interrupt('Which size?')))] }))
        .addNode('act', () => ({ messages: [new AIMessage(String(interrupt('Which colour?')))] }))
        .addEdge(START, 'ask')
        .addEdge('ask', 'act')
        .compile({ ...withCheckpointer(checkpointer), interruptBefore: ['act'] }),
    )
    const size = await world.call()
    expect(messagesOf(size)).toEqual(['Which size?'])
    const stopped = await world.answer(size, { answer: 'L' })
    expect(messagesOf(stopped)).toEqual(['The agent stopped before "act".\nContinue?'])
    const colour = await world.answer(stopped, { answer: true })
    expect(messagesOf(colour)).toEqual(['Which colour?'])
    expect((await world.answer(colour, { answer: 'red' })).final).toMatchObject({ text: 'red' })
  })

  test('asks a question and at a breakpoint of a subgraph in one round', async () => {
    await using world = await served(place, (checkpointer) =>
      new StateGraph(MessagesAnnotation)
        .addNode('ask', () => ({ messages: [new AIMessage(String(interrupt('Which size?')))] }))
        .addNode('team', inner())
        .addEdge(START, 'ask')
        .addEdge(START, 'team')
        .compile(withCheckpointer(checkpointer)),
    )
    const asked = await world.call()
    expect(messagesOf(asked)).toEqual(['Which size?', 'The agent stopped before "act".\nContinue?'])
  })
})
