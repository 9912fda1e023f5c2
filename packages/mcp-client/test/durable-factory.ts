import { SessionInfo } from '@x/mcp-transport'
import { SessionInfoFactory } from '../src/index.ts'

/** Keeps one session where it outlives the client, as if it were outside the process. */
export class DurableFactory extends SessionInfoFactory {
  readonly #info = new (class extends SessionInfo {
    override readonly durable: boolean = true
  })()

  override createSession(): SessionInfo {
    return this.#info
  }
}
