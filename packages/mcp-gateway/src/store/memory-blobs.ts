import { GatewayError } from '../errors.ts'
import type { Blobs, ByteRange, WrittenBlob } from './gateway-store.ts'
import { MeasuredBytes } from './measured-bytes.ts'
import { randomId } from './random-id.ts'

/** Bytes in the memory of this process: bounded, since nothing else bounds it. */
export class MemoryBlobs implements Blobs {
  readonly #maxBytes: number
  readonly #blobs = new Map<string, Buffer>()
  #held = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  async write(bytes: AsyncIterable<Uint8Array>, limit: number): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    const chunks: Uint8Array[] = []
    let held = 0
    try {
      for await (const chunk of measured) {
        held += chunk.byteLength
        this.#held += chunk.byteLength
        if (this.#held > this.#maxBytes) throw full(this.#maxBytes)
        chunks.push(Uint8Array.from(chunk)) // its owner may use it again
      }
    } catch (error) {
      this.#held -= held
      throw error
    }
    const id = randomId()
    this.#blobs.set(id, Buffer.concat(chunks))
    return { id, sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const blob = this.#blobs.get(id)
    return blob && pieces(range ? blob.subarray(range.first, range.last + 1) : blob)
  }

  async delete(id: string): Promise<void> {
    this.#held -= this.#blobs.get(id)?.byteLength ?? 0
    this.#blobs.delete(id)
  }
}

const PIECE_BYTES = 65_536

async function* pieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
    yield Uint8Array.from(bytes.subarray(at, at + PIECE_BYTES))
  }
}

function full(maxBytes: number): GatewayError {
  const message = `There is no room for more files: all files together may have ${maxBytes} bytes`
  return new GatewayError('QUOTA', message)
}
