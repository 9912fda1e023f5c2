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
  readonly #path: string

  constructor(path: string) {
    super()
    this.#path = path
  }

  override createSession(): SessionInfo {
    return new SessionFile(this.#path)
  }
}
