import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { comparedFigure, median, plainFigure } from '../measure/figure.ts'
import type { Bar, Bench, BenchOptions, BenchResult } from '../measure/figure.ts'
import { compareInTurns } from '../measure/rounds.ts'
import type { Round } from '../measure/rounds.ts'
import { measuredOf, summed } from '../measure/server-cost.ts'
import type { Kind, ServerCost } from '../measure/server-cost.ts'
import { Contender } from '../measure/worker.ts'
import type { LoadApi } from './load-process.ts'
import type { ServerApi } from './server-process.ts'
import { WORKLOADS } from './workloads.ts'
import type { Workload } from './workloads.ts'

const WARM_UP = 40_000
/** Requests in one turn. */
const TIMES = 8000
const NAMES = ['control', 'sqlite-normal'] as const

/** Least requests per second, as a part of the control's. The same bar holds for CPU time, the other way round. */
const RATE_BARS: Readonly<Record<Workload['method'], number>> = { GET: 0.35, PUT: 0.25 }

type Name = (typeof NAMES)[number]
type Server = Contender<ServerApi, LoadApi>

/** The debug-state service with tokens and SQLite on one core, beside a bare `node:http` server. */
export const benchDebugState: Readonly<Record<string, Bench>> = Object.fromEntries(
  Object.values(WORKLOADS).map((workload) => [
    workload.name,
    (options: BenchOptions) => measure(workload, options),
  ]),
)

async function measure(workload: Workload, options: BenchOptions): Promise<BenchResult> {
  const { name, method } = workload
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'bench-debugstate-')))
  const start = async (args: readonly string[], profileTo?: string): Promise<Server> => {
    const command = ['src/debugstate/server-process.ts', ...args]
    return stack.use(await Contender.start(command, 'src/debugstate/load-process.ts', profileTo))
  }
  const servers: Readonly<Record<Name, Server>> = {
    control: await start(['control']),
    'sqlite-normal': await start(['service', join(folder.path, 'state.db')], options.profileTo),
  }
  const costOf = async (who: Name, times: number): Promise<ServerCost> => {
    const { server, load } = servers[who]
    const before = await server.call('cpu')
    const turn = await load.call('run', name, times)
    return { times, cpuUs: (await server.call('cpu')) - before, ...turn }
  }
  options.progress(`${name}: warm-up`)
  for (const who of NAMES) {
    if (method === 'GET') await servers[who].load.call('seed', name)
    await costOf(who, WARM_UP)
  }
  const limits: string[] = []
  const comparison = {
    label: name,
    names: NAMES,
    turns: 4,
    sum: summed,
    measure: (who: Name) => costOf(who, TIMES),
    control: (round: Round<Name, ServerCost>) => round.control.cpuUs,
    figures(rounds: readonly Round<Name, ServerCost>[]) {
      limits.push(...limitsOf(name, rounds))
      const measured = measuredOf(name, rounds)
      const bars: Readonly<Partial<Record<Kind, Bar>>> = {
        rate: { atLeast: RATE_BARS[method] },
        cpu: { atMost: Number((1 / RATE_BARS[method]).toFixed(2)) },
      }
      return (['rate', 'p99', 'cpu'] as const).flatMap((kind) => {
        const control = measured('control', kind)
        const service = comparedFigure(measured('sqlite-normal', kind), control, bars[kind])
        return [plainFigure(control), service]
      })
    },
  }
  const { figures, invalid } = await compareInTurns(comparison, options)
  if (method === 'PUT') await servers['sqlite-normal'].load.call('verify', name)
  return { figures, invalid: [...invalid, ...limits] }
}

/** The rates mean nothing if the load was busier than the fastest server. */
function limitsOf(name: string, rounds: readonly Round<Name, ServerCost>[]): readonly string[] {
  const control = rounds.map((round) => round.control)
  const server = median(control.map(({ cpuUs, wallUs }) => cpuUs / wallUs))
  const load = median(control.map(({ loadCpuUs, wallUs }) => loadCpuUs / wallUs))
  return load > server ? [`in ${name} the load was busier than the server`] : []
}
