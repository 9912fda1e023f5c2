import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { steadyRounds } from '../bench/steady-rounds.ts'
import { Worker } from '../bench/worker.ts'
import { costOfCalls } from '../client/call-cost.ts'
import type { CallCost } from '../client/call-cost.ts'
import { comparedFigure, plainFigure } from '../client/figure-of.ts'
import type { Measured } from '../client/figure-of.ts'
import { TOOL_CONTENDERS } from './contenders.ts'
import type { ToolContenderName } from './contenders.ts'

/** How many calls are in flight at any time: one tool, a busy agent, a busy server of agents. */
const CONCURRENCIES = [1, 16, 256] as const

/** Where the bars are: enough in flight that nobody waits for the wire, and few enough to be real. */
const MEASURED_AT = 16

const PEER = 'langchain-mcp-adapters'
const OURS = ['ours-live', 'ours-cached'] as const

/** Calls in one repeat, about as long for everybody; and before anything is measured. */
const OFTEN = { times: 4000, warmUp: 30_000 }
const SELDOM = { times: 800, warmUp: 6000 }

/** For our calls per second, as a multiple of the peer's. */
const RATE_BAR: Bar = { atLeast: 4 }
/** For our CPU time per call, as a multiple of `McpClient.callTool`. */
const CPU_BAR: Bar = { atMost: 1.4 }

/** How far the control of a round may be from its median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5

/** What a call cost everybody in one turn. */
type Round = ReadonlyMap<ToolContenderName, CallCost>

/** `tool.invoke` of everybody at each concurrency, in turns: A B C A B C … */
export async function callFigures({
  rounds,
  profileTo,
  progress,
}: BenchOptions): Promise<BenchResult> {
  await using server = Worker.start({ command: ['src/client/server.ts'], core: 0 })
  const url = `http://127.0.0.1:${String(await server.ask({ what: 'port' }))}/json`
  await using workers = new AsyncDisposableStack()
  const contenders = TOOL_CONTENDERS.map((name) => {
    const command = ['src/tools/contender-process.ts', name, url]
    const profile = name.startsWith('ours') ? profileTo : undefined
    const worker = workers.use(Worker.start({ command, core: 1, profileTo: profile }))
    return { name, worker, ...(name === PEER ? SELDOM : OFTEN) }
  })
  progress('calls: warm-up')
  for (const { worker, warmUp } of contenders) {
    await costOfCalls(worker, { times: warmUp, atOnce: MEASURED_AT })
  }
  const figures: Figure[] = []
  const invalid: string[] = []
  for (const atOnce of CONCURRENCIES) {
    const workload = `calls-${atOnce}`
    async function take(attempt: number): Promise<Round> {
      progress(`${workload}: round ${attempt} of ${rounds}`)
      const round = new Map<ToolContenderName, CallCost>()
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
    if (steady.length < MIN_ROUNDS) {
      invalid.push(`only ${steady.length} rounds of ${workload} had a steady control`)
    } else {
      figures.push(...figuresOf(workload, steady, atOnce === MEASURED_AT))
    }
  }
  return { figures, invalid }
}

function costIn(round: Round, name: ToolContenderName): CallCost {
  const cost = round.get(name)
  if (cost === undefined) throw new Error(`${name} took no part in a round`)
  return cost
}

function figuresOf(
  workload: string,
  rounds: readonly Round[],
  hasBars: boolean,
): readonly Figure[] {
  const rate = (name: ToolContenderName): Measured => ({
    name: `${workload}/${name}/rate`,
    unit: 'calls per second',
    values: rounds.map((round) => 1_000_000 / costIn(round, name).wallUs),
  })
  const cpu = (name: ToolContenderName): Measured => ({
    name: `${workload}/${name}/cpu`,
    unit: 'µs CPU per call',
    values: rounds.map((round) => costIn(round, name).cpuUs),
  })
  return [
    plainFigure(cpu('control')),
    comparedFigure(cpu('client'), cpu('control')),
    comparedFigure(cpu('plain-tool'), cpu('client')),
    ...OURS.map((name) => comparedFigure(cpu(name), cpu('client'), hasBars ? CPU_BAR : undefined)),
    comparedFigure(cpu(PEER), cpu('client')),
    plainFigure(rate(PEER)),
    plainFigure(rate('client')),
    ...OURS.map((name) => comparedFigure(rate(name), rate(PEER), hasBars ? RATE_BAR : undefined)),
  ]
}
