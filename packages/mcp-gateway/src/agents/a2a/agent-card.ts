import type { AgentCard, AgentSkill } from '@a2a-js/sdk'

import { isRecord } from '@x/internal'
import type { Agent, Skill } from '../agent.ts'
import { GatewayError } from '../../errors.ts'
import type { A2aSdk } from './a2a-sdk.ts'

/**
 * Reads a card of A2A 1.0 or 0.3.
 *
 * @throws GatewayError `UNAVAILABLE` for what is no card of an agent that can be called
 */
export function agentCardFrom(value: unknown, { core, client }: A2aSdk): AgentCard {
  const card = read(value, () => {
    const resolver = new client.DefaultAgentCardResolver({ legacyCompat: { enabled: true } })
    // A card of 1.0 comes back from there as it was: only this makes it one.
    return isLegacy(value) ? resolver.normalizeAgentCard(value) : core.AgentCard.fromJSON(value)
  })
  if (card.name === '') throw noCard('it has no name')
  if (!card.supportedInterfaces.some(isWebInterface)) {
    throw noCard('it names no address for JSON-RPC or HTTP+JSON')
  }
  return card
}

function read(value: unknown, parse: () => AgentCard): AgentCard {
  if (!isRecord(value)) throw noCard('it is no object')
  try {
    return parse()
  } catch (cause) {
    throw noCard('it does not have its shape', cause)
  }
}

function noCard(why: string, cause?: unknown): GatewayError {
  return new GatewayError('UNAVAILABLE', `This is no agent card: ${why}`, { cause })
}

/** 0.3 has one address at the top; 1.0 a list of them. */
function isLegacy(value: unknown): boolean {
  if (!isRecord(value)) return false
  return typeof value['url'] === 'string' && !Array.isArray(value['supportedInterfaces'])
}

function isWebInterface({
  url,
  protocolBinding,
}: AgentCard['supportedInterfaces'][number]): boolean {
  return /^https?:/i.test(url) && /^(JSONRPC|HTTP\+JSON)$/i.test(protocolBinding)
}

/** A card as an agent, each of its skills as one of the agent's. */
export function agentFrom(card: AgentCard, id: string): Agent {
  const skills = new Map<string, Skill>()
  for (const skill of card.skills) {
    const skillId = skill.id || skill.name
    if (skillId !== '' && !skills.has(skillId)) skills.set(skillId, skillFrom(skill, skillId, card))
  }
  const { name, description } = card
  return { id, name, description, skills: [...skills.values()], health: 'healthy', canAsk: true }
}

function skillFrom(skill: AgentSkill, id: string, card: AgentCard): Skill {
  const { name, description, tags, examples, inputModes, outputModes } = skill
  return {
    id,
    name: name || id,
    description,
    tags,
    examples,
    inputModes: inputModes.length > 0 ? inputModes : card.defaultInputModes,
    outputModes: outputModes.length > 0 ? outputModes : card.defaultOutputModes,
  }
}
