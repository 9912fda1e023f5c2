import { closeNewestFirst } from './close-newest-first.ts'
import type { CloseErrorListener } from './close-newest-first.ts'
import { isRunId, newRunId } from './run-id.ts'

/**
 * How a run ended: it is over, or it has stopped at an interrupt and will be continued, perhaps by another
 * process, so that what it has on servers must stay.
 */
export type RunEnd = 'ended' | 'detached'

/** A run, as the code in it sees it. */
export interface CurrentRun {
  /** `run_` and 16 hex digits; for logs, metrics and keys. */
  readonly id: string
  /** False as soon as it begins to end: from then on nothing is opened in it. */
  readonly isOpen: boolean
  /** Aborts when the run does, with the same reason: for what is not called through a `SessionPool`. */
  readonly signal: AbortSignal
  /** Whatever the run has on servers stays there when it ends, for whoever continues it. */
  detach(): void
  /**
   * Closes something at the end of the run; what came last is closed first.
   *
   * @throws TypeError if the run has ended
   */
  defer(close: (end: RunEnd) => unknown): void
}

/**
 * One invocation of a root agent, with everything that it opens; of that it knows nothing but how to
 * close it. Whoever makes one ends it, and nobody else.
 */
export class Run implements CurrentRun {
  readonly id: string
  readonly #closers: ((end: RunEnd) => unknown)[] = []
  readonly #onCloseError: CloseErrorListener
  readonly #aborting = new AbortController()
  #isDetached = false
  #closing: Promise<void> | undefined

  /** @throws TypeError for an id that is not one of a run */
  constructor({ id = newRunId(), onCloseError }: RunOptions) {
    if (!isRunId(id)) throw new TypeError('The id of a run is "run_" and 16 hex digits')
    this.id = id
    this.#onCloseError = onCloseError
    // Shared by all code that belongs to the run.
    Object.freeze(this)
  }

  get isOpen(): boolean {
    return this.#closing === undefined
  }

  get signal(): AbortSignal {
    return this.#aborting.signal
  }

  detach(): void {
    this.#isDetached = true
  }

  defer(close: (end: RunEnd) => unknown): void {
    if (!this.isOpen) throw new TypeError(`Run ${this.id} has ended: nothing can be added to it`)
    this.#closers.push(close)
  }

  /** Gives up what is in progress, and ends. Never rejects. */
  async abort(reason: unknown): Promise<void> {
    // Before anything is closed: what is in flight shall be told why, and be cancelled on the server.
    if (this.isOpen) this.#aborting.abort(reason)
    await this.end()
  }

  /** Idempotent. Resolves when everything is closed, or was given up; never rejects. */
  end(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    const closers = this.#closers.splice(0)
    const end = this.#isDetached ? 'detached' : 'ended'
    // Marked as ended before anything is closed: a closer may call what refuses to work in an ended run.
    this.#closing = Promise.resolve().then(() =>
      closeNewestFirst(
        closers.map((close) => () => close(end)),
        { onError: this.#onCloseError },
      ),
    )
    return this.#closing
  }
}

export interface RunOptions {
  readonly id?: string | undefined
  readonly onCloseError: CloseErrorListener
}
