import { LineReader } from './line-reader.ts'
import type { Redaction } from './redaction.ts'

export interface StderrRecordOptions {
  readonly redaction: Redaction
  /** Told each line, without secrets. */
  readonly onLine: (line: string) => void
}

const RING_BYTES = 64 * 1024
const TAIL_CHARACTERS = 4096
const LINE_CHARACTERS = 8192

/**
 * What a child writes to its standard error. It is read in any case, for a pipe that nobody reads stops the
 * child when it is full; and of it no more is kept than 64 KiB.
 */
export class StderrRecord {
  readonly #redaction: Redaction
  readonly #lines: LineReader
  #kept: Buffer = Buffer.alloc(0)
  #isCut = false

  constructor({ redaction, onLine }: StderrRecordOptions) {
    this.#redaction = redaction
    const tell = (line: string): void => {
      if (line.trim() !== '') onLine(redaction.applyToStart(line, LINE_CHARACTERS))
    }
    this.#lines = new LineReader({ maxBytes: RING_BYTES, onLine: tell, onTooLong: tell })
  }

  push(chunk: Buffer): void {
    const room = Math.max(0, RING_BYTES - chunk.length)
    this.#isCut ||= this.#kept.length > room
    const old = room === 0 ? Buffer.alloc(0) : this.#kept.subarray(-room)
    this.#kept = Buffer.concat([old, chunk.subarray(-RING_BYTES)])
    this.#lines.push(chunk)
  }

  end(): void {
    this.#lines.end()
  }

  /** The last 4 KiB, without secrets; undefined if there was nothing. */
  get tail(): string | undefined {
    const all = this.#redaction.applyTo(this.#kept.toString())
    // What was cut may begin with a part of a character, or of a secret.
    const clean = (this.#isCut ? all.slice(this.#redaction.longest + 1) : all).trim()
    return clean === '' ? undefined : clean.slice(-TAIL_CHARACTERS)
  }
}
