import type { BenchOptions } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { Worker } from '../bench/worker.ts'
import { numbersFrom } from './checks.ts'
import { countOf } from './counts.ts'
import { comparedFigure, plainFigure } from './figure-of.ts'
import type { Measured } from './figure-of.ts'

const CALLS = 1000
/** The first ones open connections, and make code fast. */
const WARM_UP = 10

interface Burst {
  readonly wallUs: number
  readonly cpuUs: number
  readonly failed: number
}

interface Lost extends Burst {
  readonly initialized: number
  readonly posts: number
}

/** All calls at once on a session that the server has just forgotten, beside the same without that. */
export async function lossFigures(
  server: Worker,
  origin: string,
  { rounds, progress }: BenchOptions,
): Promise<readonly Figure[]> {
  const command = ['src/client/contender-process.ts', 'ours', `${origin}/json`]
  await using worker = Worker.start({ command, core: 1 })
  for (let count = 0; count < WARM_UP; count += 1) await burst(worker)
  const kept: Burst[] = []
  const lost: Lost[] = []
  for (let round = 1; round <= rounds; round += 1) {
    progress(`loss: round ${round} of ${rounds}`)
    kept.push(await burst(worker))
    await server.ask({ what: 'counts' })
    await server.ask({ what: 'forget' })
    const cost = await burst(worker)
    const counts = await server.ask({ what: 'counts' })
    const posts = countOf(counts, 'tools/call')
    lost.push({ ...cost, posts, initialized: countOf(counts, 'initialize') })
  }
  const failed = [...kept, ...lost].map((one) => one.failed)
  return [
    plainFigure(wallOf('loss/kept', kept)),
    comparedFigure(wallOf('loss/lost', lost), wallOf('loss/kept', kept), { atMost: 1.5 }),
    comparedFigure(cpuOf('loss/lost/cpu', lost), cpuOf('loss/kept/cpu', kept)),
    plainFigure(
      {
        name: 'loss/initialize',
        unit: 'sent for a loss',
        values: lost.map(({ initialized }) => initialized),
      },
      { atMost: 1 },
    ),
    plainFigure({ name: 'loss/failed', unit: `of ${CALLS} calls`, values: failed }, { atMost: 0 }),
    plainFigure({
      name: 'loss/posts',
      unit: `for ${CALLS} calls`,
      values: lost.map(({ posts }) => posts),
    }),
  ]
}

async function burst(worker: Worker): Promise<Burst> {
  const told = await worker.ask({ times: CALLS, atOnce: CALLS })
  return numbersFrom(told, ['wallUs', 'cpuUs', 'failed'])
}

function wallOf(name: string, bursts: readonly Burst[]): Measured {
  const values = bursts.map(({ wallUs }) => wallUs / 1000)
  return { name, unit: `ms for ${CALLS} calls at once`, values }
}

function cpuOf(name: string, bursts: readonly Burst[]): Measured {
  const values = bursts.map(({ cpuUs }) => cpuUs / 1000)
  return { name, unit: `ms CPU for ${CALLS} calls at once`, values }
}
