import { untilAborted } from '@x/internal'
import { GatewayError } from '../errors.ts'
import type { Clock } from './clock.ts'

/** Resolves like the promise, or after `ms` with what `late` returns. */
export function inTime<T>(
  promise: Promise<T>,
  {
    clock,
    ms,
    late,
  }: { readonly clock: Clock; readonly ms: number; readonly late: () => T | Promise<T> },
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => resolve(late()))
    void promise.then(resolve, reject).finally(cancel)
  })
}

/**
 * Resolves like the promise.
 *
 * @param what name of the operation, for the error
 * @throws GatewayError `UNAVAILABLE` when the time is over
 */
export function withDeadline<T>(
  promise: Promise<T>,
  { clock, ms, what }: { readonly clock: Clock; readonly ms: number; readonly what: string },
): Promise<T> {
  const late = async (): Promise<never> => {
    throw new GatewayError('UNAVAILABLE', `${what} took longer than ${ms} ms`)
  }
  return inTime(promise, { clock, ms, late })
}

/** Waits. @throws the reason of the signal */
export async function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  let undo: (() => void) | undefined
  const waited = new Promise<void>((resolve) => {
    undo = clock.after(ms, resolve)
  })
  await untilAborted(waited, signal).finally(() => undo?.())
}

/**
 * Yields the same values until the signal aborts, also while it waits for a value. Keeps no value: only the read in
 * flight listens to the signal.
 *
 * @throws the reason of the signal; errors of the values
 */
export async function* abortable<Value>(
  values: AsyncIterable<Value>,
  signal: AbortSignal,
): AsyncGenerator<Value> {
  signal.throwIfAborted()
  const iterator = values[Symbol.asyncIterator]()
  let hasEnded = false
  try {
    for (;;) {
      signal.throwIfAborted()
      const next = await untilAborted(iterator.next(), signal)
      if (next.done) {
        hasEnded = true
        return
      }
      yield next.value
    }
  } finally {
    // Not awaited: a source that hangs would also hang here.
    if (!hasEnded) void Promise.resolve(iterator.return?.()).catch(() => {})
  }
}

export interface DebouncerOptions {
  readonly clock: Clock
  /** Time without another event after which `onDue` is called. Milliseconds. */
  readonly quietMs: number
  /** Time after the first event after which `onDue` is called in any case. Milliseconds. */
  readonly maxMs: number
  readonly onDue: () => void
}

/** Makes one event of many that follow each other closely. */
export class Debouncer {
  readonly #options: DebouncerOptions
  #firstAt: number | undefined
  #cancel: (() => void) | undefined

  constructor(options: DebouncerOptions) {
    this.#options = options
  }

  /** Notes an event. */
  touch(): void {
    const { clock, quietMs, maxMs, onDue } = this.#options
    const now = clock.now()
    this.#firstAt ??= now
    this.#cancel?.()
    this.#cancel = clock.after(Math.max(0, Math.min(quietMs, this.#firstAt + maxMs - now)), () => {
      this.clear()
      onDue()
    })
  }

  /** Forgets all events. */
  clear(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#firstAt = undefined
  }
}

export interface SweeperOptions {
  readonly clock: Clock
  /** Time from the end of a sweep to the next. Milliseconds. */
  readonly everyMs: number
  /** Time until the first sweep. Milliseconds. @default `everyMs` */
  readonly firstMs?: number
  readonly sweep: () => Promise<void>
  /** Receives errors of a sweep. The next sweep takes place all the same. @default errors are ignored */
  readonly onError?: ((error: unknown) => void) | undefined
}

/** Removes expired things again and again, one sweep at a time. */
export class Sweeper {
  readonly #options: SweeperOptions
  #cancel: () => void = () => {}
  #sweeping: Promise<void> | undefined
  #isClosed = false

  constructor(options: SweeperOptions) {
    this.#options = options
    this.#wait(options.firstMs)
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Starts no more sweeps. Resolves at the end of the sweep in progress. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel()
    await this.#sweeping
  }

  #wait(ms = this.#options.everyMs): void {
    if (this.#isClosed) return
    const { clock, sweep, onError = () => {} } = this.#options
    this.#cancel = clock.after(ms, () => {
      this.#sweeping = sweep()
        .catch(onError)
        .finally(() => this.#wait())
    })
  }
}
