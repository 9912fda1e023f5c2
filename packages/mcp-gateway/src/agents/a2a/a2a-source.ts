import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { JWK } from 'jose'

import type { AgentListener, AgentSource } from '../agent-source.ts'
import { systemClock, type Clock } from '../../internal/clock.ts'
import { assertGatewayOptions, GatewayError } from '../../errors.ts'
import { createGuardedFetch, type GuardedFetch } from '../../internal/guarded-fetch.ts'
import type { AgentCall } from '../agent-call.ts'
import type { AgentUpdate } from '../agent-update.ts'
import { credentialHeaders, headersNow, type CredentialHeaders } from '../credential-headers.ts'
import { loadA2aSdk, type A2aSdk } from './a2a-sdk.ts'
import { agentCardFrom } from './agent-card.ts'
import { jsonOrError, withCredentials } from './agent-fetch.ts'
import { cardAddressFrom, type CardAddress } from './card-address.ts'
import { verifyCard } from './card-signature.ts'
import { CardWatch, MAX_CARD_BYTES } from './card-watch.ts'
import { messageFrom } from './outgoing-message.ts'
import { withOwnBytes } from './own-file.ts'
import { remoteAgentFrom, type RemoteAgent } from './remote-agent.ts'
import { isOver, taskStateFrom } from './task-end.ts'
import { TaskReader } from './task-reader.ts'
import { TaskRun } from './task-run.ts'

/** Where the card of an agent is, and what it takes to read it and to call the agent. */
export interface A2aCard {
  /** URL of the card (`….json`), or of the agent: then the card is at `/.well-known/agent-card.json` below it. */
  readonly url: string
  /**
   * Sent with every request to the origin of the card, and to no other. A function is asked before each of them, and
   * has `timeoutMs` for it: for tokens that change. @default none
   */
  readonly headers?: CredentialHeaders | undefined
  /**
   * Public keys, each with its `kid`, one of which has to have signed the card, as A2A 1.0 does it.
   *
   * @default it needs no signature
   */
  readonly signatureKeys?: readonly JWK[] | undefined
}

export interface A2aSourceOptions {
  /** Each by its URL, or by its URL with what belongs to it. */
  readonly cards: readonly (string | A2aCard)[]
  /**
   * Origins, as `http://10.0.0.7:8080`, at which private addresses and http are allowed, for cards, agents and their
   * files. @default none: https to public addresses only
   */
  readonly trustedOrigins?: readonly string[] | undefined
  /** How often to look at a card, in milliseconds; less than the `ttlMs` of the registry. @default 20_000 */
  readonly refreshMs?: number | undefined
  /** How long one look at a card or a task, and a cancellation, may take. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** How long an agent may send nothing on an open request. @default 300_000 */
  readonly silenceMs?: number | undefined
  /** How long to wait at most before another look at a task of an agent that does not stream, in milliseconds: at once, then twice as long each time. @default 1000 */
  readonly pollMs?: number | undefined
  /** How large one answer may be with all its files. @default 67_108_864 */
  readonly maxBytes?: number | undefined
  /** Told of cards that cannot be read, and of tasks that could not be cancelled. @default nobody */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
  /** 0 to 1, for jitter. @default Math.random */
  readonly random?: (() => number) | undefined
}

const cardChecks: Checks<A2aCard> = {
  url: check.required(check.string), // parsed below, and refused with an error of its own
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
 * Agents of the A2A protocol, 1.0 and 0.3, by their cards. Needs `@a2a-js/sdk`.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or have a wrong value
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
      throw new GatewayError('CONFIG', 'A trusted origin is no URL')
    }
    this.#options = options
    this.#clock = clock
    this.#places = placesOf(options.cards)
    this.name = nameOf(this.#places)
    this.#cardFetch = createGuardedFetch({
      trustedOrigins,
      maxBytes: MAX_CARD_BYTES,
      headersTimeoutMs: timeoutMs,
      idleTimeoutMs: timeoutMs,
      clock,
    })
    this.#callFetch = createGuardedFetch({
      trustedOrigins,
      // As base64, and told again at the end.
      maxBytes: 3 * maxBytesOf(options),
      headersTimeoutMs: silenceMs,
      idleTimeoutMs: silenceMs,
      clock,
    })
  }

  async start(listener: AgentListener): Promise<void> {
    const sdk = await loadA2aSdk()
    if (this.#isClosed) return
    this.#watches.push(...this.#places.map((place) => this.#watchOf(place, sdk, listener)))
    await Promise.all(this.#watches.map((watch) => watch.start()))
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    const remote = this.#known.get(call.agentId)
    if (remote === undefined) throw new GatewayError('NOT_FOUND', 'There is no such agent')
    const task = call.resume && taskStateFrom(call.resume.state)
    const message = await messageFrom(call, task, remote.userRole)
    const reader = new TaskReader({ task, maxBytes: maxBytesOf(this.#options) })
    const run = this.#taskRun(remote, call, reader)
    const origins = this.#originsOf(call.agentId)
    try {
      // Whoever signed in may have been noticed by the agent already.
      const looksFirst = task !== undefined && call.resume?.answers['access'] !== undefined
      for await (const update of run.updates(message, { looksFirst })) {
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
    const task = taskStateFrom(state)
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
      this.#warn(agentId, 'A task that nobody goes on with could not be cancelled', error)
    } finally {
      undo()
    }
  }

  /** Waits for cancellations that are under way. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const watch of this.#watches) watch.close()
    await Promise.all(this.#ending)
    this.#known.clear()
  }

  #watchOf(place: CardPlace, sdk: A2aSdk, listener: AgentListener): CardWatch {
    const { url, agentId, headers, signatureKeys } = place
    const { refreshMs = 20_000, random = Math.random } = this.#options
    const credentials = { origin: url.origin, headers: () => this.#headersNow(headers) }
    const callFetch = jsonOrError(withCredentials({ fetch: this.#callFetch, ...credentials }))
    return new CardWatch({
      url,
      fetch: withCredentials({ fetch: this.#cardFetch, ...credentials }),
      parse: async (value) => {
        const card = agentCardFrom(value, sdk)
        if (signatureKeys) await verifyCard(card, signatureKeys, sdk)
        const remote = await remoteAgentFrom(card, agentId, { sdk, fetch: callFetch })
        if (!this.#isClosed) this.#known.set(agentId, remote)
        return card
      },
      refreshMs,
      clock: this.#clock,
      random,
      onCard: () => {
        const remote = this.#known.get(agentId)
        // Told whole each time: it may have expired meanwhile.
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

function placesOf(cards: A2aSourceOptions['cards']): readonly CardPlace[] {
  const places = cards.map((card) => {
    const { url, headers = {}, signatureKeys } = typeof card === 'string' ? { url: card } : card
    return { ...cardAddressFrom(url), headers, signatureKeys }
  })
  const ids = new Set(places.map(({ agentId }) => agentId))
  if (ids.size < places.length) throw new GatewayError('CONFIG', 'Two agent cards are the same')
  return places
}

function nameOf([first, ...others]: readonly CardPlace[]): string {
  if (first === undefined) return 'a2a'
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return `a2a ${first.url.origin}${more}`
}
