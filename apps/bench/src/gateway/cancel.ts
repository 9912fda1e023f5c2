import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { isObject } from '../client/checks.ts'
import { plainFigure } from '../client/figure-of.ts'
import { Contender } from './contender.ts'
import { BRIEF_MS, BRIEF_TOOL, GRACE_MS, WAIT_TOOL } from './protocol.ts'
import type { Era } from './protocol.ts'

/** Calls that are cancelled at the same time. */
const CALLS = 20
const DROPPED = 1000
/** Dropped at the same time. */
const AT_ONCE = 100
/** Longer than anything that is measured here. */
const PATIENCE_MS = 10_000

type Path = 'closed' | 'notification' | 'delete' | 'time-out' | 'stop'

const PATHS: readonly (readonly [Era, Path])[] = [
  ['modern', 'closed'],
  ['modern', 'time-out'],
  ['modern', 'stop'],
  ['legacy', 'notification'],
  ['legacy', 'closed'],
  ['legacy', 'delete'],
  ['legacy', 'time-out'],
  ['legacy', 'stop'],
]

/** How long it takes, on every path, until the agent is told to stop; and whether all are told in the end. */
export async function cancelFigures({ rounds, progress }: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const [era, path] of PATHS) {
    progress(`cancel: ${path} (${era})`)
    const values: number[] = []
    let contender = await Contender.start('gateway')
    try {
      for (let round = 0; round < rounds + 1; round += 1) {
        const worst = await cancelled(contender, era, path)
        if (round > 0) values.push(worst) // the first one compiles
        if (path !== 'stop' || round === rounds) continue
        await contender[Symbol.asyncDispose]()
        contender = await Contender.start('gateway')
      }
    } finally {
      await contender[Symbol.asyncDispose]()
    }
    const unit = path === 'closed' && era === 'legacy' ? 'ms after the grace' : 'ms'
    const measured = { name: `cancel/${era}/${path}`, unit, values }
    figures.push(plainFigure(measured, { atMost: 50 }))
  }
  for (const era of ['modern', 'legacy'] as const) figures.push(await orphans(era, progress))
  return { figures, invalid: [] }
}

/** Begins calls and cancels them. @returns how late the last agent was told, in milliseconds */
async function cancelled(contender: Contender, era: Era, path: Path): Promise<number> {
  const { server, load } = contender
  const tool = path === 'time-out' ? BRIEF_TOOL : WAIT_TOOL
  await load.ask({ what: 'begin', era, tool, times: CALLS, isApart: path === 'delete' })
  if (path === 'time-out') return lateness(contender)
  await until(contender, CALLS)
  await server.ask({ what: 'times' })
  const at = Number(
    path === 'stop' ? await server.ask({ what: 'stop' }) : await load.ask({ what: WISHES[path] }),
  )
  await until(contender, 0)
  const { stoppedAt } = await timesOf(contender)
  if (path !== 'closed') await load.ask({ what: 'drop' })
  const graceMs = path === 'closed' && era === 'legacy' ? GRACE_MS : 0
  return (Math.max(...stoppedAt) - at) / 1000 - graceMs
}

const WISHES = { closed: 'drop', notification: 'cancelled', delete: 'delete' } as const

/** How long after its time the last of the runs was stopped that have little. */
async function lateness(contender: Contender): Promise<number> {
  await until(contender, CALLS)
  await until(contender, 0)
  const { startedAt, stoppedAt } = await timesOf(contender)
  await contender.load.ask({ what: 'drop' })
  // An agent that was too slow so often is left alone for a while, until a call of it ends well.
  await contender.server.ask({ what: 'expire' })
  await contender.load.ask({ what: 'calls', era: 'modern', times: 1 })
  const late = stoppedAt.map((at, index) => at - (startedAt[index] ?? Number.NaN))
  return Math.max(...late) / 1000 - BRIEF_MS
}

/** Drops calls, and looks for runs that go on. */
async function orphans(era: Era, progress: BenchOptions['progress']): Promise<Figure> {
  progress(`cancel: ${DROPPED} dropped calls (${era})`)
  await using contender = await Contender.start('gateway')
  for (let dropped = 0; dropped < DROPPED; dropped += AT_ONCE) {
    await contender.load.ask({ what: 'begin', era, tool: WAIT_TOOL, times: AT_ONCE })
    await until(contender, AT_ONCE)
    await contender.load.ask({ what: 'drop' })
    await until(contender, 0).catch(() => undefined) // the figure tells how many are left
  }
  const left = Number(await contender.server.ask({ what: 'active' }))
  const measured = { name: `cancel/${era}/orphans-of-${DROPPED}`, unit: 'runs', values: [left] }
  return plainFigure(measured, { atMost: 0 })
}

/** Until so many runs are under way. */
async function until({ server }: Contender, count: number): Promise<void> {
  const endsAt = performance.now() + PATIENCE_MS
  while (Number(await server.ask({ what: 'active' })) !== count) {
    if (performance.now() > endsAt) throw new Error(`There are never ${count} runs under way`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function timesOf({ server }: Contender): Promise<{
  readonly startedAt: readonly number[]
  readonly stoppedAt: readonly number[]
}> {
  const times = await server.ask({ what: 'times' })
  const { startedAt, stoppedAt } = isObject(times) ? times : {}
  return { startedAt: numbers(startedAt), stoppedAt: numbers(stoppedAt) }
}

function numbers(value: unknown): readonly number[] {
  return Array.isArray(value) ? value.map(Number) : []
}
