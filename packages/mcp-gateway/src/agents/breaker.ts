import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import type { BreakerSettings } from '../options.ts'
import { isFinal, RunFailure } from './agent.ts'
import type { AgentCall, AgentSource, AgentUpdate } from './agent.ts'

/** Whether a run shows that its agent works. `unknown`: the caller cancelled, or made an error. */
export type RunEnd = 'worked' | 'failed' | 'unknown'

interface CircuitOptions {
  readonly clock: Clock
  readonly maxFailures: number
  readonly openMs: number
}

/** Opens after failures in a row. Then it admits one run at a time, and closes when one succeeds. */
class Circuit {
  readonly #options: CircuitOptions
  #failures = 0
  /** Time from which a run may start. `undefined`: closed. `Infinity`: a run was admitted, and its end decides. */
  #openUntilMs: number | undefined

  constructor(options: CircuitOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#openUntilMs === undefined
  }

  /** Milliseconds until a run may start. 0: it may start now. */
  get waitMs(): number {
    const { clock, openMs } = this.#options
    if (this.#openUntilMs === undefined) return 0
    return Math.min(openMs, Math.max(0, this.#openUntilMs - clock.now()))
  }

  /** Notes that a run starts. Call it only while `waitMs` is 0. */
  enter(): void {
    if (this.#openUntilMs !== undefined) this.#openUntilMs = Infinity
  }

  settle(end: RunEnd): void {
    const { clock, maxFailures, openMs } = this.#options
    const isProbing = this.#openUntilMs === Infinity
    if (end === 'worked') {
      this.#failures = 0
      this.#openUntilMs = undefined
    } else if (isProbing) {
      // An admitted run that showed nothing admits the next one.
      this.#openUntilMs = clock.now() + (end === 'failed' ? openMs : 0)
    } else if (end === 'failed' && this.isClosed) {
      // A run that began before the circuit opened does not keep it open.
      this.#failures += 1
      if (this.#failures >= maxFailures) this.#openUntilMs = clock.now() + openMs
    }
  }
}

/** Most callers whose failures are counted for one agent. */
const MAX_CALLERS = 1000

/**
 * Refuses runs of an agent that keeps failing, so that callers do not wait for it. Failures are counted for each caller,
 * so that one caller cannot disable the agent for the others: runs of all callers are refused only after several callers
 * reached the limit and no caller had a success.
 */
export class Breaker {
  readonly #options: CircuitOptions
  readonly #minCallers: number
  /** Circuits of callers whose last run failed. */
  readonly #callers = new Map<string, Circuit>()
  /** Callers that reached the limit since the last success of any caller. */
  readonly #failing = new Set<string>()
  readonly #all: Circuit

  constructor(clock: Clock, { maxFailures, minCallers, openMs }: BreakerSettings) {
    this.#options = { clock, openMs, maxFailures: maxFailures === 0 ? Infinity : maxFailures }
    this.#minCallers = minCallers
    this.#all = new Circuit({ clock, openMs, maxFailures: 1 })
  }

  /** Whether a caller reached the limit, and no caller had a success since. */
  get isFailing(): boolean {
    return this.#failing.size > 0
  }

  /** @returns 0 if the run may start; call `settle` at its end. Else the milliseconds until a run may start */
  enter(caller: string): number {
    const own = this.#callers.get(caller)
    const waitMs = Math.max(this.#all.waitMs, own?.waitMs ?? 0)
    if (waitMs > 0) return waitMs
    this.#all.enter()
    own?.enter()
    return 0
  }

  settle(caller: string, end: RunEnd): void {
    if (end === 'worked') {
      // All callers were refused, so the agent caused their failures, and it works again.
      if (!this.#all.isClosed) this.#callers.clear()
      this.#callers.delete(caller)
      this.#failing.clear()
      this.#all.settle(end)
    } else if (end === 'failed') {
      const own = this.#callers.get(caller) ?? new Circuit(this.#options)
      this.#callers.set(caller, own)
      own.settle(end)
      if (!own.isClosed) this.#failing.add(caller)
      const [oldest = ''] = this.#callers.keys()
      if (this.#callers.size > MAX_CALLERS) {
        this.#callers.delete(oldest)
        this.#failing.delete(oldest)
      }
      if (!this.#all.isClosed || this.#failing.size >= this.#minCallers) this.#all.settle(end)
    } else {
      this.#all.settle(end)
      this.#callers.get(caller)?.settle(end)
    }
  }

  /**
   * Runs the agent for one caller. Refuses runs for a while after too many failures.
   *
   * @param onEnd called once, with what the run shows
   * @throws RunFailure `unavailable` while runs are refused; what the source throws
   */
  async *run(
    source: AgentSource,
    call: AgentCall,
    { caller, onEnd }: { readonly caller: string; readonly onEnd: (end: RunEnd) => void },
  ): AsyncGenerator<AgentUpdate> {
    const { signal } = call
    const waitMs = this.enter(caller)
    if (waitMs > 0) {
      const text = `Its last runs failed. Try again in ${Math.ceil(waitMs / 1000)} s.`
      throw new RunFailure('unavailable', text, { retryAfterMs: waitMs })
    }
    let isSettled = false
    const settle = (end: RunEnd): void => {
      if (isSettled) return
      isSettled = true
      signal.removeEventListener('abort', onAbort)
      this.settle(caller, end)
      onEnd(end)
    }
    // Settled at the abort, because an agent that never stops would block all later runs.
    const onAbort = (): void => settle(isTooSlow(signal.reason) ? 'failed' : 'unknown')
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort)
    try {
      for await (const update of source.run(call)) {
        // An agent that refuses the task works, too.
        if (isFinal(update)) settle('worked')
        yield update
      }
      settle('failed') // the run ended without a result
    } catch (error) {
      settle(isCallerError(error) ? 'unknown' : 'failed')
      throw error
    } finally {
      settle('unknown')
    }
  }
}

/** Whether a time limit of the gateway ended the run. It counts like an error of the agent. */
function isTooSlow(reason: unknown): boolean {
  if (!(reason instanceof RunFailure)) return false
  return reason.reason === 'timeout' || reason.reason === 'idle_timeout'
}

/** Statuses with which a remote agent refuses a request of the caller (RFC 9110, section 15.5; RFC 4918, section 11.2). */
const CALLER_STATUSES: ReadonlySet<unknown> = new Set([400, 413, 422])

/** Caller errors (arguments, quota, a request that a remote agent refuses) must not trip the breaker. */
function isCallerError(error: unknown): boolean {
  if (error instanceof RunFailure) return error.reason === 'invalid_arguments'
  if (GatewayError.is(error)) return error.code === 'QUOTA' || error.code === 'LIMIT'
  return isRecord(error) && CALLER_STATUSES.has(error['status'])
}
