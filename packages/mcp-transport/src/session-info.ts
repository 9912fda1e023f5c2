import type { SessionRecord } from './session-record.ts'

/**
 * Stores the session of one server. This class stores it in memory, for the life of the object.
 *
 * Subclass it to store the session elsewhere. Override the two id methods to share a session id: the next
 * process then asks the server for everything else. Override the two record methods too, and the next process
 * needs no request.
 *
 * A failing store never fails a call. If a method rejects or takes longer than 2 s, the store counts as empty
 * for that access, and the transport reports it once as `RECORD_UNUSABLE` with the `cause`.
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

  /**
   * For stores shared by several processes. Calls the listener with a session id that was set here, when the
   * store keeps the session of another process instead. This object then returns the other session; the user of
   * the first one changes over and terminates it. Returns a function that removes the listener.
   */
  onSuperseded(_listener: (sessionId: string) => void): () => void {
    return neverTold
  }

  /** Resolves when all writes are stored or have failed. Limited in time. */
  async flush(): Promise<void> {}
}

function neverTold(): void {}
