/** Makes lines of text of the chunks of a stream. PowerShell and .NET programs may write a byte order mark first. */
export class LineBuffer {
  readonly #maxBytes: number
  #chunks: Buffer[] = []
  #bytes = 0
  #lines: string[] = []

  /** @param maxBytes length of a line that has no end yet */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @throws Error for a line that is too long */
  append(chunk: Buffer): void {
    let rest = chunk
    for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n')) {
      this.#chunks.push(rest.subarray(0, end))
      const line = Buffer.concat(this.#chunks).toString().replace(/\r$/, '')
      this.#lines.push(line.startsWith('\uFEFF') ? line.slice(1) : line)
      this.#chunks = []
      this.#bytes = 0
      rest = rest.subarray(end + 1)
    }
    this.#chunks.push(rest)
    this.#bytes += rest.length
    if (this.#bytes <= this.#maxBytes) return
    this.clear()
    throw new Error(`A line is longer than ${this.#maxBytes} bytes`)
  }

  /** Takes the next complete line. */
  next(): string | undefined {
    return this.#lines.shift()
  }

  clear(): void {
    this.#chunks = []
    this.#bytes = 0
    this.#lines = []
  }
}
