import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { Worker } from '../bench/worker.ts'
import { isObject, numbersFrom } from '../client/checks.ts'
import { comparedFigure, plainFigure } from '../client/figure-of.ts'
import type { Measured } from '../client/figure-of.ts'

const SERVERS = 50
/** The slowest takes that long to open a session, in milliseconds; the others anything from nothing on. */
const SLOWEST_MS = 300
/** Before anything is measured: the first ones load and compile code. */
const WARM_UP = 3

/** Finding the tools of many servers at once, beside finding those of the slowest one alone. */
export async function startFigures({
  rounds,
  profileTo,
  progress,
}: BenchOptions): Promise<BenchResult> {
  await using servers = Worker.start({ command: ['src/tools/start-server.ts'], core: 0 })
  await using ours = Worker.start({
    command: ['src/tools/start-process.ts', 'ours'],
    core: 1,
    profileTo,
  })
  await using peer = Worker.start({
    command: ['src/tools/start-process.ts', 'langchain-mcp-adapters'],
    core: 1,
  })
  const times = {
    slowest: [] as number[],
    all: [] as number[],
    cpu: [] as number[],
    peer: [] as number[],
  }
  for (let round = 1 - WARM_UP; round <= rounds; round += 1) {
    progress(round < 1 ? 'start: warm-up' : `start: round ${round} of ${rounds}`)
    const ports = await newServers(servers)
    // Everybody meets servers that sleep until somebody comes.
    const slowest = await startOf(ours, ports.slice(0, 1))
    const all = await startOf(ours, ports)
    if (round < 1) continue
    times.slowest.push(slowest.wallUs / 1000)
    times.all.push(all.wallUs / 1000)
    times.cpu.push(all.cpuUs / 1000)
    times.peer.push((await startOf(peer, ports)).wallUs / 1000)
  }
  const unit = 'ms'
  const slowest: Measured = { name: 'start/the-slowest', unit, values: times.slowest }
  const all: Measured = { name: `start/all-${SERVERS}`, unit, values: times.all }
  const cpu: Measured = { name: `start/all-${SERVERS}/cpu`, unit: 'ms CPU', values: times.cpu }
  const theirs: Measured = {
    name: `start/all-${SERVERS}/langchain-mcp-adapters`,
    unit,
    values: times.peer,
  }
  return {
    figures: [
      plainFigure(slowest),
      comparedFigure(all, slowest, { atMost: 1.5 }),
      plainFigure(cpu),
      comparedFigure(theirs, slowest),
    ],
    invalid: [],
  }
}

async function newServers(worker: Worker): Promise<readonly number[]> {
  const others = Array.from({ length: SERVERS - 1 }, () => Math.random() * SLOWEST_MS)
  const told = await worker.ask({ delays: [SLOWEST_MS, ...others] })
  const ports: unknown = isObject(told) ? told['ports'] : undefined
  if (!Array.isArray(ports) || ports.length !== SERVERS)
    throw new TypeError('There are not all servers')
  return ports.map(Number)
}

async function startOf(
  worker: Worker,
  ports: readonly number[],
): Promise<Readonly<Record<'wallUs' | 'cpuUs', number>>> {
  return numbersFrom(await worker.ask({ ports }), ['wallUs', 'cpuUs'])
}
