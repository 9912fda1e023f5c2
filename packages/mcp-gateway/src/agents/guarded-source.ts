import { GatewayError } from '../gateway-error.ts'
import type { AgentCall } from '../runs/agent-call.ts'
import { type AgentUpdate, isFinal } from '../runs/agent-update.ts'
import { RunFailure } from '../runs/run-failure.ts'
import type { AgentListener, AgentSource } from './agent-source.ts'
import type { Breaker, RunEnd } from './breaker.ts'

export interface GuardedSourceOptions {
  readonly breaker: Breaker
  /** Told how each run ended. */
  readonly onEnd: (end: RunEnd, cause?: unknown) => void
}

/** A limit of the gateway was reached, which says as much as an error. */
function isTooSlow(reason: unknown): boolean {
  if (!(reason instanceof RunFailure)) return false
  return reason.reason === 'timeout' || reason.reason === 'idle_timeout'
}

/** What the caller has no room for, or names wrongly, says nothing of the agent: one would take it away from all. */
function endOf(error: unknown): RunEnd {
  const isOfCaller =
    error instanceof RunFailure
      ? error.reason === 'invalid_arguments'
      : GatewayError.is(error) && error.code === 'QUOTA'
  return isOfCaller ? 'unknown' : 'failed'
}

/** The source of one agent, which is not called for a while after it failed too often. */
export class GuardedSource implements AgentSource {
  readonly name: string
  readonly isLocal: boolean
  readonly #source: AgentSource
  readonly #breaker: Breaker
  readonly #onEnd: (end: RunEnd, cause?: unknown) => void

  constructor(source: AgentSource, { breaker, onEnd }: GuardedSourceOptions) {
    this.name = source.name
    this.isLocal = source.isLocal ?? false
    this.#source = source
    this.#breaker = breaker
    this.#onEnd = onEnd
  }

  /** @throws RunFailure `unavailable` while the agent is left alone */
  async *run(call: AgentCall): AsyncGenerator<AgentUpdate, void, undefined> {
    const waitMs = this.#breaker.enter()
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000)
      const text = `It failed several times in a row. Try again in ${seconds} s.`
      throw new RunFailure('unavailable', text, { retryAfterMs: waitMs })
    }
    const { signal } = call
    let isSettled = false
    const settle = (end: RunEnd, cause?: unknown): void => {
      if (isSettled) return
      isSettled = true
      signal.removeEventListener('abort', onAbort)
      this.#breaker.settle(end)
      this.#onEnd(end, cause)
    }
    // Not when it stops: an agent that never does would be waited for by all others.
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
      settle(endOf(error), error)
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
