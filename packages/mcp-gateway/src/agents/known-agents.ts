import { canonicalJson, isRecord } from '@x/internal'
import { compareText } from './agent.ts'
import type { Agent, AgentSource } from './agent.ts'

/** An agent that is there. */
export interface KnownAgent {
  /** As its source told it. */
  readonly told: Agent
  readonly source: AgentSource
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why runs say that something is wrong with it. */
  readonly fault?: string | undefined
  /** Why its source could not look at it, when it last tried. */
  readonly unreachable?: string | undefined
}

/** What came of an agent that a source told of. */
export type Found =
  /** `taken`: from a source that is about to leave. */
  | { readonly type: 'added' | 'changed' | 'same' | 'taken' }
  | { readonly type: 'refused'; readonly reason: string }

/** Who is there, and since when nobody has seen them. Bookkeeping only: it starts nothing and tells nobody. */
export class KnownAgents {
  readonly #all = new Map<string, KnownAgent>()
  readonly #leaving = new Set<AgentSource>()

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
    if (known.source !== source && this.#leaving.has(source)) return { type: 'same' }
    if (known.source !== source && this.#leaving.has(known.source)) {
      this.#all.set(agent.id, { told: agent, source, seenAt: now })
      return { type: 'taken' }
    }
    if (known.source !== source) {
      const reason = `${known.source.name} has an agent with the id "${agent.id}" already`
      return { type: 'refused', reason }
    }
    const isSame = areEqual(known.told, agent)
    // What was compiled for the agent as it was told first stays of use.
    const told = isSame ? known.told : agent
    const isBack = this.#put({ ...known, told, seenAt: now, unreachable: undefined })
    return { type: isSame && !isBack ? 'same' : 'changed' }
  }

  /** @returns whether it looks otherwise than before */
  seen(source: AgentSource, id: string, now: number): boolean {
    const known = this.#of(source, id)
    return known !== undefined && this.#put({ ...known, seenAt: now, unreachable: undefined })
  }

  /** @returns whether it looks otherwise than before */
  unreachable(source: AgentSource, id: string, reason: string): boolean {
    const known = this.#of(source, id)
    return known !== undefined && this.#put({ ...known, unreachable: reason })
  }

  /** @returns whether it was there. What another source calls the same is left alone. */
  gone(source: AgentSource, id: string): boolean {
    return this.#of(source, id) !== undefined && this.#all.delete(id)
  }

  /** @returns whether that is news */
  fault(id: string, fault: string | undefined): boolean {
    const known = this.#all.get(id)
    return known !== undefined && this.#put({ ...known, fault })
  }

  /** Those that have not been seen since then leave. Returns their ids. */
  expire(since: number): readonly string[] {
    return this.#remove(({ source, seenAt }) => source.isLocal !== true && seenAt <= since)
  }

  /** Another source may have its agents from now on: each one when it finds it. */
  release(source: AgentSource): void {
    this.#leaving.add(source)
  }

  /** It stays after all. */
  keep(source: AgentSource): void {
    this.#leaving.delete(source)
  }

  removeAllOf(source: AgentSource): readonly string[] {
    this.#leaving.delete(source)
    return this.#remove((known) => known.source === source)
  }

  /** @returns whether its health looks otherwise than before */
  #put(known: KnownAgent): boolean {
    const before = this.#all.get(known.told.id)
    this.#all.set(known.told.id, known)
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

/** What cannot be written down (a schema that leads back to itself) counts as changed: the plan judges it. */
function areEqual(one: Agent, other: Agent): boolean {
  try {
    return one === other || canonicalJson(one) === canonicalJson(other)
  } catch {
    return false
  }
}

/** What is wrong with it, if anything is. */
export function troubleOf({ fault, unreachable }: KnownAgent): string | undefined {
  return fault ?? unreachable
}

/** The agent as everybody is to see it. */
export function asSeen(known: KnownAgent): Agent {
  const { told } = known
  const isWell = troubleOf(known) === undefined
  return isWell || told.health === 'degraded' ? told : { ...told, health: 'degraded' }
}

const MAX_ID = 512
const MAX_NAME = 256
const MAX_TEXT = 65_536
const MAX_SKILLS = 1000

/**
 * Why something is no agent; `undefined` if it is one. Sources repeat what others told them: what is wrong with
 * one agent is found here, before it can spoil the plan of all.
 */
export function agentDefectOf(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is no object'
  const { id, name, description, skills, health } = value
  if (!isText(id, MAX_ID) || id === '') return `its id is no text of 1 to ${MAX_ID} characters`
  if (!isText(name, MAX_NAME)) return `its name is no text of up to ${MAX_NAME} characters`
  if (!isText(description, MAX_TEXT)) return 'its description is no text, or too long'
  if (health !== 'healthy' && health !== 'degraded') {
    return 'its health is neither "healthy" nor "degraded"'
  }
  if (!Array.isArray(skills) || skills.length > MAX_SKILLS) {
    return `its skills are no list of up to ${MAX_SKILLS}`
  }
  const ids = new Set<unknown>()
  for (const [index, skill] of skills.entries()) {
    const defect = skillDefectOf(skill)
    if (defect !== undefined) return `its skill ${index + 1} is none: ${defect}`
    const skillId: unknown = isRecord(skill) ? skill['id'] : undefined
    if (ids.has(skillId)) return `two of its skills have the same id`
    ids.add(skillId)
  }
  return undefined
}

function skillDefectOf(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is no object'
  const { id, name, description } = value
  if (!isText(id, MAX_ID) || id === '') return `its id is no text of 1 to ${MAX_ID} characters`
  if (!isText(name, MAX_NAME)) return `its name is no text of up to ${MAX_NAME} characters`
  if (!isText(description, MAX_TEXT)) return 'its description is no text, or too long'
  const lists = ['tags', 'examples', 'inputModes', 'outputModes']
  const bad = lists.find((list) => value[list] !== undefined && !isTextList(value[list]))
  return bad === undefined ? undefined : `its ${bad} are no list of texts`
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => isText(each, MAX_TEXT))
}

/** Half characters are no text: they have no UTF-8, in which all of this is written down. */
function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength && !/\p{Surrogate}/u.test(value)
}
