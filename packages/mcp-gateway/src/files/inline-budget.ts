import type { FileKind } from './file-kind.ts'
import type { InlineLimits } from './inline-limits.ts'

/** What is left of the limits of one result. */
export class InlineBudget {
  readonly #limits: InlineLimits
  #bytes: number
  #chars: number

  constructor(limits: InlineLimits) {
    this.#limits = limits
    this.#bytes = limits.totalMaxBytes
    this.#chars = limits.textMaxChars
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
  spend(kind: FileKind, size: { readonly bytes: number; readonly chars: number }): boolean {
    if (size.bytes > this.roomFor(kind) || size.chars > this.#chars) return false
    this.#bytes -= size.bytes
    this.#chars -= size.chars
    return true
  }
}
