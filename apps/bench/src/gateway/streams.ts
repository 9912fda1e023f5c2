import { plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult, Figure, Measured } from '../measure/figure.ts'
import { startGatewayServer } from './contender.ts'
import type { GatewayServer } from './contender.ts'
import { ERAS } from './protocol.ts'
import type { Era } from './protocol.ts'

/** Sessions or streams that are opened before the first weighing, to load and compile the shared code. */
const FIRST = 200
const SESSIONS = 10_000
/** Number of listeners, and the limit of the time until all of them are notified. */
const LISTENERS = [
  { count: 1000, atMost: 30 },
  { count: 3000, atMost: 120 },
] as const
const WARM_UP = 3
/** Agents that join one after the other, and the listeners that are notified of them. */
const JOINING = 100
const JOIN_LISTENERS = 20
/** Longer than the gateway holds changes back. */
const QUIET_MS = 2000
const KIB = 1024

function sessionFigure(what: string, unit: string, values: readonly number[]): Measured {
  return { name: `sessions/gateway/${what}`, unit, values }
}

/** Cost of a handshake, and memory of idle sessions; and whether sessions go when their time is over. */
export async function sessionFigures({ progress, profileTo }: BenchOptions): Promise<BenchResult> {
  progress(`sessions: ${SESSIONS}`)
  await using contender = await startGatewayServer('gateway', profileTo)
  const { server, load } = contender
  await load.call('openSessions', FIRST)
  const before = await server.call('memory')
  const cpuUs: number[] = []
  const rates: number[] = []
  const times = (SESSIONS - FIRST) / 7
  for (let turn = 0; turn < 7; turn += 1) {
    const cpu = await server.call('cpu')
    const startedAt = performance.now()
    await load.call('openSessions', times)
    rates.push((times * 1000) / (performance.now() - startedAt))
    cpuUs.push(((await server.call('cpu')) - cpu) / times)
  }
  const after = await server.call('memory')
  await server.call('expireSessions')
  const left = await server.call('sessions')
  const heap = (after.heapBytes - before.heapBytes) / (SESSIONS - FIRST) / KIB
  const figures = [
    plainFigure(sessionFigure('heap', 'KiB per idle session', [heap]), { atMost: 12 }),
    plainFigure(sessionFigure(`rss-${SESSIONS}`, 'MiB', [after.rssBytes / KIB / KIB]), {
      atMost: 130,
    }),
    plainFigure(sessionFigure('cpu', 'µs CPU per handshake', cpuUs), { atMost: 1000 }),
    plainFigure(sessionFigure('rate', 'handshakes per second', rates), { atLeast: 1000 }),
    plainFigure(sessionFigure('left-after-ttl', 'sessions', [left]), { atMost: 0 }),
  ]
  return { figures, invalid: [] }
}

/** Time until all listeners are notified of a change, memory of a listener, and notifications of many changes. */
export async function listenerFigures(options: BenchOptions): Promise<BenchResult> {
  const figures: Figure[] = []
  for (const era of ERAS) {
    for (const { count, atMost } of LISTENERS) {
      options.progress(`listeners: ${count} (${era})`)
      const name = `listeners/${era}/${count}`
      const kib = {
        name: `${name}/rss`,
        unit: 'KiB per stream',
        values: [await sizeOf(era, count)],
      }
      const values = await notifyTimes(era, count, options)
      figures.push(
        plainFigure({ name, unit: 'ms until the last was notified', values }, { atMost }),
        plainFigure(kib, { atMost: 40 }),
      )
    }
    figures.push(await joinFigure(era, options))
  }
  return { figures, invalid: [] }
}

/**
 * Memory of an open stream, in the legacy era with its session. In a process of its own, because the weighing
 * also collects compiled code.
 */
async function sizeOf(era: Era, count: number): Promise<number> {
  await using contender = await startGatewayServer()
  const { server, load } = contender
  await load.call('listen', era, FIRST)
  const before = await server.call('memory')
  await load.call('listen', era, count - FIRST)
  const after = await server.call('memory')
  return (after.rssBytes - before.rssBytes) / (count - FIRST) / KIB
}

async function notifyTimes(
  era: Era,
  count: number,
  { profileTo, rounds }: BenchOptions,
): Promise<readonly number[]> {
  await using contender = await startGatewayServer('gateway', profileTo)
  await contender.load.call('listen', era, count)
  const times: number[] = []
  for (let round = 0; round < WARM_UP + rounds; round += 1) {
    const ms = await notify(contender, round % 2 === 0)
    if (round >= WARM_UP) times.push(ms)
  }
  return times
}

async function notify({ server, load }: GatewayServer, isMore: boolean): Promise<number> {
  await load.call('expectChange')
  const at = await server.call('changeTools', isMore)
  return ((await load.call('lastNotifiedAt')) - at) / 1000
}

async function joinFigure(era: Era, { rounds, progress }: BenchOptions): Promise<Figure> {
  progress(`listeners: ${JOINING} agents join (${era})`)
  const values: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    await using contender = await startGatewayServer()
    const { server, load } = contender
    await load.call('listen', era, JOIN_LISTENERS)
    const before = await server.call('toolCount')
    await server.call('joinAgents', JOINING)
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS))
    const after = await server.call('toolCount')
    if (after !== before + JOINING) throw new Error(`${after} tools, but ${before} before`)
    values.push(await load.call('mostNotifications'))
  }
  const name = `listeners/${era}/${JOINING}-joins`
  return plainFigure({ name, unit: 'notifications', values }, { atMost: 2 })
}
