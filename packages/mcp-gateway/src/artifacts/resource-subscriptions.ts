/** Who follows which URI. Pure bookkeeping: whose a URI is, and how to tell, is known elsewhere. */
export class ResourceSubscriptions<Subscriber> {
  readonly #max: number
  readonly #byUri = new Map<string, Set<Subscriber>>()
  readonly #bySubscriber = new Map<Subscriber, Set<string>>()

  /** @param maxPerSubscriber @default 256 */
  constructor(maxPerSubscriber = 256) {
    this.#max = maxPerSubscriber
  }

  /** Twice is the same as once. @returns `false`: this one follows as many as it may */
  add(subscriber: Subscriber, uri: string): boolean {
    const uris = this.#bySubscriber.get(subscriber) ?? new Set()
    if (!uris.has(uri) && uris.size >= this.#max) return false
    this.#bySubscriber.set(subscriber, uris.add(uri))
    this.#byUri.set(uri, (this.#byUri.get(uri) ?? new Set()).add(subscriber))
    return true
  }

  delete(subscriber: Subscriber, uri: string): void {
    const uris = this.#bySubscriber.get(subscriber)
    uris?.delete(uri)
    if (uris?.size === 0) this.#bySubscriber.delete(subscriber)
    const subscribers = this.#byUri.get(uri)
    subscribers?.delete(subscriber)
    if (subscribers?.size === 0) this.#byUri.delete(uri)
  }

  /** It has gone: nothing of it is left. */
  forget(subscriber: Subscriber): void {
    for (const uri of this.#bySubscriber.get(subscriber) ?? []) this.delete(subscriber, uri)
  }

  /** Who hears of a change of it. */
  of(uri: string): readonly Subscriber[] {
    return [...(this.#byUri.get(uri) ?? [])]
  }

  /** All that one follows; after a gap any of them may have changed. */
  urisOf(subscriber: Subscriber): readonly string[] {
    return [...(this.#bySubscriber.get(subscriber) ?? [])]
  }

  /** How many URIs are followed. */
  get size(): number {
    return this.#byUri.size
  }
}
