import { Listener } from './listener.ts'
import type { ListenerOptions, SubscriptionFilter } from './listener.ts'

export type SubscriptionsOptions = Omit<ListenerOptions, 'filter' | 'identity'> & {
  readonly identity: () => ListenerOptions['identity']
  /** The list changes that the server advertises. */
  readonly changes: SubscriptionFilter
}

/**
 * What the client is subscribed to: one stream at a time holds all of it. Where that changes, the new
 * stream is acknowledged before the old one is closed, so that no moment is missed.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #uris = new Set<string>()
  #current: Listener | undefined
  #changing: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  /** Listens for list changes, where the server has any to tell. Nothing wanted, nothing opened. */
  open(): void {
    if (this.#current === undefined && Object.keys(this.#options.changes).length > 0) {
      this.#current = this.#listen(this.#uris)
    }
  }

  /**
   * Returns false if the server does not tell of this resource.
   *
   * @throws TransportError if it could not be asked.
   */
  subscribe(uri: string): Promise<boolean> {
    return this.#inOrder(async () => {
      if (this.#uris.has(uri)) return true
      const wanted = new Set(this.#uris).add(uri)
      const next = this.#listen(wanted)
      try {
        const { resourceSubscriptions = [] } = await next.acknowledged
        if (!resourceSubscriptions.includes(uri)) {
          next.close()
          return false
        }
      } catch (error) {
        next.close()
        throw error
      }
      this.#uris.add(uri)
      this.#replaceWith(next)
      return true
    })
  }

  unsubscribe(uri: string): Promise<void> {
    return this.#inOrder(async () => {
      if (!this.#uris.delete(uri)) return
      const isAnythingWanted = this.#uris.size > 0 || Object.keys(this.#options.changes).length > 0
      const next = isAnythingWanted ? this.#listen(this.#uris) : undefined
      await next?.acknowledged.catch(() => {}) // the old stream tells more than was asked for; that is all
      this.#replaceWith(next)
    })
  }

  close(): void {
    this.#isClosed = true
    this.#replaceWith(undefined)
  }

  #listen(uris: ReadonlySet<string>): Listener {
    const { changes, identity, ...options } = this.#options
    const filter = { ...changes, ...(uris.size === 0 ? {} : { resourceSubscriptions: [...uris] }) }
    return new Listener({ ...options, identity: identity(), filter })
  }

  #replaceWith(next: Listener | undefined): void {
    this.#current?.close()
    if (this.#isClosed) next?.close()
    this.#current = this.#isClosed ? undefined : next
  }

  #inOrder<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change)
    this.#changing = done.catch(() => {})
    return done
  }
}
