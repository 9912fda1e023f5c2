import { GatewayError } from '../gateway-error.ts'
import type { AgentCall } from '../runs/agent-call.ts'
import { type AgentUpdate, isFinal } from '../runs/agent-update.ts'
import type { AgentListener, AgentSource } from './agent-source.ts'
import type { Breaker, RunEnd } from './breaker.ts'

export interface GuardedSourceOptions {
  readonly breaker: Breaker
  /** Told how each run ended. */
  readonly onEnd: (end: RunEnd, cause?: unknown) => void
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

  /** @throws GatewayError `UNAVAILABLE` while the agent is left alone */
  async *run(call: AgentCall): AsyncGenerator<AgentUpdate, void, undefined> {
    const waitMs = this.#breaker.enter()
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000)
      throw new GatewayError(
        'UNAVAILABLE',
        `The agent failed several times in a row. Try again in ${seconds} s.`,
      )
    }
    let end: RunEnd = 'unknown'
    let cause: unknown
    try {
      for await (const update of this.#source.run(call)) {
        // The agent answered, even if it says that it will not do it.
        if (isFinal(update)) end = 'worked'
        yield update
      }
      if (end === 'unknown' && !call.signal.aborted) {
        end = 'failed'
        cause = new GatewayError('UNAVAILABLE', `${this.name} ended a run without a result`)
      }
    } catch (error) {
      if (!call.signal.aborted) {
        end = 'failed'
        cause = error
      }
      throw error
    } finally {
      this.#breaker.settle(end)
      this.#onEnd(end, cause)
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
