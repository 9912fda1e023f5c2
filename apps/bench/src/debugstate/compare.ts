import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { steadyOf, steadyRounds } from '../bench/steady-rounds.ts'
import type { Contender, ContenderName } from './contender.ts'
import { summed } from './cost.ts'
import type { Cost } from './cost.ts'
import { costIn, figuresOf, limitOf } from './figures-of.ts'
import type { Kind, Round } from './figures-of.ts'
import type { Workload } from './workloads.ts'

const WARM_UP = 40_000
/** In one turn. */
const TIMES = 8000
/** Turns of everybody in one round: short ones, so that a busy moment of the machine hits all alike. */
const TURNS = 4

/** How far the control of a round may be from its median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5

/** Measures one workload with everybody who differs in it, in turns: A B A B … */
export async function compare(
  workload: Workload,
  all: readonly Contender[],
  { rounds, progress }: BenchOptions,
): Promise<BenchResult> {
  const reads = workload.method === 'GET'
  // How a write is made safe is nothing to a read.
  const contenders = reads ? all.filter(({ name }) => name !== 'sqlite-full') : all
  progress(`${workload.name}: warm-up`)
  for (const contender of contenders) {
    if (reads) await contender.seed(workload)
    await contender.run(workload, WARM_UP)
  }
  const taken: Round[] = []
  async function take(attempt: number): Promise<Round> {
    progress(`${workload.name}: round ${attempt}`)
    const turns = new Map<ContenderName, Cost[]>(contenders.map(({ name }) => [name, []]))
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const contender of contenders) {
        turns.get(contender.name)?.push(await contender.run(workload, TIMES))
      }
    }
    const round = new Map(Array.from(turns, ([name, costs]) => [name, summed(costs)]))
    taken.push(round)
    return round
  }
  const steady = await steadyRounds(take, {
    wanted: rounds,
    within: CONTROL_MOVES,
    control: (round) => costIn(round, 'control').wallUs,
  })
  // Wall time moves where other programs run; CPU time often says something all the same.
  const steadyCpu = steadyOf(taken, {
    within: CONTROL_MOVES,
    control: (round) => costIn(round, 'control').cpuUs,
  })
  for (const contender of reads ? [] : contenders) {
    if (contender.name !== 'control') await contender.verify(workload)
  }
  const result = (kinds: readonly Kind[], among: readonly Round[]): BenchResult =>
    among.length < MIN_ROUNDS
      ? { figures: [], invalid: [few(among.length, `${kinds.join(', ')} of ${workload.name}`)] }
      : { figures: figuresOf(workload, among, kinds), invalid: limitOf(workload, among) }
  const [rates, cpu] = [result(['rate', 'p99', 'busy'], steady), result(['cpu'], steadyCpu)]
  return {
    figures: [...rates.figures, ...cpu.figures],
    invalid: [...new Set([...rates.invalid, ...cpu.invalid])],
  }
}

function few(count: number, what: string): string {
  return `only ${count} rounds had a steady control for ${what}`
}
