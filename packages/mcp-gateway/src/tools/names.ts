import { hash } from 'node:crypto'
import { compareText } from '../agents/agent.ts'

/** A skill that needs the name of a tool. */
export interface NameCandidate {
  readonly agentId: string
  readonly agentName: string
  readonly skillId: string
  /** Empty for an agent without skills. */
  readonly skillName: string
  /** Name from the configuration. Wins over the names of other skills. */
  readonly override: string | undefined
}

/** A skill that did not get the name that it would have alone. */
export interface NameCollision {
  readonly wanted: string
  /** `agent/skill`, by their ids. */
  readonly skill: string
  /** Some of those that want the name too: `agent/skill`. */
  readonly others: readonly string[]
  /** Name that the skill got instead. */
  readonly given: string
}

export interface PlannedName<Candidate> {
  readonly candidate: Candidate
  readonly name: string
  /** The name that the skill would have alone. */
  readonly wanted: string
}

export interface NamePlan<Candidate> {
  /** In the order of the candidates. */
  readonly names: readonly PlannedName<Candidate>[]
  readonly collisions: readonly NameCollision[]
}

/**
 * Gives each skill a name of its own. Depends on the ids and names of the skills only, so that all processes that know
 * the same agents agree.
 *
 * If two skills want the same name, neither gets it: each gets digits of its own ids. So an agent that joins can take no
 * tool from a caller with an older list and answer in its place.
 *
 * @param reserved names of tools of the gateway itself, which no skill gets
 */
export function planNames<Candidate extends NameCandidate>(
  candidates: readonly Candidate[],
  reserved: ReadonlySet<string> = new Set(),
): NamePlan<Candidate> {
  const names = candidates.map((candidate) => {
    const wanted = candidate.override ?? bareName(candidate)
    return { candidate, wanted, name: wanted, digits: 0, others: NOBODY }
  })
  const sorted = names.toSorted(({ candidate: a }, { candidate: b }) => {
    return compareText(a.agentId, b.agentId) || compareText(a.skillId, b.skillId)
  })
  const withdrawn = new Set(reserved) // no tool gets one of these
  for (;;) {
    const groups = new Map<string, typeof sorted>()
    for (const one of sorted) groups.set(one.name, [...(groups.get(one.name) ?? []), one])
    const clashes = [...groups].filter(([name, group]) => group.length > 1 || withdrawn.has(name))
    if (clashes.length === 0) break
    for (const [name, group] of clashes) {
      const overrides = group.filter(
        ({ digits, candidate }) => digits === 0 && candidate.override !== undefined,
      )
      const winner = overrides.length === 1 && !withdrawn.has(name) ? overrides[0] : undefined
      if (winner === undefined) withdrawn.add(name)
      const known = group.slice(0, 4).map(({ candidate }) => showIds(candidate))
      if (reserved.has(name)) known.push('the gateway')
      for (const one of group) {
        if (one === winner) continue
        const { candidate, digits } = one
        if (digits === 0) one.others = known.filter((other) => other !== showIds(candidate))
        // The first digits of two skills may be equal too.
        one.digits = Math.max(MIN_DIGITS, digits + 1)
        one.name = suffixedName(candidate, one.digits)
      }
    }
  }
  const collisions = sorted
    .filter(({ digits }) => digits > 0)
    .map(({ candidate, wanted, others, name: given }) => {
      return { wanted, skill: showIds(candidate), others, given }
    })
  return { names, collisions }
}

/** Collisions that a warning shows. */
const MAX_SHOWN = 3

/** Returns a warning for people: which tools have other names than they would have alone, and what to set. */
export function collisionText(collisions: readonly NameCollision[]): string {
  const shown = collisions.slice(0, MAX_SHOWN).map(({ wanted, skill, others, given }) => {
    return `${skill} is called ${given}, because ${others.join(' and ') || 'another tool'} wants the name ${wanted} too`
  })
  const more = collisions.length - shown.length
  if (more > 0) shown.push(`and ${more} more`)
  const [first] = collisions
  return `Tools with equal names: ${shown.join('; ')}. To choose a name, set "tools.overrides["${first?.skill}"].name"; to leave a tool out, use "tools.exclude"`
}

const NOBODY: readonly string[] = []

function showIds({ agentId, skillId }: NameCandidate): string {
  return skillId === '' ? agentId : `${agentId}/${skillId}`
}

// ---- the name of one skill -----------------------------------------------------------------------------------------

/**
 * Most characters of a name: model providers accept 64, and clients put a prefix of their own, such as
 * `mcp__<server>__`, before a name.
 */
const MAX_NAME = 48
/** The part of the agent is cut to this length before the part of the skill is cut. */
const MIN_AGENT = 8
const MIN_DIGITS = 6

/** Returns the name that a skill has if no other skill wants it: `agent_skill`. */
function bareName(skill: NameCandidate): string {
  const name = joined(toParts(skill))
  // Digits, because two long names may differ only at their ends.
  return name.length <= MAX_NAME ? name : suffixedName(skill)
}

/** Returns as much of the name as fits, and digits of the ids. */
export function suffixedName(skill: NameCandidate, digits: number = MIN_DIGITS): string {
  const suffix = `_${digestOf(JSON.stringify([skill.agentId, skill.skillId])).slice(0, digits)}`
  const room = MAX_NAME - suffix.length
  const parts = toParts(skill)
  const { agent, skill: own } = parts
  const whole = joined(parts)
  const excess = whole.length - room
  if (excess <= 0) return whole + suffix
  const shortAgent = agent.slice(0, Math.max(MIN_AGENT, agent.length - excess))
  const stillOver = excess - (agent.length - shortAgent.length)
  const shortSkill = own.slice(0, Math.max(0, own.length - Math.max(0, stillOver)))
  const name = joined({ agent: shortAgent, skill: shortSkill })
  return name.slice(0, room).replace(/_$/, '') + suffix
}

type NameParts = Readonly<Record<'agent' | 'skill', string>>

/** The part of the skill is empty for an agent without skills. */
function toParts({ agentId, agentName, skillId, skillName }: NameCandidate): NameParts {
  const agent = sanitizePart(agentName) || `agent_${digestOf(agentId).slice(0, 6)}`
  if (skillName === '') return { agent, skill: '' }
  return { agent, skill: sanitizePart(skillName) || `skill_${digestOf(skillId).slice(0, 6)}` }
}

function joined({ agent, skill }: NameParts): string {
  return sanitizeName(`${agent}_${skill}`)
}

/** Turns a text into a name that all clients and model providers accept: `[a-z_][a-z0-9_]*`. */
export function sanitizeName(text: string): string {
  const name = sanitizePart(text)
  if (name === '') return 'unnamed_tool'
  return /^[0-9]/.test(name) ? `tool_${name}` : name
}

/** Like `sanitizeName` for a part of a name, which may become empty. Letters of other scripts are dropped. */
function sanitizePart(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[\s-]/g, '_')
    .replaceAll(/[^a-z0-9_]/g, '')
    .replaceAll(/_+/g, '_')
    .replaceAll(/^_|_$/g, '')
}

/** Returns the hexadecimal digits that make a name unique. */
export function digestOf(text: string): string {
  return hash('sha256', text)
}
