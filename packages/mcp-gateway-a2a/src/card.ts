import { AgentCard, canonicalizeAgentCard } from '@a2a-js/sdk'
import type { AgentSkill } from '@a2a-js/sdk'
import { DefaultAgentCardResolver } from '@a2a-js/sdk/client'
import { isRecord } from '@x/internal'
import { GatewayError } from '@x/mcp-gateway'
import type { Agent, Clock, GuardedFetch, Skill } from '@x/mcp-gateway'
import { readBounded } from '@x/mcp-gateway/adapter'
import { decodeProtectedHeader, flattenedVerify, type JWK } from 'jose'

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

interface CardWatchOptions {
  readonly url: URL
  /** Sends the credentials for the origin of the card. */
  readonly fetch: GuardedFetch
  /** Checks the JSON that was read. @throws GatewayError if it is no card, or not one to trust */
  readonly parse: (value: unknown) => Promise<AgentCard>
  /** Milliseconds between two reads, up to a tenth more or less. */
  readonly refreshMs: number
  readonly clock: Clock
  readonly random: () => number
  /** Called after each successful read. An unchanged card is the same object again. */
  readonly onCard: (card: AgentCard) => void
  /** Called if there is no card any more, or none that can be used. */
  readonly onGone: () => void
  /** Called if the card cannot be read now. */
  readonly onUnreachable: (reason: string) => void
  /** Called once for several failures in a row. */
  readonly onWarning: (message: string, cause?: unknown) => void
}

const MAX_BACKOFF_MS = 300_000
export const MAX_CARD_BYTES = 1_048_576

/** Reads one agent card again and again, less often while that fails. */
export class CardWatch {
  readonly #options: CardWatchOptions
  readonly #closing = new AbortController()
  #known: { readonly card: AgentCard; readonly etag: string | null } | undefined
  #failures = 0
  #undoTimer: (() => void) | undefined

  constructor(options: CardWatchOptions) {
    this.#options = options
  }

  /** Resolves after the first read, also if it failed. Never rejects. */
  async start(): Promise<void> {
    await this.#refresh()
  }

  close(): void {
    this.#closing.abort()
    this.#undoTimer?.()
  }

  async #refresh(): Promise<void> {
    const { refreshMs, clock, random, onCard, onGone, onUnreachable, onWarning } = this.#options
    try {
      const card = await this.#read()
      if (this.#closing.signal.aborted) return
      this.#failures = 0
      if (card === undefined) this.#leave(onGone)
      else onCard(card)
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#failures += 1
      if (this.#failures === 1) onWarning('The agent card cannot be read', error)
      if (error instanceof UnusableCard) this.#leave(onGone)
      else onUnreachable('The agent card cannot be read')
    }
    const backoffMs = Math.min(MAX_BACKOFF_MS, refreshMs * 2 ** Math.max(0, this.#failures - 1))
    const waitMs = Math.round(backoffMs * (0.9 + random() * 0.2))
    this.#undoTimer = clock.after(waitMs, () => void this.#refresh())
  }

  #leave(onGone: () => void): void {
    this.#known = undefined
    onGone()
  }

  /** @returns `undefined` if there is no card */
  async #read(): Promise<AgentCard | undefined> {
    const { url, fetch, parse } = this.#options
    const headers = new Headers({ accept: 'application/json', 'a2a-version': '1.0' })
    if (this.#known?.etag) headers.set('if-none-match', this.#known.etag)
    const response = await fetch(url, { headers, signal: this.#closing.signal })
    if (response.status === 304 && this.#known) return this.#known.card
    if (!response.ok) {
      await response.body?.cancel()
      if (response.status === 404 || response.status === 410) return undefined
      throw new GatewayError(
        'UNAVAILABLE',
        `The request for the agent card was answered with status ${response.status}`,
      )
    }
    const bytes = await readBounded(response, MAX_CARD_BYTES)
    const card = await parse(jsonFrom(bytes)).catch((error: unknown) => {
      throw new UnusableCard(error)
    })
    this.#known = { card, etag: response.headers.get('etag') }
    return card
  }
}

/** The card was read but cannot be used. Then the agent is gone, unlike after a failed read. */
class UnusableCard extends Error {
  override readonly name = 'UnusableCard'

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : 'The card cannot be used', { cause })
  }
}

function jsonFrom(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

/**
 * Parses a card of A2A 1.0 or 0.3.
 *
 * @throws GatewayError `UNAVAILABLE` if it is no card, or names no address that can be called
 */
export function parseAgentCard(value: unknown): AgentCard {
  const card = readCard(value, () => {
    const resolver = new DefaultAgentCardResolver({ legacyCompat: { enabled: true } })
    // The resolver returns a card of 1.0 unparsed.
    return isLegacy(value) ? resolver.normalizeAgentCard(value) : AgentCard.fromJSON(value)
  })
  if (card.name === '') throw noCard('it has no name')
  if (!card.supportedInterfaces.some(isWebInterface)) {
    throw noCard('it names no address for JSON-RPC or HTTP+JSON')
  }
  return card
}

function readCard(value: unknown, parse: () => AgentCard): AgentCard {
  if (!isRecord(value)) throw noCard('it is not an object')
  try {
    return parse()
  } catch (cause) {
    throw noCard('its fields have wrong types', cause)
  }
}

function noCard(why: string, cause?: unknown): GatewayError {
  return new GatewayError('UNAVAILABLE', `This is no agent card: ${why}`, { cause })
}

/** A card of 0.3 has one `url`, a card of 1.0 a list of interfaces. */
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

/** Algorithms with public keys only: everybody who can verify a MAC could also create one. */
const ALGORITHMS = [
  'ES256',
  'ES384',
  'ES512',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'EdDSA',
  'Ed25519',
]

/**
 * Checks that one of the keys signed a card (A2A 1.0, "Agent Card Signing"). Keys are found by `kid`. The URL of keys in
 * the card (`jku`) is ignored, because a forged card would name a URL of its author.
 *
 * @throws GatewayError `REFUSED` if none of the keys signed the card
 */
export async function verifyCard(card: AgentCard, keys: readonly JWK[]): Promise<void> {
  // The verifier of the SDK writes to standard output, which may carry the protocol.
  const payload = Buffer.from(canonicalizeAgentCard(card)).toString('base64url')
  for (const { protected: head, signature } of card.signatures) {
    const jws = { payload, protected: head, signature }
    for (const key of keysFor(head, keys)) {
      if (await isSignedBy(jws, key)) return
    }
  }
  throw new GatewayError(
    'REFUSED',
    'The agent card is not signed with one of the keys in "signatureKeys"',
  )
}

function keysFor(head: string, keys: readonly JWK[]): readonly JWK[] {
  try {
    const { kid } = decodeProtectedHeader({ protected: head })
    return keys.filter((key) => kid !== undefined && key.kid === kid)
  } catch {
    return []
  }
}

type Jws = Parameters<typeof flattenedVerify>[0]

async function isSignedBy(jws: Jws, key: JWK): Promise<boolean> {
  try {
    await flattenedVerify(jws, key, { algorithms: ALGORITHMS })
    return true
  } catch {
    return false
  }
}
