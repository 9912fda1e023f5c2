import { parseServerUrl } from './server-url.ts'
import type { SessionInfo } from './session-info.ts'
import { SessionKeeper } from './session-keeper.ts'
import type { Era, StoredTools } from './session-record.ts'
import type { TransportError } from './transport-error.ts'

export interface ToolListRecordOptions {
  /** A durable store. It may hold a session too. */
  readonly info: SessionInfo
  readonly url: string
  readonly principal: string | undefined
  /** Receives the failures of the store. Must not throw. */
  readonly report: (error: TransportError) => void
}

/** Longest list that is stored, in bytes of JSON. */
const MAX_BYTES = 262_144

/**
 * The list of tools in the record of a server and a principal. A list of another URL or principal counts as none. A
 * store that fails, or takes longer than 2 s, counts as empty.
 *
 * @internal
 */
export class ToolListRecord {
  readonly #options: ToolListRecordOptions

  /** @throws TypeError for a URL that is not absolute, or holds credentials */
  constructor(options: ToolListRecordOptions) {
    this.#options = { ...options, url: parseServerUrl(options.url).identity }
  }

  async read(): Promise<StoredTools | undefined> {
    const { record } = await this.#keeper().load()
    return record?.tools
  }

  /** Stores a list of a server of this era; `undefined` removes the stored one. Returns false for a list that is too long. */
  async write(tools: StoredTools | undefined, era: Era): Promise<boolean> {
    const fits = tools === undefined || Buffer.byteLength(JSON.stringify(tools)) <= MAX_BYTES
    await this.#keeper().keepTools(fits ? tools : undefined, era)
    return fits
  }

  /** A new one for each access, because a session in the same store has its own. */
  #keeper(): SessionKeeper {
    const { url: serverUrl, ...options } = this.#options
    return new SessionKeeper({ ...options, serverUrl })
  }
}
