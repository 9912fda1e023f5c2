import { readFile, rename, writeFile } from 'node:fs/promises'
import { SessionInfo, sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { SessionInfoFactory } from '../src/index.ts'

/** Keeps the session in a file, where the next process finds it. For tests: one writer at a time. */
class SessionFile extends SessionInfo {
  override readonly durable: boolean = true
  readonly #path: string

  constructor(path: string) {
    super()
    this.#path = path
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.getRecord())?.sessionId
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    const text = await readFile(this.#path, 'utf8').catch(() => undefined)
    return text === undefined ? undefined : sessionRecordFrom(JSON.parse(text))
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    await writeFile(`${this.#path}.new`, JSON.stringify(record ?? null))
    await rename(`${this.#path}.new`, this.#path)
  }
}

export class SessionFileFactory extends SessionInfoFactory {
  protected readonly path: string

  constructor(path: string) {
    super()
    this.path = path
  }

  override createSession(): SessionInfo {
    return new SessionFile(this.path)
  }
}

/** Keeps only the id in a file: the minimal contract of a store. */
class IdFile extends SessionInfo {
  override readonly durable: boolean = true
  readonly #path: string

  constructor(path: string) {
    super()
    this.#path = path
  }

  override async getSessionId(): Promise<string | undefined> {
    const id = await readFile(this.#path, 'utf8').catch(() => '')
    return id === '' ? undefined : id
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    await writeFile(this.#path, sessionId ?? '')
  }
}

export class IdFileFactory extends SessionFileFactory {
  override createSession(): SessionInfo {
    return new IdFile(this.path)
  }
}
