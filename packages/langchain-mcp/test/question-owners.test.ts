// A question of a server reaches the thread of its call, and no other thread.
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { runInSessionScope } from '@x/mcp-client'
import { describe, expect, test } from 'vitest'
import {
  createMcpTools,
  elicitationResume,
  type McpTools,
  type ToolLogEntry,
} from '../src/index.ts'
import {
  askingGraph,
  type AskingGraph,
  type AskingGraphOptions,
  type Turn,
} from './asking-graph.ts'
import { startAskingServer, type AskingServer } from './asking-server.ts'

type Session = 'shared' | 'thread' | 'run'

interface Setting extends AsyncDisposable {
  readonly server: AskingServer
  readonly mcp: McpTools
  readonly log: readonly ToolLogEntry[]
  /** A graph whose model calls these tools, each with its question. */
  graph(
    calls: readonly (readonly [tool: string, question: string])[],
    more?: Partial<AskingGraphOptions>,
  ): Promise<AskingGraph>
}

async function setting(
  asksOn: 'call' | 'session',
  options: { readonly session?: Session; readonly isMultiUser?: boolean } = {},
): Promise<Setting> {
  const { session = 'shared', isMultiUser = false } = options
  const server = await startAskingServer({ asksOn })
  const log: ToolLogEntry[] = []
  const mcp = createMcpTools({
    servers: { shop: { url: server.url } },
    session,
    ...(isMultiUser && { principal: ({ configurable }) => String(configurable?.['user']) }),
    log: (entry) => void log.push(entry),
  })
  return {
    server,
    mcp,
    log,
    async graph(calls, more) {
      const tools = await (session === 'run'
        ? runInSessionScope(() => mcp.listTools())
        : mcp.listTools())
      return askingGraph({
        kind: 'createAgent',
        tools,
        calls: calls.map(([name, question]) => ({ name, args: { question } })),
        ...more,
      })
    },
    async [Symbol.asyncDispose]() {
      await mcp.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Returns the questions as text. */
function questionsOf({ interrupts }: Turn): unknown[] {
  return interrupts.flatMap(({ value }) =>
    Object.values(value.requests).map(({ message }) => message),
  )
}

/** Answers every question with this name. */
function answer(turn: Turn, name: string): ReturnType<typeof elicitationResume> {
  return Object.assign(
    {},
    ...turn.interrupts.map((interrupt) =>
      elicitationResume(
        interrupt,
        Object.fromEntries(
          Object.keys(interrupt.value.requests).map((key) => [
            key,
            { action: 'accept' as const, content: { name } },
          ]),
        ),
      ),
    ),
  )
}

const DECLINED =
  'elicitation/create was declined: it is not on the response stream of a call, and 2 calls may have caused it'

const declinesIn = (log: readonly ToolLogEntry[]): ToolLogEntry[] =>
  log.filter(({ message }) => message.includes('was declined'))

describe('a question that arrives after its call was cancelled', () => {
  async function cancelled(here: Setting): Promise<void> {
    const a = await here.graph([['ask_late', 'of A']], { thread: 'a' })
    const stopping = new AbortController()
    const started = a.start(stopping.signal)
    await here.server.called('ask_late')
    stopping.abort(new Error('enough'))
    await expect(started).rejects.toThrow(/enough|abort/i)
  }

  test.each(['shared', 'run'] as const)(
    'reaches no call of another thread (%s)',
    async (session) => {
      await using here = await setting('session', { session })
      const { server } = here
      const both = async (): Promise<Turn> => {
        await cancelled(here)
        const b = await here.graph([['ask_late', 'of B']], { thread: 'b' })
        const startOfB = b.start()
        await server.called('ask_late', 2)
        server.release('of A')
        server.release('of B')
        return startOfB
      }
      const turn = await (session === 'run' ? runInSessionScope(both) : both())
      expect(questionsOf(turn)).toEqual([])
      expect(turn.answers['call-0']?.text).toContain(DECLINED)
      expect(declinesIn(here.log)).toHaveLength(2)
      const status = here.mcp.status()
      expect(status[0]?.lastDeclined?.method).toBe('elicitation/create')
      expect(JSON.parse(JSON.stringify(status))).toEqual(status)
    },
  )

  test('is not shown to a person if it arrives on the stream of the cancelled call', async () => {
    await using here = await setting('call')
    const { server } = here
    await cancelled(here)
    const b = await here.graph([['ask_late', 'of B']], { thread: 'b' })
    const startOfB = b.start()
    await server.called('ask_late', 2)
    server.release('of A')
    await server.asked(1)
    server.release('of B')
    const turn = await startOfB
    expect(questionsOf(turn)).toEqual(['of B'])
    expect((await b.resume(answer(turn, 'Bob'))).answers['call-0']?.text).toBe('of B Bob')
  })

  test('has no effect in the session that replaced the lost one', async () => {
    await using here = await setting('session')
    const { server } = here
    await cancelled(here)
    server.forgetSessions()
    const b = await here.graph([['ask', 'of B']], { thread: 'b' })
    const turn = await b.start()
    expect(questionsOf(turn)).toEqual(['of B'])
    server.release('of A')
    expect((await b.resume(answer(turn, 'Bob'))).answers['call-0']?.text).toBe('of B Bob')
  })
})

test('asks the owner of the stream that a question arrives on, and no other user', async () => {
  await using here = await setting('call')
  const { server } = here
  const a = await here.graph([['ask_late', 'of A']], { thread: 'a' })
  const b = await here.graph([['ask_through', 'of B']], { thread: 'b' })
  const c = await here.graph([['ask_late', 'of C']], { thread: 'c' })
  const startOfC = c.start()
  await server.called('ask_late')
  const startOfA = a.start()
  await server.called('ask_late', 2)
  const startOfB = b.start()
  const turn = await startOfA
  expect(questionsOf(turn)).toEqual(['of B'])
  server.release('of C')
  expect(questionsOf(await startOfC)).toEqual(['of C'])
  server.release('of A')
  await a.resume(answer(turn, 'Ada'))
  expect((await startOfB).answers['call-0']?.text).toBe('of B Ada')
})

describe('questions on the listening stream', () => {
  test.each(['shared', 'thread', 'run'] as const)(
    'reach consecutive calls of one thread in their own session (%s)',
    async (session) => {
      await using here = await setting('session', { session })
      const all = async (): Promise<void> => {
        for (const question of ['one', 'two', 'three']) {
          const graph = await here.graph([['ask', question]], { store: new InMemoryStore() })
          const turn = await graph.start()
          expect(questionsOf(turn)).toEqual([question])
          const { answers } = await graph.resume(answer(turn, 'Ada'))
          expect(answers['call-0']?.text).toBe(`${question} Ada`)
        }
      }
      await (session === 'run' ? runInSessionScope(all) : all())
      expect(here.server.executions('ask')).toBe(3)
      expect(declinesIn(here.log)).toEqual([])
      // Lists are not read in the sessions of threads.
      expect(here.server.opened).toHaveLength(session === 'thread' ? 2 : 1)
    },
  )

  test.each([
    { kind: 'createAgent', session: 'thread' },
    { kind: 'fanOutToolCalls', session: 'shared' },
  ] as const)(
    'are declined for two calls of one message, and the model sees why ($kind, $session)',
    async ({ kind, session }) => {
      await using here = await setting('session', { session })
      const calls = [
        ['ask_late', 'one'],
        ['pay', ''],
        ['ask_late', 'two'],
      ] as const
      const starting = (await here.graph(calls, { kind })).start()
      await here.server.called('ask_late', 2)
      for (const question of ['one', 'two']) here.server.release(question)
      const turn = await starting
      expect(questionsOf(turn)).toEqual([])
      expect(turn.answers['call-0']?.text).toContain(DECLINED)
      expect(turn.answers['call-1']?.text).toBe('paid')
      expect(turn.answers['call-2']?.text).toContain(DECLINED)
      expect(declinesIn(here.log)).toHaveLength(2)
    },
  )

  test('asks each of two users in their own session for calls at the same time', async () => {
    await using here = await setting('session', { isMultiUser: true })
    const graphs = await Promise.all(
      ['ada', 'bob'].map((user) => here.graph([['ask', `of ${user}`]], { thread: user, user })),
    )
    const turns = await Promise.all(graphs.map((graph) => graph.start()))
    expect(turns.map(questionsOf)).toEqual([['of ada'], ['of bob']])
    const done = await Promise.all(
      graphs.map((graph, index) => graph.resume(answer(turns[index] as Turn, `person ${index}`))),
    )
    expect(done.map(({ answers }) => answers['call-0']?.text)).toEqual([
      'of ada person 0',
      'of bob person 1',
    ])
    expect(here.server.opened).toHaveLength(3) // one for the list, without an owner
  })

  test('asks the person of a thread in the next process, if its session is stored', async () => {
    await using here = await setting('session', { session: 'thread' })
    const store = new InMemoryStore()
    const checkpointer = new MemorySaver()
    const first = await here.graph([['pay', '']], { store, thread: 'a' })
    await first.start()
    await here.mcp.close() // keeps the session, which is in the store
    const opened = here.server.opened.length
    await using next = createMcpTools({
      servers: { shop: { url: here.server.url } },
      session: 'thread',
    })
    const tools = (await next.listTools()).filter(({ name }) => name === 'ask')
    const calls = [{ name: 'ask', args: { question: 'of A' } }]
    const graph = askingGraph({
      kind: 'createAgent',
      tools,
      calls,
      store,
      checkpointer,
      thread: 'a',
    })
    const turn = await graph.start()
    expect(questionsOf(turn)).toEqual(['of A'])
    expect((await graph.resume(answer(turn, 'Ada'))).answers['call-0']?.text).toBe('of A Ada')
    expect(here.server.opened).toHaveLength(opened + 1) // the session of the list
  })
})

describe('a log message of the server', () => {
  interface Logged {
    readonly logs: unknown[]
    readonly ended: Promise<unknown>
    /** Resolves when the run has received the given number of log messages. */
    told(times: number): Promise<void>
  }

  /** Calls a tool, and collects the log messages of its run. */
  async function logging(here: Setting, thread: string, question: string): Promise<Logged> {
    const tool = (await here.mcp.listTools()).find(({ name }) => name === 'log_late')
    const logs: unknown[] = []
    const waiting: { readonly times: number; readonly resolve: () => void }[] = []
    const writer = ({ data }: { readonly data: unknown }): void => {
      logs.push(data)
      for (const { times, resolve } of waiting) if (logs.length >= times) resolve()
    }
    const config: object = { configurable: { thread_id: thread }, writer }
    return {
      logs,
      ended: Promise.resolve(tool?.invoke({ question }, config)),
      told: (times) =>
        new Promise((resolve) => {
          if (logs.length >= times) resolve()
          else waiting.push({ times, resolve })
        }),
    }
  }

  test('reaches the thread of its call; without a call it reaches no thread if several share the session', async () => {
    await using here = await setting('call')
    const a = await logging(here, 'a', 'of A')
    const b = await logging(here, 'b', 'of B')
    await here.server.called('log_late', 2)
    for (const question of ['of A', 'of B']) here.server.release(question)
    await Promise.all([a.told(1), b.told(1)])
    for (const question of ['of A', 'of B']) here.server.release(`end ${question}`)
    await Promise.all([a.ended, b.ended])
    expect([a.logs, b.logs]).toEqual([['of A'], ['of B']])
  })

  test('reaches the only thread that uses the session', async () => {
    await using here = await setting('call')
    const a = await logging(here, 'a', 'of A')
    await here.server.called('log_late')
    here.server.release('of A')
    await a.told(2)
    here.server.release('end of A')
    await a.ended
    expect(new Set(a.logs)).toEqual(new Set(['of A', 'of A, aside']))
  })
})
