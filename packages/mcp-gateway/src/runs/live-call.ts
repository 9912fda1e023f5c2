import type { ToolOutcome } from './order.ts'
import type { StoredCall } from './call-store.ts'

interface LiveCallOptions {
  readonly runId: string
  /** Its record. `undefined`: the call has none, unless it asks or becomes a task. */
  readonly stored?: StoredCall | undefined
  /** The outcome of a call that was refused, or asked again: nothing is executed. */
  readonly over?: ToolOutcome | undefined
  /** The execution belongs to an engine, and takes place again while its agent is busy or absent. */
  readonly attempt?: LiveAttempt | undefined
}

interface LiveAttempt {
  /** As `RunAttempt.signal`. */
  readonly leaving: AbortSignal
  /** Another process can continue the call after this one. */
  readonly canContinue: boolean
}

/** One execution of a call in this process. Requests for the same call join it. */
export class LiveCall {
  readonly runId: string
  readonly over: ToolOutcome | undefined
  readonly attempt: LiveAttempt | undefined
  /** Number of the execution, as `CallRecord.attempt`. */
  readonly number: number
  stored: StoredCall | undefined
  /** As `RemoteRun`: the run that the execution joins, or has begun. */
  remote: unknown
  /** Is in flight while the call becomes a task. */
  keeping: Promise<unknown> | undefined
  outcome: Promise<ToolOutcome> | undefined
  /** Resolves when the end of the execution is stored. */
  done: Promise<void> = Promise.resolve()
  /** The agent has ended. Then the call cannot become a task. */
  isOver = false
  /** Its end or its question is stored. */
  isSettled = false
  message = ''
  undoNote: (() => void) | undefined
  undoWatch: (() => void) | undefined
  releaseLease: (() => void) | undefined
  /** Called when all requests for the call were cancelled. @default stops it */
  onAbandoned: (reason: unknown) => void = (reason) => this.stop(reason)
  readonly #stop = new AbortController()
  #waiting = 0

  constructor({ attempt, over, runId, stored }: LiveCallOptions) {
    this.runId = runId
    this.over = over
    this.attempt = attempt
    this.stored = stored
    this.number = stored?.call.attempt ?? 1
    const state = stored?.call.state
    if (state?.status === 'running') this.remote = state.remote
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  get isTask(): boolean {
    return this.stored?.call.task !== undefined
  }

  stop(reason?: unknown): void {
    this.#stop.abort(reason)
  }

  /** Waits for the outcome. @param signal aborts when the request gives up */
  async join(signal: AbortSignal): Promise<ToolOutcome> {
    this.#waiting++
    const leave = (): void => {
      this.#waiting--
      if (this.#waiting === 0 && !this.isTask) this.onAbandoned(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      if (!this.outcome) throw new Error('The call has not begun')
      return await this.outcome
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }
}
