import { createHash } from 'node:crypto'

import type { NameShape } from './name-shape.ts'
import { sanitizeName, sanitizePart, splitCamelCase } from './sanitize-name.ts'

/** A skill, as far as its name goes. */
export interface NamedSkill {
  readonly agentId: string
  readonly agentName: string
  readonly skillId: string
  /** Empty for an agent that is its own skill. */
  readonly skillName: string
}

/** What is left of the agent's part at least, before the skill's part is cut as well. */
const AGENT_MIN = 8
const SUFFIX_DIGITS = 6

/** What a tool is called while nobody else wants the name. */
export function bareNameOf(skill: NamedSkill, shape: NameShape): string {
  const name = filled(shape.pattern, partsOf(skill, shape))
  // Cutting alone would make one name of two that only differ at their end.
  return name.length <= shape.budget ? name : suffixedNameOf(skill, shape)
}

/** What it is called otherwise: as much as fits, and digits that are its own. */
export function suffixedNameOf(
  skill: NamedSkill,
  shape: NameShape,
  digits: number = SUFFIX_DIGITS,
): string {
  const suffix = `_${digestOf([skill.agentId, skill.skillId]).slice(0, digits)}`
  const room = shape.budget - suffix.length
  const { agent, skill: own } = partsOf(skill, shape)
  const excess = filled(shape.pattern, { agent, skill: own }).length - room
  if (excess <= 0) return filled(shape.pattern, { agent, skill: own }) + suffix
  const shortAgent = agent.slice(0, Math.max(AGENT_MIN, agent.length - excess))
  const stillOver = excess - (agent.length - shortAgent.length)
  const shortSkill = own.slice(0, Math.max(0, own.length - Math.max(0, stillOver)))
  const name = filled(shape.pattern, { agent: shortAgent, skill: shortSkill })
  return name.slice(0, room).replace(/_$/, '') + suffix
}

interface NameParts {
  readonly agent: string
  readonly skill: string
}

function partsOf(skill: NamedSkill, shape: NameShape): NameParts {
  const part = (text: string): string =>
    sanitizePart(shape.splitCamelCase ? splitCamelCase(text) : text)
  const agent = part(skill.agentName) || `agent_${digestOf(skill.agentId).slice(0, 6)}`
  if (skill.skillName === '') {
    // The agent itself: it needs a name even where the pattern has no place for agents.
    return { agent, skill: shape.pattern.includes('{agent}') ? '' : agent }
  }
  return {
    agent,
    skill: part(skill.skillName) || `skill_${digestOf(skill.skillId).slice(0, 6)}`,
  }
}

function filled(pattern: string, parts: NameParts): string {
  return sanitizeName(
    pattern.replaceAll('{agent}', () => parts.agent).replaceAll('{skill}', () => parts.skill),
  )
}

function digestOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return createHash('sha256').update(text).digest('hex')
}
