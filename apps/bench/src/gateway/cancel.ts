import { plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult, Figure } from '../measure/figure.ts'
import { startGatewayServer } from './contender.ts'
import type { GatewayServer } from './contender.ts'
import { BRIEF_MS, BRIEF_TOOL, ERAS, WAIT_TOOL } from './protocol.ts'
import type { Era } from './protocol.ts'

/** Calls that are cancelled at the same time. */
const CALLS = 20
/** Dropped calls, and how many of them at the same time. */
const DROPPED = 1000
const AT_ONCE = 100
/** Longer than any measured time. */
const PATIENCE_MS = 10_000

/** The ways in which a run is stopped. A call of a session goes on when its client leaves. */
type Way = 'closed' | 'notification' | 'delete' | 'time-out' | 'stop'

const WAYS: Readonly<Record<Era, readonly Way[]>> = {
  modern: ['closed', 'time-out', 'stop'],
  legacy: ['notification', 'delete', 'time-out', 'stop'],
}

/** Time until the agent is stopped, in every way; and whether any run goes on. */
export async function cancelFigures({ rounds, progress }: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const era of ERAS) {
    for (const way of WAYS[era]) {
      progress(`cancel: ${way} (${era})`)
      const values = await stopTimes(era, way, rounds)
      const measured = { name: `cancel/${era}/${way}`, unit: 'ms', values }
      figures.push(plainFigure(measured, { atMost: 50 }))
    }
  }
  progress(`cancel: ${DROPPED} dropped calls (modern)`)
  figures.push(await orphanFigure())
  return { figures, invalid: [] }
}

async function stopTimes(era: Era, way: Way, rounds: number): Promise<readonly number[]> {
  const values: number[] = []
  let contender = await startGatewayServer()
  try {
    for (let round = 0; round < rounds + 1; round += 1) {
      const worst = await stopTime(contender, era, way)
      if (round > 0) values.push(worst) // the first round compiles the code
      if (way !== 'stop' || round === rounds) continue
      await contender[Symbol.asyncDispose]()
      contender = await startGatewayServer()
    }
  } finally {
    await contender[Symbol.asyncDispose]()
  }
  return values
}

/** Starts calls and cancels them. Returns milliseconds until the last run was stopped. */
async function stopTime(contender: GatewayServer, era: Era, way: Way): Promise<number> {
  const { server, load } = contender
  if (way === 'time-out') return timeOutDelay(contender, era)
  await load.call('startCalls', era, WAIT_TOOL, { count: CALLS, separate: way === 'delete' })
  await untilRuns(contender, CALLS)
  await server.call('takeRunTimes')
  const at = await cancel(contender, way)
  await untilRuns(contender, 0)
  const { stoppedAt } = await server.call('takeRunTimes')
  if (way !== 'closed') await load.call('dropCalls')
  return (Math.max(...stoppedAt) - at) / 1000
}

function cancel({ server, load }: GatewayServer, way: Exclude<Way, 'time-out'>): Promise<number> {
  switch (way) {
    case 'closed':
      return load.call('dropCalls')
    case 'notification':
      return load.call('cancelCalls')
    case 'delete':
      return load.call('endSessions')
    case 'stop':
      return server.call('close')
  }
}

/** Milliseconds between the time limit of runs and the end of the last one. */
async function timeOutDelay(contender: GatewayServer, era: Era): Promise<number> {
  const { server, load } = contender
  await load.call('startCalls', era, BRIEF_TOOL, { count: CALLS, separate: false })
  await untilRuns(contender, CALLS)
  await untilRuns(contender, 0)
  const { startedAt, stoppedAt } = await server.call('takeRunTimes')
  await load.call('dropCalls')
  const late = stoppedAt.map((at, index) => at - (startedAt[index] ?? Number.NaN))
  return Math.max(...late) / 1000 - BRIEF_MS
}

/** Drops calls, and counts the runs that go on. */
async function orphanFigure(): Promise<Figure> {
  await using contender = await startGatewayServer()
  const { server, load } = contender
  for (let dropped = 0; dropped < DROPPED; dropped += AT_ONCE) {
    await load.call('startCalls', 'modern', WAIT_TOOL, { count: AT_ONCE, separate: false })
    await untilRuns(contender, AT_ONCE)
    await load.call('dropCalls')
    await untilRuns(contender, 0).catch(() => undefined) // the figure shows how many are left
  }
  const values = [await server.call('activeRuns')]
  const name = `cancel/modern/orphans-of-${DROPPED}`
  return plainFigure({ name, unit: 'runs', values }, { atMost: 0 })
}

async function untilRuns({ server }: GatewayServer, count: number): Promise<void> {
  const endsAt = performance.now() + PATIENCE_MS
  while ((await server.call('activeRuns')) !== count) {
    if (performance.now() > endsAt) throw new Error(`There are never ${count} active runs`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
