import type { RunSettings } from '../options.ts'
import type { Clock } from '../internal/clock.ts'
import { subnetOf } from '../internal/principal.ts'
import { RunFailure } from '../agents/run-failure.ts'
import type { RunRequest } from './run-request.ts'

/** How many runs there may be at a time, and how many calls may wait. */
export type SlotSettings = Pick<
  RunSettings,
  'maxConcurrent' | 'maxConcurrentPerPrincipal' | 'maxQueued' | 'queueTimeoutMs'
>

interface Waiter {
  readonly principal: string
  readonly enter: () => void
  readonly giveUp: () => void
}

/** Whose slot a call takes: all that are anonymous share one name, and are told apart by address where it is known. */
export function slotOwnerOf({
  principal,
  address,
}: Pick<RunRequest, 'principal' | 'address'>): string {
  const isPlaced = principal.isAnonymous && address !== undefined
  return isPlaced ? `address\0${subnetOf(address)}` : `principal\0${principal.id}`
}

/**
 * How many runs go on at a time, for all and for each principal. Who comes first goes first, as far as its own
 * limit allows. Where no more calls can wait, the principal with the most of them gives up its last one to
 * another that has fewer: nobody can fill the queue for all.
 */
export class RunSlots {
  readonly #clock: Clock
  #limits: SlotSettings
  readonly #taken = new Map<string, number>()
  readonly #queue = new Set<Waiter>()
  #total = 0

  constructor(clock: Clock, limits: SlotSettings) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Other limits. Who has a slot keeps it, and who waits enters where there is room now. */
  limit(limits: SlotSettings): void {
    this.#limits = limits
    for (const waiter of this.#queue) if (this.#isFree(waiter.principal)) waiter.enter()
  }

  /** Runs that have a slot, and calls that wait for one. */
  get size(): { readonly taken: number; readonly queued: number } {
    return { taken: this.#total, queued: this.#queue.size }
  }

  /**
   * Waits for a slot. The function that it resolves with gives it back; a second call does nothing.
   *
   * @throws RunFailure `busy`; the reason of the signal
   */
  async take(principal: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#isFree(principal)) return this.#enter(principal)
    if (this.#queue.size >= this.#limits.maxQueued) this.#makeRoomFor(principal)
    await this.#wait(principal, signal)
    return this.#leaveOnce(principal)
  }

  /** Resolves when the slot is already counted as taken, so that nobody can come in between. */
  #wait(principal: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#queue.delete(waiter)
        undoTimer()
        signal.removeEventListener('abort', onAbort)
      }
      const waiter: Waiter = {
        principal,
        enter: () => {
          settle()
          this.#count(principal)
          resolve()
        },
        giveUp: () => {
          settle()
          reject(busy())
        },
      }
      const onAbort = (): void => {
        settle()
        reject(signal.reason)
      }
      const undoTimer = this.#clock.after(this.#limits.queueTimeoutMs, () => waiter.giveUp())
      signal.addEventListener('abort', onAbort)
      this.#queue.add(waiter)
    })
  }

  /** @throws RunFailure `busy` where nobody has more calls waiting, this one counted */
  #makeRoomFor(principal: string): void {
    const counts = new Map<string, number>()
    for (const { principal: one } of this.#queue) counts.set(one, (counts.get(one) ?? 0) + 1)
    const own = counts.get(principal) ?? 0
    const [greediest, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), [principal, own])
    if (most <= own + 1) throw busy()
    const last = [...this.#queue].findLast((waiter) => waiter.principal === greediest)
    last?.giveUp()
  }

  #isFree(principal: string): boolean {
    const { maxConcurrent, maxConcurrentPerPrincipal } = this.#limits
    const own = this.#taken.get(principal) ?? 0
    return this.#total < maxConcurrent && own < maxConcurrentPerPrincipal
  }

  #enter(principal: string): () => void {
    this.#count(principal)
    return this.#leaveOnce(principal)
  }

  #count(principal: string): void {
    this.#total += 1
    this.#taken.set(principal, (this.#taken.get(principal) ?? 0) + 1)
  }

  #leaveOnce(principal: string): () => void {
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      this.#total -= 1
      const left = (this.#taken.get(principal) ?? 1) - 1
      if (left > 0) this.#taken.set(principal, left)
      else this.#taken.delete(principal)
      for (const waiter of this.#queue) {
        if (!this.#isFree(waiter.principal)) continue
        waiter.enter()
        return
      }
    }
  }
}

const RETRY_AFTER_MS = 5000

function busy(): RunFailure {
  const seconds = RETRY_AFTER_MS / 1000
  return new RunFailure(
    'busy',
    `Too many agents are running. Call again after ${seconds} seconds.`,
    { retryAfterMs: RETRY_AFTER_MS },
  )
}
