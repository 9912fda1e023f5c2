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
 * Stores the session in a file. Use one file per server and principal. Missing folders are created.
 *
 * Writes are atomic, and only the owner can read the file (mode 0600), because a session id is a credential. A
 * damaged or foreign file counts as empty; it is renamed to `<path>.unreadable-…` before the first write.
 * Processes that share a file do not lock it: the last write wins.
 *
 * @throws the error of the file system, from every method, if the file cannot be read or written.
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

  /** Reads the file once and caches its content. */
  #read(): Promise<Content> {
    this.#content ??= this.#load().catch((error: unknown) => {
      this.#content = undefined // the next call reads again
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
      await rm(this.#path, { force: true })
      return
    }
    await replacePrivateFile(this.#path, `${JSON.stringify(content, undefined, 2)}\n`)
  }
}

/** Returns undefined for a file of another format or of a newer version. */
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
    return undefined // not JSON
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
