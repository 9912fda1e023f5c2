import type { NameShape } from './name-shape.ts'
import type { NamedSkill } from './skill-name.ts'
import { bareNameOf, suffixedNameOf } from './skill-name.ts'
import type { NameCollision } from './tool-plan.ts'
import { compareText } from '../agents/agent.ts'

/** A skill that is to get a name. */
export interface NameCandidate extends NamedSkill {
  /** As configured: wins over everything. */
  readonly override?: string | undefined
}

/** A name that was announced. It stays with its owner, also while that is away. */
export interface StickyName {
  readonly name: string
  readonly agentId: string
  readonly skillId: string
  /** What it would be called alone: an agent that renames itself is no longer who was announced. */
  readonly wanted: string
}

export interface NamePlan {
  /** In the order of the candidates. */
  readonly names: readonly StickyName[]
  readonly collisions: readonly NameCollision[]
}

export interface NamePlanOptions {
  readonly shape: NameShape
  readonly sticky?: readonly StickyName[] | undefined
  readonly reserved?: readonly string[] | undefined
}

/**
 * Gives each skill a name of its own, whatever the order in which they are told. Pure: processes that know
 * the same agents and the same announced names agree.
 */
export function planNames(
  candidates: readonly NameCandidate[],
  { shape, sticky = [], reserved = [] }: NamePlanOptions,
): NamePlan {
  const given = new Map<NameCandidate, string>()
  const owners = new Map<string, NamedOwner>(reserved.map((name) => [name, GATEWAY]))
  const take = (candidate: NameCandidate, name: string): boolean => {
    if (owners.has(name)) return false
    owners.set(name, candidate)
    given.set(candidate, name)
    return true
  }
  const ordered = candidates.toSorted(byIds)
  const wanted = new Map(ordered.map((each) => [each, bareNameOf(each, shape)]))
  const waiting = (): NameCandidate[] => ordered.filter((each) => !given.has(each))

  for (const each of ordered) if (each.override !== undefined) take(each, each.override)

  const announced = new Map(sticky.map((entry) => [ownerKey(entry), entry]))
  for (const each of waiting()) {
    const entry = announced.get(ownerKey(each))
    if (entry === undefined || entry.wanted !== wanted.get(each)) continue
    if (entry.name.length <= shape.budget) {
      take(each, entry.name)
    }
  }
  for (const entry of sticky) if (!owners.has(entry.name)) owners.set(entry.name, entry)

  for (const each of waiting()) take(each, wanted.get(each) ?? '')
  for (const each of waiting()) {
    // Six digits of two may be the same as well.
    for (let digits = 6; !take(each, suffixedNameOf(each, shape, digits)); digits++);
  }
  return {
    names: candidates.map((each) => ({
      name: given.get(each) ?? '',
      agentId: each.agentId,
      skillId: each.skillId,
      wanted: each.override ?? wanted.get(each) ?? '',
    })),
    collisions: ordered.flatMap((each) => {
      const name = each.override ?? wanted.get(each) ?? ''
      const owner = owners.get(name)
      if (given.get(each) === name || owner === undefined) return []
      return [
        { wanted: name, owner: shown(owner), other: shown(each), given: given.get(each) ?? '' },
      ]
    }),
  }
}

interface NamedOwner {
  readonly agentId: string
  readonly skillId: string
}

const GATEWAY: NamedOwner = { agentId: 'gateway', skillId: '' }

/** Smaller agent ids first, by code units: the same in every locale. */
export function byIds(a: NamedOwner, b: NamedOwner): number {
  return compareText(a.agentId, b.agentId) || compareText(a.skillId, b.skillId)
}

export function ownerKey({ agentId, skillId }: NamedOwner): string {
  return JSON.stringify([agentId, skillId])
}

function shown({ agentId, skillId }: NamedOwner): string {
  return skillId === '' ? agentId : `${agentId}/${skillId}`
}
