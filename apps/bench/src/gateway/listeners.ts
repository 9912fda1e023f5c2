import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { plainFigure } from '../client/figure-of.ts'
import { Contender } from './contender.ts'
import type { Era } from './protocol.ts'

const LISTENERS = 1000
const WARM_UP = 3

/** How long it takes, from an agent's saying that it has another skill, until every listener was told. */
export async function listenerFigures({
  rounds,
  progress,
  profileTo,
}: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const era of ['modern', 'legacy'] as const) {
    progress(`listeners: ${LISTENERS} (${era})`)
    await using contender = await Contender.start('gateway', profileTo)
    await contender.load.ask({ what: 'listen', era, times: LISTENERS })
    const values: number[] = []
    for (let round = 0; round < WARM_UP + rounds; round += 1) {
      const tookMs = await tell(contender, round % 2 === 0)
      if (round >= WARM_UP) values.push(tookMs)
    }
    figures.push(plainFigure(measuredOf(era, values), { atMost: 50 }))
  }
  return { figures, invalid: [] }
}

async function tell({ server, load }: Contender, isMore: boolean): Promise<number> {
  await load.ask({ what: 'expect' })
  const at = Number(await server.ask({ what: 'change', isMore }))
  return (Number(await load.ask({ what: 'told' })) - at) / 1000
}

function measuredOf(era: Era, values: readonly number[]): Parameters<typeof plainFigure>[0] {
  return { name: `listeners/${era}/${LISTENERS}`, unit: 'ms until the last was told', values }
}
