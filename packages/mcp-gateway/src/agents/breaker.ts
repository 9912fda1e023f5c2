import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import type { BreakerSettings } from '../options.ts'
import { isFinal, RunFailure } from './agent.ts'
import type { AgentCall, AgentSource, AgentUpdate } from './agent.ts'

/** Whether a run shows that its agent works. `unknown`: the caller cancelled, or made an error. */
export type RunEnd = 'worked' | 'failed' | 'unknown'

type State =
  | { readonly phase: 'closed'; readonly failures: number }
  | { readonly phase: 'open'; readonly untilMs: number }
  /** One run was admitted. Its end decides. */
  | { readonly phase: 'probing' }

interface CircuitOptions {
  readonly clock: Clock
  readonly maxFailures: number
  readonly openMs: number
}

const CLOSED: State = { phase: 'closed', failures: 0 }

/** Opens after failures in a row. Closes when an admitted run succeeds. */
class Circuit {
  readonly #options: CircuitOptions
  #state: State = CLOSED

  constructor(options: CircuitOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#state.phase === 'closed'
  }

  /** Milliseconds until a run may start. 0: it may start now. */
  get waitMs(): number {
    const state = this.#state
    if (state.phase === 'closed') return 0
    if (state.phase === 'probing') return this.#options.openMs
    return Math.max(0, state.untilMs - this.#options.clock.now())
  }

  /** Notes that a run starts. Call it only while `waitMs` is 0. */
  enter(): void {
    if (this.#state.phase === 'open') this.#state = { phase: 'probing' }
  }

  settle(end: RunEnd): void {
    this.#state = this.#after(end)
  }

  #after(end: RunEnd): State {
    const { clock, maxFailures, openMs } = this.#options
    const state = this.#state
    if (end === 'worked') return CLOSED
    // The admitted run showed nothing, so the next run is admitted.
    if (end === 'unknown') {
      return state.phase === 'probing' ? { phase: 'open', untilMs: clock.now() } : state
    }
    // The run began before the circuit opened.
    if (state.phase === 'open') return state
    const failures = state.phase === 'closed' ? state.failures + 1 : maxFailures
    return failures < maxFailures
      ? { phase: 'closed', failures }
      : { phase: 'open', untilMs: clock.now() + openMs }
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
    if (end === 'worked') this.#worked(caller)
    else if (end === 'failed') this.#failed(caller)
    else {
      this.#all.settle(end)
      this.#callers.get(caller)?.settle(end)
    }
  }

  #worked(caller: string): void {
    // All callers were refused, so the agent caused their failures, and it works again.
    if (!this.#all.isClosed) this.#callers.clear()
    this.#callers.delete(caller)
    this.#failing.clear()
    this.#all.settle('worked')
  }

  #failed(caller: string): void {
    const own = this.#circuitOf(caller)
    own.settle('failed')
    if (!own.isClosed) this.#failing.add(caller)
    if (!this.#all.isClosed || this.#failing.size >= this.#minCallers) this.#all.settle('failed')
  }

  #circuitOf(caller: string): Circuit {
    const known = this.#callers.get(caller)
    if (known !== undefined) return known
    const made = new Circuit(this.#options)
    this.#callers.set(caller, made)
    const [oldest] = this.#callers.keys()
    if (this.#callers.size > MAX_CALLERS && oldest !== undefined) {
      this.#callers.delete(oldest)
      this.#failing.delete(oldest)
    }
    return made
  }
}

interface BreakersOptions {
  readonly clock: Clock
  /** Limits at which runs of an agent are refused. */
  readonly breaker: BreakerSettings
  /** Called when a run of the agent succeeded. */
  readonly onWorked: (agentId: string) => void
  /** Called when runs of the agent keep failing. */
  readonly onFailing: (agentId: string) => void
}

/** The breakers of all agents. */
export class Breakers {
  readonly #options: BreakersOptions
  readonly #breakers = new Map<string, Breaker>()

  constructor(options: BreakersOptions) {
    this.#options = options
  }

  /**
   * Runs an agent for one caller. Refuses runs for a while after too many failures.
   *
   * @throws RunFailure `unavailable` while runs are refused; what the source throws
   */
  async *run(source: AgentSource, call: AgentCall, caller: string): AsyncGenerator<AgentUpdate> {
    const { agentId, signal } = call
    const breaker = this.#breakerOf(agentId)
    const waitMs = breaker.enter(caller)
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000)
      const text = `Its last runs failed. Try again in ${seconds} s.`
      throw new RunFailure('unavailable', text, { retryAfterMs: waitMs })
    }
    let isSettled = false
    const settle = (end: RunEnd): void => {
      if (isSettled) return
      isSettled = true
      signal.removeEventListener('abort', onAbort)
      breaker.settle(caller, end)
      // A run may end after its agent left and another agent got the id.
      if (this.#breakers.get(agentId) !== breaker) return
      if (end === 'worked') this.#options.onWorked(agentId)
      if (end === 'failed' && breaker.isFailing) this.#options.onFailing(agentId)
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

  /** The agent left. Its runs in flight go on, and their ends are not counted. */
  forget(agentId: string): void {
    this.#breakers.delete(agentId)
  }

  #breakerOf(agentId: string): Breaker {
    const known = this.#breakers.get(agentId)
    if (known !== undefined) return known
    const { clock, breaker: settings } = this.#options
    const made = new Breaker(clock, settings)
    this.#breakers.set(agentId, made)
    return made
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
