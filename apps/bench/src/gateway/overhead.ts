import { median, plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult, Figure } from '../measure/figure.ts'
import { compareInTurns, joined } from '../measure/rounds.ts'
import type { Round } from '../measure/rounds.ts'
import { Worker } from '../measure/worker.ts'
import type { A2aApi } from './a2a-process.ts'
import { startContender } from './contender.ts'
import type { OverheadApi } from './overhead-process.ts'
import { ERAS } from './protocol.ts'
import type { Era } from './protocol.ts'

const WARM_UP = 1000
/** Calls in one turn. */
const TIMES = 200

/** Limit of the milliseconds that the gateway adds to the median latency of a call. */
const BARS = { langgraph: { atMost: 1.5 }, a2a: { atMost: 3 } } as const

const WAYS = ['direct', ...ERAS] as const
type Way = 'direct' | Era

/** Limit of the number of our functions that a warm call runs before the graph streams. */
const MAX_FUNCTIONS = 95

/** Our functions and files on the way of a warm call from HTTP to `graph.stream()`. */
export async function pathFigures({ progress }: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const era of ERAS) {
    progress(`path: ${era}`)
    const command = ['src/gateway/overhead-process.ts', 'langgraph']
    await using worker = new Worker<OverheadApi>(command, { core: 0 })
    const { functions, files } = await worker.call('path', era)
    const unit = 'before graph.stream'
    const bar = { atMost: MAX_FUNCTIONS }
    figures.push(plainFigure({ name: `path/${era}/functions`, unit, values: [functions] }, bar))
    figures.push(plainFigure({ name: `path/${era}/files`, unit, values: [files] }))
  }
  return { figures, invalid: [] }
}

/** Median latency of a call through the gateway, beside that of calling the same agent directly. */
export async function overheadFigures(options: BenchOptions): Promise<BenchResult> {
  return joined([await overheadOf('langgraph', options), await overheadOf('a2a', options)])
}

async function overheadOf(name: keyof typeof BARS, options: BenchOptions): Promise<BenchResult> {
  await using stack = new AsyncDisposableStack()
  const urls: string[] = []
  if (name === 'a2a') {
    const remote = stack.use(new Worker<A2aApi>(['src/gateway/a2a-process.ts', '1'], { core: 1 }))
    urls.push(...(await remote.call('urls')))
  }
  const command = ['src/gateway/overhead-process.ts', name, ...urls]
  const { server, load } = stack.use(await startContender<OverheadApi>(command, options.profileTo))
  const called = await server.call('called')
  const latencyOf = (way: Way, times: number): Promise<number> =>
    way === 'direct'
      ? server.call('direct', times)
      : load.call('singleCalls', times, { era: way, ...called })
  for (const way of WAYS) {
    options.progress(`overhead: warm-up of ${name} (${way})`)
    await latencyOf(way, WARM_UP)
  }
  return await compareInTurns(
    {
      label: `overhead of ${name}`,
      names: WAYS,
      turns: 2,
      sum: median,
      measure: (way) => latencyOf(way, TIMES),
      control: ({ direct }) => direct,
      figures: (rounds: readonly Round<Way, number>[]) => {
        const direct = rounds.map((round) => round.direct)
        const added = (era: Era): readonly number[] =>
          rounds.map((round) => round[era] - round.direct)
        return [
          plainFigure({ name: `overhead/${name}/direct`, unit: 'ms p50', values: direct }),
          ...ERAS.map((era) =>
            plainFigure(
              { name: `overhead/${name}/${era}`, unit: 'ms p50 more', values: added(era) },
              BARS[name],
            ),
          ),
        ]
      },
    },
    options,
  )
}
