import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compareCosts } from '../measure/costs.ts'
import type { Row } from '../measure/costs.ts'
import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { Bench, BenchOptions, BenchResult, Figure } from '../measure/figure.ts'
import { joined } from '../measure/rounds.ts'
import { Worker } from '../measure/worker.ts'
import type { ContenderName } from './contenders.ts'
import type { ProcessApi } from './process.ts'
import type { ServerApi } from './server.ts'

/** CPU time of a POST with our transport, beside a bare dispatch of undici and the transport of SDK v1. */
export const benchTransport: Readonly<Record<string, Bench>> = {
  json: (options) => measureTransport('json', options),
  sse: (options) => measureTransport('sse', options),
}

async function measureTransport(
  answer: 'json' | 'sse',
  options: BenchOptions,
): Promise<BenchResult> {
  const measure = (label: string, atOnce: number): Promise<BenchResult> =>
    compareCalls(
      {
        label,
        atOnce,
        contenders: {
          bare: ['dispatch', `/${answer}`],
          ours: ['transport', `/${answer}`],
          'bare-modern': ['dispatch', `/modern/${answer}`],
          modern: ['transport', `/modern/${answer}`],
          stock: ['sdk-v1-transport', `/${answer}`],
        },
        control: 'bare',
        rows: [
          ['bare', 'cpu'],
          ['ours', 'cpu', 'bare', { atMost: 1.1 }],
          ['bare-modern', 'cpu'],
          ['modern', 'cpu', 'bare-modern', { atMost: 1.1 }],
          ['stock', 'cpu', 'ours', { atLeast: 5 }],
        ],
      },
      options,
    )
  // With one call in flight the process sleeps between calls, and all contenders pay for waking up.
  return joined([await measure(answer, 1), await measure(`${answer}-16`, 16)])
}

/** Whole clients beside those of the SDK; and the cost of a lost session, of a resumed one, and of idle clients. */
export const benchClient: Readonly<Record<string, Bench>> = {
  async calls(options) {
    return joined([await measureClients('json', options), await measureClients('sse', options)])
  },

  /** 1,000 calls at once on a session that the server has just forgotten, beside 1,000 on a known one. */
  async loss({ rounds, progress }) {
    const count = 1000
    await using server = await startServer()
    await using worker = startProcess('mcp-client', [`${server.origin}/json`])
    for (let warmUp = 0; warmUp < 10; warmUp += 1) await worker.call('calls', count, count)
    const unit = `ms for ${count} calls at once`
    const kept = { name: 'loss/kept', unit, values: [] as number[] }
    const lost = { name: 'loss/lost', unit, values: [] as number[] }
    const initialize = { name: 'loss/initialize', unit: 'sent for a loss', values: [] as number[] }
    const failed = { name: 'loss/failed', unit: `of ${count} calls`, values: [] as number[] }
    for (let round = 1; round <= rounds; round += 1) {
      progress(`loss: round ${round} of ${rounds}`)
      const before = await worker.call('calls', count, count)
      await server.worker.call('takeCounts')
      await server.worker.call('forgetSessions')
      const after = await worker.call('calls', count, count)
      const counts = await server.worker.call('takeCounts')
      kept.values.push(before.wallUs / 1000)
      lost.values.push(after.wallUs / 1000)
      initialize.values.push(counts['initialize'] ?? 0)
      failed.values.push(before.failed + after.failed)
    }
    const figures = [
      plainFigure(kept),
      comparedFigure(lost, kept, { atMost: 1 }),
      plainFigure(initialize, { atMost: 1 }),
      plainFigure(failed, { atMost: 0 }),
    ]
    return { figures, invalid: [] }
  },

  /** 1,000 tasks of one client that the server asks to poll every second. The server offers no notifications. */
  async tasks({ rounds, progress, profileTo }) {
    const count = 1000
    const ms = 5000
    await using server = await startServer()
    await using worker = startProcess('polling', [`${server.origin}/modern/tasks`], profileTo)
    await worker.call('calls', count, 50)
    await worker.call('wait', 2 * ms) // compiles the code
    const cpu = {
      name: 'tasks/polling',
      unit: `% of a core for ${count} tasks`,
      values: [] as number[],
    }
    const polls = { name: 'tasks/polls', unit: 'per second', values: [] as number[] }
    const each = { name: 'tasks/poll', unit: 'µs CPU for a poll', values: [] as number[] }
    for (let round = 1; round <= rounds; round += 1) {
      progress(`tasks: round ${round} of ${rounds}`)
      await server.worker.call('takeCounts')
      const { cpuUs, wallUs } = await worker.call('wait', ms)
      const { 'tasks/get': sent = 0 } = await server.worker.call('takeCounts')
      cpu.values.push((cpuUs / wallUs) * 100)
      polls.values.push((sent / wallUs) * 1e6)
      each.values.push(cpuUs / sent)
    }
    const figures = [plainFigure(cpu, { atMost: 5 }), plainFigure(polls), plainFigure(each)]
    return { figures, invalid: [] }
  },

  /** POSTs of the first call of a process: in a new session, and in one that is kept in a file. */
  async resume({ progress }) {
    progress('resume')
    await using server = await startServer()
    await using folder = await mkdtempDisposable(join(tmpdir(), 'bench-client-'))
    const args = [`${server.origin}/json`, join(folder.path, 'session.json')]
    const postsOfFirstCall = async (): Promise<number> => {
      await using worker = startProcess('mcp-client', args)
      await server.worker.call('takeCounts')
      await worker.call('callAndClose')
      const { GET: _get, DELETE: _delete, ...posts } = await server.worker.call('takeCounts')
      return Object.values(posts).reduce((sum, posted) => sum + posted, 0)
    }
    const unit = 'POSTs for the first call'
    const first = { name: 'resume/new-session', unit, values: [await postsOfFirstCall()] }
    const next = { name: 'resume/ours', unit, values: [await postsOfFirstCall()] }
    return { figures: [plainFigure(first), plainFigure(next, { atMost: 1 })], invalid: [] }
  },

  /** Heap of clients that have made one call, and have neither a stream nor a connection. */
  async idle({ progress }) {
    const count = 5000
    /** Clients with a connection at the same time, before the server closes it. */
    const atOnce = 250
    progress(`idle: ${count} clients`)
    await using server = await startServer()
    await using worker = startProcess('mcp-client', [`${server.origin}/json`])
    const heapWithMore = async (more: number): Promise<number> => {
      for (let done = 0; done < more; done += atOnce) {
        await worker.call('open', atOnce)
        await server.worker.call('closeIdleConnections')
      }
      return worker.call('heapBytes')
    }
    const before = await heapWithMore(atOnce) // loads and compiles the code that all share
    const kib = ((await heapWithMore(count)) - before) / count / 1024
    const idle = { name: 'idle/ours', unit: 'KiB heap per client', values: [kib] }
    return { figures: [plainFigure(idle, { atMost: 9 })], invalid: [] }
  },
}

function measureClients(answer: 'json' | 'sse', options: BenchOptions): Promise<BenchResult> {
  return compareCalls(
    {
      label: `${answer}-16`,
      atOnce: 16,
      contenders: {
        control: ['undici-request', `/${answer}`],
        ours: ['mcp-client', `/${answer}`],
        'sdk-v1': ['sdk-v1', `/${answer}`],
        'sdk-v2': ['sdk-v2', `/${answer}`],
      },
      control: 'control',
      rows: [
        ['control', 'cpu'],
        ['ours', 'cpu', 'control', { atMost: 1 }],
        ['sdk-v1', 'cpu', 'control'],
        ['sdk-v2', 'cpu', 'control'],
        ['ours', 'rate', 'control'],
        ['ours', 'rate', 'sdk-v1', { atLeast: 7 }],
        ['ours', 'rate', 'sdk-v2', { atLeast: 8 }],
      ],
    },
    options,
  )
}

/** LangChain tools beside those of `@langchain/mcp-adapters`; and the code that a call runs through. */
export const benchTools: Readonly<Record<string, Bench>> = {
  calls: (options) =>
    compareCalls(
      {
        label: 'calls-16',
        atOnce: 16,
        contenders: {
          control: ['undici-request', '/json'],
          client: ['mcp-client', '/json'],
          'ours-live': ['tools-live', '/json'],
          'ours-cached': ['tools-cached', '/json'],
          'langchain-mcp-adapters': ['adapters', '/json'],
        },
        control: 'control',
        rows: [
          ['control', 'cpu'],
          ['client', 'cpu', 'control'],
          ['ours-live', 'cpu', 'client', { atMost: 1.4 }],
          ['ours-cached', 'cpu', 'client', { atMost: 1.4 }],
          ['langchain-mcp-adapters', 'cpu', 'client'],
          ['langchain-mcp-adapters', 'rate'],
          ['ours-live', 'rate', 'langchain-mcp-adapters', { atLeast: 6.5 }],
          ['ours-cached', 'rate', 'langchain-mcp-adapters', { atLeast: 6.5 }],
        ],
      },
      options,
    ),
  async path({ progress }) {
    const figures: Figure[] = []
    const measure = async (era: 'legacy' | 'modern', url: string): Promise<void> => {
      await using worker = startProcess('tools-live', [url])
      const { functions, files, text } = await worker.call('path')
      progress(`path: ${era}\n${text}`)
      const unit = 'before undici'
      const bars = era === 'legacy' ? [{ atMost: 70 }, { atMost: 22 }] : []
      figures.push(
        plainFigure({ name: `path/${era}/functions`, unit, values: [functions] }, bars[0]),
        plainFigure({ name: `path/${era}/files`, unit, values: [files] }, bars[1]),
      )
    }
    await using server = await startServer()
    await measure('legacy', `${server.origin}/json`)
    await measure('modern', `${server.origin}/modern/json`)
    return { figures, invalid: [] }
  },
}

/** The server of calls, in a process on core 0. */
async function startServer(): Promise<
  AsyncDisposable & { readonly worker: Worker<ServerApi>; readonly origin: string }
> {
  const worker = new Worker<ServerApi>(['src/calls/server.ts'], { core: 0 })
  const origin = `http://127.0.0.1:${await worker.call('port')}`
  return { worker, origin, [Symbol.asyncDispose]: () => worker[Symbol.asyncDispose]() }
}

/** Starts a contender in a process on core 1. */
function startProcess(
  name: ContenderName,
  args: readonly string[],
  profileTo?: string,
): Worker<ProcessApi> {
  return new Worker(['src/calls/process.ts', name, ...args], { core: 1, profileTo })
}

const OURS: readonly ContenderName[] = ['transport', 'mcp-client', 'tools-live', 'tools-cached']
const SLOW: readonly ContenderName[] = ['sdk-v1-transport', 'sdk-v1', 'sdk-v2', 'adapters']

interface CallComparison<Name extends string> {
  readonly label: string
  /** Calls in flight at any time. */
  readonly atOnce: number
  /** Contender and path of the server, by the names in the table. */
  readonly contenders: Readonly<Record<Name, readonly [ContenderName, string]>>
  readonly control: NoInfer<Name>
  readonly rows: readonly Row<NoInfer<Name>>[]
}

/** Measures calls of contenders, each in a process of its own. */
async function compareCalls<Name extends string>(
  { label, atOnce, contenders, control, rows }: CallComparison<Name>,
  options: BenchOptions,
): Promise<BenchResult> {
  await using server = await startServer()
  await using stack = new AsyncDisposableStack()
  const start = (name: ContenderName, path: string) => {
    const profileTo = OURS.includes(name) ? options.profileTo : undefined
    const worker = stack.use(startProcess(name, [server.origin + path], profileTo))
    // So that all turns take about the same time.
    const counts = SLOW.includes(name)
      ? { times: 800, warmUp: 6000 }
      : { times: 4000, warmUp: 30_000 }
    const measure = async (times: number) => {
      const { cpuUs, wallUs, failed } = await worker.call('calls', times, atOnce)
      if (failed > 0) throw new Error(`${failed} of ${times} calls of ${name} failed`)
      return { times, cpuUs, wallUs }
    }
    return { ...counts, measure }
  }
  const entries = Object.entries<readonly [ContenderName, string]>(contenders)
  const started = Object.fromEntries(
    entries.map(([name, [contender, path]]) => [name, start(contender, path)]),
  ) as Record<Name, ReturnType<typeof start>>
  return await compareCosts({ label, contenders: started, control, turns: 1, rows }, options)
}
