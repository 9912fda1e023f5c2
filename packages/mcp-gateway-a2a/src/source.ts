import type { AgentCard } from '@a2a-js/sdk'
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import type { Client } from '@a2a-js/sdk/client'
import { check } from '@x/internal'
import type { Checks } from '@x/internal'
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
  headersNow,
  systemClock,
} from '@x/mcp-gateway/adapter'
import type { JWK } from 'jose'
import {
  CardWatch,
  MAX_CARD_BYTES,
  parseAgentCard,
  parseCardAddress,
  toAgent,
  verifyCard,
} from './card.ts'
import type { CardAddress } from './card.ts'
import { isOver, parseTaskState, toMessage } from './messages.ts'
import { TaskReader } from './task-reader.ts'
import { TaskRun } from './task-run.ts'

/** The card of an agent, and what is needed to read it and to call the agent. */
export interface A2aCard {
  /** URL of the card (`….json`), or of the agent, whose card is then at `/.well-known/agent-card.json` below it. */
  readonly url: string
  /**
   * Headers of every request to the origin of the card, and to no other. A function is called before each request, for
   * tokens that change, and may take `timeoutMs`. @default none
   */
  readonly headers?: CredentialHeaders | undefined
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
   * Origins, such as `http://10.0.0.7:8080`, that may have private addresses and use http, for cards, agents and their
   * files. @default none: only https to public addresses
   */
  readonly trustedOrigins?: readonly string[] | undefined
  /** Milliseconds between two reads of a card. Must be less than the `ttlMs` of the registry. @default 20_000 */
  readonly refreshMs?: number | undefined
  /** Time limit in milliseconds for one read of a card or a task, and for a cancellation. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** Milliseconds for which an agent may send nothing on an open request. @default 300_000 */
  readonly silenceMs?: number | undefined
  /** Longest wait in milliseconds between two reads of a task, for agents that do not stream. The first waits are shorter. @default 1000 */
  readonly pollMs?: number | undefined
  /** Most bytes of one answer with all its files. @default 67_108_864 */
  readonly maxBytes?: number | undefined
  /** Called for cards that cannot be read, and for tasks that could not be cancelled. @default nothing */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
  /** 0 to 1, for jitter. @default Math.random */
  readonly random?: (() => number) | undefined
}

const cardChecks: Checks<A2aCard> = {
  url: check.required(check.string), // parseCardAddress() checks the rest
  headers: credentialHeaders,
  signatureKeys: check.listOf(check.record),
}

const optionChecks: Checks<A2aSourceOptions> = {
  cards: check.required(check.listOf(check.or(check.string, check.section(cardChecks)))),
  trustedOrigins: check.listOf(check.string),
  refreshMs: check.number(),
  timeoutMs: check.number(),
  silenceMs: check.number(),
  pollMs: check.number(),
  maxBytes: check.number(1),
  onWarning: check.func,
  clock: check.methods('now', 'after'),
  random: check.func,
}

/**
 * A source of agents of the A2A protocol, 1.0 and 0.3, found by their cards.
 *
 * @throws GatewayError `CONFIG` if an option is unknown or has a wrong value
 */
export function a2aSource(options: A2aSourceOptions): AgentSource {
  assertGatewayOptions('a2aSource()', options, optionChecks)
  return new A2aSource(options)
}

interface CardPlace extends CardAddress {
  readonly headers: CredentialHeaders
  readonly signatureKeys: readonly JWK[] | undefined
}

class A2aSource implements AgentSource {
  readonly name: string
  readonly #options: A2aSourceOptions
  readonly #places: readonly CardPlace[]
  readonly #clock: Clock
  readonly #known = new Map<string, RemoteAgent>()
  readonly #watches: CardWatch[] = []
  readonly #ending = new Set<Promise<void>>()
  readonly #cardFetch: GuardedFetch
  readonly #callFetch: GuardedFetch
  #isClosed = false

  /** @throws GatewayError `CONFIG` */
  constructor(options: A2aSourceOptions) {
    const { trustedOrigins, timeoutMs = 10_000, silenceMs = 300_000, clock = systemClock } = options
    if (trustedOrigins?.some((origin) => !URL.canParse(origin))) {
      throw new GatewayError('CONFIG', 'An item of "trustedOrigins" is not a URL')
    }
    this.#options = options
    this.#clock = clock
    this.#places = toPlaces(options.cards)
    this.name = toName(this.#places)
    this.#cardFetch = createGuardedFetch({
      trustedOrigins,
      maxBytes: MAX_CARD_BYTES,
      headersTimeoutMs: timeoutMs,
      idleTimeoutMs: timeoutMs,
    })
    this.#callFetch = createGuardedFetch({
      trustedOrigins,
      // Files arrive as base64, and a second time in the last snapshot.
      maxBytes: 3 * maxBytesOf(options),
      headersTimeoutMs: silenceMs,
      idleTimeoutMs: silenceMs,
    })
  }

  async start(listener: AgentListener): Promise<void> {
    this.#watches.push(...this.#places.map((place) => this.#watch(place, listener)))
    await Promise.all(this.#watches.map((watch) => watch.start()))
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    const remote = this.#known.get(call.agentId)
    if (remote === undefined)
      throw new GatewayError(
        'NOT_FOUND',
        'This agent does not exist, or its card cannot be read any more',
      )
    const task = call.resume && parseTaskState(call.resume.state)
    const message = await toMessage(call, task)
    const reader = new TaskReader({ task, maxBytes: maxBytesOf(this.#options) })
    const run = this.#taskRun(remote, call, reader)
    const origins = this.#originsOf(call.agentId)
    try {
      // The agent may have noticed the sign-in already.
      const readsFirst = task !== undefined && call.resume?.answers['access'] !== undefined
      for await (const update of run.updates(message, { readsFirst })) {
        if (update.type !== 'file') yield update
        else {
          const { fetch } = remote
          yield {
            type: 'file',
            file: withOwnBytes(update.file, { fetch, origins, signal: call.signal }),
          }
        }
      }
    } finally {
      this.#keep(run.settled())
    }
  }

  async forget(agentId: string, state: unknown): Promise<void> {
    const task = parseTaskState(state)
    const remote = this.#known.get(agentId)
    if (task === undefined || remote === undefined) return
    const { timeoutMs = 10_000 } = this.#options
    const late = new AbortController()
    const undo = this.#clock.after(timeoutMs, () => late.abort())
    try {
      const request = { tenant: '', id: task.taskId, metadata: undefined }
      await remote.client.cancelTask(request, { signal: late.signal })
    } catch (error) {
      if (isOver(error)) return
      this.#warn(agentId, 'A task that nobody continues could not be cancelled', error)
    } finally {
      undo()
    }
  }

  /** Waits for cancellations that are in flight. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const watch of this.#watches) watch.close()
    await Promise.all(this.#ending)
    this.#known.clear()
  }

  #watch(place: CardPlace, listener: AgentListener): CardWatch {
    const { url, agentId, headers, signatureKeys } = place
    const { refreshMs = 20_000, random = Math.random } = this.#options
    const credentials = { origin: url.origin, headers: () => this.#headersNow(headers) }
    const callFetch = jsonOrError(withCredentials({ fetch: this.#callFetch, ...credentials }))
    return new CardWatch({
      url,
      fetch: withCredentials({ fetch: this.#cardFetch, ...credentials }),
      parse: async (value) => {
        const card = parseAgentCard(value)
        if (signatureKeys) await verifyCard(card, signatureKeys)
        const remote = await connect(card, agentId, callFetch)
        if (!this.#isClosed) this.#known.set(agentId, remote)
        return card
      },
      refreshMs,
      clock: this.#clock,
      random,
      onCard: () => {
        const remote = this.#known.get(agentId)
        // Sent each time, because the registry may have dropped it meanwhile.
        if (remote) listener.found(remote.agent)
      },
      onGone: () => {
        this.#known.delete(agentId)
        listener.gone(agentId)
      },
      onUnreachable: (reason) => {
        if (this.#known.has(agentId)) listener.unreachable?.(agentId, reason)
      },
      onWarning: (message, cause) => this.#warn(agentId, message, cause),
    })
  }

  #headersNow(headers: CredentialHeaders): ReturnType<typeof headersNow> {
    return headersNow(headers, { clock: this.#clock, ms: this.#options.timeoutMs ?? 10_000 })
  }

  #taskRun({ client, isStreaming }: RemoteAgent, call: AgentCall, reader: TaskReader): TaskRun {
    const { pollMs = 1000, timeoutMs = 10_000, random = Math.random } = this.#options
    return new TaskRun({
      client,
      isStreaming,
      reader,
      clock: this.#clock,
      random,
      pollMs,
      timeoutMs,
      headers: call.trace ?? {},
      signal: call.signal,
      onWarning: (message, cause) => this.#warn(call.agentId, message, cause),
    })
  }

  #originsOf(agentId: string): ReadonlySet<string> {
    const place = this.#places.find((each) => each.agentId === agentId)
    const { trustedOrigins = [] } = this.#options
    return new Set([place?.url.origin ?? '', ...trustedOrigins.map((each) => new URL(each).origin)])
  }

  #keep(ending: Promise<void>): void {
    this.#ending.add(ending)
    void ending.then(() => this.#ending.delete(ending))
  }

  #warn(agentId: string, message: string, cause: unknown): void {
    this.#options.onWarning?.(`${agentId}: ${message}`, cause)
  }
}

function maxBytesOf({ maxBytes = 67_108_864 }: A2aSourceOptions): number {
  return maxBytes
}

function toPlaces(cards: A2aSourceOptions['cards']): readonly CardPlace[] {
  const places = cards.map((card) => {
    const { url, headers = {}, signatureKeys } = typeof card === 'string' ? { url: card } : card
    return { ...parseCardAddress(url), headers, signatureKeys }
  })
  const ids = new Set(places.map(({ agentId }) => agentId))
  if (ids.size < places.length)
    throw new GatewayError('CONFIG', 'Two items of "cards" name the same agent')
  return places
}

function toName([first, ...others]: readonly CardPlace[]): string {
  if (first === undefined) return 'a2a'
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return `a2a ${first.url.origin}${more}`
}

/** An agent that can be called. */
interface RemoteAgent {
  readonly agent: Agent
  readonly client: Client
  readonly isStreaming: boolean
  readonly fetch: GuardedFetch
}

/** Makes the client of an agent. @throws what the SDK throws if the card has no address that it can call */
async function connect(
  card: AgentCard,
  agentId: string,
  fetch: GuardedFetch,
): Promise<RemoteAgent> {
  const options = { fetchImpl: fetch, legacyCompat: { enabled: true } }
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
    // The card was read and checked before.
    cardResolver: { resolve: () => Promise.resolve(card), normalizeAgentCard: () => card },
  })
  const client = await factory.createFromAgentCard(card)
  const isStreaming = card.capabilities?.streaming === true
  return { agent: toAgent(card, agentId), client, isStreaming, fetch }
}

interface CredentialOptions {
  readonly fetch: GuardedFetch
  /** Only this origin gets the headers, because a card may name any address. */
  readonly origin: string
  readonly headers: () => Promise<Readonly<Record<string, string>>>
}

/** Adds the credentials of an agent to requests to the origin of its card. */
function withCredentials({ fetch, origin, headers }: CredentialOptions): GuardedFetch {
  return async function fetchWithCredentials(input, init) {
    const url = new URL(input instanceof Request ? input.url : input)
    if (url.origin !== origin) return fetch(input, init)
    const merged = new Headers(init?.headers)
    for (const [name, value] of Object.entries(await headers())) merged.set(name, value)
    return fetch(input, { ...init, headers: merged })
  }
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
    if (isRefused) {
      throw new GatewayError(
        'UNAVAILABLE',
        `The agent refused the credentials of the gateway, with status ${response.status}`,
      )
    }
    throw new GatewayError('UNAVAILABLE', `The agent answered with status ${response.status}`)
  }
}

interface OwnFileOptions {
  readonly fetch: GuardedFetch
  /** Origins of the agent. Files there may need its credentials. */
  readonly origins: ReadonlySet<string>
  readonly signal: AbortSignal
}

/**
 * Reads files from the origin of their agent, with its credentials. The gateway reads files of other origins, without
 * credentials, or not at all.
 */
function withOwnBytes(file: OutputFile, options: OwnFileOptions): OutputFile {
  const { data } = file
  if (!('url' in data) || !URL.canParse(data.url)) return file
  return options.origins.has(new URL(data.url).origin)
    ? { ...file, data: bytesAt(data.url, options) }
    : file
}

async function* bytesAt(
  url: string,
  { fetch, signal }: OwnFileOptions,
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
