import type { Clock } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { Records } from './gateway-store.ts'

/** Time to live of the lease: other processes notice the death of this one within it. Milliseconds. */
const TTL_MS = 3500
const RENEW_MS = 700

/**
 * Shows other processes that this one is alive, while something needs that: a call with a stream, or an idempotency
 * key. A process whose event loop is blocked for `TTL_MS` counts as dead until it renews the lease.
 */
export class ProcessLease implements AsyncDisposable {
  /** 16 hexadecimal digits. Part of the ids of server requests and of the headers of logs. */
  readonly id: string = randomHex(8)
  readonly #records: Records
  readonly #clock: Clock
  #holders = 0
  #stopTimer: (() => void) | undefined
  /** The last write of the lease, in flight or done. */
  #written: { readonly at: number; readonly done: Promise<unknown> } | undefined

  constructor(records: Records, clock: Clock) {
    this.#records = records
    this.#clock = clock
  }

  /**
   * Holds the lease until the returned function is called. Resolves when other processes can see it.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async hold(): Promise<() => void> {
    this.#holders++
    this.#stopTimer ??= this.#renewLater()
    let isHeld = true
    const release = (): void => {
      if (isHeld) this.#holders--
      isHeld = false
      if (this.#holders === 0) this.#stopRenewing()
    }
    try {
      const isFresh = this.#written !== undefined && this.#clock.now() - this.#written.at < RENEW_MS
      await (isFresh ? this.#written?.done : this.#renew())
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  /** Returns whether the process with this id is alive. @throws GatewayError `UNAVAILABLE` */
  async isAlive(id: string): Promise<boolean> {
    return id === this.id || (await this.#records.get(keyOf(id))) !== undefined
  }

  /** Ends the lease: other processes see this one as dead at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopRenewing()
    const written = this.#written
    this.#written = undefined
    if (written === undefined) return
    await written.done.catch(() => {}) // a write that is in flight would bring the record back
    await this.#records.delete(keyOf(this.id))
  }

  #renew(): Promise<unknown> {
    const written = {
      at: this.#clock.now(),
      done: this.#records.put(keyOf(this.id), 1, { ttlMs: TTL_MS }),
    }
    this.#written = written
    written.done.catch(() => {
      if (this.#written === written) this.#written = undefined
    })
    return written.done
  }

  #renewLater(): () => void {
    return this.#clock.after(RENEW_MS, () => {
      this.#stopTimer = this.#renewLater()
      this.#renew().catch(() => {})
    })
  }

  #stopRenewing(): void {
    this.#stopTimer?.()
    this.#stopTimer = undefined
  }
}

function keyOf(id: string): string {
  return `process:${id}`
}
