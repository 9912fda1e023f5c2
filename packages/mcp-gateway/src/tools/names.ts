import { createHash } from 'node:crypto'
import { compareText } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import type { NameSettings } from '../options.ts'

/** A skill that needs the name of a tool. */
export interface NameCandidate {
  readonly agentId: string
  readonly agentName: string
  readonly skillId: string
  /** Empty for an agent without skills. */
  readonly skillName: string
  /** Name from the configuration. Wins over the names of other skills. */
  readonly override?: string | undefined
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
 */
export function planNames<Candidate extends NameCandidate>(
  candidates: readonly Candidate[],
  shape: NameShape,
): NamePlan<Candidate> {
  const names = candidates.map((candidate) => {
    const wanted = candidate.override ?? bareName(candidate, shape)
    return { candidate, wanted, name: wanted, digits: 0, others: NOBODY }
  })
  const sorted = names.toSorted(({ candidate: a }, { candidate: b }) => {
    return compareText(a.agentId, b.agentId) || compareText(a.skillId, b.skillId)
  })
  const withdrawn = new Set<string>() // no tool gets one of these
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
      for (const one of group) {
        if (one === winner) continue
        const { candidate, digits } = one
        if (digits === 0) one.others = known.filter((other) => other !== showIds(candidate))
        // The first digits of two skills may be equal too.
        one.digits = Math.max(MIN_DIGITS, digits + 1)
        one.name = suffixedName(candidate, shape, one.digits)
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

const NOBODY: readonly string[] = []

function showIds({ agentId, skillId }: NameCandidate): string {
  return skillId === '' ? agentId : `${agentId}/${skillId}`
}

// ---- the name of one skill -----------------------------------------------------------------------------------------

/** How names of tools are made. */
export interface NameShape {
  readonly pattern: string
  /** Most characters of a name. */
  readonly budget: number
  readonly splitCamelCase: boolean
}

/** A shorter name has no room for a part and its digits. */
const MIN_BUDGET = 16

/** @throws GatewayError `CONFIG` */
export function toNameShape(settings: NameSettings): NameShape {
  const { pattern, maxLength, reserve, splitCamelCase } = settings
  if (!/\{(?:agent|skill)\}/.test(pattern)) {
    throw wrong('pattern', 'it contains neither {agent} nor {skill}, so all names would be equal')
  }
  const unknown = /\{(?!agent\}|skill\})[^}]*\}/.exec(pattern)
  if (unknown !== null) throw wrong('pattern', `${unknown[0]} is neither {agent} nor {skill}`)
  if (maxLength - reserve < MIN_BUDGET) {
    throw wrong('reserve', `it leaves less than ${MIN_BUDGET} characters of maxLength for names`)
  }
  return { pattern, budget: maxLength - reserve, splitCamelCase }
}

function wrong(option: string, why: string): GatewayError {
  const path = `tools.names.${option}`
  return new GatewayError('CONFIG', `${path}: ${why}`, { path })
}

/** The part of the agent is cut to this length before the part of the skill is cut. */
const MIN_AGENT = 8
const MIN_DIGITS = 6

/** Returns the name that a skill has if no other skill wants it. */
function bareName(skill: NameCandidate, shape: NameShape): string {
  const name = fill(shape.pattern, toParts(skill, shape))
  // Digits, because two long names may differ only at their ends.
  return name.length <= shape.budget ? name : suffixedName(skill, shape)
}

/** Returns as much of the name as fits, and digits of the ids. */
export function suffixedName(
  skill: NameCandidate,
  shape: NameShape,
  digits: number = MIN_DIGITS,
): string {
  const suffix = `_${digest(JSON.stringify([skill.agentId, skill.skillId])).slice(0, digits)}`
  const room = shape.budget - suffix.length
  const parts = toParts(skill, shape)
  const { agent, skill: own } = parts
  const whole = fill(shape.pattern, parts)
  const excess = whole.length - room
  if (excess <= 0) return whole + suffix
  const shortAgent = agent.slice(0, Math.max(MIN_AGENT, agent.length - excess))
  const stillOver = excess - (agent.length - shortAgent.length)
  const shortSkill = own.slice(0, Math.max(0, own.length - Math.max(0, stillOver)))
  const name = fill(shape.pattern, { agent: shortAgent, skill: shortSkill })
  return name.slice(0, room).replace(/_$/, '') + suffix
}

type NameParts = Readonly<Record<'agent' | 'skill', string>>

function toParts(
  { agentId, agentName, skillId, skillName }: NameCandidate,
  shape: NameShape,
): NameParts {
  const part = (text: string): string =>
    sanitizePart(shape.splitCamelCase ? splitWords(text) : text)
  const agent = part(agentName) || `agent_${digest(agentId).slice(0, 6)}`
  if (skillName === '') {
    // An agent without skills needs a name, also if the pattern has no place for agents.
    return { agent, skill: shape.pattern.includes('{agent}') ? '' : agent }
  }
  return { agent, skill: part(skillName) || `skill_${digest(skillId).slice(0, 6)}` }
}

function fill(pattern: string, parts: NameParts): string {
  return sanitizeName(
    pattern.replaceAll('{agent}', () => parts.agent).replaceAll('{skill}', () => parts.skill),
  )
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

/** `WeatherAgent` → `Weather_Agent`, `HTTPServer2` → `HTTP_Server2`. */
export function splitWords(text: string): string {
  return text.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll(/([A-Z])(?=[A-Z][a-z])/g, '$1_')
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
