import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { UserError } from '../user-error.ts'
import { callFigures } from './calls.ts'
import { cancelFigures } from './cancel.ts'
import { listenerFigures } from './listeners.ts'
import { overheadFigures } from './overhead/overhead.ts'
import { sessionFigures } from './sessions.ts'
import { startFigures } from './start/start.ts'

const PARTS: ReadonlyMap<string, (options: BenchOptions) => Promise<BenchResult>> = new Map([
  ['modern', (options: BenchOptions) => callFigures('modern', options)],
  ['legacy', (options: BenchOptions) => callFigures('legacy', options)],
  ['sessions', sessionFigures],
  ['listeners', listenerFigures],
  ['cancel', cancelFigures],
  ['overhead', overheadFigures],
  ['start', startFigures],
])

/** The gateway beside servers of the SDKs, FastMCP and Mastra: calls, sessions, changes of lists, cancelling. */
export async function benchGateway(options: BenchOptions): Promise<BenchResult> {
  const { only } = options
  const chosen = [...PARTS].filter(([name]) => (only ?? name) === name)
  if (chosen.length === 0) {
    throw new UserError(
      `There is no part "${only}" of gateway: there is ${[...PARTS.keys()].join(', ')}`,
    )
  }
  const results: BenchResult[] = []
  for (const [, measure] of chosen) results.push(await measure(options))
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}
