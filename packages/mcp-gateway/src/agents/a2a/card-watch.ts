import type { AgentCard } from '@a2a-js/sdk'

import type { Clock } from '../../internal/clock.ts'
import { GatewayError } from '../../errors.ts'
import { readBounded } from '../../internal/bounded-response.ts'
import type { GuardedFetch } from '../../internal/guarded-fetch.ts'

export interface CardWatchOptions {
  readonly url: URL
  /** With the credentials for where the card is. */
  readonly fetch: GuardedFetch
  /** Checks what was read. @throws GatewayError for what is no card, or for one that must not be trusted */
  readonly parse: (value: unknown) => Promise<AgentCard>
  /** Between two looks, some tenth more or less. */
  readonly refreshMs: number
  readonly clock: Clock
  readonly random: () => number
  /** The card as it is now: new, changed, or the same object again. */
  readonly onCard: (card: AgentCard) => void
  /** There is none any more, or none that can be used. */
  readonly onGone: () => void
  /** It cannot be read now. */
  readonly onUnreachable: (reason: string) => void
  /** Told once of what goes wrong several times in a row. */
  readonly onWarning: (message: string, cause?: unknown) => void
}

const MAX_BACKOFF_MS = 300_000
export const MAX_CARD_BYTES = 1_048_576

/** Looks at one agent card from time to time, and less and less often while it cannot be read. */
export class CardWatch {
  readonly #options: CardWatchOptions
  readonly #closing = new AbortController()
  #known: { readonly card: AgentCard; readonly etag: string | null } | undefined
  #failures = 0
  #undoTimer: (() => void) | undefined

  constructor(options: CardWatchOptions) {
    this.#options = options
  }

  /** Resolves after the first look, whether or not there was a card. Never rejects. */
  async start(): Promise<void> {
    await this.#look()
  }

  close(): void {
    this.#closing.abort()
    this.#undoTimer?.()
  }

  async #look(): Promise<void> {
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
      if (this.#failures === 1) onWarning('Its agent card cannot be read', error)
      if (error instanceof UnusableCard) this.#leave(onGone)
      else onUnreachable('Its agent card cannot be read')
    }
    const backoffMs = Math.min(MAX_BACKOFF_MS, refreshMs * 2 ** Math.max(0, this.#failures - 1))
    const waitMs = Math.round(backoffMs * (0.9 + random() * 0.2))
    this.#undoTimer = clock.after(waitMs, () => void this.#look())
  }

  #leave(onGone: () => void): void {
    this.#known = undefined
    onGone()
  }

  /** @returns `undefined` where there is none */
  async #read(): Promise<AgentCard | undefined> {
    const { url, fetch, parse } = this.#options
    const headers = new Headers({ accept: 'application/json', 'a2a-version': '1.0' })
    if (this.#known?.etag) headers.set('if-none-match', this.#known.etag)
    const response = await fetch(url, { headers, signal: this.#closing.signal })
    if (response.status === 304 && this.#known) return this.#known.card
    if (!response.ok) {
      await response.body?.cancel()
      if (response.status === 404 || response.status === 410) return undefined
      throw new GatewayError('UNAVAILABLE', `The card was answered with status ${response.status}`)
    }
    const bytes = await readBounded(response, MAX_CARD_BYTES)
    const card = await parse(jsonFrom(bytes)).catch((error: unknown) => {
      throw new UnusableCard(error)
    })
    this.#known = { card, etag: response.headers.get('etag') }
    return card
  }
}

/** It was read, and is of no use: other than one that cannot be read now, it takes the place of the one before. */
class UnusableCard extends Error {
  override readonly name = 'UnusableCard'

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : 'The card is of no use', { cause })
  }
}

function jsonFrom(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}
