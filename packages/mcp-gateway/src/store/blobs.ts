import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../errors.ts'
import { isRandomId, randomId } from '../internal/random-hex.ts'
import type { Blobs, WrittenBlob } from './gateway-store.ts'

/** A partial file of this age was left by a process that ended. */
const ABANDONED_MS = 86_400_000
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
  readonly #blobs = new Map<string, Buffer>()
  #held = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  async write(id: string, bytes: AsyncIterable<Uint8Array>, limit: number): Promise<WrittenBlob> {
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
    this.#blobs.set(id, Buffer.concat(chunks))
    return { sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const blob = this.#blobs.get(id)
    return blob && readMemory(blob)
  }

  async delete(id: string): Promise<void> {
    this.#held -= this.#blobs.get(id)?.byteLength ?? 0
    this.#blobs.delete(id)
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

/**
 * Bytes as files: `{folder}/ab/ab12…`, written to `{folder}/partial/` first. Several processes may share the folder.
 * A file is on the disk before `write()` resolves. Partial files of ended processes are deleted a day later.
 */
export class FileBlobs implements Blobs {
  readonly #folder: string
  readonly #now: () => number
  #prepared: Promise<void> | undefined

  constructor(folder: string, now: () => number = Date.now) {
    this.#folder = folder
    this.#now = now
  }

  async write(id: string, bytes: AsyncIterable<Uint8Array>, limit: number): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    if (!isRandomId(id)) throw new TypeError('The id of a file must have 32 hexadecimal digits')
    const partial = join(this.#folder, 'partial', id)
    try {
      await (this.#prepared ??= this.#prepare())
      // Pulls the next chunk when the last one is written: a source may use its memory again.
      await writeFile(partial, measured, { flag: 'wx', mode: 0o600, flush: true })
      await mkdir(join(this.#folder, id.slice(0, 2)), { recursive: true, mode: 0o700 })
      await rename(partial, this.#pathOf(id))
    } catch (error) {
      await rm(partial, { force: true }).catch(() => {}) // the first error says more
      throw toStorageError(error)
    }
    return { sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    if (!isRandomId(id)) return undefined
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
    if (!isRandomId(id)) return
    await rm(this.#pathOf(id), { force: true }).catch((error: unknown) => {
      throw toStorageError(error)
    })
  }

  /** Writes a small file, and deletes it. @throws GatewayError `UNAVAILABLE` with the folder and the reason */
  async checkWritable(): Promise<void> {
    try {
      await (this.#prepared ??= this.#prepare())
      await writeProbe(join(this.#folder, 'partial'))
    } catch (error) {
      throw toFolderError(error, this.#folder)
    }
  }

  #pathOf(id: string): string {
    return join(this.#folder, id.slice(0, 2), id)
  }

  async #prepare(): Promise<void> {
    try {
      const partial = join(this.#folder, 'partial')
      await mkdir(partial, { recursive: true, mode: 0o700 })
      for (const name of await readdir(partial)) {
        const path = join(partial, name)
        const found = await stat(path).catch(() => undefined) // another process may have deleted it
        if (found && found.mtimeMs < this.#now() - ABANDONED_MS) await rm(path, { force: true })
      }
    } catch (error) {
      this.#prepared = undefined
      throw error
    }
  }
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
