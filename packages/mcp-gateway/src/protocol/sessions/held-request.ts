import type { JSONRPCErrorResponse, JSONRPCResultResponse } from '@modelcontextprotocol/server'

/** What a request is answered with: in one piece, or by a stream that goes on. */
export type HeldOutcome =
  | { readonly type: 'answer'; readonly message: JSONRPCResultResponse | JSONRPCErrorResponse }
  | { readonly type: 'stream'; readonly response: Response }

export interface HeldRequestOptions {
  readonly request: Request
  /** Makes a stream for it. Its answer, and what comes before, is to be sent on it. */
  readonly open: () => Promise<Response>
}

/**
 * A request that runs, and has no stream yet. What is answered in the turn in which it came needs none: nothing could
 * have been sent before, so that there is nothing to come back to. All others get theirs at the end of that turn, or
 * when something is to be said before the answer.
 */
export class HeldRequest {
  readonly request: Request
  /** Rejects if no stream could be made. */
  readonly outcome: Promise<HeldOutcome>
  readonly #open: () => Promise<Response>
  readonly #turn: NodeJS.Immediate
  #settle!: (outcome: HeldOutcome | Promise<HeldOutcome>) => void
  #opened: Promise<unknown> | undefined

  constructor({ request, open }: HeldRequestOptions) {
    this.request = request
    this.#open = open
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve
    })
    this.#turn = setImmediate(() => void this.opened())
  }

  /** @returns whether this was in time; else it is for the stream */
  answer(message: JSONRPCResultResponse | JSONRPCErrorResponse): boolean {
    if (this.#opened) return false
    clearImmediate(this.#turn)
    this.#settle({ type: 'answer', message })
    return true
  }

  /** Resolves when there is a stream, or cannot be one. */
  opened(): Promise<unknown> {
    return (this.#opened ??= this.#stream())
  }

  /** Nobody will answer it. Its client is told of no error: what it did is not known. */
  end(): void {
    if (this.#opened) return
    this.#opened = Promise.resolve()
    clearImmediate(this.#turn)
    const headers = { 'content-type': 'text/event-stream' }
    this.#settle({ type: 'stream', response: new Response('', { headers }) })
  }

  async #stream(): Promise<void> {
    clearImmediate(this.#turn)
    const opening = this.#open().then((response): HeldOutcome => ({ type: 'stream', response }))
    this.#settle(opening)
    await opening.catch(() => undefined)
  }
}
