import type { Clock } from '../internal/clock.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import { inTime } from '../internal/timers.ts'
import type { GatewayStore } from '../store/gateway-store.ts'

/** Time for which an outcome is used again: everybody can ask for readiness, and each check writes. Milliseconds. */
const FRESH_MS = 5000
/** Orchestrators count a probe without an answer as failed soon after this time. Milliseconds. */
const CHECK_MS = 2000

export interface StoreReadinessOptions {
  readonly store: Pick<GatewayStore, 'isReady'>
  readonly clock: Clock
  /** Receives the reason, once for each time that the store fails. Only the log may name paths and hosts. */
  readonly onWarning: Required<GatewayObserver>['warned']
}

/** Finds out whether the store can be written: one check at a time, bounded, and not more often than every few seconds. */
export class StoreReadiness {
  readonly #options: StoreReadinessOptions
  #checking: Promise<boolean> | undefined
  #known: { readonly isReady: boolean; readonly until: number } | undefined

  constructor(options: StoreReadinessOptions) {
    this.#options = options
  }

  /** Never rejects. */
  isReady(): Promise<boolean> {
    const { clock } = this.#options
    if (this.#known && clock.now() < this.#known.until) return Promise.resolve(this.#known.isReady)
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    const late = (): boolean => {
      return this.#note(false, new Error(`The store did not answer within ${CHECK_MS} ms`))
    }
    return inTime(this.#checking, { clock, ms: CHECK_MS, late })
  }

  async #check(): Promise<boolean> {
    try {
      return this.#note(await this.#options.store.isReady())
    } catch (error) {
      return this.#note(false, error)
    }
  }

  #note(isReady: boolean, reason?: unknown): boolean {
    const { clock, onWarning } = this.#options
    if (!isReady && this.#known?.isReady !== false) {
      onWarning('The store cannot be used, so the gateway is not ready', reason)
    }
    this.#known = { isReady, until: clock.now() + FRESH_MS }
    return isReady
  }
}
