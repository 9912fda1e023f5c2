import type { ToolOutcome } from './tool-outcome.ts'

/** One call that several wait for. It goes on as long as one of them does. */
export class JoinedCall {
  readonly #start: (signal: AbortSignal) => Promise<ToolOutcome>
  readonly #controller = new AbortController()
  #waiting = 0
  #outcome: Promise<ToolOutcome> | undefined

  /** @param start begins the call, for the first who joins */
  constructor(start: (signal: AbortSignal) => Promise<ToolOutcome>) {
    this.#start = start
  }

  /** Nobody waits for it any more: it is told to stop. */
  get isGivenUp(): boolean {
    return this.#controller.signal.aborted
  }

  /** Resolves when it is over. Never rejects. */
  get ended(): Promise<void> {
    return Promise.resolve(this.#outcome).then(nothing, nothing)
  }

  /** Waits for the outcome. @param signal aborts when this one gives up */
  async join(signal: AbortSignal): Promise<ToolOutcome> {
    this.#waiting += 1
    const leave = (): void => {
      this.#waiting -= 1
      if (this.#waiting === 0) this.#controller.abort()
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      this.#outcome ??= this.#start(this.#controller.signal)
      return await this.#outcome
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }
}

function nothing(): void {}
