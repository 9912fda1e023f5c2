import { AgentCard, canonicalizeAgentCard } from '@a2a-js/sdk'
import type { AgentSkill } from '@a2a-js/sdk'
import { isRecord } from '@x/internal'
import { GatewayError } from '@x/mcp-gateway'
import type { Agent, AgentListener, Clock, GuardedFetch, Skill } from '@x/mcp-gateway'
import { readBounded } from '@x/mcp-gateway/adapter'
import { createLocalJWKSet, flattenedVerify, type JWK } from 'jose'

/** Where the card of an agent is, and the id that the agent has for the gateway. */
export interface CardAddress {
  readonly url: URL
  /** `a2a:` and the URL of the agent without its query, which may hold a credential. It can be part of an OAuth scope. */
  readonly agentId: string
}

const WELL_KNOWN = '/.well-known/agent-card.json'

/**
 * Finds the address of a card. A URL that ends in `.json` is a card; any other URL is an agent, whose card is at the
 * well-known path below it (A2A 1.0, "Agent Discovery").
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
  const path = url.pathname.endsWith(WELL_KNOWN)
    ? url.pathname.slice(0, -WELL_KNOWN.length)
    : url.pathname
  return { url, agentId: `a2a:${url.origin}${path}` }
}

interface CardWatchOptions extends CardAddress {
  /** Sends the credentials for the origin of the card. */
  readonly fetch: GuardedFetch
  /** Public keys, one of which must have signed the card. */
  readonly signatureKeys: readonly JWK[] | undefined
  /** Milliseconds between two reads, up to a tenth more or less. */
  readonly refreshMs: number
  readonly clock: Clock
  readonly random: () => number
  /** Called once for several failures in a row. */
  readonly onWarning: (message: string, cause?: unknown) => void
}

const MAX_BACKOFF_MS = 300_000
export const MAX_CARD_BYTES = 1_048_576

/** A card that was read, and the agent that it describes. */
export interface KnownCard {
  readonly card: AgentCard
  readonly agent: Agent
  readonly etag: string | null
}

/** Reads one agent card again and again, less often while that fails, and reports the agent to the registry. */
export class CardWatch {
  readonly #options: CardWatchOptions
  readonly #closing = new AbortController()
  #known: KnownCard | undefined
  #failures = 0
  #undoTimer: (() => void) | undefined

  constructor(options: CardWatchOptions) {
    this.#options = options
  }

  /** The last card that was read. `undefined` if there is none any more. */
  get known(): KnownCard | undefined {
    return this.#known
  }

  /** Resolves after the first read, also if it failed. Never rejects. */
  async start(listener: AgentListener): Promise<void> {
    const { agentId, refreshMs, clock, random, onWarning } = this.#options
    try {
      const known = await this.#read()
      if (this.#closing.signal.aborted) return
      this.#failures = 0
      this.#known = known
      // Reported each time, because the registry may have dropped the agent meanwhile.
      if (known) listener.found(known.agent)
      else listener.gone(agentId)
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#failures += 1
      if (this.#failures === 1) onWarning('The agent card cannot be read', error)
      if (error instanceof UnusableCard) {
        this.#known = undefined
        listener.gone(agentId)
      } else if (this.#known) listener.unreachable?.(agentId, 'The agent card cannot be read')
    }
    const backoffMs = Math.min(MAX_BACKOFF_MS, refreshMs * 2 ** Math.max(0, this.#failures - 1))
    const waitMs = Math.round(backoffMs * (0.9 + random() * 0.2))
    this.#undoTimer = clock.after(waitMs, () => void this.start(listener))
  }

  close(): void {
    this.#closing.abort()
    this.#undoTimer?.()
    this.#known = undefined
  }

  /** Reads the card again. `undefined` if it was removed. @throws UnusableCard; errors of the request */
  async #read(): Promise<KnownCard | undefined> {
    const { url, agentId, fetch, signatureKeys } = this.#options
    const headers = new Headers({ accept: 'application/json', 'a2a-version': '1.0' })
    if (this.#known?.etag) headers.set('if-none-match', this.#known.etag)
    const response = await fetch(url, { headers, signal: this.#closing.signal })
    if (response.status === 304 && this.#known) return this.#known
    if (!response.ok) {
      await response.body?.cancel()
      if (response.status === 404 || response.status === 410) return undefined
      throw new GatewayError(
        'UNAVAILABLE',
        `The request for the agent card was answered with status ${response.status}`,
      )
    }
    const bytes = await readBounded(response, MAX_CARD_BYTES)
    try {
      const card = await parseAgentCard(JSON.parse(bytes.toString()))
      if (signatureKeys) await verifyCard(card, signatureKeys)
      return { card, agent: toAgent(card, agentId), etag: response.headers.get('etag') }
    } catch (cause) {
      throw new UnusableCard(cause)
    }
  }
}

/** The card was read but cannot be used. Then the agent is gone, unlike after a failed read. */
class UnusableCard extends Error {
  override readonly name = 'UnusableCard'

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : 'The card cannot be used', { cause })
  }
}

/**
 * Parses a card of A2A 1.0 or 0.3.
 *
 * @throws GatewayError `UNAVAILABLE` if it is not a card, or has no address that can be called; what the SDK throws for
 *   fields of a wrong type
 */
async function parseAgentCard(value: unknown): Promise<AgentCard> {
  if (!isRecord(value)) throw unusable('it is not an object')
  // A card of 0.3 has one `url`, a card of 1.0 a list of interfaces.
  const isLegacy = typeof value['url'] === 'string' && !Array.isArray(value['supportedInterfaces'])
  const card = isLegacy ? await parseLegacyCard(value) : AgentCard.fromJSON(value)
  if (card.name === '') throw unusable('it has no name')
  const canBeCalled = card.supportedInterfaces.some(({ url, protocolBinding }) => {
    return /^https?:/i.test(url) && /^(JSONRPC|HTTP\+JSON)$/i.test(protocolBinding)
  })
  if (!canBeCalled) throw unusable('it has no address for JSON-RPC or HTTP+JSON')
  return card
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
function toAgent(card: AgentCard, id: string): Agent {
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
