import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { Bench } from '../measure/figure.ts'
import { joined } from '../measure/rounds.ts'
import { compareCalls, startProcess, startServer } from './compare.ts'

/** Limit of our calls per second, as a multiple of the `Client` of an SDK. */
const RATE_BAR = { atLeast: 4.5 }
/** Limit of our CPU time, as a multiple of `undici.request`. */
const CPU_BAR = { atMost: 1.4 }

/** Whole clients beside those of the SDK; and the cost of a lost session, of a resumed one, and of idle clients. */
export const benchClient: Readonly<Record<string, Bench>> = {
  async calls(options) {
    await using server = await startServer()
    const measure = (answer: 'json' | 'sse'): ReturnType<Bench> => {
      const url = `${server.origin}/${answer}`
      return compareCalls(
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
            comparedFigure(rate('ours'), rate('sdk-v1'), RATE_BAR),
            comparedFigure(rate('ours'), rate('sdk-v2'), RATE_BAR),
          ],
        },
        options,
      )
    }
    return joined([await measure('json'), await measure('sse')])
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
