import type { ServerResponse } from 'node:http'

/** How a response ended. */
export type ResponseEnd =
  | 'complete' // the whole answer went out
  | 'cut' // the server broke it off
  | 'client-gone' // the client closed its connection

/** A response that knows who ended it. */
export class OpenResponse {
  readonly raw: ServerResponse
  /** Aborts when the response is over, however it ended. */
  readonly signal: AbortSignal
  #isCut = false

  constructor(raw: ServerResponse, onEnd: (end: ResponseEnd) => void) {
    const over = new AbortController()
    this.raw = raw
    this.signal = over.signal
    raw.once('close', () => {
      onEnd(raw.writableFinished ? 'complete' : this.#isCut ? 'cut' : 'client-gone')
      over.abort()
    })
  }

  /** More can be written: neither ended nor cut nor left. */
  get isOpen(): boolean {
    return !this.#isCut && !this.signal.aborted && !this.raw.writableEnded
  }

  /** Resets the connection: what is on its way may be lost. */
  reset(): void {
    this.#isCut = true
    this.raw.socket?.resetAndDestroy()
  }

  /** Ends the connection in the middle of the body: what was written arrives. */
  breakOff(): void {
    this.#isCut = true
    this.raw.socket?.destroySoon()
  }
}
