import { FileSessionInfo, SessionInfo } from '@x/mcp-transport'
import { SessionInfoFactory } from '../src/index.ts'
import type { SessionInfoSource } from '../src/index.ts'

/** Keeps one session longer than the client, like a store outside of the process. */
export class DurableFactory extends SessionInfoFactory {
  readonly #info = new (class extends SessionInfo {
    override readonly durable: boolean = true
  })()

  override createSession(): SessionInfo {
    return this.#info
  }
}

/** Keeps the session in a file, where the next process finds it. */
export function inFile(path: string): SessionInfoSource {
  return { createSession: () => new FileSessionInfo(path) }
}
