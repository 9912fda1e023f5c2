import type { FileKind } from './file-kind.ts'
import type { InlineLimits } from './inline-limits.ts'
import type { ShownSize } from './shown-size.ts'

/** What is left of the limits of one result. */
export class InlineBudget {
  readonly #limits: InlineLimits
  #bytes: number
  #chars: number

  constructor(limits: InlineLimits) {
    this.#limits = limits
    // Bytes that no result can hold need not be kept in memory until it is made.
    this.#bytes = Math.min(limits.totalMaxBytes, limits.resultMaxBytes)
    this.#chars = limits.textMaxChars
  }

  /** Bytes that there is still room for, of whatever kind. */
  get bytes(): number {
    return this.#bytes
  }

  /** Characters of text that there is still room for. */
  get chars(): number {
    return this.#chars
  }

  /** Bytes that a file of a kind may have now, inclusive. */
  roomFor(kind: FileKind): number {
    return Math.min(this.#limits.maxBytes[kind], this.#bytes)
  }

  /** Takes the room of a file, if there is enough; else nothing. */
  spend(kind: FileKind, size: ShownSize): boolean {
    if (size.bytes > this.roomFor(kind) || size.chars > this.#chars) return false
    this.take(size)
    return true
  }

  /** Takes room for what is shown in any case, as far as there is some. */
  take(size: ShownSize): void {
    this.#bytes = Math.max(0, this.#bytes - size.bytes)
    this.#chars = Math.max(0, this.#chars - size.chars)
  }
}
