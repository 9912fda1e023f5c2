import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { steadyRounds } from '../bench/steady-rounds.ts'
import { numbersFrom } from '../client/checks.ts'
import { summed } from '../debugstate/cost.ts'
import type { Cost } from '../debugstate/cost.ts'
import { figuresOf } from './call-figures.ts'
import type { ContenderName } from './contender-name.ts'
import { Contender } from './contender.ts'
import type { Era } from './protocol.ts'

/** Who is measured in an era; Mastra knows the stateless revision only, SDK v1 and FastMCP the others. */
const TAKING_PART: Readonly<Record<Era, readonly ContenderName[]>> = {
  modern: [
    'control',
    'sdk-v2',
    'gateway',
    'gateway-open',
    'gateway-200',
    'sdk-v2-200',
    'sdk-v2-low',
    'mastra',
  ],
  legacy: [
    'control',
    'sdk-v2',
    'gateway',
    'gateway-open',
    'gateway-plain',
    'gateway-later',
    'sdk-v2-resumable',
    'sdk-v2-later',
    'sdk-v1',
    'fastmcp',
    'fastmcp-later',
  ],
}

const WARM_UP = 6000
/** In one turn. */
const TIMES = 500
/** Turns of everybody in one round: short ones, so that a busy moment of the machine hits all alike. */
const TURNS = 4
/** How far the control of a round may be from its median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5

/** What a call of a tool costs a server, in turns with all others: A B C A B C … */
export async function callFigures(
  era: Era,
  { rounds, progress, profileTo }: BenchOptions,
): Promise<BenchResult> {
  await using stack = new AsyncDisposableStack()
  const contenders: Contender[] = []
  for (const name of TAKING_PART[era]) {
    progress(`${era}: warm-up of ${name}`)
    const profiled = name === 'gateway' ? profileTo : undefined
    const contender = stack.use(await Contender.start(name, profiled))
    await costOf(contender, era, WARM_UP)
    contenders.push(contender)
  }
  async function take(attempt: number): Promise<ReadonlyMap<ContenderName, Cost>> {
    progress(`${era}: round ${attempt}`)
    const turns = new Map<ContenderName, Cost[]>(contenders.map(({ name }) => [name, []]))
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const contender of contenders) {
        turns.get(contender.name)?.push(await costOf(contender, era, TIMES))
      }
    }
    return new Map(Array.from(turns, ([name, costs]) => [name, summed(costs)]))
  }
  const steady = await steadyRounds(take, {
    wanted: rounds,
    within: CONTROL_MOVES,
    control: (round) => round.get('control')?.cpuUs ?? Number.NaN,
  })
  if (steady.length < MIN_ROUNDS) {
    const reason = `only ${steady.length} rounds had a steady control for calls (${era})`
    return { figures: [], invalid: [reason] }
  }
  return { figures: figuresOf(era, steady), invalid: [] }
}

async function costOf({ server, load }: Contender, era: Era, times: number): Promise<Cost> {
  const before = Number(await server.ask({ what: 'cpu' }))
  const turn = await load.ask({ what: 'calls', era, times })
  const cpuUs = Number(await server.ask({ what: 'cpu' })) - before
  return { times, cpuUs, ...numbersFrom(turn, ['wallUs', 'p99Us', 'loadCpuUs']) }
}
