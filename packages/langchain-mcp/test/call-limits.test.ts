// `timeoutMs` limits a whole call in a graph: the time of the server counts, and the time of a person does not.
import { MemorySaver } from '@langchain/langgraph'
import { stopClock } from '@x/internal/testing/clock'
import { McpClient } from '@x/mcp-client'
import { startLegacyServer, startModernServer, startTaskServer } from '@x/mcp-testing'
import type { TestTool } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import {
  createMcpTools,
  elicitationToInterrupt,
  loadMcpTools,
  type LoadMcpToolsOptions,
} from '../src/index.ts'
import type { McpToolSource, StartedCall, ToolCallOptions } from '../src/tool-source.ts'
import { askingGraph, type AskingGraph, type Turn } from './asking-graph.ts'
import { startAskingServer } from './asking-server.ts'

const asks = {
  type: 'input_required',
  inputRequests: {
    who: {
      method: 'elicitation/create',
      params: { message: 'Who?', requestedSchema: { type: 'object', properties: {} } },
    },
  },
  requestState: 'state',
}

/** A stateless server. It works as long as told, at each request of a call, and then asks or answers. */
class WorkingSource implements McpToolSource {
  readonly timeoutMs: number | undefined
  /** With it, the server reports progress once a second. */
  timeout: McpToolSource['timeout']
  readonly requests: ToolCallOptions[] = []
  readonly #work: readonly { readonly ms: number; readonly end: 'asks' | 'answers' }[]

  constructor(
    work: readonly { readonly ms: number; readonly end: 'asks' | 'answers' }[],
    timeoutMs?: number,
  ) {
    this.#work = work
    this.timeoutMs = timeoutMs
  }

  listTools() {
    return Promise.resolve([{ name: 'ask' }])
  }

  async callTool(name: string, args = {}, options: ToolCallOptions = {}) {
    const { result } = await this.startTool(name, args, options)
    return result ?? {}
  }

  startTool(_name: string, _args = {}, options: ToolCallOptions = {}): Promise<StartedCall> {
    const { ms, end } = this.#work[this.requests.length] ?? { ms: 0, end: 'answers' }
    this.requests.push(options)
    const { signal, onProgress } = options
    return new Promise((resolve, reject) => {
      for (let at = 1000; at < ms && this.timeout !== undefined; at += 1000) {
        setTimeout(() => onProgress?.({ progress: at }), at)
      }
      signal?.addEventListener('abort', () => reject(signal.reason as Error))
      setTimeout(() => resolve({ result: end === 'asks' ? asks : { content: [] } }), ms)
    })
  }
}

const WHOSE = ['the tool', 'the client', 'an interceptor'] as const

/** Who limits a call. */
type Whose = (typeof WHOSE)[number]
type Limit = Pick<LoadMcpToolsOptions, 'timeoutMs' | 'interceptors'>

/** Options of tools whose calls have a limit, unless the client has it. */
function limitOf(whose: Whose, timeoutMs: number): Limit {
  if (whose === 'the tool') return { timeoutMs }
  if (whose === 'the client') return {}
  return { timeoutMs: 60_000, interceptors: [(_request, next) => next({ timeoutMs })] }
}

async function graphOf(
  source: McpToolSource,
  limit: Limit,
  checkpointer = new MemorySaver(),
): Promise<AskingGraph> {
  const elicitation = elicitationToInterrupt()
  const tools = await loadMcpTools(source, { elicitation, ...limit, server: { slug: 'shop' } })
  return askingGraph({ kind: 'createAgent', tools, calls: [{ name: 'ask' }], checkpointer })
}

/** Answers the question. */
function answerTo({ interrupts: [asked] }: Turn): Readonly<Record<string, unknown>> {
  return { key: asked?.value.key, responses: { who: { action: 'accept', content: {} } } }
}

/** Lets the clock run until the turn ends. Returns the turn, and how long it took by this clock. */
async function timed(turn: Promise<Turn>): Promise<{ readonly turn: Turn; readonly ms: number }> {
  const startedAt = performance.now()
  const over = Symbol('over')
  const ended = turn.then(
    () => over,
    () => over,
  )
  while ((await Promise.race([ended, new Promise((resolve) => setImmediate(resolve))])) !== over) {
    // In sequence: the clock moves between the steps of the graph.
    await vi.advanceTimersByTimeAsync(100)
  }
  return { turn: await turn, ms: performance.now() - startedAt }
}

describe.each(WHOSE)('the limit of %s', (whose) => {
  const limit = 2000
  const limits = (work: ConstructorParameters<typeof WorkingSource>[0]) => ({
    source: new WorkingSource(work, whose === 'the client' ? limit : undefined),
    options: limitOf(whose, limit),
  })

  test('ends a call that has asked nothing', async () => {
    const { source, options } = limits([{ ms: 60_000, end: 'answers' }])
    const graph = await graphOf(source, options)
    stopClock('performance')
    const { turn, ms } = await timed(graph.start())
    expect(turn.answers['call-0']).toMatchObject({ status: 'error' })
    expect(turn.answers['call-0']?.text).toContain('No answer came in time')
    expect(ms).toBeGreaterThanOrEqual(limit)
    expect(ms).toBeLessThan(2 * limit)
  })

  test.each(['the same process', 'another process'])(
    'goes on after the answer of a person, whose time does not count, in %s',
    async (where) => {
      const { source, options } = limits([
        { ms: 1000, end: 'asks' },
        { ms: 60_000, end: 'answers' },
      ])
      const checkpointer = new MemorySaver()
      const graph = await graphOf(source, options, checkpointer)
      const other =
        where === 'the same process' ? graph : await graphOf(source, options, checkpointer)
      stopClock('performance')
      const asked = await timed(graph.start())
      expect(asked.turn.interrupts).toHaveLength(1)
      await vi.advanceTimersByTimeAsync(100_000)
      const answered = await timed(other.resume(answerTo(asked.turn)))
      expect(answered.turn.answers['call-0']?.text).toContain('No answer came in time')
      expect(source.requests).toHaveLength(2)
      const total = asked.ms + answered.ms
      expect(total).toBeGreaterThanOrEqual(limit)
      expect(total).toBeLessThan(limit + 900)
    },
  )
})

describe.each(WHOSE)('the limit of %s with resetOnProgress', (whose) => {
  const limit = 2000
  const maxMs = 10_000
  const extended = (work: ConstructorParameters<typeof WorkingSource>[0]) => {
    const source = new WorkingSource(work, whose === 'the client' ? limit : undefined)
    source.timeout = { resetOnProgress: true, maxMs }
    return { source, options: limitOf(whose, limit) }
  }

  test('lets a call continue while the server reports progress', async () => {
    const { source, options } = extended([{ ms: 6000, end: 'answers' }])
    const graph = await graphOf(source, options)
    stopClock('performance')
    const { turn, ms } = await timed(graph.start())
    expect(turn.answers['call-0']).toMatchObject({ status: 'success' })
    expect(ms).toBeGreaterThanOrEqual(6000)
  })

  test('ends a call at maxMs, whatever the server reports', async () => {
    const { source, options } = extended([{ ms: 60_000, end: 'answers' }])
    const graph = await graphOf(source, options)
    stopClock('performance')
    const { turn, ms } = await timed(graph.start())
    expect(turn.answers['call-0']?.text).toContain('No answer came in time')
    expect(ms).toBeGreaterThanOrEqual(maxMs)
    expect(ms).toBeLessThan(maxMs + limit)
  })

  test.each([
    ['goes on after the answer of a person', 3000, 'success'],
    ['counts the time before a question for maxMs', 60_000, 'error'],
  ] as const)('%s', async (_name, ms, status) => {
    const { source, options } = extended([
      { ms: 6000, end: 'asks' },
      { ms, end: 'answers' },
    ])
    const graph = await graphOf(source, options)
    stopClock('performance')
    const asked = await timed(graph.start())
    await vi.advanceTimersByTimeAsync(100_000)
    const answered = await timed(graph.resume(answerTo(asked.turn)))
    expect(answered.turn.answers['call-0']).toMatchObject({ status })
    expect(asked.ms + answered.ms).toBeLessThan(maxMs + limit)
  })
})

describe.each(['modern', 'legacy'] as const)('a server of the %s era', (era) => {
  test.each(WHOSE)('is not waited for longer than the limit of %s', async (whose) => {
    stopClock()
    await using server = era === 'modern' ? await startModernServer() : await startAskingServer()
    const elicitation = elicitationToInterrupt()
    const limit = { timeoutMs: 500 }
    await using client = new McpClient(
      { url: server.url },
      { handlers: elicitation.handlers, ...(whose === 'the client' && limit) },
    )
    const tools = await loadMcpTools(client, {
      elicitation,
      ...limitOf(whose, limit.timeoutMs),
    })
    // Neither tool ever answers in this test.
    const calling = era === 'modern' ? { name: 'slow', args: { ms: 60_000 } } : { name: 'ask_late' }
    const turn = askingGraph({ kind: 'subgraph', tools, calls: [calling] }).start()
    if ('ledger' in server) await server.ledger.waitFor({ tool: 'slow', state: 'running' })
    else await server.called('ask_late')
    await vi.advanceTimersByTimeAsync(limit.timeoutMs)
    const { answers } = await turn
    expect(answers['call-0']?.text).toContain('No answer came in time')
  })
})

describe.each(['legacy', 'modern'] as const)(
  'an interceptor with a limit for one tool (%s)',
  (era) => {
    test('shortens or extends the limit of its server for that tool alone', async () => {
      await using server = era === 'legacy' ? await startLegacyServer() : await startModernServer()
      const limits: Readonly<Record<string, number>> = { quick: 1000, long: 60_000 }
      const waiting = (name: string): TestTool => ({ name, run: (_args, { hold }) => hold() })
      server.tools = ['quick', 'usual', 'long'].map(waiting)
      await using mcp = createMcpTools({
        servers: { shop: { url: server.url, timeoutMs: 10_000 } },
        interceptors: [({ tool }, next) => next({ timeoutMs: limits[tool.name] })],
      })
      const tools = await mcp.listTools()
      stopClock()
      const ended: string[] = []
      const calls = tools.map(async (tool) => {
        const answer = String(await tool.invoke({}))
        ended.push(tool.name)
        return answer
      })
      await Promise.all(
        tools.map(({ name: tool }) => server.ledger.waitFor({ tool, state: 'running' })),
      )
      const [quick, usual, long] = calls
      await vi.advanceTimersByTimeAsync(1000)
      expect(await quick).toContain('No answer came in time')
      expect(ended).toEqual(['quick'])
      await vi.advanceTimersByTimeAsync(9000)
      expect(await usual).toContain('No answer came in time')
      expect(ended).toEqual(['quick', 'usual'])
      await vi.advanceTimersByTimeAsync(20_000)
      server.release('done')
      expect(await long).toBe('done')
    })
  },
)

test.each(['outside a graph', 'in a graph'])(
  'an interceptor limits a whole task, %s',
  async (where) => {
    await using server = await startTaskServer()
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      elicitation: elicitationToInterrupt(),
      interceptors: [(_request, next) => next({ timeoutMs: 2000 })],
    })
    const calling = { name: 'slow_compute', args: { seconds: 600 } }
    const tools = await mcp.listTools()
    const tool = tools.find(({ name }) => name === calling.name)
    const graph = askingGraph({ kind: 'createAgent', tools, calls: [calling] })
    const answer =
      where === 'in a graph'
        ? (await graph.start()).answers['call-0']?.text
        : String(await tool?.invoke(calling.args))
    expect(answer).toContain('No answer came in time')
    expect(server.tasks.size).toBe(1)
  },
)

test('a limit that is no number is refused, and the call is not sent', async () => {
  const source = new WorkingSource([])
  for (const wrong of ['5s', Number.NaN, -1]) {
    const timeoutMs = wrong as number
    const [tool] = await loadMcpTools(source, {
      interceptors: [
        async function hasty(_request, next) {
          return next({ timeoutMs })
        },
      ],
    })
    await expect(tool?.invoke({})).rejects.toThrow(/hasty gave a wrong timeoutMs/)
  }
  expect(source.requests).toEqual([])
})
