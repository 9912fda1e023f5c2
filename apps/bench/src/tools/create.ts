import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { Worker } from '../bench/worker.ts'
import { numbersFrom } from '../client/checks.ts'
import { comparedFigure, plainFigure } from '../client/figure-of.ts'
import type { Measured } from '../client/figure-of.ts'
import { MAKERS } from './makers.ts'
import type { MakerName } from './makers.ts'

const TOOLS = 500
/** How often in one turn, and before anything is measured. */
const TIMES = 20
const WARM_UP = 100

/** Figures of one turn, in microseconds. */
interface Cost {
  readonly createUs: number
  readonly showUs: number
}

/** Making many tools of definitions that are at hand, beside LangChain's adapters. No network on either side. */
export async function createFigures({
  rounds,
  profileTo,
  progress,
}: BenchOptions): Promise<BenchResult> {
  await using workers = new AsyncDisposableStack()
  const makers = MAKERS.map((name) => {
    const command = ['src/tools/create-process.ts', name]
    const profile = name === 'ours' ? profileTo : undefined
    return { name, worker: workers.use(Worker.start({ command, core: 1, profileTo: profile })) }
  })
  progress('create: warm-up')
  for (const { worker } of makers) await worker.ask({ tools: TOOLS, times: WARM_UP })
  const costs = new Map<MakerName, Cost[]>(MAKERS.map((name) => [name, []]))
  for (let round = 1; round <= rounds; round += 1) {
    progress(`create: round ${round} of ${rounds}`)
    for (const { name, worker } of makers) {
      const told = await worker.ask({ tools: TOOLS, times: TIMES })
      costs.get(name)?.push(numbersFrom(told, ['createUs', 'showUs']))
    }
  }
  const measured = (what: string, name: MakerName, us: (cost: Cost) => number): Measured => ({
    name: `${what}/${name}`,
    unit: `ms CPU for ${TOOLS} tools`,
    values: (costs.get(name) ?? []).map((cost) => us(cost) / TIMES / 1000),
  })
  const created = (name: MakerName): Measured => measured('create', name, (cost) => cost.createUs)
  const shown = (name: MakerName): Measured =>
    measured('create-and-show', name, (cost) => cost.createUs + cost.showUs)
  const peer = 'langchain-mcp-adapters'
  const listed = 'langchain-mcp-adapters-listed'
  return {
    figures: [
      plainFigure(created(peer)),
      plainFigure(created(listed)),
      comparedFigure(created('ours'), created(peer), { atMost: 0.2 }),
      comparedFigure(created('ours'), created(listed)),
      plainFigure(shown(peer)),
      comparedFigure(shown('ours'), shown(peer)),
    ],
    invalid: [],
  }
}
