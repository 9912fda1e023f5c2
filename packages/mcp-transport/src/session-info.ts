import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { assertOptions, check, fileSystem, isRecord, whileBusy } from '@x/internal'
import { parseJson } from './json-rpc.ts'
import { sessionRecordFrom } from './session-record.ts'
import type { SessionRecord } from './session-record.ts'

/**
 * Stores the session of one server. This class stores it in memory, for the lifetime of the object.
 *
 * Subclass it to store the session elsewhere. Override the two id methods to share a session id: the next
 * process then asks the server for everything else. Override the two record methods too, and the next process
 * needs no request.
 *
 * A method of this class that fails never fails a call. If it rejects or takes longer than 2 s, the store counts as
 * empty for that access, and the transport reports it once as `RECORD_UNUSABLE` with the `cause`.
 *
 * @example
 * ```ts
 * import { SessionInfo } from '@x/mcp-transport'
 *
 * // Keeps the session id in a map that outlives the transport.
 * export class SharedSessionInfo extends SessionInfo {
 *   readonly #ids: Map<string, string>
 *
 *   constructor(ids: Map<string, string>) {
 *     super()
 *     this.#ids = ids
 *   }
 *   override async getSessionId() {
 *     return this.#ids.get('shop')
 *   }
 *   override async setSessionId(id: string | undefined) {
 *     if (id === undefined) this.#ids.delete('shop')
 *     else this.#ids.set('shop', id)
 *   }
 * }
 * ```
 */
export class SessionInfo {
  /** True if the session outlives the process. Such a session is not terminated at the end of the process. */
  readonly durable: boolean = false
  #sessionId: string | undefined
  #record: SessionRecord | undefined

  constructor(sessionId?: string) {
    this.#sessionId = sessionId
  }

  async getSessionId(): Promise<string | undefined> {
    return this.#sessionId
  }

  /** `undefined` clears the id and the record. */
  async setSessionId(sessionId: string | undefined): Promise<void> {
    this.#sessionId = sessionId
    if (this.#record?.sessionId !== sessionId) this.#record = undefined
  }

  /** Returns the record, if it belongs to the current session id. */
  async getRecord(): Promise<SessionRecord | undefined> {
    const sessionId = await this.getSessionId()
    return this.#record?.sessionId === sessionId ? this.#record : undefined
  }

  /** Stores the record and the session id in it; `undefined` clears both. */
  async setRecord(record: SessionRecord | undefined): Promise<void> {
    const sessionId = await this.getSessionId()
    if (record === undefined || record.sessionId !== sessionId) {
      await this.setSessionId(record?.sessionId)
    }
    this.#record = record
  }

  /** Reads again from the store, past a local copy: another process may have changed it. */
  async refresh(): Promise<void> {}

  /** Resolves when all writes are stored or have failed. Limited in time. */
  async flush(): Promise<void> {}
}

interface Content {
  readonly sessionId: string | undefined
  readonly record: SessionRecord | undefined
}

const EMPTY: Content = { sessionId: undefined, record: undefined }

/**
 * Stores the session in a file. Use one file per server and principal. Missing folders are created.
 *
 * Writes are atomic, and only the owner can read the file (mode 0600), because a session id is a credential. Windows has
 * no modes: there, use a folder that only the owner can read, such as one below `%LOCALAPPDATA%`. A damaged or foreign
 * file counts as empty; it is renamed to `<path>.unreadable-…` before the first write.
 * Processes that share a file do not lock it: the last write wins.
 *
 * @throws the error of the file system, from every method, if the file cannot be read or written.
 * @example
 * ```ts
 * import { FileSessionInfo, StreamableHttpTransport } from '@x/mcp-transport'
 *
 * const sessionInfo = new FileSessionInfo('.mcp/shop.json')
 * const transport = new StreamableHttpTransport('https://shop.example/mcp', { sessionInfo })
 * ```
 */
export class FileSessionInfo extends SessionInfo {
  override readonly durable: boolean = true
  readonly #path: string
  #content: Promise<Content> | undefined
  #isUnreadable = false
  #writing: Promise<void> = Promise.resolve()

  /** @throws TypeError for a path that is empty or not a string. */
  constructor(path: string) {
    super()
    assertOptions('FileSessionInfo', { path }, { path: check.required(check.text) })
    this.#path = path
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.#read()).sessionId
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    const { record } = await this.#read()
    const isSame = record?.sessionId === sessionId
    await this.#write({ sessionId, record: isSame ? record : undefined })
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    return (await this.#read()).record
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    await this.#write({ sessionId: record?.sessionId, record })
  }

  override async refresh(): Promise<void> {
    await this.#writing
    this.#content = undefined
    await this.#read()
  }

  override async flush(): Promise<void> {
    await this.#writing
  }

  /** Reads the file once and caches its content. */
  #read(): Promise<Content> {
    this.#content ??= this.#load().catch((error: unknown) => {
      this.#content = undefined // the next call reads again
      throw error
    })
    return this.#content
  }

  async #load(): Promise<Content> {
    try {
      const text = await whileBusy(() => fileSystem.readFile(this.#path, 'utf8'))
      const content = parseContent(text)
      this.#isUnreadable = content === undefined
      return content ?? EMPTY
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return EMPTY
      throw error
    }
  }

  async #write(content: Content): Promise<void> {
    await this.#read() // a damaged file must be detected before it is replaced
    this.#content = Promise.resolve(content)
    // Writes run one after another, also after a failed write.
    const written = this.#writing.then(() => this.#replaceWith(content))
    this.#writing = written.catch(() => {})
    await written
  }

  async #replaceWith(content: Content): Promise<void> {
    if (this.#isUnreadable) {
      await setAside(this.#path)
      this.#isUnreadable = false
    }
    if (content.sessionId === undefined && content.record === undefined) {
      await whileBusy(() => fileSystem.rm(this.#path, { force: true }))
      return
    }
    await replacePrivateFile(this.#path, `${JSON.stringify(content, undefined, 2)}\n`)
  }
}

/** Returns undefined for a file of another format or of a newer version. */
function parseContent(text: string): Content | undefined {
  const value = parseJson(text)
  if (!isRecord(value)) return undefined
  const { sessionId, record: stored } = value
  if (sessionId !== undefined && typeof sessionId !== 'string') return undefined
  if (stored === undefined) return sessionId === undefined ? undefined : { ...EMPTY, sessionId }
  const record = sessionRecordFrom(stored)
  return record !== undefined && record.sessionId === sessionId ? { sessionId, record } : undefined
}

/**
 * Replaces a file atomically, readable by its owner only (mode 0600). Creates missing folders.
 *
 * @throws the error of the file system.
 */
export async function replacePrivateFile(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${randomUUID()}.tmp`
  try {
    // Yarn's Plug'n'Play has no `sync()` of an open file.
    await fileSystem.writeFile(temporary, text, { flag: 'wx', mode: 0o600, flush: true })
    await whileBusy(() => fileSystem.rename(temporary, path))
  } catch (error) {
    await whileBusy(() => fileSystem.rm(temporary, { force: true })).catch(() => {}) // the first error says more
    throw error
  }
}

/** Renames an unreadable file, so that its content is not lost. Does nothing if the file is gone. */
export async function setAside(path: string): Promise<void> {
  try {
    await whileBusy(() => fileSystem.rename(path, `${path}.unreadable-${randomUUID()}`))
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
}

/** Returns whether an error of the file system has this code. */
export function hasCode(error: unknown, code: 'EEXIST' | 'ENOENT'): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
