import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult, Measured } from '../measure/figure.ts'
import { compareInTurns, joined } from '../measure/rounds.ts'
import type { Round } from '../measure/rounds.ts'
import { Contender } from '../measure/worker.ts'
import type { TaskLoadApi } from './task-load-process.ts'
import type { TaskServerApi } from './task-server-process.ts'

/** Calls or tasks of one turn. */
const TIMES = 250
const TURNS = 4
/** Until then, the code is compiled. */
const WARM_UP = 20
const WAITING = 10_000
const FOLLOWED = 1000
/** Twice the time between two status lines of a silent task, which the gateway sends as notifications. */
const FOLLOW_MS = 30_000
/** Limit of the CPU time of the gateway for a task and its result, beside a call. */
const CYCLE_BAR = { atMost: 3 }
const WAYS = ['calls', 'tasks'] as const
type Way = (typeof WAYS)[number]

interface Cost {
  readonly cpuUs: number
  /** 0 for calls. */
  readonly polls: number
}

/** Cost of a task beside a call, memory of tasks that wait, and the cost of a client that waits for many. */
export async function taskFigures(options: BenchOptions): Promise<BenchResult> {
  const load = 'src/gateway/task-load-process.ts'
  const command = ['src/gateway/task-server-process.ts']
  await using contender = await Contender.start<TaskServerApi, TaskLoadApi>(
    command,
    load,
    options.profileTo,
  )
  const { server, load: client } = contender
  const measure = async (way: Way): Promise<Cost> => {
    const before = await server.call('cpu')
    const polls = (await client.call(way, TIMES)) / TIMES
    return { cpuUs: ((await server.call('cpu')) - before) / TIMES, polls }
  }
  options.progress('tasks: warm-up')
  for (let turn = 0; turn < WARM_UP; turn += 1) for (const way of WAYS) await measure(way)
  const cycle = await compareInTurns(
    {
      label: 'tasks',
      names: WAYS,
      turns: TURNS,
      sum: (costs) => ({
        cpuUs: mean(costs.map(({ cpuUs }) => cpuUs)),
        polls: mean(costs.map(({ polls }) => polls)),
      }),
      measure,
      control: ({ calls }) => calls.cpuUs,
      figures: (rounds: readonly Round<Way, Cost>[]) => [
        plainFigure(measured('calls', rounds)),
        comparedFigure(measured('tasks', rounds), measured('calls', rounds), CYCLE_BAR),
        plainFigure({
          name: 'tasks/tasks/polls',
          unit: 'polls per task',
          values: rounds.map(({ tasks }) => tasks.polls),
        }),
      ],
    },
    options,
  )
  options.progress(`tasks: ${WAITING} that wait`)
  const before = await server.call('memory')
  await client.call('waitingTasks', WAITING)
  const after = await server.call('memory')
  const mib = (after.rssBytes - before.rssBytes) / 1024 / 1024
  options.progress(`tasks: one client that waits for ${FOLLOWED}`)
  const { share, polls } = await client.call('follow', FOLLOWED, FOLLOW_MS)
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

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function measured(way: Way, rounds: readonly Round<Way, Cost>[]): Measured {
  return {
    name: `tasks/${way}/cpu`,
    unit: way === 'tasks' ? 'µs CPU until the result' : 'µs CPU per call',
    values: rounds.map((round) => round[way].cpuUs),
  }
}
