import type { RequestId } from '@modelcontextprotocol/server'

/**
 * The last that is said on each request: its answer, or what is kept in place of one. It is said once: the SDK would
 * keep a second one for as long as the session lives.
 */
export class LastWords {
  readonly #onTheirWay = new Map<RequestId, Promise<void>>()

  /** Whether that of this request is on its way. */
  has(id: RequestId): boolean {
    return this.#onTheirWay.has(id)
  }

  /** Only if nothing else is on its way. */
  async say(id: RequestId, word: () => Promise<void>): Promise<void> {
    if (this.#onTheirWay.has(id)) return
    const saying = word()
    this.#onTheirWay.set(id, saying)
    try {
      await saying
    } finally {
      this.#onTheirWay.delete(id)
    }
  }

  /** Resolves when none on any of these requests is on its way. Never rejects. */
  async arrived(ids: readonly RequestId[]): Promise<void> {
    await Promise.allSettled(ids.map(async (id) => this.#onTheirWay.get(id)))
  }
}
