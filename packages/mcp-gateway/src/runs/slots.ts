import { removeFrom } from '@x/internal'
import type { Clock } from '../internal/clock.ts'
import type { RunSettings } from '../options.ts'
import { busy } from './order.ts'

/** Limits of runs at a time, and of calls that wait. */
export type SlotSettings = Pick<
  RunSettings,
  'maxConcurrent' | 'maxConcurrentPerPrincipal' | 'maxQueued' | 'queueTimeoutMs'
>

/** The slots and calls of one owner. Removed when there are none. */
interface Owner {
  readonly id: string
  taken: number
}

interface Waiter {
  readonly owner: string
  readonly enter: () => void
  readonly giveUp: () => void
}

const TOO_MANY = 'Too many agents are running. Call again after 5 seconds.'

/**
 * Limits the runs at a time, of all callers and of each owner (see `slotOwnerOf`). The first that waits enters first, if
 * the limit of its owner allows it. When no more calls may wait, the owner with the most waiting calls loses its last
 * one to an owner with fewer, so that no owner can fill the queue.
 */
export class RunSlots {
  readonly #clock: Clock
  readonly #busyText: string
  #limits: SlotSettings
  /** Owners with slots. Arrays, because they change with every call: see `removeFrom`. */
  readonly #owners: Owner[] = []
  readonly #queue: Waiter[] = []
  #total = 0

  /** @param busyText message of the failure `busy` */
  constructor(clock: Clock, limits: SlotSettings, busyText: string = TOO_MANY) {
    this.#clock = clock
    this.#limits = limits
    this.#busyText = busyText
  }

  /** Changes the limits. Runs keep their slots, and waiting calls enter where there is room now. */
  limit(limits: SlotSettings): void {
    this.#limits = limits
    const waiting = [...this.#queue]
    for (const waiter of waiting) if (this.#isFree(waiter.owner)) waiter.enter()
  }

  /** Number of runs that have a slot, and of calls that wait for one. */
  get size(): { readonly taken: number; readonly queued: number } {
    return { taken: this.#total, queued: this.#queue.length }
  }

  /**
   * Waits for a slot. Call `release` once with the same owner.
   *
   * @throws RunFailure `busy`; the reason of the signal
   */
  async take(owner: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#isFree(owner)) return this.#count(owner)
    if (this.#queue.length >= this.#limits.maxQueued) this.#makeRoomFor(owner)
    return this.#wait(owner, signal)
  }

  release(owner: string): void {
    const found = this.#find(owner)
    if (found === undefined) return
    this.#total--
    found.taken--
    if (found.taken === 0) removeFrom(this.#owners, found)
    this.#queue.find((waiter) => this.#isFree(waiter.owner))?.enter()
  }

  /** Resolves when the slot is counted as taken, so that no other call gets it in between. */
  #wait(owner: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        removeFrom(this.#queue, waiter)
        undoTimer()
        signal.removeEventListener('abort', onAbort)
      }
      const waiter: Waiter = {
        owner,
        enter: () => {
          settle()
          this.#count(owner)
          resolve()
        },
        giveUp: () => {
          settle()
          reject(busy(this.#busyText))
        },
      }
      const onAbort = (): void => {
        settle()
        reject(signal.reason)
      }
      const undoTimer = this.#clock.after(this.#limits.queueTimeoutMs, waiter.giveUp)
      signal.addEventListener('abort', onAbort)
      this.#queue.push(waiter)
    })
  }

  /** @throws RunFailure `busy` if no owner has more waiting calls than this one would have */
  #makeRoomFor(owner: string): void {
    const counts = new Map<string, number>()
    for (const waiter of this.#queue) counts.set(waiter.owner, (counts.get(waiter.owner) ?? 0) + 1)
    const own = counts.get(owner) ?? 0
    const [greediest, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), [owner, own])
    if (most <= own + 1) throw busy(this.#busyText)
    this.#queue.findLast((waiter) => waiter.owner === greediest)?.giveUp()
  }

  #isFree(owner: string): boolean {
    const { maxConcurrent, maxConcurrentPerPrincipal } = this.#limits
    if (this.#total >= maxConcurrent) return false
    return (this.#find(owner)?.taken ?? 0) < maxConcurrentPerPrincipal
  }

  #count(id: string): void {
    this.#total++
    const found = this.#find(id)
    if (found === undefined) this.#owners.push({ id, taken: 1 })
    else found.taken++
  }

  #find(id: string): Owner | undefined {
    return this.#owners.find((owner) => owner.id === id)
  }
}
