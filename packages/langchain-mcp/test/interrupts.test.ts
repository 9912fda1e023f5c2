// A server asks a person during a call: the graph stops, and continues the same call.
import type { ToolMessage } from '@langchain/core/messages'
import { tool as toolFrom } from '@langchain/core/tools'
import {
  Command,
  entrypoint,
  InMemoryStore,
  INTERRUPT,
  MemorySaver,
  task,
} from '@langchain/langgraph'
import * as langGraph from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { startModernServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import {
  elicitationResume,
  elicitationToInterrupt,
  loadMcpTools,
  type ElicitationAnswer,
  type ElicitationToInterruptOptions,
  type McpTool,
} from '../src/index.ts'
import {
  askingGraph,
  type AskingGraph,
  type AskingGraphOptions,
  type Calling,
  type Turn,
} from './asking-graph.ts'
import { startAskingServer } from './asking-server.ts'
import { isLowestLangGraph } from './lowest-langgraph.ts'

interface Era {
  readonly era: 'legacy' | 'modern'
  /** A tool without questions, which must not run twice. */
  readonly pay: Calling
  readonly ask: (question: string) => Calling
  readonly askTwice: Calling
}

const modern: Era = {
  era: 'modern',
  pay: { name: 'add', args: { a: 1, b: 2 } },
  ask: (question) => ({ name: 'confirm', args: { question } }),
  askTwice: { name: 'ask_twice' },
}
const legacy: Era = {
  era: 'legacy',
  pay: { name: 'pay' },
  ask: (question) => ({ name: 'ask', args: { question } }),
  askTwice: { name: 'ask_twice' },
}

interface Setting extends AsyncDisposable {
  readonly server: { executions(tool: string): number; readonly url: string }
  readonly tools: readonly McpTool[]
  /** Number of received requests for a tool; each round counts. */
  sent(tool: string): number
}

async function setting(
  era: Era['era'],
  options: ElicitationToInterruptOptions = {},
): Promise<Setting> {
  const server = era === 'modern' ? await startModernServer() : await startAskingServer()
  const elicitation = elicitationToInterrupt(options)
  const client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
  const tools = await loadMcpTools(client, { elicitation, server: { slug: 'shop' } })
  return {
    server,
    tools,
    sent: (tool) => ('ledger' in server ? server.ledger.received(tool) : server.calls(tool)),
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Accepts every question with this name. */
function accepting(
  { interrupts }: Turn,
  nameOf: (message: unknown) => string,
): Parameters<typeof elicitationResume>[1][] {
  return interrupts.map(({ value }) =>
    Object.fromEntries(
      Object.entries(value.requests).map(([key, params]): [string, ElicitationAnswer] => [
        key,
        {
          action: 'accept',
          content: { name: nameOf(params['message']), value: nameOf(params['message']) },
        },
      ]),
    ),
  )
}

/** Resumes all questions. */
function resumeAll(
  turn: Turn,
  nameOf: (message: unknown) => string,
): ReturnType<typeof elicitationResume> {
  const answers = accepting(turn, nameOf)
  return Object.assign(
    {},
    ...turn.interrupts.map((interrupt, index) =>
      elicitationResume(interrupt, answers[index] ?? {}),
    ),
  )
}

/** Answers questions with the question, until there are none. */
async function answerAll(
  graph: AskingGraph,
  stopped: Turn,
  look: (interrupt: Turn['interrupts'][number]) => void = () => {},
): Promise<Turn> {
  let turn = stopped
  while (turn.interrupts.length > 0) {
    for (const interrupt of turn.interrupts) look(interrupt)
    // One turn after the other: each shows the next questions.
    turn = await graph.resume(resumeAll(turn, (message) => `I am ${String(message)}`))
  }
  return turn
}

const kinds = ['createAgent', 'fanOutToolCalls', 'sub-agent', 'subgraph'] as const
const table = [modern, legacy].flatMap((era) => kinds.map((kind) => ({ ...era, kind })))

describe.each(table)('$era, $kind', ({ era, kind, pay, ask, askTwice }) => {
  // LangGraph before 1.7 shows one of the questions that wait in an inner graph.
  const shown = isLowestLangGraph && (kind === 'sub-agent' || kind === 'subgraph') ? 1 : 2
  const graphOf = (
    { tools }: Setting,
    calls: readonly Calling[],
    more: Partial<AskingGraphOptions> = {},
  ): AskingGraph => askingGraph({ kind, tools, calls, ...more })

  test.each([{ store: undefined }, { store: new InMemoryStore() }])(
    'pay + ask in one AI message: pay is executed once, and each answer reaches its own call',
    async ({ store }) => {
      await using here = await setting(era)
      const graph = graphOf(here, [pay, ask('Ada?'), ask('Bob?')], { store })
      const stopped = await graph.start()
      expect(stopped.interrupts).toHaveLength(shown)
      expect(here.server.executions(pay.name)).toBe(1)
      const done = await answerAll(graph, stopped, ({ value }) => {
        const asked = value.call === 'call-1' ? 'Ada?' : 'Bob?'
        expect(Object.values(value.requests)).toMatchObject([{ message: asked }])
      })
      expect(done.answers).toMatchObject({
        'call-0': { status: 'success' },
        'call-1': { status: 'success', content: expect.stringContaining('I am Ada?') },
        'call-2': { status: 'success', content: expect.stringContaining('I am Bob?') },
      })
      expect(here.server.executions(pay.name)).toBe(1)
      expect(here.server.executions(ask('').name)).toBe(2)
    },
  )

  test('refuses an answer without a key for each of two questions', async () => {
    await using here = await setting(era)
    const graph = graphOf(here, [ask('Pay?'), ask('Delete?')])
    const stopped = await graph.start()
    const [responses = {}] = accepting(stopped, () => 'Ada')
    const again = await graph.resume({ responses })
    expect(again.interrupts).toHaveLength(shown)
    for (const { value } of again.interrupts) {
      expect(value).toMatchObject({ problem: expect.stringMatching(/^Several calls wait/) })
    }
    expect(here.server.executions(ask('').name)).toBe(0)
    const done = await answerAll(graph, again)
    expect(done.answers).toMatchObject({
      'call-0': { content: expect.stringContaining('I am Pay?') },
      'call-1': { content: expect.stringContaining('I am Delete?') },
    })
  })

  test('accepts an answer without a key for a single question', async () => {
    await using here = await setting(era)
    const graph = graphOf(here, [pay, ask('Pay?')])
    const [responses = {}] = accepting(await graph.start(), () => 'Ada')
    const done = await graph.resume({ responses })
    expect(done.answers['call-1']?.text).toContain('Ada')
  })

  test('asks in two rounds of one call, each with its own question', async () => {
    await using here = await setting(era)
    const graph = graphOf(here, [askTwice])
    const first = await graph.start()
    const second = await graph.resume(resumeAll(first, () => 'Ada'))
    expect(second.interrupts).toHaveLength(1)
    expect(second.interrupts[0]?.value.key).not.toBe(first.interrupts[0]?.value.key)
    const done = await graph.resume(resumeAll(second, () => 'Lovelace'))
    expect(done.answers['call-0']).toMatchObject({
      content: expect.stringMatching(/Ada.*Lovelace/),
    })
    expect(here.server.executions(askTwice.name)).toBe(1)
    expect(here.sent(askTwice.name)).toBe(era === 'modern' ? 3 : 1) // no request is sent again
  })

  test('asks again after an answer to an older question, and sends nothing', async () => {
    await using here = await setting(era)
    const graph = graphOf(here, [askTwice])
    const first = await graph.start()
    const stale = resumeAll(first, () => 'Ada')
    const second = await graph.resume(stale)
    const again = await graph.resume(stale)
    expect(again.interrupts[0]?.value).toMatchObject({
      key: second.interrupts[0]?.value.key,
      requests: second.interrupts[0]?.value.requests,
      problem: expect.stringContaining('older'),
    })
    expect(here.server.executions(askTwice.name)).toBe(0)
    const done = await graph.resume(resumeAll(again, () => 'Lovelace'))
    expect(done.answers['call-0']).toMatchObject({ content: expect.stringContaining('Lovelace') })
  })
})

describe.each(['createAgent', 'fanOutToolCalls'] as const)('answers (%s)', (kind) => {
  const responses = { confirmation: { action: 'accept', content: { value: 'Ada' } } }

  test('that were refused for two calls are never accepted for the one that is left', async () => {
    await using here = await setting('modern')
    const graph = askingGraph({
      kind,
      tools: here.tools,
      calls: [modern.ask('A'), modern.ask('B')],
    })
    const [first] = (await graph.start()).interrupts
    await graph.resume({ responses })
    // From here on, only one call waits, and LangGraph still has the answer for both.
    await graph.resume(elicitationResume(first ?? {}, { confirmation: { action: 'decline' } }))
    await graph.goOn()
    const { interrupts } = await graph.goOn()
    expect(interrupts).toMatchObject([{ value: { problem: expect.stringMatching(/^Several/) } }])
    expect(here.server.executions('confirm')).toBe(1)
  })

  test('to the question of another tool do not count', async () => {
    await using here = await setting('modern')
    const other = toolFrom(() => `told ${JSON.stringify(langGraph.interrupt('And you?'))}`, {
      name: 'other',
      schema: { type: 'object', properties: {} },
    })
    const calls = [{ name: 'other' }, modern.ask('Ada?')]
    const graph = askingGraph({ kind, tools: [other, ...here.tools], calls })
    await graph.start()
    const { interrupts } = await graph.resume({ responses })
    expect(interrupts).toMatchObject([{ value: { type: 'mcp_elicitation' } }])
    expect(here.server.executions('confirm')).toBe(0)
  })

  test('to another thread have no effect', async () => {
    await using here = await setting('modern')
    const calls = [modern.ask('Ada?')]
    const graphOf = (thread: string) => askingGraph({ kind, tools: here.tools, calls, thread })
    const [ann, bob] = [graphOf('ann'), graphOf('bob')]
    const asked = await ann.start()
    await bob.start()
    expect((await bob.resume(resumeAll(asked, () => 'Ada'))).interrupts).toHaveLength(1)
    expect(here.server.executions('confirm')).toBe(0)
  })

  test('that are given twice at the same time continue one call', async () => {
    await using here = await setting('modern')
    const graph = askingGraph({ kind, tools: here.tools, calls: [modern.ask('Ada?')] })
    const resume = resumeAll(await graph.start(), () => 'Ada')
    await Promise.all([graph.resume(resume), graph.resume(resume), graph.resume({ responses })])
    await graph.resume(resume)
    expect(here.server.executions('confirm')).toBe(1)
  })
})

describe.each([modern, legacy])('$era, plain ToolNode', ({ era, pay, ask }) => {
  test('interrupts the graph for a single call, and continues it', async () => {
    await using here = await setting(era)
    const graph = askingGraph({ kind: 'ToolNode', tools: here.tools, calls: [ask('Ada?')] })
    const stopped = await graph.start()
    const done = await graph.resume(resumeAll(stopped, () => 'Ada'))
    expect(done.answers['call-0']).toMatchObject({ content: expect.stringContaining('Ada') })
    expect(here.server.executions(ask('').name)).toBe(1)
  })

  test('asks a handler outside a graph, and declines without one', async () => {
    await using nobody = await setting(era, { log: () => {} })
    const { name, args } = ask('Ada?')
    const silent = nobody.tools.find((tool) => tool.name === name)
    expect(await silent?.invoke(args ?? {})).toContain('decline')
    await using handled = await setting(era, {
      elicitation: () => ({ action: 'accept', content: { name: 'Grace', value: 'Grace' } }),
    })
    const asking = handled.tools.find((one) => one.name === name)
    expect(await asking?.invoke(args ?? {})).toContain('Grace')
    void pay
    if (era === 'legacy') return // its server decides what follows from an error
    await using failing = await setting(era, {
      elicitation: () => Promise.reject(new Error('no one is there')),
    })
    const failed = failing.tools.find((one) => one.name === name)
    expect(await failed?.invoke(args ?? {})).toMatch(/no handler can give it.*no one is there/)
  })
})

test.each(['ToolNode', 'Send of all calls'] as const)(
  'fails the call that asks among several calls in one node (%s), says how to ask, and runs nothing twice',
  async (kind) => {
    await using here = await setting('modern')
    const calls = [modern.pay, modern.ask('Ada?')]
    const graph = askingGraph({ kind, tools: here.tools, calls })
    const done = await graph.start()
    expect(done.interrupts).toEqual([])
    expect(done.answers['call-1']).toMatchObject({
      status: 'error',
      content: expect.stringMatching(
        /^MCP tool "\w+" of server "\w+" may or may not have been executed\. .*stopped at the question\. Check what happened before you repeat the call\. .*fanOutToolCalls/,
      ),
    })
    expect(here.server.executions('add')).toBe(1)
    expect(here.server.executions('confirm')).toBe(0)
  },
)

test('declines questions of several calls in one plain node, for a server with sessions', async () => {
  const logged: string[] = []
  await using here = await setting('legacy', { log: ({ code }) => void logged.push(code) })
  const calls = [legacy.pay, legacy.ask('Ada?')]
  const done = await askingGraph({ kind: 'ToolNode', tools: here.tools, calls }).start()
  expect(done.interrupts).toEqual([])
  expect(done.answers['call-1']?.text).toBe('Ada? decline')
  expect(logged).toEqual(['NOBODY_ASKED'])
})

test("accepts the result of createMCPElicitationResume() of LangChain's own adapters", async () => {
  await using here = await setting('modern')
  const graph = askingGraph({ kind: 'createAgent', tools: here.tools, calls: [modern.ask('Ada?')] })
  const { interrupts } = await graph.start()
  expect(interrupts[0]?.value).toMatchObject({
    type: 'mcp_elicitation',
    server: 'shop',
    tool: 'confirm',
    requests: { confirmation: { message: 'Ada?' } },
  })
  const responses = { confirmation: { action: 'decline' } }
  const { answers } = await graph.resume({ [interrupts[0]?.id ?? '']: { responses } })
  expect(answers['call-0']?.text).toContain('decline')
})

test('interrupts and continues a call inside a task of the functional API', async () => {
  await using here = await setting('modern')
  const confirm = here.tools.find(({ name }) => name === 'confirm')
  const run = task('call', async (id: string) => {
    const answer: unknown = await confirm?.invoke({
      type: 'tool_call',
      id,
      name: 'confirm',
      args: {},
    })
    return (answer as ToolMessage).text
  })
  const flow = entrypoint({ name: 'flow', checkpointer: new MemorySaver() }, (id: string) =>
    run(id),
  )
  const config = { configurable: { thread_id: 't1' } }
  const stopped = await flow.invoke('a', config)
  const interrupts = (stopped as unknown as Record<string, Turn['interrupts']>)[INTERRUPT] ?? []
  expect(interrupts.map(({ value }) => value.call)).toEqual(['a'])
  const resume = resumeAll({ interrupts, answers: {} }, () => 'Ada')
  await expect(flow.invoke(new Command({ resume }), config)).resolves.toContain('Ada')
  expect(here.server.executions('confirm')).toBe(1)
})

test('assigns a question to the call on whose stream it arrives, also on reused connections', async () => {
  await using here = await setting('legacy')
  for (const names of [
    ['A', 'B', 'C'],
    ['D', 'E', 'F'],
    ['G', 'H', 'I'],
  ]) {
    const calls = names.map((name) => legacy.ask(name))
    const graph = askingGraph({ kind: 'fanOutToolCalls', tools: here.tools, calls })
    const stopped = await graph.start()
    expect(
      stopped.interrupts.map(({ value }) => [
        value.call,
        Object.values(value.requests)[0]?.['message'],
      ]),
    ).toEqual(names.map((name, index) => [`call-${index}`, name]))
    const done = await graph.resume(resumeAll(stopped, (message) => String(message).toLowerCase()))
    expect(Object.values(done.answers).map(({ text }) => text)).toEqual(
      names.map((name) => `${name} ${name.toLowerCase()}`),
    )
  }
})
