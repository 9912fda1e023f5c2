import { parseBytes, parseNumber } from '@x/internal/redis'
import { GatewayError, type BlobLimits, type Blobs, type WrittenBlob } from '@x/mcp-gateway'
import { MeasuredBytes, randomId } from '@x/mcp-gateway/adapter'
import { wholeMs, type RedisCommands } from './redis-commands.ts'
import { PUT_FIELD } from './scripts.ts'

const CHUNK_BYTES = 262_144

/** Bytes as a hash of chunks. For many or large files, a shared folder is better: see `blobFolder`. */
export class RedisBlobs implements Blobs {
  readonly #commands: RedisCommands

  constructor(commands: RedisCommands) {
    this.#commands = commands
  }

  async write(
    bytes: AsyncIterable<Uint8Array>,
    { limit, ttlMs }: BlobLimits,
  ): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    const id = randomId()
    const key = this.#commands.key('blob', id)
    const put = async (field: string, value: string | Buffer): Promise<void> => {
      await this.#commands.run(PUT_FIELD, [key], [field, value, wholeMs(ttlMs)])
    }
    try {
      let number = 0
      for await (const chunk of chunksOf(measured, CHUNK_BYTES)) await put(String(number++), chunk)
      await put('size', String(measured.size))
    } catch (error) {
      await this.delete(id).catch(() => {}) // the first error says more, and the blob expires
      throw error
    }
    return { id, sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const reply = await this.#commands.send(['HGET', this.#commands.key('blob', id), 'size'])
    if (reply === null) return undefined
    return this.#pieces(id, parseNumber(reply))
  }

  async delete(id: string): Promise<void> {
    await this.#commands.send(['UNLINK', this.#commands.key('blob', id)])
  }

  async *#pieces(id: string, size: number): AsyncGenerator<Uint8Array> {
    const key = this.#commands.key('blob', id)
    for (let number = 0; number * CHUNK_BYTES < size; number++) {
      const reply = await this.#commands.send(['HGET', key, String(number)])
      if (reply === null)
        throw new GatewayError('UNAVAILABLE', 'A stored file was deleted while it was read')
      yield parseBytes(reply)
    }
  }
}

/** Yields the bytes in chunks of one size, and a last one. A chunk is valid until the next one is pulled. */
async function* chunksOf(bytes: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Buffer> {
  const chunk = Buffer.alloc(size)
  let filled = 0
  for await (const piece of bytes) {
    for (let at = 0; at < piece.byteLength;) {
      const part = piece.subarray(at, at + size - filled)
      chunk.set(part, filled)
      filled += part.byteLength
      at += part.byteLength
      if (filled < size) continue
      yield chunk
      filled = 0
    }
  }
  if (filled > 0) yield chunk.subarray(0, filled)
}
