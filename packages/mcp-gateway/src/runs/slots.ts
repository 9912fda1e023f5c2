import { removeFrom } from '@x/internal'
import type { Clock } from '../internal/clock.ts'
import type { RunSettings } from '../options.ts'
import { busy } from './order.ts'

/** Limits of runs at a time, and of calls that wait. */
export interface SlotSettings extends Pick<
  RunSettings,
  'maxConcurrent' | 'maxConcurrentPerPrincipal'
> {
  /** Number of calls that wait. Half of them may be of one account. */
  readonly maxQueued: number
  readonly busyText: string
}

interface Waiter {
  readonly account: string
  /** Takes a slot, or fails with the error. */
  readonly end: (error?: unknown) => void
}

/** The queue of all runs. Half of it holds a burst of 50 calls of one client, which hosts of agents send. */
export const RUN_QUEUE: Pick<SlotSettings, 'maxQueued' | 'busyText'> = {
  maxQueued: 128,
  busyText: 'Too many agents are running. Call again after 5 seconds.',
}
/** Time that a call waits before it fails with `busy`. */
const QUEUE_MS = 30_000

/**
 * Limits the runs at a time, of all callers and of each account (see `accountOf`). The first that waits enters first, if
 * the limit of its account allows it. No account can fill the queue.
 */
export class RunSlots {
  readonly #clock: Clock
  readonly #limits: SlotSettings
  /** The account of each slot that is taken. An array, because it changes with every call: see `removeFrom`. */
  readonly #taken: string[] = []
  readonly #queue: Waiter[] = []

  constructor(clock: Clock, limits: SlotSettings) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Number of runs that have a slot, and of calls that wait for one. */
  get size(): { readonly taken: number; readonly queued: number } {
    return { taken: this.#taken.length, queued: this.#queue.length }
  }

  /**
   * Waits for a slot. Call `release` once with the same account.
   *
   * @throws RunFailure `busy`; the reason of the signal
   */
  async take(account: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#isFree(account)) return void this.#taken.push(account)
    const { busyText, maxQueued } = this.#limits
    const own = this.#queue.filter((waiter) => waiter.account === account).length
    if (this.#queue.length >= maxQueued || own >= maxQueued / 2) throw busy(busyText)
    return this.#wait(account, signal)
  }

  release(account: string): void {
    if (removeFrom(this.#taken, account))
      this.#queue.find((each) => this.#isFree(each.account))?.end()
  }

  /** Resolves when the slot is counted as taken, so that no other call gets it in between. */
  #wait(account: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (error?: unknown): void => {
        removeFrom(this.#queue, waiter)
        undoTimer()
        signal.removeEventListener('abort', onAbort)
        if (error !== undefined) return reject(error)
        this.#taken.push(account)
        resolve()
      }
      const waiter: Waiter = { account, end }
      const onAbort = (): void => end(signal.reason)
      const onLate = (): void => end(busy(this.#limits.busyText))
      const undoTimer = this.#clock.after(QUEUE_MS, onLate)
      signal.addEventListener('abort', onAbort)
      this.#queue.push(waiter)
    })
  }

  #isFree(account: string): boolean {
    const { maxConcurrent, maxConcurrentPerPrincipal } = this.#limits
    if (this.#taken.length >= maxConcurrent) return false
    return this.#taken.filter((each) => each === account).length < maxConcurrentPerPrincipal
  }
}
