import type { BenchOptions, BenchResult, Figure, Measured } from '../measure/figure.ts'
import { compareInTurns, joined } from '../measure/rounds.ts'
import { Worker } from '../measure/worker.ts'
import type { ContenderName } from './contenders.ts'
import type { ProcessApi } from './process.ts'
import type { ServerApi } from './server.ts'

/** The server of calls, in a process on core 0. */
export interface CallServer extends AsyncDisposable {
  readonly worker: Worker<ServerApi>
  readonly origin: string
}

export async function startServer(): Promise<CallServer> {
  const worker = new Worker<ServerApi>(['src/calls/server.ts'], { core: 0 })
  const origin = `http://127.0.0.1:${await worker.call('port')}`
  return { worker, origin, [Symbol.asyncDispose]: () => worker[Symbol.asyncDispose]() }
}

/** Starts a contender in a process on core 1. */
export function startProcess(
  name: ContenderName,
  args: readonly string[],
  profileTo?: string,
): Worker<ProcessApi> {
  return new Worker(['src/calls/process.ts', name, ...args], { core: 1, profileTo })
}

/** A contender, and how it takes part. */
export interface Participant {
  readonly contender: ContenderName
  readonly url: string
  /** Makes several times as many calls as a slow one, so that all turns take about the same time. */
  readonly speed: 'fast' | 'slow'
  /** `--cpu-prof` writes a CPU profile of it. */
  readonly isOurs?: boolean
}

/** Calls of one turn, and before the first measurement. */
const TIMES = {
  fast: { times: 4000, warmUp: 30_000 },
  slow: { times: 800, warmUp: 6000 },
} as const

/** Cost of one call. */
interface Cost {
  readonly cpuUs: number
  readonly wallUs: number
}

export interface CallComparison<Name extends string> {
  readonly participants: Readonly<Record<Name, Participant>>
  readonly control: NoInfer<Name>
  /** Calls in flight at any time, by the name of the workload. */
  readonly workloads: Readonly<Record<string, number>>
  readonly figures: (measured: {
    readonly workload: string
    readonly cpu: (name: Name) => Measured
    readonly rate: (name: Name) => Measured
  }) => readonly Figure[]
}

/** Measures calls of all participants in turns. */
export async function compareCalls<Name extends string>(
  { participants, control, workloads, figures }: CallComparison<Name>,
  options: BenchOptions,
): Promise<BenchResult> {
  await using stack = new AsyncDisposableStack()
  const names = Object.keys(participants) as Name[]
  const workers = new Map(
    names.map((name) => {
      const { contender, url, isOurs } = participants[name]
      const profileTo = isOurs === true ? options.profileTo : undefined
      return [name, stack.use(startProcess(contender, [url], profileTo))]
    }),
  )
  const costOf = async (name: Name, times: number, atOnce: number): Promise<Cost> => {
    const worker = workers.get(name)
    if (worker === undefined) throw new TypeError(`There is no participant "${name}"`)
    const { cpuUs, wallUs, failed } = await worker.call('calls', times, atOnce)
    if (failed > 0) throw new Error(`${failed} of ${times} calls of ${name} failed`)
    return { cpuUs: cpuUs / times, wallUs: wallUs / times }
  }
  for (const name of names) {
    options.progress(`warm-up: ${name}`)
    await costOf(name, TIMES[participants[name].speed].warmUp, 16)
  }
  const results: BenchResult[] = []
  for (const [workload, atOnce] of Object.entries(workloads)) {
    const comparison = {
      label: workload,
      names,
      measure: (name: Name) => costOf(name, TIMES[participants[name].speed].times, atOnce),
      control: (round: Readonly<Record<Name, Cost>>) => round[control].cpuUs,
      figures: (rounds: readonly Readonly<Record<Name, Cost>>[]) =>
        figures({
          workload,
          cpu: (name) => ({
            name: `${workload}/${name}/cpu`,
            unit: 'µs CPU per call',
            values: rounds.map((round) => round[name].cpuUs),
          }),
          rate: (name) => ({
            name: `${workload}/${name}/rate`,
            unit: 'calls per second',
            values: rounds.map((round) => 1_000_000 / round[name].wallUs),
          }),
        }),
    }
    results.push(await compareInTurns(comparison, options))
  }
  return joined(results)
}
