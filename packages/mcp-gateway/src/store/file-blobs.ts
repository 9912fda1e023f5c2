import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../errors.ts'
import type { Blobs, ByteRange, WrittenBlob } from './gateway-store.ts'
import { MeasuredBytes } from './measured-bytes.ts'
import { isRandomId, randomId } from './random-id.ts'

/** Nobody writes for so long: whoever began this file has ended. */
const ABANDONED_MS = 86_400_000
const PIECE_BYTES = 131_072

/**
 * Bytes as files: `{folder}/ab/ab12…`, written to `{folder}/partial/` first. Several processes may share the
 * folder. What was acknowledged is on the disk; what was cut off is removed a day later.
 */
export class FileBlobs implements Blobs {
  readonly #folder: string
  readonly #now: () => number
  #prepared: Promise<void> | undefined

  constructor(folder: string, now: () => number = Date.now) {
    this.#folder = folder
    this.#now = now
  }

  async write(bytes: AsyncIterable<Uint8Array>, limit: number): Promise<WrittenBlob> {
    const measured = new MeasuredBytes(bytes, limit)
    const id = randomId()
    const partial = join(this.#folder, 'partial', id)
    try {
      await (this.#prepared ??= this.#prepare())
      const file = await open(partial, 'wx', 0o600)
      try {
        for await (const chunk of measured) await writeAll(file, chunk)
        await file.datasync()
      } finally {
        await file.close()
      }
      await mkdir(join(this.#folder, id.slice(0, 2)), { recursive: true, mode: 0o700 })
      await rename(partial, this.#pathOf(id))
    } catch (error) {
      await rm(partial, { force: true }).catch(() => {}) // the first reason says more
      throw storageErrorFrom(error)
    }
    return { id, sha256: measured.sha256(), size: measured.size }
  }

  async read(id: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    if (!isRandomId(id)) return undefined
    const path = this.#pathOf(id)
    try {
      const { size } = await stat(path)
      const last = Math.min(range?.last ?? size - 1, size - 1)
      return pieces(path, { first: range?.first ?? 0, last })
    } catch (error) {
      if (isAbsent(error)) return undefined
      throw storageErrorFrom(error)
    }
  }

  async delete(id: string): Promise<void> {
    if (!isRandomId(id)) return
    await rm(this.#pathOf(id), { force: true }).catch((error: unknown) => {
      throw storageErrorFrom(error)
    })
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
        const found = await stat(path).catch(() => undefined) // another process may have removed it
        if (found && found.mtimeMs < this.#now() - ABANDONED_MS) await rm(path, { force: true })
      }
    } catch (error) {
      this.#prepared = undefined
      throw error
    }
  }
}

/** The file is opened by the first pull, and closed however the iteration ends. */
async function* pieces(path: string, { first, last }: ByteRange): AsyncGenerator<Uint8Array> {
  const file = await open(path, 'r').catch((error: unknown) => {
    throw storageErrorFrom(error)
  })
  try {
    for (let at = first; at <= last;) {
      const length = Math.min(PIECE_BYTES, last + 1 - at)
      const { buffer, bytesRead } = await file.read(new Uint8Array(length), 0, length, at)
      if (bytesRead === 0) throw new GatewayError('UNAVAILABLE', 'A stored file has become shorter')
      yield buffer.subarray(0, bytesRead)
      at += bytesRead
    }
  } finally {
    await file.close()
  }
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.byteLength;) {
    const { bytesWritten } = await file.write(chunk, at)
    at += bytesWritten
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

/** What the file system threw. What the source of the bytes threw stays what it is. */
function storageErrorFrom(error: unknown): unknown {
  if (!(error instanceof Error && 'syscall' in error)) return error
  const code = 'code' in error ? String(error.code) : 'unknown'
  const message = `Files cannot be stored or read (${code}): look at the disk and its permissions`
  return new GatewayError('UNAVAILABLE', message, { cause: error })
}
