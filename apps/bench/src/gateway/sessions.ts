import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { numbersFrom } from '../client/checks.ts'
import { plainFigure } from '../client/figure-of.ts'
import type { Measured } from '../client/figure-of.ts'
import type { ContenderName } from './contender-name.ts'
import { Contender } from './contender.ts'

/** Opened before the first weighing: what all share is loaded and compiled then. */
const FIRST = 200
const SESSIONS: Readonly<Partial<Record<ContenderName, number>>> = {
  gateway: 10_000,
  'sdk-v2': 2000,
  'sdk-v2-resumable': 2000,
  'sdk-v1': 2000,
}
/** Turns in which they are opened: what they cost is told of each. */
const TURNS = 7
const KIB = 1024

const WEIGHTS = ['heapBytes', 'rssBytes', 'heldBytes'] as const
type Weight = (typeof WEIGHTS)[number]

/** What sessions weigh that have shaken hands and then do nothing; and whether they go when their time is over. */
export async function sessionFigures({ progress, profileTo }: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const name of ['gateway', 'sdk-v2', 'sdk-v2-resumable', 'sdk-v1'] as const) {
    const count = SESSIONS[name] ?? 0
    progress(`sessions: ${count} of ${name}`)
    await using contender = await Contender.start(name, name === 'gateway' ? profileTo : undefined)
    const { server, load } = contender
    const weigh = async (): Promise<Readonly<Record<Weight, number>>> =>
      numbersFrom(await server.ask({ what: 'memory' }), WEIGHTS)
    await load.ask({ what: 'sessions', times: FIRST })
    const before = await weigh()
    const handshakes: Handshakes[] = []
    for (let left = count - FIRST, turns = TURNS; turns > 0; turns -= 1) {
      const times = Math.ceil(left / turns)
      handshakes.push(await shakeHands(contender, times))
      left -= times
    }
    const after = await weigh()
    const figure = (what: string, unit: string, ...values: readonly number[]): Measured => ({
      name: `sessions/${name}/${what}`,
      unit,
      values,
    })
    const heap = (after.heapBytes - before.heapBytes) / (count - FIRST) / KIB
    const isOurs = name === 'gateway'
    const rss = figure(`rss-${count}`, 'MiB', after.rssBytes / KIB / KIB)
    figures.push(
      plainFigure(
        figure('heap', 'KiB per idle session', heap),
        isOurs ? { atMost: 12 } : undefined,
      ),
      plainFigure(rss, isOurs ? { atMost: 250 } : undefined),
      plainFigure(figure(`rss-${count}-held`, 'MiB', after.heldBytes / KIB / KIB)),
      plainFigure(
        figure('cpu', 'µs CPU per handshake', ...handshakes.map(({ cpuUs }) => cpuUs)),
        isOurs ? { atMost: 1000 } : undefined,
      ),
      plainFigure(
        figure('rate', 'handshakes per second', ...handshakes.map(({ rate }) => rate)),
        isOurs ? { atLeast: 1000 } : undefined,
      ),
    )
    if (!isOurs) continue
    await server.ask({ what: 'expire' })
    const left = Number(await server.ask({ what: 'sessions' }))
    const empty = await weigh()
    const kept = (empty.heapBytes - before.heapBytes) / KIB / KIB
    figures.push(
      plainFigure(figure('left-after-ttl', 'sessions', left), { atMost: 0 }),
      plainFigure(figure('heap-left-after-ttl', 'MiB', kept)),
    )
  }
  return { figures, invalid: [] }
}

interface Handshakes {
  /** CPU time of the server, for each. */
  readonly cpuUs: number
  /** In a second, on the one core that the server has. */
  readonly rate: number
}

async function shakeHands({ server, load }: Contender, times: number): Promise<Handshakes> {
  const before = Number(await server.ask({ what: 'cpu' }))
  const startedAt = performance.now()
  await load.ask({ what: 'sessions', times })
  const seconds = (performance.now() - startedAt) / 1000
  const cpuUs = Number(await server.ask({ what: 'cpu' })) - before
  return { cpuUs: cpuUs / times, rate: times / seconds }
}
