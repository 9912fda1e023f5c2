import type { SessionRecord } from './session-record.ts'

/**
 * Where the session with one server is kept. This one: in memory, for as long as the object lives.
 *
 * Subclass it to keep the session elsewhere. Overriding the two id methods is enough to share a session
 * id: the next process asks the server for the rest. Overriding the two record methods as well lets it go on
 * without a request.
 *
 * A store may fail: a method that rejects, or takes longer than 2 s, costs no call. For that access the store
 * counts as empty, and the transport says so once, by `RECORD_UNUSABLE` with the `cause`.
 */
export class SessionInfo {
  /** True where the session outlives this process. Then nobody ends it just because the process ends. */
  readonly durable: boolean = false
  #sessionId: string | undefined
  #record: SessionRecord | undefined

  constructor(sessionId?: string) {
    this.#sessionId = sessionId
  }

  async getSessionId(): Promise<string | undefined> {
    return this.#sessionId
  }

  /** `undefined` clears both the id and what belonged to it. */
  async setSessionId(sessionId: string | undefined): Promise<void> {
    this.#sessionId = sessionId
    if (this.#record?.sessionId !== sessionId) this.#record = undefined
  }

  /** The record, if it belongs to the current session id. */
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

  /** Reads past a local copy, where there is one: another process may have changed the store. */
  async refresh(): Promise<void> {}

  /**
   * For stores that several processes share. Tells the id of a session that was set here, but whose place
   * in the store has gone to a session of another process, which this object answers with from now on.
   * Whoever uses the first one goes over to that, and ends it. Returns the undo function.
   */
  onSuperseded(_listener: (sessionId: string) => void): () => void {
    return neverTold
  }

  /** Resolves when everything written so far is stored, or could not be. Bounded. */
  async flush(): Promise<void> {}
}

function neverTold(): void {}
