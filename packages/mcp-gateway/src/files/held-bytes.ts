/** Bytes kept of every file, for the preview of one that is too large: 2,000 characters of up to four bytes. */
const HEAD_BYTES = 8000

/** Passes a file on, and keeps it as long as it may still be shown itself: at most `maxBytes`, else its beginning. */
export class HeldBytes {
  readonly #maxBytes: number
  #chunks: Uint8Array[] = []
  #held = 0
  #size = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** All of it; `undefined` if that is more than `maxBytes`. */
  get all(): Uint8Array | undefined {
    return this.#size <= this.#maxBytes ? Buffer.concat(this.#chunks) : undefined
  }

  /** Its first bytes, at most 8,000. */
  get head(): Uint8Array {
    return Buffer.concat(this.#chunks).subarray(0, HEAD_BYTES)
  }

  async *through(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      this.#take(chunk)
      yield chunk
    }
  }

  #take(chunk: Uint8Array): void {
    this.#size += chunk.byteLength
    const limit = this.#size <= this.#maxBytes ? this.#maxBytes : HEAD_BYTES
    const room = limit - this.#held
    if (room > 0) {
      // A copy: whoever gave it may use the memory again.
      const kept = Uint8Array.prototype.slice.call(chunk, 0, room)
      this.#chunks.push(kept)
      this.#held += kept.byteLength
    } else if (room < 0) {
      this.#chunks = [Uint8Array.prototype.slice.call(Buffer.concat(this.#chunks), 0, limit)]
      this.#held = limit
    }
  }
}
