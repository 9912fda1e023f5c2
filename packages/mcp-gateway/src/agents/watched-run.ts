import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import { isFinal, RunFailure } from './agent.ts'
import type { AgentCall, AgentSource, AgentUpdate } from './agent.ts'

/** Whether a run shows that its agent works. `unknown`: the caller cancelled, or made an error. */
export type RunEnd = 'worked' | 'failed' | 'unknown'

/**
 * Runs an agent.
 *
 * @param onEnd called once, with what the run shows
 * @throws what the source throws
 */
export async function* watchedRun(
  source: AgentSource,
  call: AgentCall,
  onEnd: (end: RunEnd) => void,
): AsyncGenerator<AgentUpdate> {
  const { signal } = call
  let end: RunEnd = 'unknown'
  try {
    for await (const update of source.run(call)) {
      // An agent that refuses the task works, too.
      if (isFinal(update)) end = 'worked'
      yield update
    }
    if (end !== 'worked') end = 'failed'
  } catch (error) {
    end = isCallerError(error) ? 'unknown' : 'failed'
    throw error
  } finally {
    onEnd(signal.aborted ? endOfAborted(signal.reason) : end)
  }
}

/** A time limit of the gateway counts like an error of the agent. All other aborts come from callers. */
function endOfAborted(reason: unknown): RunEnd {
  if (!(reason instanceof RunFailure)) return 'unknown'
  return reason.reason === 'timeout' ? 'failed' : 'unknown'
}

/** Statuses with which a remote agent refuses a request of the caller (RFC 9110, section 15.5; RFC 4918, section 11.2). */
const CALLER_STATUSES: ReadonlySet<unknown> = new Set([400, 413, 422])

/** Caller errors (arguments, quota, a request that a remote agent refuses) say nothing about the agent. */
function isCallerError(error: unknown): boolean {
  if (error instanceof RunFailure) return error.reason === 'invalid_arguments'
  if (GatewayError.is(error)) return error.code === 'QUOTA' || error.code === 'LIMIT'
  return isRecord(error) && CALLER_STATUSES.has(error['status'])
}
