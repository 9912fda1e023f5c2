import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileSystem, whileBusy } from '@x/internal'
import { GatewayError } from '../errors.ts'
import { randomId } from '../internal/random-hex.ts'
import type { BlobLimits, Blobs, WrittenBlob } from './gateway-store.ts'

const FILE_PIECE_BYTES = 131_072
const MEMORY_PIECE_BYTES = 65_536

/** Passes bytes on, and counts and hashes them. Stops before the first byte above the limit. */
export class MeasuredBytes implements AsyncIterable<Uint8Array> {
  readonly #bytes: AsyncIterable<Uint8Array>
  readonly #limit: number
  readonly #hash = createHash('sha256')
  /** Number of bytes so far. */
  size = 0

  constructor(bytes: AsyncIterable<Uint8Array>, limit: number) {
    this.#bytes = bytes
    this.#limit = limit
  }

  /** @throws GatewayError `LIMIT`, and the error of the bytes */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#bytes) {
      this.size += chunk.byteLength
      if (this.size > this.#limit) {
        throw new GatewayError(
          'LIMIT',
          `The file has more than the ${this.#limit} bytes that are allowed`,
        )
      }
      this.#hash.update(chunk)
      yield chunk
    }
  }

  /** Returns the hash in hex. Can be called once, after the last byte. */
  sha256(): string {
    return this.#hash.digest('hex')
  }
}

/** Bytes in the memory of this process, up to a maximum of all files together. */
export class MemoryBlobs implements Blobs {
  readonly #maxBytes: number
  readonly #now: () => number
  readonly #blobs = new Map<string, { readonly bytes: Buffer; readonly endsAt: number }>()
  #held = 0

  constructor(maxBytes: number, now: () => number) {
    this.#maxBytes = maxBytes
    this.#now = now
  }

  async write(
    bytes: AsyncIterable<Uint8Array>,
    { limit, ttlMs }: BlobLimits,
  ): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    const chunks: Uint8Array[] = []
    let held = 0
    try {
      for await (const chunk of measured) {
        held += chunk.byteLength
        this.#held += chunk.byteLength
        if (this.#held > this.#maxBytes) throw createFullError(this.#maxBytes)
        chunks.push(Uint8Array.from(chunk)) // the owner of the chunk may use its memory again
      }
    } catch (error) {
      this.#held -= held
      throw error
    }
    const id = randomId()
    this.#blobs.set(id, { bytes: Buffer.concat(chunks), endsAt: this.#now() + ttlMs })
    return { id, sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const blob = this.#blobs.get(id)
    return blob && blob.endsAt > this.#now() ? readMemory(blob.bytes) : undefined
  }

  async delete(id: string): Promise<void> {
    this.#held -= this.#blobs.get(id)?.bytes.byteLength ?? 0
    this.#blobs.delete(id)
  }

  /** Drops bytes that have ended. */
  sweep(): void {
    const now = this.#now()
    for (const [id, { endsAt }] of this.#blobs) if (endsAt <= now) void this.delete(id)
  }
}

async function* readMemory(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += MEMORY_PIECE_BYTES) {
    yield Uint8Array.from(bytes.subarray(at, at + MEMORY_PIECE_BYTES))
  }
}

function createFullError(maxBytes: number): GatewayError {
  const message = `No room for this file: the store holds at most ${maxBytes} bytes of files. Wait until files expire.`
  return new GatewayError('QUOTA', message)
}

/** Bytes that end in the same hour are in one folder, which is deleted as a whole. */
const HOUR_MS = 3_600_000
/** Interval of the sweeps. Milliseconds. */
const SWEEP_EVERY_MS = 60_000

/**
 * Bytes as files: `{folder}/{hour of their end}/{id}`. The id begins with the end, so that it names the place. Several
 * processes may share the folder. A file is on the disk before `write()` resolves; the file of a write that was cut off
 * ends with its hour.
 */
export class FileBlobs implements Blobs, AsyncDisposable {
  readonly #folder: string
  readonly #now: () => number
  readonly #onError: (error: unknown) => void
  readonly #sweeping: NodeJS.Timeout
  #swept: Promise<void> = Promise.resolve()

  /** @param onError called if expired files cannot be deleted, at most once a minute for each folder */
  constructor(folder: string, now: () => number, onError: (error: unknown) => void) {
    this.#folder = folder
    this.#now = now
    this.#onError = onError
    this.#sweeping = setInterval(() => (this.#swept = this.sweep()), SWEEP_EVERY_MS).unref()
  }

  async write(
    bytes: AsyncIterable<Uint8Array>,
    { limit, ttlMs }: BlobLimits,
  ): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    const id = `${Math.ceil(this.#now() + ttlMs).toString(36)}-${randomId()}`
    const path = this.#pathOf(id)
    const partial = `${path}.partial`
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      // Not `writeFile()`: that of Yarn's Plug'n'Play takes no iterables.
      await pipeline(measured, createWriteStream(partial, WRITING))
      await whileBusy(() => fileSystem.rename(partial, path))
    } catch (error) {
      await rm(partial, { force: true }).catch(() => {}) // the first error says more
      throw toStorageError(error)
    }
    return { id, sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    if (!isFileId(id) || endOf(id) <= this.#now()) return undefined
    const path = this.#pathOf(id)
    try {
      const { size } = await stat(path)
      return readFilePieces(path, size)
    } catch (error) {
      if (isAbsent(error)) return undefined
      throw toStorageError(error)
    }
  }

  async delete(id: string): Promise<void> {
    if (!isFileId(id)) return
    await rm(this.#pathOf(id), { force: true }).catch((error: unknown) => {
      throw toStorageError(error)
    })
  }

  /** Deletes the folders of past hours. Never rejects: the next sweep tries again. */
  async sweep(): Promise<void> {
    const now = Math.floor(this.#now() / HOUR_MS)
    const report = (error: unknown): string[] => {
      if (!isAbsent(error)) this.#onError(toFolderError(error, this.#folder))
      return []
    }
    for (const name of await readdir(this.#folder).catch(report)) {
      if (!HOUR.test(name) || Number(name) >= now) continue
      await rm(join(this.#folder, name), { recursive: true, force: true }).catch(report)
    }
  }

  /** Writes a small file, and deletes it. @throws GatewayError `UNAVAILABLE` with the folder and the reason */
  async checkWritable(): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await writeProbe(this.#folder)
    } catch (error) {
      throw toFolderError(error, this.#folder)
    }
  }

  /** Ends the sweeps. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sweeping)
    await this.#swept
  }

  #pathOf(id: string): string {
    return join(this.#folder, String(Math.floor(endOf(id) / HOUR_MS)), id)
  }
}

/** The next chunk is pulled when the last one is written: a source may use its memory again. */
const WRITING = { flags: 'wx', mode: 0o600, flush: true, highWaterMark: 1 }

const HOUR = /^\d+$/

/** Such an id is safe as a part of a path. */
function isFileId(id: string): boolean {
  return /^[0-9a-z]{1,11}-[0-9a-f]{32}$/.test(id)
}

/** Returns the end in an id. Milliseconds since 1970. */
function endOf(id: string): number {
  return Number.parseInt(id, 36)
}

/** Size of the file that a check writes: a disk without a free block has no room for it. */
const PROBE_BYTES = 4096

/**
 * Writes a small file into a folder, as its writers do, and deletes it.
 *
 * @throws errors of the file system
 */
export async function writeProbe(folder: string): Promise<void> {
  const path = join(folder, `probe-${randomId()}`)
  try {
    await writeFile(path, Buffer.alloc(PROBE_BYTES), { flag: 'wx', mode: 0o600, flush: true })
  } finally {
    await rm(path, { force: true }).catch(() => {}) // the first error says more
  }
}

/** Opens the file at the first pull, and closes it however the iteration ends. */
async function* readFilePieces(path: string, size: number): AsyncGenerator<Uint8Array> {
  let left = size
  try {
    const pieces = createReadStream(path, { highWaterMark: FILE_PIECE_BYTES })
    for await (const piece of pieces as AsyncIterable<Buffer>) {
      left -= piece.byteLength
      yield piece
    }
  } catch (error) {
    throw toStorageError(error)
  }
  if (left > 0)
    throw new GatewayError('UNAVAILABLE', 'A stored file became shorter while it was read')
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

/** For the log: names the folder. */
function toFolderError(cause: unknown, folder: string): GatewayError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown'
  const message = `${folder} cannot be written (${code}): check the disk and its permissions`
  return new GatewayError('UNAVAILABLE', message, { cause })
}

/** Converts an error of the file system. Errors of the source of the bytes stay as they are. */
function toStorageError(error: unknown): unknown {
  if (!(error instanceof Error && 'syscall' in error)) return error
  const code = 'code' in error ? String(error.code) : 'unknown'
  const message = `Files cannot be stored or read (${code}): check the disk and its permissions`
  return new GatewayError('UNAVAILABLE', message, { cause: error })
}
