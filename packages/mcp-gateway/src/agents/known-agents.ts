import { canonicalJson } from '../tools/canonical-json.ts'
import { compareText } from '../tools/name-plan.ts'
import type { Agent } from './agent.ts'
import { agentDefectOf } from './agent-defect.ts'
import type { AgentSource } from './agent-source.ts'

/** An agent that is there. */
export interface KnownAgent {
  /** As its source told it. */
  readonly told: Agent
  readonly source: AgentSource
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why runs say that something is wrong with it. */
  readonly fault?: string | undefined
}

/** What came of an agent that a source told of. */
export type Found =
  | { readonly type: 'added' | 'changed' | 'same' }
  | { readonly type: 'refused'; readonly reason: string }

/** Who is there, and since when nobody has seen them. Bookkeeping only: it starts nothing and tells nobody. */
export class KnownAgents {
  readonly #all = new Map<string, KnownAgent>()

  get size(): number {
    return this.#all.size
  }

  /** Sorted by id. */
  entries(): readonly KnownAgent[] {
    return [...this.#all.values()].toSorted((a, b) => compareText(a.told.id, b.told.id))
  }

  get(id: string): KnownAgent | undefined {
    return this.#all.get(id)
  }

  found(source: AgentSource, agent: Agent, now: number): Found {
    const defect = agentDefectOf(agent)
    if (defect !== undefined) return { type: 'refused', reason: `an agent was refused: ${defect}` }
    const known = this.#all.get(agent.id)
    if (known === undefined) {
      this.#all.set(agent.id, { told: agent, source, seenAt: now })
      return { type: 'added' }
    }
    if (known.source !== source) {
      const reason = `${known.source.name} has an agent with the id "${agent.id}" already`
      return { type: 'refused', reason }
    }
    const isSame = areEqual(known.told, agent)
    // What was compiled for the agent as it was told first stays of use.
    this.#all.set(agent.id, { ...known, told: isSame ? known.told : agent, seenAt: now })
    return { type: isSame ? 'same' : 'changed' }
  }

  seen(source: AgentSource, id: string, now: number): void {
    const known = this.#of(source, id)
    if (known !== undefined) this.#all.set(id, { ...known, seenAt: now })
  }

  /** @returns whether it was there. What another source calls the same is left alone. */
  gone(source: AgentSource, id: string): boolean {
    return this.#of(source, id) !== undefined && this.#all.delete(id)
  }

  /** @returns whether that is news */
  fault(id: string, fault: string | undefined): boolean {
    const known = this.#all.get(id)
    if (known === undefined || known.fault === fault) return false
    this.#all.set(id, { ...known, fault })
    return (known.fault === undefined) !== (fault === undefined)
  }

  /** Those that have not been seen since then leave. Returns their ids. */
  expire(since: number): readonly string[] {
    return this.#remove(({ source, seenAt }) => source.isLocal !== true && seenAt <= since)
  }

  removeAllOf(source: AgentSource): readonly string[] {
    return this.#remove((known) => known.source === source)
  }

  #of(source: AgentSource, id: string): KnownAgent | undefined {
    const known = this.#all.get(id)
    return known?.source === source ? known : undefined
  }

  #remove(leaves: (known: KnownAgent) => boolean): readonly string[] {
    const ids = [...this.#all].filter(([, known]) => leaves(known)).map(([id]) => id)
    for (const id of ids) this.#all.delete(id)
    return ids
  }
}

/** What cannot be written down (a schema that leads back to itself) counts as changed: the plan judges it. */
function areEqual(one: Agent, other: Agent): boolean {
  try {
    return one === other || canonicalJson(one) === canonicalJson(other)
  } catch {
    return false
  }
}

/** The agent as everybody is to see it. */
export function asSeen({ told, fault }: KnownAgent): Agent {
  return fault === undefined || told.health === 'degraded' ? told : { ...told, health: 'degraded' }
}
