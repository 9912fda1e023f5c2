import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { steadyRounds } from '../bench/steady-rounds.ts'
import { Worker } from '../bench/worker.ts'
import { costOfCalls } from './call-cost.ts'
import type { CallCost } from './call-cost.ts'
import { CONTENDERS } from './contenders.ts'
import type { ContenderName } from './contenders.ts'
import { comparedFigure, plainFigure } from './figure-of.ts'
import type { Measured } from './figure-of.ts'
import type { Answer } from './protocol.ts'

/** How many calls are in flight at any time. */
const CONCURRENCIES = [1, 16, 256] as const

/** Where the bars are: enough in flight that nobody waits for the wire, and few enough to be real. */
const MEASURED_AT = 16

/** Calls in one repeat, about as long for everybody; and before anything is measured. */
const TIMES: Readonly<Record<ContenderName, { readonly times: number; readonly warmUp: number }>> =
  {
    control: { times: 4000, warmUp: 30_000 },
    ours: { times: 4000, warmUp: 30_000 },
    'sdk-v1': { times: 800, warmUp: 6000 },
    'sdk-v2': { times: 800, warmUp: 6000 },
    'langchain-mcp-adapters': { times: 800, warmUp: 6000 },
    'session-per-call': { times: 256, warmUp: 1000 },
  }

/** For our calls per second, as a multiple of theirs. */
const RATE_BARS: Readonly<Partial<Record<ContenderName, Bar>>> = {
  'sdk-v1': { atLeast: 4 },
  'sdk-v2': { atLeast: 4 },
  'session-per-call': { atLeast: 15 },
}

/** For our CPU time per call, as a multiple of the control's. */
const CPU_BAR: Bar = { atMost: 1.4 }

/** How far the control of a round may be from its median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5

/** What a call cost each contender in one turn. */
type Round = ReadonlyMap<ContenderName, CallCost>

/** Measures everybody with one kind of answers, at each concurrency, in turns: A B C A B C … */
export async function compare(
  answer: Answer,
  origin: string,
  { rounds, profileTo, progress }: BenchOptions,
): Promise<BenchResult> {
  await using workers = new AsyncDisposableStack()
  const contenders = CONTENDERS.map((name) => {
    const command = ['src/client/contender-process.ts', name, `${origin}/${answer}`]
    const profile = name === 'ours' ? profileTo : undefined
    const worker = workers.use(Worker.start({ command, core: 1, profileTo: profile }))
    return { name, worker, ...TIMES[name] }
  })
  progress(`${answer}: warm-up`)
  for (const { worker, warmUp } of contenders)
    await costOfCalls(worker, { times: warmUp, atOnce: 16 })
  const results: BenchResult[] = []
  for (const atOnce of CONCURRENCIES) {
    const workload = `${answer}-${atOnce}`
    async function take(attempt: number): Promise<Round> {
      progress(`${workload}: round ${attempt} of ${rounds}`)
      const round = new Map<ContenderName, CallCost>()
      for (const { name, worker, times } of contenders) {
        // One at a time takes longer: the machine falls asleep between them.
        const enough = atOnce === 1 ? times / 2 : times
        round.set(name, await costOfCalls(worker, { times: enough, atOnce }))
      }
      return round
    }
    // Opens the connections.
    for (const { worker } of contenders) await costOfCalls(worker, { times: 2 * atOnce, atOnce })
    const steady = await steadyRounds(take, {
      wanted: rounds,
      within: CONTROL_MOVES,
      control: (round) => costIn(round, 'control').cpuUs,
    })
    const few = `only ${steady.length} rounds of ${workload} had a steady control`
    results.push(
      steady.length < MIN_ROUNDS
        ? { figures: [], invalid: [few] }
        : { figures: figuresOf(workload, steady, atOnce === MEASURED_AT), invalid: [] },
    )
  }
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

function costIn(round: Round, name: ContenderName): CallCost {
  const cost = round.get(name)
  if (cost === undefined) throw new Error(`${name} took no part in a round`)
  return cost
}

function figuresOf(
  workload: string,
  rounds: readonly Round[],
  hasBars: boolean,
): readonly Figure[] {
  const rate = (name: ContenderName): Measured => ({
    name: `${workload}/${name}/rate`,
    unit: 'calls per second',
    values: rounds.map((round) => 1_000_000 / costIn(round, name).wallUs),
  })
  const cpu = (name: ContenderName): Measured => ({
    name: `${workload}/${name}/cpu`,
    unit: 'µs CPU per call',
    values: rounds.map((round) => costIn(round, name).cpuUs),
  })
  const others = CONTENDERS.filter((name) => name !== 'control')
  const peers = CONTENDERS.filter((name) => name !== 'ours')
  return [
    plainFigure(cpu('control')),
    ...others.map((name) =>
      comparedFigure(cpu(name), cpu('control'), name === 'ours' && hasBars ? CPU_BAR : undefined),
    ),
    ...peers.map((name) => plainFigure(rate(name))),
    ...peers.map((name) =>
      comparedFigure(rate('ours'), rate(name), hasBars ? RATE_BARS[name] : undefined),
    ),
  ]
}
