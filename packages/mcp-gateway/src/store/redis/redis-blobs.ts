import { GatewayError } from '../../errors.ts'
import type { Blobs, ByteRange, WrittenBlob } from '../gateway-store.ts'
import { MeasuredBytes } from '../measured-bytes.ts'
import { isRandomId, randomId } from '../random-id.ts'
import type { RedisCommands } from './redis-commands.ts'
import type { RedisKeys } from './redis-keys.ts'
import { bytesFrom, numberFrom } from './redis-reply.ts'

const CHUNK_BYTES = 262_144
/** What nobody finishes is gone then; each chunk begins it anew. */
const UNFINISHED_MS = 3_600_000

/** Bytes as a hash of chunks. For many or large files give the gateways a folder that they share. */
export class RedisBlobs implements Blobs {
  readonly #commands: RedisCommands
  readonly #keys: RedisKeys

  constructor(commands: RedisCommands, keys: RedisKeys) {
    this.#commands = commands
    this.#keys = keys
  }

  async write(bytes: AsyncIterable<Uint8Array>, limit: number): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    const id = randomId()
    const key = this.#keys.blob(id)
    try {
      let number = 0
      for await (const chunk of chunksOf(measured, CHUNK_BYTES)) {
        await this.#commands.send(['HSET', key, String(number++), chunk])
        await this.#commands.send(['PEXPIRE', key, String(UNFINISHED_MS)])
      }
      await this.#commands.send(['HSET', key, 'size', String(measured.size)])
      await this.#commands.send(['PERSIST', key])
    } catch (error) {
      await this.delete(id).catch(() => {}) // the first reason says more; Redis forgets it by itself
      throw error
    }
    return { id, sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    if (!isRandomId(id)) return undefined
    const reply = await this.#commands.send(['HGET', this.#keys.blob(id), 'size'])
    if (reply === null) return undefined
    const size = numberFrom(reply)
    return this.#pieces(id, {
      first: range?.first ?? 0,
      last: Math.min(range?.last ?? size, size - 1),
    })
  }

  async delete(id: string): Promise<void> {
    await this.#commands.send(['UNLINK', this.#keys.blob(id)])
  }

  async *#pieces(id: string, { first, last }: ByteRange): AsyncGenerator<Uint8Array> {
    for (let at = first; at <= last;) {
      const number = Math.floor(at / CHUNK_BYTES)
      const start = number * CHUNK_BYTES
      const reply = await this.#commands.send(['HGET', this.#keys.blob(id), String(number)])
      if (reply === null) throw new GatewayError('UNAVAILABLE', 'A stored file is gone')
      const piece = bytesFrom(reply).subarray(at - start, last + 1 - start)
      yield piece
      at += piece.byteLength
    }
  }
}

/** The same bytes in pieces of one size, but for the last. A piece is good until the next one is pulled. */
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
