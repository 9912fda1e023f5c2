import type { BenchOptions, BenchResult } from '../../bench/bench-result.ts'
import type { Bar, Figure } from '../../bench/figure.ts'
import { median } from '../../bench/statistics.ts'
import { steadyRounds } from '../../bench/steady-rounds.ts'
import { Worker } from '../../bench/worker.ts'
import { isObject, numbersFrom } from '../../client/checks.ts'
import { plainFigure } from '../../client/figure-of.ts'
import type { Measured } from '../../client/figure-of.ts'
import type { Era } from '../protocol.ts'
import { OVERHEADS } from './overhead-name.ts'
import type { OverheadName } from './overhead-name.ts'

const ERAS: readonly Era[] = ['modern', 'legacy']
const WARM_UP = 1000
/** In one turn. */
const TIMES = 200
/** Turns of everybody in one round: short ones, so that a busy moment of the machine hits all alike. */
const TURNS = 2
/** How far direct calls of a round may be from their median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5

/** What the gateway may add to a call of half of the callers, in milliseconds. */
const BARS: Readonly<Record<OverheadName, Bar>> = {
  langgraph: { atMost: 1.5 },
  a2a: { atMost: 3 },
  'a2a-unary': { atMost: 3 },
}

/** How long one call takes through the gateway, and how much of that the same agent takes when it is called directly. */
export async function overheadFigures(options: BenchOptions): Promise<BenchResult> {
  const results: BenchResult[] = []
  for (const name of OVERHEADS) results.push(await overheadOf(name, options))
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

type Way = 'direct' | Era

interface Turn {
  readonly p50Ms: number
  /** CPU time of the process with the gateway and the direct caller, for each call. */
  readonly cpuMs: number
}

type Round = ReadonlyMap<Way, Turn>

async function overheadOf(
  name: OverheadName,
  { rounds, progress, profileTo }: BenchOptions,
): Promise<BenchResult> {
  await using stack = new AsyncDisposableStack()
  const urls = name === 'langgraph' ? [] : [await remoteAgent(stack, name)]
  const server = stack.use(
    Worker.start({
      command: ['src/gateway/overhead/overhead-process.ts', name, ...urls],
      core: 0,
      profileTo,
    }),
  )
  const port = String(await server.ask({ what: 'port' }))
  const load = stack.use(Worker.start({ command: ['src/gateway/load-process.ts', port], core: 1 }))
  const told = await server.ask({ what: 'called' })
  const { tool, answer } = isObject(told) ? told : {}
  async function turnOf(way: Way, times: number): Promise<Turn> {
    const before = Number(await server.ask({ what: 'cpu' }))
    const turn =
      way === 'direct'
        ? await server.ask({ what: 'direct', times })
        : await load.ask({ what: 'single-calls', era: way, tool, answer, times })
    const { p50Us } = numbersFrom(turn, ['p50Us'])
    const cpuUs = Number(await server.ask({ what: 'cpu' })) - before
    return { p50Ms: p50Us / 1000, cpuMs: cpuUs / times / 1000 }
  }
  for (const way of WAYS) {
    progress(`overhead: warm-up of ${name} (${way})`)
    await turnOf(way, WARM_UP)
  }
  async function take(attempt: number): Promise<Round> {
    progress(`overhead: round ${attempt} of ${name}`)
    const turns = new Map<Way, Turn[]>(WAYS.map((way) => [way, []]))
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const way of WAYS) turns.get(way)?.push(await turnOf(way, TIMES))
    }
    return new Map(Array.from(turns, ([way, all]) => [way, middleOf(all)]))
  }
  const steady = await steadyRounds(take, {
    wanted: rounds,
    within: CONTROL_MOVES,
    control: (round) => turnIn(round, 'direct').p50Ms,
  })
  if (steady.length < MIN_ROUNDS) {
    const reason = `only ${steady.length} rounds had steady direct calls of ${name}`
    return { figures: [], invalid: [reason] }
  }
  return { figures: figuresOf(name, steady), invalid: [] }
}

const WAYS: readonly Way[] = ['direct', ...ERAS]

function middleOf(turns: readonly Turn[]): Turn {
  return {
    p50Ms: median(turns.map(({ p50Ms }) => p50Ms)),
    cpuMs: median(turns.map(({ cpuMs }) => cpuMs)),
  }
}

/** @throws Error for a way that was not gone */
function turnIn(round: Round, way: Way): Turn {
  const turn = round.get(way)
  if (turn === undefined) throw new Error(`Nothing was called ${way} in a round`)
  return turn
}

/** @returns its URL */
async function remoteAgent(stack: AsyncDisposableStack, name: OverheadName): Promise<string> {
  const kind = name === 'a2a' ? [] : ['unary']
  const command = ['src/gateway/servers/a2a-process.ts', '1', ...kind]
  const told = await stack.use(Worker.start({ command, core: 1 })).ask({ what: 'urls' })
  const [url]: unknown[] = Array.isArray(told) ? told : []
  return String(url)
}

/** Round by round: what a slow moment adds is added to both. */
function figuresOf(name: OverheadName, rounds: readonly Round[]): readonly Figure[] {
  const measured = (what: string, unit: string, value: (round: Round) => number): Measured => ({
    name: `overhead/${name}/${what}`,
    unit,
    values: rounds.map(value),
  })
  const more = (era: Era, part: (turn: Turn) => number) => (round: Round) =>
    part(turnIn(round, era)) - part(turnIn(round, 'direct'))
  return [
    plainFigure(measured('direct', 'ms p50', (round) => turnIn(round, 'direct').p50Ms)),
    ...ERAS.map((era) => {
      const added = more(era, ({ p50Ms }) => p50Ms)
      return plainFigure(measured(era, 'ms p50 more', added), BARS[name])
    }),
    ...ERAS.map((era) => {
      const added = more(era, ({ cpuMs }) => cpuMs)
      return plainFigure(measured(`${era}/cpu`, 'ms CPU more', added))
    }),
  ]
}
