import type { Clock } from '../internal/clock.ts'
import type { AgentSource } from './agent-source.ts'
import type { BreakerSettings } from '../options.ts'
import { Breaker } from './breaker.ts'
import { GuardedSource } from './guarded-source.ts'

export interface GuardedAgentsOptions {
  readonly clock: Clock
  /** When runs of an agent are refused. */
  readonly breaker: BreakerSettings
  /** One of its runs ended well. */
  readonly onWorked: (agentId: string) => void
  /** Runs of it keep failing, and none ended well between. */
  readonly onFailing: (agentId: string) => void
}

/** The breakers of all agents. */
export class GuardedAgents {
  readonly #options: GuardedAgentsOptions
  readonly #breakers = new Map<string, Breaker>()

  constructor(options: GuardedAgentsOptions) {
    this.#options = options
  }

  /** What runs the agent for one caller. */
  sourceOf(agentId: string, source: AgentSource, caller: string): GuardedSource {
    const { clock, breaker: options, onFailing, onWorked } = this.#options
    let breaker = this.#breakers.get(agentId)
    if (breaker === undefined) {
      breaker = new Breaker(clock, options)
      this.#breakers.set(agentId, breaker)
    }
    const own = breaker
    return new GuardedSource(source, {
      breaker,
      caller,
      onEnd: (end) => {
        // A run may outlive its agent, and another agent may have the id by then.
        if (this.#breakers.get(agentId) !== own) return
        if (end === 'worked') onWorked(agentId)
        if (end === 'failed' && own.isFailing) onFailing(agentId)
      },
    })
  }

  /** The agent left. Its runs go on with the source they have, and count no more. */
  forget(agentId: string): void {
    this.#breakers.delete(agentId)
  }
}
