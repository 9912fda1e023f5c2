import type { ServerResponse } from 'node:http'

export interface StreamHeadOptions {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Whether what it begins with may wait for what comes in the same turn. */
  readonly isGathering: boolean
}

/** Events that are there at once go out at once, if they are no more than this. */
const GATHERED_BYTES = 16_384

/**
 * The beginning of a stream. Most streams of events are whole in the turn in which they begin: they go out with their
 * head in one piece, and need no chunks. What comes later goes out as it comes, and the head before it.
 */
export class StreamHead {
  readonly #outgoing: ServerResponse
  readonly #options: StreamHeadOptions
  readonly #flushing: NodeJS.Immediate
  #gathered: Uint8Array[] | undefined
  #bytes = 0

  constructor(outgoing: ServerResponse, options: StreamHeadOptions) {
    const { status, headers, isGathering } = options
    this.#outgoing = outgoing
    this.#options = options
    if (isGathering) this.#gathered = []
    else outgoing.writeHead(status, headers)
    this.#flushing = setImmediate(() => this.flush())
  }

  /** @returns whether there is room for more */
  write(bytes: Uint8Array): boolean {
    if (!this.#gathered) {
      clearImmediate(this.#flushing)
      return this.#outgoing.write(bytes)
    }
    this.#gathered.push(bytes)
    this.#bytes += bytes.byteLength
    if (this.#bytes > GATHERED_BYTES) this.flush()
    return true
  }

  /** What was gathered goes out, and the head in any case. */
  flush(): void {
    clearImmediate(this.#flushing)
    const gathered = this.#gathered
    const { status, headers } = this.#options
    this.#gathered = undefined
    if (this.#outgoing.writableEnded || this.#outgoing.destroyed) return
    if (gathered) this.#outgoing.writeHead(status, headers)
    if (gathered && gathered.length > 0) this.#outgoing.write(Buffer.concat(gathered))
    else this.#outgoing.flushHeaders()
  }

  /** Nothing follows. */
  end(): true {
    const gathered = this.#gathered
    this.#gathered = undefined
    if (!gathered) return true
    const { status, headers } = this.#options
    const whole = { ...headers, 'content-length': String(this.#bytes) }
    // As text of one byte for each character, which goes out in one piece with the head.
    const text = Buffer.concat(gathered).toString('latin1')
    this.#outgoing.writeHead(status, whole).end(text, 'latin1')
    return true
  }
}
