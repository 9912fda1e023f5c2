import { canonicalJson, isRecord } from '@x/internal'
import { compareText } from './agent.ts'
import type { Agent, AgentSource } from './agent.ts'

/** An agent of a source, and when it was last seen. */
export interface KnownAgent {
  /** As the source reported it. */
  readonly reported: Agent
  readonly source: AgentSource
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why its last runs failed. */
  readonly fault?: string | undefined
  /** Why the source could not reach the agent at the last attempt. */
  readonly unreachable?: string | undefined
}

/** Result of a report of an agent. */
export type Found =
  /** `taken`: the agent moved here from a source that leaves. */
  | { readonly type: 'added' | 'changed' | 'same' | 'taken' }
  | { readonly type: 'refused'; readonly reason: string }

/** The agents of all sources. Changes no source, and calls no listener. */
export class KnownAgents {
  readonly #all = new Map<string, KnownAgent>()
  readonly #leaving = new Set<AgentSource>()

  get size(): number {
    return this.#all.size
  }

  /** Sorted by id. */
  entries(): readonly KnownAgent[] {
    return [...this.#all.values()].toSorted((a, b) => compareText(a.reported.id, b.reported.id))
  }

  get(id: string): KnownAgent | undefined {
    return this.#all.get(id)
  }

  found(source: AgentSource, agent: Agent, now: number): Found {
    const defect = agentDefectOf(agent)
    if (defect !== undefined) return { type: 'refused', reason: `an agent was refused: ${defect}` }
    const known = this.#all.get(agent.id)
    if (known === undefined) {
      this.#all.set(agent.id, { reported: agent, source, seenAt: now })
      return { type: 'added' }
    }
    if (known.source !== source && this.#leaving.has(source)) return { type: 'same' }
    if (known.source !== source && this.#leaving.has(known.source)) {
      this.#all.set(agent.id, { reported: agent, source, seenAt: now })
      return { type: 'taken' }
    }
    if (known.source !== source) {
      const reason = `${known.source.name} has an agent with the id "${agent.id}" already`
      return { type: 'refused', reason }
    }
    const isSame = areEqual(known.reported, agent)
    // The same object again, so that its compiled schemas are found again.
    const reported = isSame ? known.reported : agent
    const isBack = this.#put({ ...known, reported, seenAt: now, unreachable: undefined })
    return { type: isSame && !isBack ? 'same' : 'changed' }
  }

  /** @returns whether the health of the agent changed */
  seen(source: AgentSource, id: string, now: number): boolean {
    const known = this.#of(source, id)
    return known !== undefined && this.#put({ ...known, seenAt: now, unreachable: undefined })
  }

  /** @returns whether the health of the agent changed */
  unreachable(source: AgentSource, id: string, reason: string): boolean {
    const known = this.#of(source, id)
    return known !== undefined && this.#put({ ...known, unreachable: reason })
  }

  /** Removes an agent of this source only. @returns whether there was one */
  gone(source: AgentSource, id: string): boolean {
    return this.#of(source, id) !== undefined && this.#all.delete(id)
  }

  /** Sets why the runs of an agent fail. @returns whether the health of the agent changed */
  fault(id: string, fault: string | undefined): boolean {
    const known = this.#all.get(id)
    return known !== undefined && this.#put({ ...known, fault })
  }

  /** Removes agents of other processes that were not seen after this time. Returns their ids. */
  expire(since: number): readonly string[] {
    return this.#remove(({ source, seenAt }) => source.isLocal !== true && seenAt <= since)
  }

  /** Lets other sources take the agents of this source, each one when they report it. */
  release(source: AgentSource): void {
    this.#leaving.add(source)
  }

  /** Undoes `release`. */
  keep(source: AgentSource): void {
    this.#leaving.delete(source)
  }

  removeAllOf(source: AgentSource): readonly string[] {
    this.#leaving.delete(source)
    return this.#remove((known) => known.source === source)
  }

  /** @returns whether the health of the agent changed */
  #put(known: KnownAgent): boolean {
    const before = this.#all.get(known.reported.id)
    this.#all.set(known.reported.id, known)
    return (before && troubleOf(before) === undefined) !== (troubleOf(known) === undefined)
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

/** Compares two reports of an agent. `false` for values that are not JSON, such as a schema that contains itself. */
function areEqual(one: Agent, other: Agent): boolean {
  try {
    return one === other || canonicalJson(one) === canonicalJson(other)
  } catch {
    return false
  }
}

/** Returns why an agent is degraded. `undefined` if it is healthy. */
export function troubleOf({ fault, unreachable }: KnownAgent): string | undefined {
  return fault ?? unreachable
}

/** Returns the agent with its present health. */
export function asSeen(known: KnownAgent): Agent {
  const { reported } = known
  const isWell = troubleOf(known) === undefined
  return isWell || reported.health === 'degraded' ? reported : { ...reported, health: 'degraded' }
}

const MAX_ID = 512
const MAX_NAME = 256
const MAX_TEXT = 65_536
const MAX_SKILLS = 1000

/**
 * Returns why a value is not an agent, or `undefined` if it is one. Sources report what remote servers sent, so a bad
 * agent is refused here, before it is part of the plan.
 */
export function agentDefectOf(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is not an object'
  const { id, name, description, skills, health } = value
  if (!isText(id, MAX_ID) || id === '') return `its id is not a text of 1 to ${MAX_ID} characters`
  if (!isText(name, MAX_NAME)) return `its name is not a text of up to ${MAX_NAME} characters`
  if (!isText(description, MAX_TEXT))
    return `its description is not a text of up to ${MAX_TEXT} characters`
  if (health !== 'healthy' && health !== 'degraded') {
    return 'its health is neither "healthy" nor "degraded"'
  }
  if (!Array.isArray(skills) || skills.length > MAX_SKILLS) {
    return `its skills are not a list of up to ${MAX_SKILLS}`
  }
  const ids = new Set<unknown>()
  for (const [index, skill] of skills.entries()) {
    const defect = skillDefectOf(skill)
    if (defect !== undefined) return `its skill ${index + 1} cannot be used: ${defect}`
    const skillId: unknown = isRecord(skill) ? skill['id'] : undefined
    if (ids.has(skillId)) return `two of its skills have the same id`
    ids.add(skillId)
  }
  return undefined
}

function skillDefectOf(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is not an object'
  const { id, name, description } = value
  if (!isText(id, MAX_ID) || id === '') return `its id is not a text of 1 to ${MAX_ID} characters`
  if (!isText(name, MAX_NAME)) return `its name is not a text of up to ${MAX_NAME} characters`
  if (!isText(description, MAX_TEXT))
    return `its description is not a text of up to ${MAX_TEXT} characters`
  const lists = ['tags', 'examples', 'inputModes', 'outputModes']
  const bad = lists.find((list) => value[list] !== undefined && !isTextList(value[list]))
  return bad === undefined ? undefined : `its ${bad} are not a list of texts`
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => isText(each, MAX_TEXT))
}

/** Refuses unpaired surrogates, because UTF-8 cannot encode them. */
function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength && !/\p{Surrogate}/u.test(value)
}
