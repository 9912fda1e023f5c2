import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { Worker } from '../bench/worker.ts'
import { compare } from './compare.ts'
import type { Comparison } from './compare.ts'
import { connectionFigures } from './connections.ts'
import { leakFigures } from './leaks.ts'

/** Calls go on getting faster for about so many of them. */
const WARM_CALLS = 40_000

const BARS: Pick<Comparison, 'toBare' | 'stockToOurs'> = {
  toBare: { atMost: 1.3 },
  stockToOurs: { atLeast: 5 },
}

/**
 * Costs beside bare undici, which is the control, and the SDK's own transport. One call at
 * a time, every contender also pays for falling asleep and waking up; with 16 in flight none does.
 */
const COMPARISONS: readonly Comparison[] = [
  { workload: 'json', times: 4000, warmUp: WARM_CALLS, ...BARS },
  { workload: 'json-16', times: 10_000, warmUp: WARM_CALLS, ...BARS },
  { workload: 'sse', times: 4000, warmUp: WARM_CALLS, ...BARS },
  { workload: 'sse-16', times: 10_000, warmUp: WARM_CALLS, ...BARS },
  { workload: 'stream', times: 30, warmUp: 60, stockToOurs: { atLeast: 4 } },
  { workload: 'mib', times: 150, warmUp: 300, toBare: { atMost: 1.3 } },
]

/** What a transport costs and what it leaves behind. */
export async function benchTransport(options: BenchOptions): Promise<BenchResult> {
  await using server = Worker.start({ command: ['src/transport/server.ts'], core: 0 })
  const origin = `http://127.0.0.1:${String(await server.ask({ what: 'port' }))}`
  const results: BenchResult[] = []
  for (const comparison of COMPARISONS) results.push(await compare(comparison, origin, options))
  options.progress('notify: connections')
  results.push({ figures: await connectionFigures(server, origin), invalid: [] })
  options.progress('leaks: 100,000 calls')
  results.push({ figures: await leakFigures(origin), invalid: [] })
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}
