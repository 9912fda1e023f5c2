import type { Clock } from '../clock.ts'
import type { AgentSource } from './agent-source.ts'
import { Breaker } from './breaker.ts'
import { GuardedSource } from './guarded-source.ts'

export interface GuardedAgentsOptions {
  readonly clock: Clock
  /** One of its runs ended well. */
  readonly onWorked: (agentId: string) => void
  /** It failed so often that it is left alone for a while. */
  readonly onLeftAlone: (agentId: string) => void
}

/** How the runs of each agent went, and with it whether another may begin. */
export class GuardedAgents {
  readonly #options: GuardedAgentsOptions
  readonly #all = new Map<string, GuardedSource>()

  constructor(options: GuardedAgentsOptions) {
    this.#options = options
  }

  /** What runs it: one and the same until the agent is forgotten. */
  sourceOf(agentId: string, source: AgentSource): GuardedSource {
    const known = this.#all.get(agentId)
    if (known !== undefined) return known
    const guarded = this.#guard(agentId, source)
    this.#all.set(agentId, guarded)
    return guarded
  }

  /** It left. Its runs go on with the source they have, and count no more. */
  forget(agentId: string): void {
    this.#all.delete(agentId)
  }

  #guard(agentId: string, source: AgentSource): GuardedSource {
    const { clock, onLeftAlone, onWorked } = this.#options
    const breaker = new Breaker({ clock })
    const guarded: GuardedSource = new GuardedSource(source, {
      breaker,
      onEnd: (end) => {
        // A run may outlive its agent, and another may have its id by then.
        if (this.#all.get(agentId) !== guarded) return
        if (end === 'worked') onWorked(agentId)
        if (end === 'failed' && !breaker.isClosed) onLeftAlone(agentId)
      },
    })
    return guarded
  }
}
