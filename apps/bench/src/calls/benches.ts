import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { Bench, BenchOptions, BenchResult } from '../measure/figure.ts'
import { joined } from '../measure/rounds.ts'
import { compareCalls, startProcess, startServer } from './compare.ts'

/** Limit of our CPU time, as a multiple of a bare dispatch. */
const TO_BARE = { atMost: 1.3 }
/** Limit of the CPU time of the SDK's transport, as a multiple of ours. */
const STOCK_TO_OURS = { atLeast: 5 }

/** CPU time of a POST with our transport, beside a bare dispatch of undici and the transport of SDK v1. */
export const benchTransport: Readonly<Record<string, Bench>> = {
  json: (options) => measureTransport('json', options),
  sse: (options) => measureTransport('sse', options),
}

async function measureTransport(
  answer: 'json' | 'sse',
  options: BenchOptions,
): Promise<BenchResult> {
  await using server = await startServer()
  const url = `${server.origin}/${answer}`
  const modern = `${server.origin}/modern/${answer}`
  return await compareCalls(
    {
      participants: {
        bare: { contender: 'dispatch', url, speed: 'fast' },
        ours: { contender: 'transport', url, speed: 'fast', isOurs: true },
        modern: { contender: 'transport', url: modern, speed: 'fast' },
        stock: { contender: 'sdk-v1-transport', url, speed: 'slow' },
      },
      control: 'bare',
      // With one call in flight the process sleeps between calls, and all contenders pay for waking up.
      workloads: { [answer]: 1, [`${answer}-16`]: 16 },
      figures: ({ workload, cpu }) => {
        const named = (name: 'bare' | 'ours' | 'modern' | 'stock') => ({
          ...cpu(name),
          name: `${workload}/${name}`,
        })
        return [
          plainFigure(named('bare')),
          comparedFigure(named('ours'), named('bare'), TO_BARE),
          comparedFigure(named('modern'), named('bare'), TO_BARE),
          comparedFigure(named('stock'), named('ours'), STOCK_TO_OURS),
        ]
      },
    },
    options,
  )
}

/** Limit of our calls per second, as a multiple of the `Client` of an SDK. */
const SDK_RATE_BAR = { atLeast: 4.5 }
/** Limit of our CPU time, as a multiple of the layer below: `undici.request`, or `McpClient` for tools. */
const CPU_BAR = { atMost: 1.4 }

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
      comparedFigure(lost, kept, { atMost: 1.5 }),
      plainFigure(initialize, { atMost: 1 }),
      plainFigure(failed, { atMost: 0 }),
    ]
    return { figures, invalid: [] }
  },

  /** POSTs of the first call of a process: in a new session, and in one that is kept in a file. */
  async resume({ progress }) {
    progress('resume')
    await using server = await startServer()
    await using folder = await mkdtempDisposable(join(tmpdir(), 'bench-client-'))
    const args = [`${server.origin}/json`, join(folder.path, 'session.json')]
    const postsOfFirstCall = async (): Promise<number> => {
      await using worker = startProcess('mcp-client-in-file', args)
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
    return { figures: [plainFigure(idle, { atMost: 12 })], invalid: [] }
  },
}

async function measureClients(answer: 'json' | 'sse', options: BenchOptions): Promise<BenchResult> {
  await using server = await startServer()
  const url = `${server.origin}/${answer}`
  return await compareCalls(
    {
      participants: {
        control: { contender: 'undici-request', url, speed: 'fast' },
        ours: { contender: 'mcp-client', url, speed: 'fast', isOurs: true },
        'sdk-v1': { contender: 'sdk-v1', url, speed: 'slow' },
        'sdk-v2': { contender: 'sdk-v2', url, speed: 'slow' },
      },
      control: 'control',
      workloads: { [`${answer}-16`]: 16 },
      figures: ({ cpu, rate }) => [
        plainFigure(cpu('control')),
        comparedFigure(cpu('ours'), cpu('control'), CPU_BAR),
        comparedFigure(cpu('sdk-v1'), cpu('control')),
        comparedFigure(cpu('sdk-v2'), cpu('control')),
        comparedFigure(rate('ours'), rate('control')),
        comparedFigure(rate('ours'), rate('sdk-v1'), SDK_RATE_BAR),
        comparedFigure(rate('ours'), rate('sdk-v2'), SDK_RATE_BAR),
      ],
    },
    options,
  )
}

/** Limit of our calls per second, as a multiple of those of `@langchain/mcp-adapters`. */
const ADAPTERS_RATE_BAR = { atLeast: 4 }
const PEER = 'langchain-mcp-adapters'

/** LangChain tools beside those of `@langchain/mcp-adapters`; and the code that a call runs through. */
export const benchTools: Readonly<Record<string, Bench>> = {
  async calls(options) {
    await using server = await startServer()
    const url = `${server.origin}/json`
    return await compareCalls(
      {
        participants: {
          control: { contender: 'undici-request', url, speed: 'fast' },
          client: { contender: 'mcp-client', url, speed: 'fast' },
          'ours-live': { contender: 'tools-live', url, speed: 'fast', isOurs: true },
          'ours-cached': { contender: 'tools-cached', url, speed: 'fast', isOurs: true },
          [PEER]: { contender: 'adapters', url, speed: 'slow' },
        },
        control: 'control',
        workloads: { 'calls-16': 16 },
        figures: ({ cpu, rate }) => {
          const ours = ['ours-live', 'ours-cached'] as const
          return [
            plainFigure(cpu('control')),
            comparedFigure(cpu('client'), cpu('control')),
            ...ours.map((name) => comparedFigure(cpu(name), cpu('client'), CPU_BAR)),
            comparedFigure(cpu(PEER), cpu('client')),
            plainFigure(rate(PEER)),
            ...ours.map((name) => comparedFigure(rate(name), rate(PEER), ADAPTERS_RATE_BAR)),
          ]
        },
      },
      options,
    )
  },
  async path({ progress }) {
    progress('path')
    await using server = await startServer()
    await using worker = startProcess('tools-live', [`${server.origin}/json`])
    const figures = Object.entries(await worker.call('path')).map(([name, count]) =>
      plainFigure({ name: `path/${name}`, unit: 'before undici', values: [count] }),
    )
    return { figures, invalid: [] }
  },
}
