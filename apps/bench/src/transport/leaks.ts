import { barText, isMet } from '../bench/figure.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { Worker } from '../bench/worker.ts'
import { keptFrom } from './measurement.ts'
import type { Kept } from './measurement.ts'

const CALLS = 100_000
const MIB = 1024 * 1024

/** What is left of our transport's calls: memory, and listeners on sockets and on the process. */
export async function leakFigures(origin: string): Promise<readonly Figure[]> {
  const command = ['src/transport/contender-process.ts', 'ours', 'json', origin]
  await using worker = Worker.start({ command, core: 1 })
  await worker.ask({ times: CALLS / 10 })
  const before = keptFrom(await worker.ask({}))
  await worker.ask({ times: CALLS })
  const after = keptFrom(await worker.ask({}))
  const growth = (of: (kept: Kept) => number): number => of(after) - of(before)
  return [
    figureOf('heap/ours', 'MiB more', {
      value: growth((m) => m.heapBytes) / MIB,
      bar: { atMost: 1 },
    }),
    figureOf('listeners/ours', 'more', { value: growth((m) => m.listeners), bar: { atMost: 0 } }),
  ]
}

function figureOf(name: string, unit: string, { value, bar }: { value: number; bar: Bar }): Figure {
  const measured = { name, unit: `${unit} after ${CALLS} calls`, value, min: value, max: value }
  return { ...measured, bar: barText(bar), isMet: isMet(bar, value) }
}
