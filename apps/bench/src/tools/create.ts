import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { Worker } from '../bench/worker.ts'
import { isObject, numbersFrom } from '../client/checks.ts'
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
  readonly wallUs: number
}

type Costs = ReadonlyMap<MakerName, readonly Cost[]>

/**
 * Having many tools: ours from a stored definition, the adapters' from a server in another process, since
 * they know no stored ones; beside that, what they do with a list that is there already.
 */
export async function createFigures({
  rounds,
  profileTo,
  progress,
}: BenchOptions): Promise<BenchResult> {
  await using server = Worker.start({ command: ['src/tools/start-server.ts'], core: 0 })
  const told = await server.ask({ delays: [0], tools: TOOLS })
  const [port]: unknown[] = isObject(told) && Array.isArray(told['ports']) ? told['ports'] : []
  const start = (name: MakerName): Worker => {
    const command = ['src/tools/create-process.ts', name, `http://127.0.0.1:${Number(port)}/mcp`]
    return Worker.start({ command, core: 1, profileTo: name === 'ours' ? profileTo : undefined })
  }
  const cold = await coldCosts({ rounds, progress }, start)
  await using workers = new AsyncDisposableStack()
  const makers = MAKERS.map((name) => ({ name, worker: workers.use(start(name)) }))
  progress('create: warm-up')
  for (const { worker } of makers) await worker.ask({ tools: TOOLS, times: WARM_UP })
  const warm = new Map<MakerName, Cost[]>(MAKERS.map((name) => [name, []]))
  for (let round = 1; round <= rounds; round += 1) {
    progress(`create: round ${round} of ${rounds}`)
    for (const { name, worker } of makers) warm.get(name)?.push(await costOf(worker, TIMES))
  }
  const bar = { atMost: 0.2 }
  const peer = 'langchain-mcp-adapters'
  const conversion = 'langchain-mcp-adapters-conversion'
  const listed = 'langchain-mcp-adapters-listed'
  const created = (name: MakerName): Measured => ({
    name: `create/${name}`,
    unit: `ms CPU for ${TOOLS} tools`,
    values: millisecondsOf(warm, name, ({ createUs }) => createUs),
  })
  const waited = (name: MakerName): Measured => ({
    name: `create/${name}/wall`,
    unit: `ms for ${TOOLS} tools`,
    values: millisecondsOf(warm, name, ({ wallUs }) => wallUs),
  })
  const first = (name: MakerName): Measured => ({
    name: `create-first/${name}`,
    unit: `ms CPU for ${TOOLS} tools`,
    values: millisecondsOf(cold, name, ({ createUs }) => createUs),
  })
  const shown = (name: MakerName): Measured => ({
    name: `create-and-show/${name}`,
    unit: `ms CPU for ${TOOLS} tools`,
    values: millisecondsOf(warm, name, ({ createUs, showUs }) => createUs + showUs),
  })
  return {
    figures: [
      plainFigure(created(peer)),
      plainFigure(created(conversion)),
      plainFigure(created(listed)),
      comparedFigure(created('ours'), created(peer), bar),
      comparedFigure(created('ours'), created(conversion)),
      plainFigure(waited(peer)),
      comparedFigure(waited('ours'), waited(peer), bar),
      plainFigure(first(peer)),
      plainFigure(first(conversion)),
      comparedFigure(first('ours'), first(peer)),
      comparedFigure(first('ours'), first(conversion)),
      plainFigure(shown(peer)),
      comparedFigure(shown('ours'), shown(peer)),
    ],
    invalid: [],
  }
}

/** The first time in a process, its code being loaded: a new process for each. */
async function coldCosts(
  { rounds, progress }: Pick<BenchOptions, 'rounds' | 'progress'>,
  start: (name: MakerName) => Worker,
): Promise<Costs> {
  const costs = new Map<MakerName, Cost[]>(MAKERS.map((name) => [name, []]))
  for (let round = 1; round <= rounds; round += 1) {
    progress(`create: first use, round ${round} of ${rounds}`)
    for (const name of MAKERS) {
      await using worker = start(name)
      costs.get(name)?.push(await costOf(worker, 1))
    }
  }
  return costs
}

/** Of having all tools once. */
async function costOf(worker: Worker, times: number): Promise<Cost> {
  const told = await worker.ask({ tools: TOOLS, times })
  const { createUs, showUs, wallUs } = numbersFrom(told, ['createUs', 'showUs', 'wallUs'])
  return { createUs: createUs / times, showUs: showUs / times, wallUs: wallUs / times }
}

function millisecondsOf(
  costs: Costs,
  maker: MakerName,
  us: (cost: Cost) => number,
): readonly number[] {
  return (costs.get(maker) ?? []).map((cost) => us(cost) / 1000)
}
