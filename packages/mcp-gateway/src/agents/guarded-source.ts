import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import type { AgentCall } from './agent-call.ts'
import { type AgentUpdate, isFinal } from './agent-update.ts'
import { RunFailure } from './run-failure.ts'
import type { AgentListener, AgentSource } from './agent-source.ts'
import type { Breaker, RunEnd } from './breaker.ts'

export interface GuardedSourceOptions {
  readonly breaker: Breaker
  /** Who calls: failures are counted for each caller apart. */
  readonly caller: string
  /** Told how each run ended. */
  readonly onEnd: (end: RunEnd, cause?: unknown) => void
}

/** A limit of the gateway was reached, which says as much as an error. */
function isTooSlow(reason: unknown): boolean {
  if (!(reason instanceof RunFailure)) return false
  return reason.reason === 'timeout' || reason.reason === 'idle_timeout'
}

/** How a remote agent answers a request that it does not understand (RFC 9110, section 15.5; RFC 4918, section 11.2). */
const CALLER_STATUSES: ReadonlySet<unknown> = new Set([400, 413, 422])

/** Caller errors (arguments, quota, a request that a remote agent refuses) must not trip the breaker. */
function isCallerError(error: unknown): boolean {
  if (error instanceof RunFailure) return error.reason === 'invalid_arguments'
  if (GatewayError.is(error)) return error.code === 'QUOTA' || error.code === 'LIMIT'
  return isRecord(error) && CALLER_STATUSES.has(error['status'])
}

/** Runs one agent for one caller. Refuses runs for a while after too many failures. */
export class GuardedSource implements AgentSource {
  readonly name: string
  readonly isLocal: boolean
  readonly #source: AgentSource
  readonly #breaker: Breaker
  readonly #caller: string
  readonly #onEnd: (end: RunEnd, cause?: unknown) => void

  constructor(source: AgentSource, { breaker, caller, onEnd }: GuardedSourceOptions) {
    this.name = source.name
    this.isLocal = source.isLocal ?? false
    this.#source = source
    this.#breaker = breaker
    this.#caller = caller
    this.#onEnd = onEnd
  }

  /** @throws RunFailure `unavailable` while the breaker is open */
  async *run(call: AgentCall): AsyncGenerator<AgentUpdate, void, undefined> {
    const waitMs = this.#breaker.enter(this.#caller)
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000)
      const text = `Its last runs failed. Try again in ${seconds} s.`
      throw new RunFailure('unavailable', text, { retryAfterMs: waitMs })
    }
    const { signal } = call
    let isSettled = false
    const settle = (end: RunEnd, cause?: unknown): void => {
      if (isSettled) return
      isSettled = true
      signal.removeEventListener('abort', onAbort)
      this.#breaker.settle(this.#caller, end)
      this.#onEnd(end, cause)
    }
    // At the abort, not at the end of the run: an agent that never stops would keep the probe open.
    const onAbort = (): void =>
      settle(isTooSlow(signal.reason) ? 'failed' : 'unknown', signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort)
    try {
      for await (const update of this.#source.run(call)) {
        // The agent answered, even if it says that it will not do it.
        if (isFinal(update)) settle('worked')
        yield update
      }
      settle('failed', new GatewayError('UNAVAILABLE', `${this.name} ended a run without a result`))
    } catch (error) {
      settle(isCallerError(error) ? 'unknown' : 'failed', error)
      throw error
    } finally {
      settle('unknown')
    }
  }

  async forget(agentId: string, state: unknown): Promise<void> {
    await this.#source.forget?.(agentId, state)
  }

  async forgetThread(agentId: string, thread: string): Promise<void> {
    await this.#source.forgetThread?.(agentId, thread)
  }

  start(listener: AgentListener): Promise<void> {
    return this.#source.start(listener)
  }

  close(): Promise<void> {
    return this.#source.close()
  }
}
