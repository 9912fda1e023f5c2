import type { JSONRPCErrorResponse, JSONRPCResultResponse } from '@modelcontextprotocol/server'

import { silentEnd } from './session-refusals.ts'

/** What a request is answered with: in one piece, or by a stream that goes on. */
export type HeldOutcome =
  | { readonly type: 'answer'; readonly message: JSONRPCResultResponse | JSONRPCErrorResponse }
  | { readonly type: 'stream'; readonly response: Response }

const NO_STREAM = Promise.resolve()

/**
 * A request that runs, and has no stream yet. What is answered in the turn in which it came needs none: nothing could
 * have been sent before, so that there is nothing to come back to. All others get theirs at the end of that turn, or
 * when something is to be said before the answer.
 */
export class HeldRequest {
  /** Rejects if no stream could be made. */
  readonly outcome: Promise<HeldOutcome>
  readonly #open: () => Promise<Response>
  readonly #turn: NodeJS.Immediate | undefined
  #settle!: (outcome: HeldOutcome | Promise<HeldOutcome>) => void
  #opened: Promise<void> | undefined

  /**
   * @param open makes a stream for it, on which its answer, and what comes before, is to be sent
   * @param waits gets no stream at the end of the turn: its answer may be larger than the events that clients accept
   */
  constructor(open: () => Promise<Response>, { waits }: { readonly waits: boolean }) {
    this.#open = open
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve
    })
    if (!waits) this.#turn = setImmediate(() => void this.opened())
  }

  /** @returns whether this was in time; else it is for the stream */
  answer(message: JSONRPCResultResponse | JSONRPCErrorResponse): boolean {
    return !this.#opened && this.#end({ type: 'answer', message })
  }

  /** Nobody will answer it, and its client is told of no error: what it did is not known. @returns as `answer` */
  end(): boolean {
    return !this.#opened && this.#end({ type: 'stream', response: silentEnd() })
  }

  /** Resolves when there is a stream, or cannot be one (any more). */
  opened(): Promise<void> {
    return (this.#opened ??= this.#stream())
  }

  #end(outcome: HeldOutcome): true {
    this.#opened = NO_STREAM
    clearImmediate(this.#turn)
    this.#settle(outcome)
    return true
  }

  async #stream(): Promise<void> {
    clearImmediate(this.#turn)
    const opening = this.#open().then((response): HeldOutcome => ({ type: 'stream', response }))
    this.#settle(opening)
    await opening.catch(() => undefined)
  }
}
