import type { BenchOptions } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { Worker } from '../bench/worker.ts'
import { numbersFrom } from './checks.ts'
import { plainFigure } from './figure-of.ts'

const CLIENTS = 5000
/** So many have a connection at the same time, before the server hangs up. */
const AT_ONCE = 250
const KIB = 1024

/** What clients weigh that have shaken hands and have nothing to do: no stream, no connection. */
export async function idleFigures(
  server: Worker,
  origin: string,
  { progress }: BenchOptions,
): Promise<readonly Figure[]> {
  const figures: Figure[] = []
  for (const name of ['ours', 'sdk-v1'] as const) {
    progress(`idle: ${CLIENTS} clients of ${name}`)
    const command = ['src/client/idle-process.ts', name, `${origin}/json`]
    await using worker = Worker.start({ command, core: 1 })
    const open = async (count: number): Promise<void> => {
      for (let done = 0; done < count; done += AT_ONCE) {
        await worker.ask({ open: Math.min(AT_ONCE, count - done) })
        await server.ask({ what: 'hang-up' })
      }
    }
    const weigh = async (): Promise<Record<'heapBytes' | 'clients', number>> =>
      numbersFrom(await worker.ask({}), ['heapBytes', 'clients'])
    await open(AT_ONCE) // loads and compiles what the others share
    const before = await weigh()
    await open(CLIENTS)
    const after = await weigh()
    const each = (after.heapBytes - before.heapBytes) / (after.clients - before.clients) / KIB
    const measured = { name: `idle/${name}`, unit: 'KiB heap per client', values: [each] }
    figures.push(plainFigure(measured, name === 'ours' ? { atMost: 12 } : undefined))
  }
  return figures
}
