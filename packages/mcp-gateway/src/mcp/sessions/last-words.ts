import type { RequestId } from '@modelcontextprotocol/server'

/**
 * The last that is said on each request: its answer, or what is kept in place of one. It is said once: the SDK would
 * keep a second one for as long as the session lives.
 */
export class LastWords {
  /** Made when it is needed: sessions are many, and most of them have nothing to say. */
  #onTheirWay: Map<RequestId, Promise<void>> | undefined

  /** Whether that of this request is on its way. */
  has(id: RequestId): boolean {
    return this.#onTheirWay?.has(id) ?? false
  }

  /** Only if nothing else is on its way. */
  async say(id: RequestId, word: () => Promise<void>): Promise<void> {
    if (this.has(id)) return
    const onTheirWay = (this.#onTheirWay ??= new Map())
    const saying = word()
    onTheirWay.set(id, saying)
    try {
      await saying
    } finally {
      onTheirWay.delete(id)
    }
  }

  /** Resolves when none on any of these requests is on its way. Never rejects. */
  async arrived(ids: readonly RequestId[]): Promise<void> {
    await Promise.allSettled(ids.map(async (id) => this.#onTheirWay?.get(id)))
  }
}
