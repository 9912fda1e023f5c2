const NEWLINE = 0x0a

export interface LineReaderOptions {
  /** A line that is longer is given up. */
  readonly maxBytes: number
  readonly onLine: (line: string) => void
  /** Once for each line that is too long, with its start. What follows of it is passed over. */
  readonly onTooLong: (start: string) => void
}

/** Cuts a stream of bytes into lines of UTF-8, without holding more than one line. */
export class LineReader {
  readonly #options: LineReaderOptions
  #parts: Buffer[] = []
  #bytes = 0
  #isSkipping = false

  constructor(options: LineReaderOptions) {
    this.#options = options
  }

  push(chunk: Buffer): void {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
      this.#add(chunk.subarray(from, at))
      this.#endLine()
      from = at + 1
    }
    this.#add(chunk.subarray(from))
  }

  /** The stream has ended: what came after the last line break is a line, too. */
  end(): void {
    if (this.#bytes > 0) this.#endLine()
  }

  #add(part: Buffer): void {
    if (this.#isSkipping || part.length === 0) return
    this.#parts.push(part)
    this.#bytes += part.length
    if (this.#bytes <= this.#options.maxBytes) return
    const start = this.#take().subarray(0, this.#options.maxBytes).toString()
    this.#isSkipping = true
    this.#options.onTooLong(start)
  }

  #endLine(): void {
    const isSkipped = this.#isSkipping
    this.#isSkipping = false
    const line = this.#take().toString() // what is no UTF-8 becomes U+FFFD
    if (!isSkipped) this.#options.onLine(line.endsWith('\r') ? line.slice(0, -1) : line)
  }

  #take(): Buffer {
    const [only] = this.#parts
    const all = this.#parts.length === 1 && only !== undefined ? only : Buffer.concat(this.#parts)
    this.#parts = []
    this.#bytes = 0
    return all
  }
}
