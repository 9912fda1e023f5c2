import { readFile, rm } from 'node:fs/promises'
import { optionError, isRecord } from '@x/internal'
import { replacePrivateFile, setAside } from './private-file.ts'
import { SessionInfo } from './session-info.ts'
import { sessionRecordFrom } from './session-record.ts'
import type { SessionRecord } from './session-record.ts'

interface Content {
  readonly sessionId?: string | undefined
  readonly record?: SessionRecord | undefined
}

/**
 * Keeps the session in a file, for programs that have no service to keep it in. One file per server and
 * principal; the folder is made where it is missing.
 *
 * Writes are atomic and only for the owner (mode 0600), because a session id is as good as a password.
 * A file that is not ours, or is damaged, counts as empty; it is moved aside (`<path>.unreadable-…`)
 * before anything is written in its place. Processes that share a file do not wait for each other: the
 * last write stays.
 *
 * @throws the error of the file system, from every method, where a file cannot be read or written.
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
    if (typeof path !== 'string' || path === '') {
      throw optionError('FileSessionInfo: the path of the file must be a string that is not empty')
    }
    this.#path = path
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.#read()).sessionId
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    const { record } = await this.#read()
    await this.#write(record?.sessionId === sessionId ? { sessionId, record } : { sessionId })
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

  /** Once, for all who ask; later from memory. */
  #read(): Promise<Content> {
    this.#content ??= this.#load().catch((error: unknown) => {
      this.#content = undefined // the next one tries again
      throw error
    })
    return this.#content
  }

  async #load(): Promise<Content> {
    let text: string
    try {
      text = await readFile(this.#path, 'utf8')
    } catch (error) {
      if (isMissing(error)) return {}
      throw error
    }
    const content = parseContent(text)
    this.#isUnreadable = content === undefined
    return content ?? {}
  }

  async #write(content: Content): Promise<void> {
    await this.#read() // only what was looked at may be replaced
    this.#content = Promise.resolve(content)
    // One after the other, also after one that failed.
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
      await rm(this.#path, { force: true })
      return
    }
    await replacePrivateFile(this.#path, `${JSON.stringify(content, undefined, 2)}\n`)
  }
}

/** @returns undefined for what is not a file of this class, or of a newer one. */
function parseContent(text: string): Content | undefined {
  const value = parse(text)
  if (!isRecord(value)) return undefined
  const { sessionId, record } = value
  if (sessionId !== undefined && typeof sessionId !== 'string') return undefined
  if (record === undefined) return sessionId === undefined ? undefined : { sessionId }
  const checked = sessionRecordFrom(record)
  return checked === undefined || checked.sessionId !== sessionId
    ? undefined
    : { sessionId, record: checked }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // damaged, or never ours
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
