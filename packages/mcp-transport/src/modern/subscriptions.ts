import { closedError } from '../closed-error.ts'
import { TransportError } from '../transport-error.ts'
import { Listener } from './listener.ts'
import type { ListenerOptions, SubscriptionFilter } from './listener.ts'

export type SubscriptionsOptions = Omit<ListenerOptions, 'filter' | 'identity' | 'isAfterGap'> & {
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
  /** Not acknowledged yet; takes the place of the current one then. */
  #next: Listener | undefined
  #changing: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  /** Listens for list changes, where the server has any to tell. Nothing wanted, nothing opened. */
  open(): void {
    if (this.#current !== undefined || this.#isClosed || !this.#isAnyWanted()) return
    const first = this.#listen(this.#uris)
    this.#current = first
    first.acknowledged.catch((error: unknown) => {
      // That it could never be reached is told here; that there is no stream to be had is no trouble.
      const isReached = !TransportError.is(error) || error.code !== 'UNREACHABLE'
      if (!isReached && !this.#isClosed) this.#options.report(error)
    })
  }

  /**
   * Returns false if the server does not tell of this resource.
   *
   * @throws TransportError if it could not be asked, this was closed, or nobody waits any more.
   */
  subscribe(uri: string, signal: AbortSignal): Promise<boolean> {
    return this.#inOrder(async () => {
      if (this.#uris.has(uri)) return true
      const wanted = new Set(this.#uris).add(uri)
      const isEnough = ({ resourceSubscriptions = [] }: SubscriptionFilter): boolean =>
        resourceSubscriptions.includes(uri)
      const honoured = await this.#replace(wanted, isEnough, signal)
      if (honoured) this.#uris.add(uri)
      return honoured
    })
  }

  /** Never fails: where no new stream is to be had, the old one tells more than was asked for. */
  unsubscribe(uri: string): Promise<void> {
    return this.#inOrder(async () => {
      if (!this.#uris.delete(uri)) return
      if (this.#isAnyWanted()) {
        await this.#replace(this.#uris, () => true).catch(() => {})
      } else {
        this.#current?.close()
        this.#current = undefined
      }
    })
  }

  /** The server has answered a request. */
  wake(): void {
    this.#current?.wake()
  }

  close(): void {
    this.#isClosed = true
    this.#current?.close()
    this.#next?.close()
  }

  #isAnyWanted(): boolean {
    return this.#uris.size > 0 || Object.keys(this.#options.changes).length > 0
  }

  /** Opens a stream for these, and closes the one before if the server agrees to what is asked. */
  async #replace(
    uris: ReadonlySet<string>,
    isEnough: (honoured: SubscriptionFilter) => boolean,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (this.#isClosed || signal?.aborted === true) {
      const url = this.#options.http.url.display
      throw closedError('Nothing was asked: this side gave up before', url)
    }
    const next = this.#listen(uris)
    this.#next = next
    const giveUp = (): void => next.close()
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      if (isEnough(await next.acknowledged)) {
        this.#current?.close()
        this.#current = next
        return true
      }
      next.close()
      return false
    } catch (error) {
      next.close()
      throw error
    } finally {
      signal?.removeEventListener('abort', giveUp)
      this.#next = undefined
    }
  }

  #listen(uris: ReadonlySet<string>): Listener {
    const { changes, identity, ...options } = this.#options
    const filter = { ...changes, ...(uris.size === 0 ? {} : { resourceSubscriptions: [...uris] }) }
    const isAfterGap = this.#current?.isBroken
    return new Listener({ ...options, identity: identity(), filter, isAfterGap })
  }

  #inOrder<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change)
    this.#changing = done.catch(() => {})
    return done
  }
}
