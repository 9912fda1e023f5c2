import { compareCosts } from '../measure/costs.ts'
import { plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult } from '../measure/figure.ts'
import { joined } from '../measure/rounds.ts'
import { startGatewayServer } from './contender.ts'

/** Calls or tasks of one turn, and before the first round. */
const COUNTS = { times: 250, warmUp: 5000 }
const WAITING = 10_000
const FOLLOWED = 1000
/** Twice the time between two status lines of a silent task of the gateway. */
const FOLLOW_MS = 30_000

/** Cost of a task beside a call, memory of tasks that wait, and the cost of a client that waits for many. */
export async function taskFigures(options: BenchOptions): Promise<BenchResult> {
  await using contender = await startGatewayServer('gateway-tasks', options.profileTo)
  const { server, load } = contender
  const costOf = (way: 'plainCalls' | 'tasks') => ({
    ...COUNTS,
    measure: async (times: number) => {
      const before = await server.call('cpu')
      const wallUs = await load.call(way, times)
      return { times, cpuUs: (await server.call('cpu')) - before, wallUs }
    },
  })
  const cycle = await compareCosts(
    {
      label: 'tasks',
      contenders: { calls: costOf('plainCalls'), tasks: costOf('tasks') },
      control: 'calls',
      turns: 4,
      rows: [
        ['calls', 'cpu'],
        ['tasks', 'cpu', 'calls', { atMost: 2.6 }],
      ],
    },
    options,
  )
  options.progress(`tasks: ${WAITING} that wait`)
  const before = await server.call('memory')
  await load.call('waitingTasks', WAITING)
  const after = await server.call('memory')
  const mib = (after.rssBytes - before.rssBytes) / 1024 / 1024
  options.progress(`tasks: one client that waits for ${FOLLOWED}`)
  const { share, polls } = await load.call('follow', FOLLOWED, FOLLOW_MS)
  const figures = [
    plainFigure(
      { name: 'tasks/waiting/rss', unit: `MiB for ${WAITING}`, values: [mib] },
      { atMost: 100 },
    ),
    plainFigure(
      { name: 'tasks/client/cpu', unit: `% of a core for ${FOLLOWED}`, values: [share] },
      { atMost: 5 },
    ),
    plainFigure({ name: 'tasks/client/polls', unit: 'per second', values: [polls] }),
  ]
  return joined([cycle, { figures, invalid: [] }])
}
