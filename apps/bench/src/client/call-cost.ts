import type { Worker } from '../bench/worker.ts'
import { numbersFrom } from './checks.ts'

/** What one call cost. */
export interface CallCost {
  readonly cpuUs: number
  readonly wallUs: number
}

export interface Calls {
  readonly times: number
  /** How many are in flight at any time. */
  readonly atOnce: number
}

/**
 * Has a worker make calls, one that answers with `answerCalls`.
 *
 * @throws Error where one failed: then there is nothing to compare.
 */
export async function costOfCalls(worker: Worker, calls: Calls): Promise<CallCost> {
  const told = numbersFrom(await worker.ask(calls), ['cpuUs', 'wallUs', 'failed'])
  if (told.failed > 0) throw new Error(`${told.failed} of ${calls.times} calls failed`)
  return { cpuUs: told.cpuUs / calls.times, wallUs: told.wallUs / calls.times }
}
