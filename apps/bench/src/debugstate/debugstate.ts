import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compareCosts } from '../measure/costs.ts'
import { median } from '../measure/figure.ts'
import type { Bench, BenchOptions, BenchResult } from '../measure/figure.ts'
import { Contender } from '../measure/worker.ts'
import type { LoadApi } from './load-process.ts'
import type { ServerApi } from './server-process.ts'

/** The debug-state service with tokens and SQLite on one core, beside a bare `node:http` server. */
export const benchDebugState: Readonly<Record<string, Bench>> = {
  get: (options) => measure('GET', options),
  put: (options) => measure('PUT', options),
}

/** Least requests per second, as a part of the control's. The same bar holds for CPU time, the other way round. */
const RATE_BARS = { GET: 0.35, PUT: 0.25 } as const
const NAMES = ['control', 'sqlite-normal'] as const

async function measure(method: 'GET' | 'PUT', options: BenchOptions): Promise<BenchResult> {
  const label = method.toLowerCase()
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'bench-debugstate-')))
  /** Parts of a turn in which the load on the control, and the control itself, were busy. */
  const busy: { readonly load: number; readonly server: number }[] = []
  const start = async (name: (typeof NAMES)[number]) => {
    const args = name === 'control' ? ['control'] : ['service', join(folder.path, 'state.db')]
    const command = ['src/debugstate/server-process.ts', ...args]
    const profileTo = name === 'control' ? undefined : options.profileTo
    const { server, load } = stack.use(
      await Contender.start<ServerApi, LoadApi>(
        command,
        'src/debugstate/load-process.ts',
        profileTo,
      ),
    )
    if (method === 'GET') await load.call('seed')
    const measureTurn = async (times: number) => {
      const before = await server.call('cpu')
      const { loadCpuUs, ...turn } = await load.call('run', method, times)
      const cpuUs = (await server.call('cpu')) - before
      if (name === 'control') {
        busy.push({ load: loadCpuUs / turn.wallUs, server: cpuUs / turn.wallUs })
      }
      return { times, cpuUs, ...turn }
    }
    return { load, times: 8000, warmUp: 40_000, measure: measureTurn }
  }
  const contenders = {
    control: await start('control'),
    'sqlite-normal': await start('sqlite-normal'),
  }
  const atLeast = RATE_BARS[method]
  const atMost = Number((1 / atLeast).toFixed(2))
  const { figures, invalid } = await compareCosts(
    {
      label,
      contenders,
      control: 'control',
      turns: 4,
      rows: [
        ['control', 'rate'],
        ['sqlite-normal', 'rate', 'control', { atLeast }],
        ['control', 'p99'],
        ['sqlite-normal', 'p99', 'control'],
        ['control', 'cpu'],
        ['sqlite-normal', 'cpu', 'control', { atMost }],
      ],
    },
    options,
  )
  if (method === 'PUT') await contenders['sqlite-normal'].load.call('verify')
  // The rates mean nothing if the load was busier than the fastest server.
  const isLimited = median(busy.map(({ load }) => load)) > median(busy.map(({ server }) => server))
  const limits = isLimited ? [`in ${label} the load was busier than the server`] : []
  return { figures, invalid: [...invalid, ...limits] }
}
