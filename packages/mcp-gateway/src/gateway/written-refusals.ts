import type { RefusedRequest } from '../internal/observer.ts'

/** How a client begins to sign in, and how one goes on that comes too often. */
const USUAL: ReadonlySet<RefusedRequest['reason']> = new Set(['no_credential', 'too_many'])

const MINUTE_MS = 60_000
const MOST_PER_MINUTE = 60

export interface WrittenRefusalsOptions {
  /** More came in this minute than have a line each: told once. */
  readonly onMore: () => void
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

/** Chooses which refusals have a line of the audit: anybody can be refused without end, and would fill the log. */
export class WrittenRefusals {
  readonly #onMore: () => void
  readonly #now: () => number
  #minute = 0
  #count = 0

  constructor({ onMore, now = Date.now }: WrittenRefusalsOptions) {
    this.#onMore = onMore
    this.#now = now
  }

  isWritten({ reason }: RefusedRequest): boolean {
    if (USUAL.has(reason)) return false
    const minute = Math.floor(this.#now() / MINUTE_MS)
    if (minute !== this.#minute) this.#count = 0
    this.#minute = minute
    if (++this.#count === MOST_PER_MINUTE + 1) this.#onMore()
    return this.#count <= MOST_PER_MINUTE
  }
}
