import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { numbersFrom } from '../client/checks.ts'
import { plainFigure } from '../client/figure-of.ts'
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
    const cpuBefore = Number(await server.ask({ what: 'cpu' }))
    await load.ask({ what: 'sessions', times: count - FIRST })
    const cpuUs = Number(await server.ask({ what: 'cpu' })) - cpuBefore
    const after = await weigh()
    const figure = (
      what: string,
      unit: string,
      value: number,
    ): Parameters<typeof plainFigure>[0] => ({
      name: `sessions/${name}/${what}`,
      unit,
      values: [value],
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
      plainFigure(figure('cpu', 'µs CPU per handshake', cpuUs / (count - FIRST))),
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
