import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { barText, isMet } from '../bench/figure.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { median, ratios } from '../bench/statistics.ts'
import { steadyRounds } from '../bench/steady-rounds.ts'
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
  /** For our costs, in both eras, as a multiple of bare undici's. */
  readonly toBare?: Bar
  /** For the cost of the SDK's transport, as a multiple of ours. */
  readonly stockToOurs?: Bar
}

/** How far the control of a round may be from its median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5

/** Measures one workload with every contender, in turns: A B C A B C … */
export async function compare(
  comparison: Comparison,
  origin: string,
  { rounds, profileTo, progress }: BenchOptions,
): Promise<BenchResult> {
  const { workload, times, warmUp } = comparison
  await using workers = new AsyncDisposableStack()
  const contenders = CONTENDERS.map((name) => {
    const command = ['src/transport/contender-process.ts', name, workload, origin]
    const options = {
      command,
      core: 1,
      profileTo: name === 'ours' ? profileTo : undefined,
    } as const
    return { name, worker: workers.use(Worker.start(options)) }
  })
  progress(`${workload}: warm-up`)
  for (const { worker } of contenders) await worker.ask({ times: warmUp })
  async function take(attempt: number): Promise<Round> {
    progress(`${workload}: round ${attempt}`)
    const round = new Map<ContenderName, Cost>()
    for (const { name, worker } of contenders)
      round.set(name, costFrom(await worker.ask({ times })))
    return round
  }
  const steady = await steadyRounds(take, {
    wanted: rounds,
    within: CONTROL_MOVES,
    control: (round) => costOf(round, 'bare').cpuUs,
  })
  if (steady.length < MIN_ROUNDS) {
    const few = `only ${steady.length} rounds of ${workload} had a steady control`
    return { figures: [], invalid: [few] }
  }
  return { figures: CONTENDERS.map((name) => figureOf(comparison, name, steady)), invalid: [] }
}

/** What each contender cost in one turn. */
type Round = ReadonlyMap<ContenderName, Cost>

function costOf(round: Round, name: ContenderName): Cost {
  const cost = round.get(name)
  if (cost === undefined) throw new Error(`${name} took no part in a round`)
  return cost
}

function figureOf(comparison: Comparison, name: ContenderName, steady: readonly Round[]): Figure {
  const cpuOf = (one: ContenderName): number[] => steady.map((round) => costOf(round, one).cpuUs)
  const values = cpuOf(name)
  const { workload } = comparison
  const plain = {
    name: `${workload}/${name}`,
    unit: `µs CPU per ${WORKLOADS[workload].unit}`,
    value: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
    wall: median(steady.map((round) => costOf(round, name).wallUs)),
  }
  if (name === 'bare') return plain
  const other = name === 'stock' ? 'ours' : 'bare'
  const bar = name === 'stock' ? comparison.stockToOurs : comparison.toBare
  const ratio = median(ratios(values, cpuOf(other)))
  const compared = { ...plain, ratioTo: `${workload}/${other}`, ratio }
  return bar === undefined ? compared : { ...compared, bar: barText(bar), isMet: isMet(bar, ratio) }
}
