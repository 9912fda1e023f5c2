import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { numbersFrom } from '../client/checks.ts'
import { plainFigure } from '../client/figure-of.ts'
import { Contender } from './contender.ts'
import type { Era } from './protocol.ts'

const ERAS: readonly Era[] = ['modern', 'legacy']
/** How many listen, and how long it may take until the last of them was told. */
const LISTENERS = [
  { count: 1000, atMost: 50 },
  { count: 3000, atMost: 150 },
] as const
/** Opened before the first weighing: what all share is loaded and compiled then. */
const FIRST = 200
const WARM_UP = 3
const JOINING = 100
/** Those who hear of the agents that join. */
const HEARING = 20
/** Longer than the gateway holds changes back. */
const QUIET_MS = 2000
const KIB = 1024

/** What listeners weigh, how long it takes until all were told of a change, and how often they are told of many. */
export async function listenerFigures(options: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const era of ERAS) {
    for (const { count, atMost } of LISTENERS) {
      options.progress(`listeners: ${count} (${era})`)
      const weights = await weightsOf(era, count)
      const told = await toldOf(era, count, options)
      const name = `listeners/${era}/${count}`
      const tookMs = told.map((each) => each.tookMs)
      const cpuMs = told.map((each) => each.cpuMs)
      figures.push(
        plainFigure({ name, unit: 'ms until the last was told', values: tookMs }, { atMost }),
        plainFigure({ name: `${name}/cpu`, unit: 'ms CPU to tell them', values: cpuMs }),
        plainFigure(
          { name: `${name}/rss`, unit: 'KiB per stream', values: [weights.rssKib] },
          { atMost: 40 },
        ),
        plainFigure({ name: `${name}/heap`, unit: 'KiB per stream', values: [weights.heapKib] }),
      )
    }
    figures.push(await joined(era, options))
  }
  return { figures, invalid: [] }
}

interface Weights {
  readonly rssKib: number
  readonly heapKib: number
}

/**
 * What an open stream weighs; in the legacy era with a session for each. In a process of its own: whoever weighs
 * collects garbage, and compiled code is part of that.
 */
async function weightsOf(era: Era, count: number): Promise<Weights> {
  await using contender = await Contender.start('gateway')
  const { server, load } = contender
  const weigh = async (): Promise<Readonly<Record<'heapBytes' | 'rssBytes', number>>> =>
    numbersFrom(await server.ask({ what: 'memory' }), ['heapBytes', 'rssBytes'])
  await load.ask({ what: 'listen', era, times: FIRST })
  const before = await weigh()
  await load.ask({ what: 'listen', era, times: count - FIRST })
  const after = await weigh()
  const each = (what: 'heapBytes' | 'rssBytes'): number =>
    (after[what] - before[what]) / (count - FIRST) / KIB
  return { rssKib: each('rssBytes'), heapKib: each('heapBytes') }
}

interface Told {
  readonly tookMs: number
  /** CPU time of the server. */
  readonly cpuMs: number
}

async function toldOf(
  era: Era,
  count: number,
  { profileTo, rounds }: BenchOptions,
): Promise<readonly Told[]> {
  await using contender = await Contender.start('gateway', profileTo)
  await contender.load.ask({ what: 'listen', era, times: count })
  const told: Told[] = []
  for (let round = 0; round < WARM_UP + rounds; round += 1) {
    const telling = await tell(contender, round % 2 === 0)
    if (round >= WARM_UP) told.push(telling)
  }
  return told
}

async function tell({ server, load }: Contender, isMore: boolean): Promise<Told> {
  await load.ask({ what: 'expect' })
  const before = Number(await server.ask({ what: 'cpu' }))
  const at = Number(await server.ask({ what: 'change', isMore }))
  const tookMs = (Number(await load.ask({ what: 'told' })) - at) / 1000
  return { tookMs, cpuMs: (Number(await server.ask({ what: 'cpu' })) - before) / 1000 }
}

/** How often a listener is told when many agents join one after the other. */
async function joined(era: Era, { rounds, progress }: BenchOptions): Promise<Figure> {
  progress(`listeners: ${JOINING} agents join (${era})`)
  const values: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    await using contender = await Contender.start('gateway-debounced')
    const { server, load } = contender
    await load.ask({ what: 'listen', era, times: HEARING })
    const before = Number(await server.ask({ what: 'tools' }))
    await server.ask({ what: 'join', times: JOINING })
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS))
    const after = Number(await server.ask({ what: 'tools' }))
    if (after !== before + JOINING)
      throw new Error(`${after} tools, and before there were ${before}`)
    values.push(Number(await load.ask({ what: 'most-told' })))
  }
  const name = `listeners/${era}/${JOINING}-joins`
  return plainFigure({ name, unit: 'notifications', values }, { atMost: 2 })
}
