import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { Bar, BenchOptions, BenchResult } from '../measure/figure.ts'
import { compareInTurns } from '../measure/rounds.ts'
import type { Round } from '../measure/rounds.ts'
import { measuredOf, summed } from '../measure/server-cost.ts'
import type { ServerCost } from '../measure/server-cost.ts'
import { startServer } from './contender.ts'
import type { Server, ServerName } from './contender.ts'
import type { Era } from './protocol.ts'

const WARM_UP = 6000
/** Calls in one turn. */
const TIMES = 500

/** The server whose CPU time another one is compared with, and the bar. */
interface ComparedTo {
  readonly to: ServerName
  readonly bar: Bar
}

/** The servers of an era. Mastra has no sessions, and FastMCP has nothing else. */
const SERVERS: Readonly<Record<Era, Readonly<Partial<Record<ServerName, ComparedTo | null>>>>> = {
  modern: {
    control: null,
    'sdk-v2': null,
    gateway: { to: 'sdk-v2', bar: { atMost: 1.15 } },
    'gateway-200': { to: 'gateway', bar: { atMost: 1.1 } },
    mastra: { to: 'gateway', bar: { atLeast: 1 } },
  },
  legacy: {
    control: null,
    'sdk-v2': null,
    gateway: { to: 'sdk-v2', bar: { atMost: 1.2 } },
    'sdk-v2-later': null,
    'gateway-later': { to: 'sdk-v2-later', bar: { atMost: 1.2 } },
    fastmcp: { to: 'gateway', bar: { atLeast: 1 } },
  },
}

/** CPU time of the server for one tool call, beside other servers. */
export async function callFigures(era: Era, options: BenchOptions): Promise<BenchResult> {
  await using stack = new AsyncDisposableStack()
  const names = Object.keys(SERVERS[era]) as ServerName[]
  const servers = new Map<ServerName, Server>()
  const costOf = async (name: ServerName, times: number): Promise<ServerCost> => {
    const { server, load } = servers.get(name) ?? stack.use(await start(name))
    const before = await server.call('cpu')
    const turn = await load.call('calls', era, times)
    return { times, cpuUs: (await server.call('cpu')) - before, ...turn }
  }
  const start = async (name: ServerName): Promise<Server> => {
    const server = await startServer(name, name === 'gateway' ? options.profileTo : undefined)
    servers.set(name, server)
    return server
  }
  for (const name of names) {
    options.progress(`${era}: warm-up of ${name}`)
    await costOf(name, WARM_UP)
  }
  return await compareInTurns(
    {
      label: `${era} calls`,
      names,
      turns: 4,
      sum: summed,
      measure: (name) => costOf(name, TIMES),
      control: (round) => round.control.cpuUs,
      figures: (rounds: readonly Round<ServerName, ServerCost>[]) => {
        const measured = measuredOf(era, rounds)
        const cpu = names.map((name) => {
          const compared = SERVERS[era][name] ?? undefined
          if (compared === undefined) return plainFigure(measured(name, 'cpu'))
          return comparedFigure(measured(name, 'cpu'), measured(compared.to, 'cpu'), compared.bar)
        })
        const others = (['rate', 'p99'] as const).flatMap((kind) =>
          names.map((name) => plainFigure(measured(name, kind))),
        )
        return [...cpu, ...others]
      },
    },
    options,
  )
}
