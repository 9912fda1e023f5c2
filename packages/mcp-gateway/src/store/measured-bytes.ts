import { createHash } from 'node:crypto'
import { GatewayError } from '../errors.ts'

/** Passes bytes on while it counts and hashes them, and stops before the first byte that is one too many. */
export class MeasuredBytes implements AsyncIterable<Uint8Array> {
  readonly #bytes: AsyncIterable<Uint8Array>
  readonly #limit: number
  readonly #hash = createHash('sha256')
  /** bytes so far */
  size = 0

  constructor(bytes: AsyncIterable<Uint8Array>, limit: number) {
    this.#bytes = bytes
    this.#limit = limit
  }

  /** @throws GatewayError `LIMIT`, and what the bytes throw */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#bytes) {
      this.size += chunk.byteLength
      if (this.size > this.#limit) {
        throw new GatewayError('LIMIT', `More than the ${this.#limit} bytes that are allowed`)
      }
      this.#hash.update(chunk)
      yield chunk
    }
  }

  /** Hex. Once, after the last byte. */
  sha256(): string {
    return this.#hash.digest('hex')
  }
}
