import type { AgentCard } from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'
import { check, type Checks } from '@x/internal'
import { createGuardedFetch, GatewayError } from '@x/mcp-gateway'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  Clock,
  CredentialHeaders,
  GuardedFetch,
  OutputFile,
} from '@x/mcp-gateway'
import {
  assertGatewayOptions,
  credentialHeaders,
  fetchForUser,
  headersNow,
  originsCheck,
  readBounded,
  setting,
  systemClock,
  type Complete,
  type SourceSection,
} from '@x/mcp-gateway/adapter'
import type { JWK } from 'jose'
import { z } from 'zod'
import { parseCard, parseCardAddress, toAgent, unreachableAddresses, UnusableCard } from './card.ts'
import { isOver, parseTaskState, toMessage } from './messages.ts'
import { TaskReader } from './task-reader.ts'
import { inTime, TaskRun } from './task-run.ts'

/** The card of an agent, and what is needed to read it and to call the agent. */
export interface A2aCard {
  /**
   * URL of the card (`….json`), or of the agent: then the card is at `/.well-known/agent-card.json` (or `agent.json`).
   */
  readonly url: string
  /**
   * Headers of every request to the origin of the card. A function is called before each one, and may take `timeoutMs`. @default none
   */
  readonly headers?: CredentialHeaders | undefined
  /**
   * Requests of a run to the origin of the card carry a token of its user for this resource, as `authorization`. Needs
   * `credentials` of the gateway. @default only `headers`
   */
  readonly resource?: string | undefined
  /**
   * Public keys, each with its `kid`. One of them must have signed the card (A2A 1.0, "Agent Card Signing").
   *
   * @default no signature is needed
   */
  readonly signatureKeys?: readonly JWK[] | undefined
}

export interface A2aSourceOptions {
  /** The agents: URLs, or URLs with headers and keys. */
  readonly cards: readonly (string | A2aCard)[]
  /**
   * Origins that may have private addresses and use http, such as `http://10.0.0.7:8080`. @default none: only https to public addresses
   */
  readonly trustedOrigins?: readonly string[] | undefined
  /** Time limit in milliseconds for one read of a card or a task, and for a cancellation. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** Longest wait in milliseconds between two reads of a task, for agents that do not stream. The first waits are shorter. @default 1000 */
  readonly pollMs?: number | undefined
  /** Most bytes of one answer with all its files. @default 67_108_864 */
  readonly maxBytes?: number | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
  /** 0 to 1, for jitter. @default Math.random */
  readonly random?: (() => number) | undefined
}

const cardChecks: Checks<A2aCard> = {
  url: check.required(check.string), // parseCardAddress() checks the rest
  headers: credentialHeaders,
  resource: check.text,
  signatureKeys: check.listOf(check.record),
}

const optionChecks: Checks<A2aSourceOptions> = {
  cards: check.required(check.listOf(check.or(check.string, check.section(cardChecks)))),
  trustedOrigins: originsCheck,
  timeoutMs: check.number(),
  pollMs: check.number(),
  maxBytes: check.number(1),
  clock: check.methods('now', 'after'),
  random: check.func,
}

/**
 * A source of agents of the A2A protocol, 1.0 and 0.3, found by their cards.
 *
 * @throws GatewayError `CONFIG` if an option is unknown or has a wrong value
 * @example
 * ```ts
 * import { createGateway } from '@x/mcp-gateway'
 * import { a2aSource } from '@x/mcp-gateway-a2a'
 *
 * const gateway = createGateway({ sources: [a2aSource({ cards: ['https://weather.example'] })] })
 * ```
 */
export function a2aSource(options: A2aSourceOptions): AgentSource {
  assertGatewayOptions('a2aSource()', options, optionChecks)
  const { cards, trustedOrigins = [], timeoutMs = 10_000, pollMs = 1000 } = options
  const { maxBytes = 67_108_864, clock = systemClock, random = Math.random } = options
  return new A2aSource(cards, { trustedOrigins, timeoutMs, pollMs, maxBytes, clock, random })
}

const cardShape = z.strictObject({
  url: setting.url,
  headers: setting.headers.optional(),
  resource: setting.text.optional(),
  signatureKeys: z
    .array(z.looseObject({ kty: setting.text, kid: setting.text }), {
      error: 'a list of public keys (JWK)',
    })
    .optional(),
})

const fileShape = z.strictObject({
  cards: z.array(
    z.union([setting.url, cardShape], { error: 'the URL of a card, or { url, headers }' }),
    { error: 'a list of cards' },
  ),
  trustedOrigins: z.array(setting.url, { error: 'a list of URLs' }).optional(),
  maxBytes: setting.bytes.optional(),
})

/** A source with `type: a2a` in the configuration file of `mcp-gateway`. */
export const fileSection: SourceSection = {
  schema: fileShape,
  create: (settings) => a2aSource(fileShape.parse(settings)),
}

/** The options with their defaults. */
export type Settings = Complete<Omit<A2aSourceOptions, 'cards'>>

class A2aSource implements AgentSource {
  readonly name: string
  readonly #settings: Settings
  readonly #agents: ReadonlyMap<string, RemoteAgent>
  readonly #ending = new Set<Promise<void>>()

  /** @throws GatewayError `CONFIG` */
  constructor(cards: A2aSourceOptions['cards'], settings: Settings) {
    this.#settings = settings
    const { trustedOrigins, timeoutMs, maxBytes } = settings
    const fetchWithin = (ms: number, maxMs: number, bytes: number): GuardedFetch =>
      createGuardedFetch({
        trustedOrigins,
        maxBytes: bytes,
        headersTimeoutMs: ms,
        idleTimeoutMs: ms,
        timeoutMs: maxMs,
      })
    const fetches = {
      card: fetchWithin(timeoutMs, timeoutMs, MAX_CARD_BYTES),
      // The signal of the run ends a stream. Files arrive as base64, and a second time in the last snapshot.
      call: fetchWithin(SILENCE_MS, Infinity, 3 * maxBytes),
    }
    const agents = cards.map((card) => {
      return new RemoteAgent(typeof card === 'string' ? { url: card } : card, settings, fetches)
    })
    this.#agents = new Map(agents.map((agent) => [agent.id, agent]))
    if (this.#agents.size < agents.length) {
      throw new GatewayError('CONFIG', 'Two items of "cards" name the same agent')
    }
    const more = agents.length > 1 ? ` and ${agents.length - 1} more` : ''
    this.name = agents[0] ? `a2a ${agents[0].origin}${more}` : 'a2a'
  }

  async start(listener: AgentListener): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.start(listener)))
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    const agent = this.#agents.get(call.agentId)
    const card = agent?.card
    if (agent === undefined || card === undefined) {
      throw new GatewayError(
        'NOT_FOUND',
        'This agent does not exist, or its card cannot be read any more',
      )
    }
    const joined = parseTaskState(call.remote?.joined)
    const task = joined ?? (call.resume && parseTaskState(call.resume.state))
    const message = await toMessage(call, task)
    const run = new TaskRun({
      client: await agent.clientFor(card, call),
      isStreaming: card.capabilities?.streaming === true,
      reader: new TaskReader(task, this.#settings.maxBytes),
      settings: this.#settings,
      headers: call.trace ?? {},
      signal: call.signal,
      remote: call.remote,
      onWarning: (text, cause) => agent.warn(text, cause),
    })
    try {
      // The agent may have noticed the sign-in already.
      const isSignIn = task !== undefined && call.resume?.answers['access'] !== undefined
      const readsFirst = joined !== undefined || isSignIn
      for await (const update of run.updates(message, readsFirst)) {
        if (update.type !== 'file') yield update
        else yield { type: 'file', file: agent.withOwnBytes(update.file, call) }
      }
    } finally {
      const ending = run.settled()
      this.#ending.add(ending)
      void ending.then(() => this.#ending.delete(ending))
    }
  }

  async forget(agentId: string, state: unknown): Promise<void> {
    const task = parseTaskState(state)
    const agent = this.#agents.get(agentId)
    const card = agent?.card
    if (task === undefined || agent === undefined || card === undefined) return
    try {
      const client = await agent.client(card)
      const request = { tenant: '', id: task.taskId, metadata: undefined }
      await inTime(this.#settings, (signal) => client.cancelTask(request, { signal }))
    } catch (error) {
      if (isOver(error)) return
      agent.warn('A task that nobody continues could not be cancelled', error)
    }
  }

  /** Waits for cancellations that are in flight. */
  async close(): Promise<void> {
    for (const agent of this.#agents.values()) agent.close()
    await Promise.all(this.#ending)
  }
}

/** A card that was read, and the agent that it describes. */
interface KnownCard {
  readonly card: AgentCard
  readonly agent: Agent
  readonly etag: string | null
}

const MAX_CARD_BYTES = 1_048_576
/** Milliseconds between two reads of a card. The registry drops an agent that was not seen for 60,000. */
const REFRESH_MS = 20_000
const MAX_BACKOFF_MS = 300_000
/** Milliseconds for which an agent may send nothing on an open request. */
const SILENCE_MS = 300_000

/** One agent: reads its card again and again, less often while that fails, and makes the client that calls it. */
class RemoteAgent {
  readonly id: string
  readonly origin: string
  readonly #config: A2aCard
  /** Where the card may be. The last place at which it was comes first. */
  #cardUrls: readonly URL[]
  readonly #settings: Settings
  readonly #send: GuardedFetch
  readonly #fetch: GuardedFetch
  readonly #fetchCard: GuardedFetch
  readonly #closing = new AbortController()
  #known: KnownCard | undefined
  /** Problems of the card that a warning told. */
  #warned: readonly string[] = []
  #listener: AgentListener | undefined
  #failures = 0
  #undoTimer: (() => void) | undefined
  #connected: { readonly card: AgentCard; readonly client: Promise<Client> } | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(
    config: A2aCard,
    settings: Settings,
    fetches: { readonly card: GuardedFetch; readonly call: GuardedFetch },
  ) {
    const { urls, agentId } = parseCardAddress(config.url)
    this.id = agentId
    this.origin = urls[0].origin
    this.#config = config
    this.#cardUrls = urls
    this.#settings = settings
    this.#send = fetches.call
    this.#fetch = this.#withCredentials(fetches.call)
    this.#fetchCard = this.#withCredentials(fetches.card)
  }

  /** The last card that was read. `undefined` if there is none any more. */
  get card(): AgentCard | undefined {
    return this.#known?.card
  }

  /** Resolves after the first read of the card, also if it failed. Never rejects. */
  async start(listener: AgentListener): Promise<void> {
    const { clock, random, trustedOrigins } = this.#settings
    this.#listener = listener
    try {
      const known = await this.#read()
      if (this.#closing.signal.aborted) return
      this.#failures = 0
      this.#known = known
      // Reported each time, because the registry may have dropped the agent meanwhile.
      this.#warnOnce(known ? unreachableAddresses(known.card, trustedOrigins) : [this.#missing()])
      if (known) listener.found(known.agent)
      else listener.gone(this.id)
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#failures += 1
      if (this.#failures === 1) this.warn('The agent card cannot be read', error)
      if (error instanceof UnusableCard) {
        this.#known = undefined
        listener.gone(this.id)
      } else if (this.#known) listener.unreachable(this.id, 'The agent card cannot be read')
    }
    const backoffMs = Math.min(MAX_BACKOFF_MS, REFRESH_MS * 2 ** Math.max(0, this.#failures - 1))
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
    const [first, ...others] = this.#cardUrls
    const known = first && (await this.#readAt(first, this.#known))
    if (known) return known
    for (const url of others) {
      // A server may answer each unknown path with an error or a page: then the card is not there.
      const found = await this.#readAt(url, undefined).catch(() => undefined)
      if (!found) continue
      this.#cardUrls = [url, ...this.#cardUrls.filter((each) => each !== url)]
      return found
    }
    return undefined
  }

  /** @param known card that was at this URL before */
  async #readAt(url: URL, known: KnownCard | undefined): Promise<KnownCard | undefined> {
    const headers = new Headers({ accept: 'application/json', 'a2a-version': '1.0' })
    if (known?.etag) headers.set('if-none-match', known.etag)
    const { signal } = this.#closing
    const response = await this.#fetchCard(url, { headers, signal })
    if (response.status === 304 && known) return known
    if (!response.ok) {
      await response.body?.cancel()
      if (response.status === 404 || response.status === 410) return undefined
      throw new GatewayError(
        'UNAVAILABLE',
        `The request for the agent card was answered with status ${response.status}`,
      )
    }
    const bytes = await readBounded(response, MAX_CARD_BYTES)
    const card = await parseCard(bytes.toString(), this.#config.signatureKeys)
    return { card, agent: toAgent(card, this.id), etag: response.headers.get('etag') }
  }

  /**
   * Returns the client for a card. Loads the client of the SDK at the first call of an agent, because most agents of a
   * gateway are idle.
   *
   * @throws what the SDK throws if the card has no address that it can call
   */
  client(card: AgentCard): Promise<Client> {
    if (this.#connected?.card !== card) {
      this.#connected = { card, client: connect(card, jsonOrError(this.#fetch)) }
    }
    return this.#connected.client
  }

  /** Returns the client of one run. Its requests carry a token of the user if the agent has a `resource`. */
  clientFor(card: AgentCard, call: Pick<AgentCall, 'credentials'>): Promise<Client> {
    if (this.#config.resource === undefined) return this.client(card)
    return connect(card, jsonOrError(this.#fetchFor(call)))
  }

  /** With `resource`, requests of a call carry a token of its user. */
  #fetchFor({ credentials }: Pick<AgentCall, 'credentials'>): GuardedFetch {
    const { resource } = this.#config
    if (resource === undefined) return this.#fetch
    const target = { server: this.id, resource }
    return this.#withCredentials(this.#send, fetchForUser(this.#send, { credentials, target }))
  }

  warn(message: string, cause?: unknown): void {
    this.#listener?.warned(`${this.id}: ${message}`, cause)
  }

  /** Warns of problems that the last card did not have. */
  #warnOnce(problems: readonly string[]): void {
    for (const each of problems) if (!this.#warned.includes(each)) this.warn(each)
    this.#warned = problems
  }

  #missing(): string {
    const paths = this.#cardUrls.map(({ pathname }) => pathname).join(' or ')
    return `There is no agent card at ${paths}`
  }

  /**
   * Reads a file from the origin of the agent or a trusted origin, with the credentials of the call. The gateway reads
   * files of other origins, without credentials, or not at all.
   */
  withOwnBytes(file: OutputFile, call: Pick<AgentCall, 'credentials' | 'signal'>): OutputFile {
    const { data } = file
    if (!('url' in data) || !URL.canParse(data.url)) return file
    const { origin } = new URL(data.url)
    const isOwn =
      origin === this.origin ||
      this.#settings.trustedOrigins.some((each) => new URL(each).origin === origin)
    if (!isOwn) return file
    return { ...file, data: bytesAt(data.url, this.#fetchFor(call), call.signal) }
  }

  /** Adds the credentials of the agent to requests to the origin of its card only: a card may name any address. */
  #withCredentials(fetch: GuardedFetch, own: GuardedFetch = fetch): GuardedFetch {
    return async (input, init) => {
      const url = new URL(input instanceof Request ? input.url : input)
      if (url.origin !== this.origin) return fetch(input, init)
      const { clock, timeoutMs } = this.#settings
      const credentials = await headersNow(this.#config.headers ?? {}, { clock, ms: timeoutMs })
      const headers = new Headers(init?.headers)
      for (const [name, value] of Object.entries(credentials)) headers.set(name, value)
      return own(input, { ...init, headers })
    }
  }
}

async function connect(card: AgentCard, fetch: GuardedFetch): Promise<Client> {
  const sdk = await import('@a2a-js/sdk/client')
  const options = { fetchImpl: fetch, legacyCompat: { enabled: true } }
  const factory = new sdk.ClientFactory({
    transports: [new sdk.JsonRpcTransportFactory(options), new sdk.RestTransportFactory(options)],
    // The card was read and checked before.
    cardResolver: { resolve: () => Promise.resolve(card), normalizeAgentCard: () => card },
  })
  return factory.createFromAgentCard(card)
}

/**
 * Passes on successful responses and errors of the protocol, which are JSON.
 *
 * @throws GatewayError `UNAVAILABLE` for other errors, without their text, which may repeat a credential
 */
function jsonOrError(fetch: GuardedFetch): GuardedFetch {
  return async function fetchFromAgent(input, init) {
    const response = await fetch(input, init)
    const type = response.headers.get('content-type') ?? ''
    const isRefused = response.status === 401 || response.status === 403
    if (response.ok || (/\bjson\b/i.test(type) && !isRefused)) return response
    await response.body?.cancel()
    const what = isRefused ? 'refused the credentials of the gateway,' : 'answered'
    throw new GatewayError('UNAVAILABLE', `The agent ${what} with status ${response.status}`)
  }
}

async function* bytesAt(
  url: string,
  fetch: GuardedFetch,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const response = await fetch(url, { signal })
  if (!response.ok) {
    await response.body?.cancel()
    throw new GatewayError(
      'UNAVAILABLE',
      `The request for the file was answered with status ${response.status}`,
    )
  }
  yield* response.body ?? []
}
