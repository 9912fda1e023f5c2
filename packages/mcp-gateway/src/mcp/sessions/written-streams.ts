export interface WrittenStreamsOptions {
  /** How long the events of a stream are kept after the last one. */
  readonly ttlMs: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}

interface WrittenStream {
  /** In the log. */
  readonly name: string
  endsAt: number
  isBroken: boolean
}

/** Streams that a session writes here, for as long as somebody may come back to them. */
export class WrittenStreams {
  readonly #options: WrittenStreamsOptions
  /** In the order of their ends. */
  readonly #streams = new Map<string, WrittenStream>()

  constructor(options: WrittenStreamsOptions) {
    this.#options = options
  }

  get all(): readonly string[] {
    return [...this.#streams.keys()]
  }

  has(stream: string): boolean {
    return this.#streams.has(stream)
  }

  /** In the log. */
  nameOf(stream: string): string | undefined {
    return this.#streams.get(stream)?.name
  }

  /** It says something. @returns its name in the log; `undefined`: it is to begin */
  goOn(stream: string): string | undefined {
    const written = this.#streams.get(stream)
    if (!written) return undefined
    this.#streams.delete(stream)
    this.#put(stream, written)
    return written.name
  }

  begin(stream: string, name: string): void {
    this.#forgetEnded()
    this.#put(stream, { name, endsAt: 0, isBroken: false })
  }

  /** An event of it could not be kept: nobody can come back to it. */
  break(stream: string): void {
    const written = this.#streams.get(stream)
    if (written) written.isBroken = true
  }

  isBroken(stream: string): boolean {
    return this.#streams.get(stream)?.isBroken ?? false
  }

  forget(stream: string): void {
    this.#streams.delete(stream)
  }

  #put(stream: string, written: WrittenStream): void {
    const { now, ttlMs } = this.#options
    written.endsAt = now() + ttlMs
    this.#streams.set(stream, written)
  }

  /** The log forgets their events by itself. */
  #forgetEnded(): void {
    const now = this.#options.now()
    for (const [stream, { endsAt }] of this.#streams) {
      if (endsAt > now) return
      this.#streams.delete(stream)
    }
  }
}
