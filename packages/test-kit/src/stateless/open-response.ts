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
  #end: ResponseEnd | undefined

  constructor(raw: ServerResponse, onEnd: (end: ResponseEnd) => void) {
    const over = new AbortController()
    this.raw = raw
    this.signal = over.signal
    raw.once('close', () => {
      this.#end = raw.writableFinished ? 'complete' : this.#isCut ? 'cut' : 'client-gone'
      onEnd(this.#end)
      over.abort()
    })
  }

  /** Absent while it goes on. */
  get end(): ResponseEnd | undefined {
    return this.#end
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
