import { isIP } from 'node:net'

import { AgentCard, canonicalizeAgentCard, type AgentSkill } from '@a2a-js/sdk'
import { isLoopback, isPublicAddress, isRecord } from '@x/internal'
import { GatewayError, type Agent, type Skill } from '@x/mcp-gateway'
import { createLocalJWKSet, flattenedVerify, type JWK } from 'jose'

/** Where the card of an agent is, and the id that the agent has for the gateway. */
export interface CardAddress {
  /** Where the card may be: the first one that exists counts. */
  readonly urls: readonly [URL, ...URL[]]
  /** `a2a:` and the URL of the agent without its query, which may hold a credential. It can be part of an OAuth scope. */
  readonly agentId: string
}

const WELL_KNOWN = '/.well-known/agent-card.json'
/** Path of the card before A2A 0.3. Some agents still have it there only. */
const OLD_WELL_KNOWN = '/.well-known/agent.json'

/**
 * Finds the address of a card. A URL that ends in `.json` is a card; any other URL is an agent, whose card is at the
 * well-known path below it (A2A 1.0, "Agent Discovery"), or at the path of earlier versions.
 *
 * @throws GatewayError `CONFIG` if the URL is not http or https, or contains a user name
 */
export function parseCardAddress(value: string): CardAddress {
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new GatewayError('CONFIG', 'The URL of an agent card must begin with http:// or https://')
  }
  if (url.username !== '' || url.password !== '') {
    throw new GatewayError(
      'CONFIG',
      'The URL of an agent card contains a user name or a password. Send them in "headers" instead',
    )
  }
  url.hash = ''
  if (!url.pathname.endsWith('.json')) {
    url.pathname = `${url.pathname.replace(/\/+$/, '')}${WELL_KNOWN}`
  }
  if (!url.pathname.endsWith(WELL_KNOWN)) {
    return { urls: [url], agentId: `a2a:${url.origin}${url.pathname}` }
  }
  const path = url.pathname.slice(0, -WELL_KNOWN.length)
  const old = new URL(url)
  old.pathname = `${path}${OLD_WELL_KNOWN}`
  return { urls: [url, old], agentId: `a2a:${url.origin}${path}` }
}

/** The card was read but cannot be used. Then the agent is gone, unlike after a failed read. */
export class UnusableCard extends Error {
  override readonly name = 'UnusableCard'

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : 'The card cannot be used', { cause })
  }
}

/**
 * Parses a card of A2A 1.0 or 0.3, and checks who signed it.
 *
 * @param signatureKeys public keys, one of which must have signed the card. @default no signature is needed
 * @throws UnusableCard if it is not a card, has no address that can be called, or is not signed with one of the keys
 */
export async function parseCard(
  text: string,
  signatureKeys: readonly JWK[] | undefined,
): Promise<AgentCard> {
  try {
    const value: unknown = JSON.parse(text)
    if (!isRecord(value)) throw unusable('it is not an object')
    // A card of 0.3 has one `url`, a card of 1.0 a list of interfaces.
    const isLegacy =
      typeof value['url'] === 'string' && !Array.isArray(value['supportedInterfaces'])
    const card = isLegacy ? await parseLegacyCard(value) : AgentCard.fromJSON(value)
    if (card.name === '') throw unusable('it has no name')
    if (!card.supportedInterfaces.some(canBeCalled))
      throw unusable('it has no address for JSON-RPC or HTTP+JSON')
    if (signatureKeys) await verifyCard(card, signatureKeys)
    return card
  } catch (cause) {
    throw new UnusableCard(cause)
  }
}

type AgentInterface = AgentCard['supportedInterfaces'][number]

function canBeCalled({ url, protocolBinding }: AgentInterface): boolean {
  return /^https?:/i.test(url) && /^(JSONRPC|HTTP\+JSON)$/i.test(protocolBinding)
}

/**
 * Finds addresses of a card that the gateway cannot call, such as `0.0.0.0` of a card that its author never changed.
 *
 * @param trustedOrigins as in `A2aSourceOptions`
 * @returns a warning for each of them, without paths and queries
 */
export function unreachableAddresses(
  { supportedInterfaces }: AgentCard,
  trustedOrigins: readonly string[],
): readonly string[] {
  const trusted = new Set(trustedOrigins.map((each) => new URL(each).origin))
  const warnings = supportedInterfaces.filter(canBeCalled).flatMap(({ url: text }) => {
    const url = URL.parse(text)
    if (url === null) return ['The agent card names an address that is not a URL: correct the card']
    if (trusted.has(url.origin)) return []
    const why = obstacleOf(url)
    if (why === undefined) return []
    return [
      `The agent card names ${url.origin}, which cannot be called: ${why}. Correct the address in the card, or add ${url.origin} to "trustedOrigins" if it is the agent`,
    ]
  })
  return [...new Set(warnings)]
}

function obstacleOf({ hostname, protocol }: URL): string | undefined {
  const bare = hostname.replace(/^\[|\]$/g, '')
  if (bare === '0.0.0.0' || bare === '::') {
    return 'agents listen on this address, but nobody can connect to it'
  }
  if (isLoopback(hostname) || hostname.endsWith('.localhost')) {
    return 'it is an address of the machine of the gateway'
  }
  if (isIP(bare) !== 0 && !isPublicAddress(bare)) return 'it is a private address'
  return protocol === 'http:' ? 'it does not use https' : undefined
}

/** Loads the client of the SDK, which is large. Cards of 1.0 are read without it. */
async function parseLegacyCard(value: unknown): Promise<AgentCard> {
  const { DefaultAgentCardResolver } = await import('@a2a-js/sdk/client')
  return new DefaultAgentCardResolver({ legacyCompat: { enabled: true } }).normalizeAgentCard(value)
}

function unusable(why: string): GatewayError {
  return new GatewayError('UNAVAILABLE', `The agent card cannot be used: ${why}`)
}

/** Turns a card into an agent. */
export function toAgent(card: AgentCard, id: string): Agent {
  const skills = new Map<string, Skill>()
  for (const skill of card.skills) {
    const skillId = skill.id || skill.name
    if (skillId !== '' && !skills.has(skillId)) skills.set(skillId, toSkill(skill, skillId, card))
  }
  const { name, description } = card
  return { id, name, description, skills: [...skills.values()], health: 'healthy', canAsk: true }
}

function toSkill(skill: AgentSkill, id: string, card: AgentCard): Skill {
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

/**
 * Checks that one of the keys signed a card (A2A 1.0, "Agent Card Signing"). Keys are found by `kid`. The URL of keys in
 * the card (`jku`) is ignored, because a forged card would name a URL of its author. A key set refuses algorithms with
 * a shared secret.
 *
 * @throws GatewayError `REFUSED` if none of the keys signed the card
 */
async function verifyCard(card: AgentCard, keys: readonly JWK[]): Promise<void> {
  // The verifier of the SDK writes to standard output, which may carry the protocol.
  const payload = Buffer.from(canonicalizeAgentCard(card)).toString('base64url')
  const findKey = createLocalJWKSet({ keys: [...keys] })
  for (const { protected: head, signature } of card.signatures) {
    try {
      await flattenedVerify({ payload, protected: head, signature }, findKey)
      return
    } catch {
      // Another signature may be valid.
    }
  }
  throw new GatewayError(
    'REFUSED',
    'The agent card is not signed with one of the keys in "signatureKeys"',
  )
}
