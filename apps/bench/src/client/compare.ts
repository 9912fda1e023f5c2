import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { movement } from '../bench/statistics.ts'
import { Worker } from '../bench/worker.ts'
import { numbersFrom } from './checks.ts'
import { CONTENDERS } from './contenders.ts'
import type { ContenderName } from './contenders.ts'
import { comparedFigure, plainFigure } from './figure-of.ts'
import type { Measured } from './figure-of.ts'
import type { Answer } from './protocol.ts'

/** How many calls are in flight at any time. */
const CONCURRENCIES = [1, 16, 256] as const

/** Where the bars are: enough in flight that nobody waits for the wire, and few enough to be real. */
const MEASURED_AT = 16

/** Calls in one repeat, about as long for everybody; and before anything is measured. */
const TIMES: Readonly<Record<ContenderName, { readonly times: number; readonly warmUp: number }>> =
  {
    control: { times: 5000, warmUp: 30_000 },
    ours: { times: 5000, warmUp: 30_000 },
    'sdk-v1': { times: 1500, warmUp: 8000 },
    'sdk-v2': { times: 1500, warmUp: 8000 },
    'langchain-mcp-adapters': { times: 1500, warmUp: 8000 },
    'session-per-call': { times: 512, warmUp: 1500 },
  }

/** For our calls per second, as a multiple of theirs. */
const RATE_BARS: Readonly<Partial<Record<ContenderName, Bar>>> = {
  'sdk-v1': { atLeast: 4 },
  'sdk-v2': { atLeast: 4 },
  'session-per-call': { atLeast: 15 },
}

/** For our CPU time per call, as a multiple of the control's. */
const CPU_BAR: Bar = { atMost: 1.4 }

/** How far the control may move before the machine was too busy to measure anything. */
const CONTROL_MOVES = 0.25

interface Samples {
  readonly perSecond: number[]
  readonly cpuUs: number[]
}

/** Measures everybody with one kind of answers, at each concurrency, in turns: A B C A B C … */
export async function compare(
  answer: Answer,
  origin: string,
  { rounds, profileTo, progress }: BenchOptions,
): Promise<BenchResult> {
  await using workers = new AsyncDisposableStack()
  const taken = CONTENDERS.map((name) => {
    const command = ['src/client/contender-process.ts', name, `${origin}/${answer}`]
    const options = {
      command,
      core: 1,
      profileTo: name === 'ours' ? profileTo : undefined,
    } as const
    return { name, worker: workers.use(Worker.start(options)), ...TIMES[name] }
  })
  progress(`${answer}: warm-up`)
  for (const { worker, warmUp } of taken) await calls(worker, { times: warmUp, atOnce: 16 })
  const results: BenchResult[] = []
  for (const atOnce of CONCURRENCIES) {
    const samples = new Map<ContenderName, Samples>()
    for (const { name, worker, times } of taken) {
      samples.set(name, { perSecond: [], cpuUs: [] })
      await calls(worker, { times: Math.min(times, 1024), atOnce }) // opens the connections
    }
    for (let round = 1; round <= rounds; round += 1) {
      progress(`${answer}, ${atOnce} at once: round ${round} of ${rounds}`)
      for (const { name, worker, times } of taken) {
        const cost = await calls(worker, { times, atOnce })
        samples.get(name)?.perSecond.push((times / cost.wallUs) * 1_000_000)
        samples.get(name)?.cpuUs.push(cost.cpuUs / times)
      }
    }
    results.push(resultFrom(`${answer}-${atOnce}`, samples, atOnce === MEASURED_AT))
  }
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

interface Calls {
  readonly times: number
  readonly atOnce: number
}

/** @throws Error where a call failed: then there is nothing to compare. */
async function calls(
  worker: Worker,
  task: Calls,
): Promise<{ readonly cpuUs: number; readonly wallUs: number }> {
  const told = numbersFrom(await worker.ask(task), ['cpuUs', 'wallUs', 'failed'])
  if (told.failed > 0) throw new Error(`${told.failed} of ${task.times} calls failed`)
  return told
}

function resultFrom(
  workload: string,
  samples: ReadonlyMap<ContenderName, Samples>,
  hasBars: boolean,
): BenchResult {
  const rate = (name: ContenderName): Measured => ({
    name: `${workload}/${name}/rate`,
    unit: 'calls per second',
    values: samples.get(name)?.perSecond ?? [],
  })
  const cpu = (name: ContenderName): Measured => ({
    name: `${workload}/${name}/cpu`,
    unit: 'µs CPU per call',
    values: samples.get(name)?.cpuUs ?? [],
  })
  const figures: Figure[] = []
  for (const name of CONTENDERS) {
    const isOurs = name === 'ours'
    if (!isOurs) figures.push(plainFigure(rate(name)))
    const bar = isOurs && hasBars ? CPU_BAR : undefined
    figures.push(
      name === 'control' ? plainFigure(cpu(name)) : comparedFigure(cpu(name), cpu('control'), bar),
    )
  }
  for (const name of CONTENDERS.filter((other) => other !== 'ours')) {
    const bar = hasBars ? RATE_BARS[name] : undefined
    figures.push(comparedFigure(rate('ours'), rate(name), bar))
  }
  const moved = movement(cpu('control').values)
  const invalid = `${workload}/control moved by ${Math.round(moved * 100)} %`
  return { figures, invalid: moved > CONTROL_MOVES ? [invalid] : [] }
}
