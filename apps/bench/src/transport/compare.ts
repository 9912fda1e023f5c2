import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { barText, isMet } from '../bench/figure.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { median, movement, ratios } from '../bench/statistics.ts'
import { Worker } from '../bench/worker.ts'
import { CONTENDERS } from './contenders.ts'
import type { ContenderName } from './contenders.ts'
import { costFrom } from './measurement.ts'
import type { Cost } from './measurement.ts'
import { WORKLOADS } from './workloads.ts'
import type { WorkloadName } from './workloads.ts'

export interface Comparison {
  readonly workload: WorkloadName
  /** How often in one repeat. */
  readonly times: number
  /** How often before anything is measured. */
  readonly warmUp: number
  /** For our cost, as a multiple of bare undici's. */
  readonly toBare?: Bar
  /** For the cost of the SDK's transport, as a multiple of ours. */
  readonly stockToOurs?: Bar
}

/** How far the control may move before the machine was too busy to measure anything. */
const CONTROL_MOVES = 0.25

/** Measures one workload with every contender, in turns: A B C A B C … */
export async function compare(
  comparison: Comparison,
  origin: string,
  { rounds, profileTo, progress }: BenchOptions,
): Promise<BenchResult> {
  const { workload, times, warmUp } = comparison
  await using workers = new AsyncDisposableStack()
  const taken = CONTENDERS.map((name) => {
    const command = ['src/transport/contender-process.ts', name, workload, origin]
    const options = {
      command,
      core: 1,
      profileTo: name === 'ours' ? profileTo : undefined,
    } as const
    return { name, worker: workers.use(Worker.start(options)), all: new Array<Cost>() }
  })
  progress(`${workload}: warm-up`)
  for (const { worker } of taken) await worker.ask({ times: warmUp })
  for (let round = 1; round <= rounds; round += 1) {
    progress(`${workload}: round ${round} of ${rounds}`)
    for (const { worker, all } of taken) all.push(costFrom(await worker.ask({ times })))
  }
  const cpu = new Map(taken.map(({ name, all }) => [name, all.map(({ cpuUs }) => cpuUs)]))
  const moved = movement(cpu.get('bare') ?? [])
  return {
    figures: taken.map(({ name, all }) => figureOf(comparison, name, { all, cpu })),
    invalid:
      moved > CONTROL_MOVES
        ? [`${workload}/bare, the control, moved by ${Math.round(moved * 100)} %`]
        : [],
  }
}

interface Measured {
  readonly all: readonly Cost[]
  readonly cpu: ReadonlyMap<ContenderName, readonly number[]>
}

function figureOf(comparison: Comparison, name: ContenderName, { all, cpu }: Measured): Figure {
  const values = cpu.get(name) ?? []
  const { workload } = comparison
  const plain = {
    name: `${workload}/${name}`,
    unit: `µs CPU per ${WORKLOADS[workload].unit}`,
    value: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
    wall: median(all.map(({ wallUs }) => wallUs)),
  }
  if (name === 'bare') return plain
  const other = name === 'ours' ? 'bare' : 'ours'
  const bar = name === 'ours' ? comparison.toBare : comparison.stockToOurs
  const ratio = median(ratios(values, cpu.get(other) ?? []))
  const compared = { ...plain, ratioTo: `${workload}/${other}`, ratio }
  return bar === undefined ? compared : { ...compared, bar: barText(bar), isMet: isMet(bar, ratio) }
}
