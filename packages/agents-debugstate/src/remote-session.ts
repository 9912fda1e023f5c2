import { isSessionId } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { DebugStateError } from './debug-state-client.ts'
import type { DebugStateClient, RemoteValue, WriteCondition } from './debug-state-client.ts'
import type { DebugStateKey } from './debug-state-config.ts'
import {
  parseRecordHead,
  parseStoredSession,
  serializeRecord,
  withoutReplaces,
} from './stored-session.ts'
import type { StoredSession, StoredSessionReading } from './stored-session.ts'

/** The methods that a `RemoteSession` calls. */
export type RemoteValues = Pick<DebugStateClient, 'read' | 'write'>

export interface RemoteSessionOptions {
  /** Usually a `DebugStateClient`. */
  readonly values: RemoteValues
  /** The result of `debugStateKey()`. */
  readonly key: DebugStateKey
  /** The endpoint that a stored record must name. `undefined` means any. */
  readonly serverUrl: string | undefined
  /** The principal that a stored record may name. */
  readonly principal: string | undefined
  /** Receives every failure; none is thrown. It must not throw. */
  readonly onError: (error: DebugStateError) => void
}

/**
 * One session that is stored as two remote values, an id and a record. It remembers the last known state of both
 * values, writes only differences, and makes each write conditional on that state.
 *
 * The record decides which of two processes wins: it names the session, and one conditional write changes it. The
 * id follows, for other implementations. Until then, the field `replaces` of the record names the old id, so that
 * a reader between the two writes finds the whole session. Calls must not overlap.
 */
export class RemoteSession {
  readonly #options: RemoteSessionOptions
  #known: Readonly<Record<Part, Known>> = { id: UNREAD, record: UNREAD }
  /** Id of a write without an answer. If the service holds this id later, it is ours. */
  #unanswered: string | undefined

  constructor(options: RemoteSessionOptions) {
    this.#options = options
  }

  /** Returns the stored session, as far as it may be used. Returns `undefined` if the service did not answer. */
  async read(): Promise<StoredSession | undefined> {
    return (await this.#read())?.session
  }

  /** Like `read()`, but also returns `undefined` if nothing has changed since the last read or write. */
  async readChange(): Promise<StoredSession | undefined> {
    const { id, record } = this.#known
    const session = await this.read()
    if (this.#known.id.text === id.text && this.#known.record.text === record.text) return undefined
    // Our own write, whose answer was lost. The local copy is at least as new.
    const isOurs = session?.sessionId !== undefined && session.sessionId === this.#unanswered
    return isOurs ? undefined : session
  }

  /**
   * Stores the wanted session. Sends one request for each value that differs. Returns the session of another
   * process if the service holds that one instead.
   */
  async write({ sessionId, record }: StoredSession): Promise<StoredSession | undefined> {
    if (sessionId !== undefined && !isSessionId(sessionId)) {
      throw new DebugStateError(
        'REJECTED',
        'The session id is not stored: it must be 1 to 1024 visible ASCII characters',
      )
    }
    /** Ids that the write may replace, because this process has read or written them. */
    const replaceable = [
      this.#known.id.text,
      parseRecordHead(this.#known.record.text)?.sessionId,
      this.#unanswered,
    ]
    const isReplaceable = (id: string | undefined): boolean =>
      id === undefined || id === sessionId || replaceable.includes(id)
    for (const part of record === undefined ? (['id'] as const) : PARTS) {
      const outcome = await this.#writePart(part, { sessionId, record }, isReplaceable)
      if (outcome !== 'written') return outcome === 'kept' ? undefined : outcome
    }
    // An old record may stay if an id is stored: readers ignore a record that does not name the stored id.
    if (record === undefined && sessionId === undefined) await this.#removeRecord()
    return undefined
  }

  /**
   * Forgets the values that were read from another process. The next write then succeeds only if the service
   * holds no value, so it does not overwrite the session of that process unseen.
   */
  forgetRival(): void {
    this.#known = { id: ABSENT, record: ABSENT }
  }

  /** Writes one value until it is stored. `kept`: the stored value of another process stays. */
  async #writePart(
    part: Part,
    { sessionId, record }: StoredSession,
    isReplaceable: (id: string | undefined) => boolean,
  ): Promise<'written' | 'kept' | StoredSession> {
    for (let attempts = 0; attempts < 3; attempts++) {
      const before = this.#known
      let text = sessionId
      if (part === 'id') {
        if (before.id.isRead && before.id.text === sessionId) return 'written'
      } else if (record !== undefined) {
        if (isStored(record, before.record.text)) return 'written'
        const { text: oldId } = before.id
        text = serializeRecord(record, oldId === sessionId ? undefined : oldId)
        if (text === undefined) {
          this.#report('TOO_LARGE', 'The session record is too large to be stored')
          return 'written' // the id is stored alone
        }
      }
      try {
        if (await this.#put(part, text, sessionId)) return 'written'
      } catch (error) {
        if (part === 'id' || !isRefusal(error)) throw error
        this.#options.onError(error)
        return 'written' // this service stores ids only
      }
      // Another process has already replaced the id that we clear: it stays.
      if (part === 'id' && sessionId === undefined) return 'kept'
      const stored = await this.read()
      if (stored === undefined) return 'kept'
      if (isReplaceable(stored.sessionId)) continue
      if (sessionId !== undefined) return stored
      // Another process has already replaced the session that we clear. The caller does not know that yet.
      this.#known = before
      return 'kept'
    }
    return 'kept'
  }

  async #removeRecord(): Promise<void> {
    const { values, key } = this.#options
    if (!this.#known.record.isRead) this.#learn('record', await values.read(key.record))
    const { text } = this.#known.record
    if (text === undefined || parseRecordHead(text)?.isNewer) return
    await this.#put('record', undefined, undefined)
  }

  /** Writes or deletes a value if it is still the one that we know. */
  async #put(
    part: Part,
    text: string | undefined,
    sessionId: string | undefined,
  ): Promise<boolean> {
    const { values, key } = this.#options
    const known = this.#known[part]
    // A record that was never read counts as missing: it might have a newer format.
    const condition = part === 'id' && !known.isRead ? undefined : toCondition(known)
    try {
      const outcome = await values.write(key[part], text, condition)
      if (outcome === 'conflict') return false
      this.#unanswered = undefined
      this.#learn(part, { text, etag: outcome.etag })
      return true
    } catch (error) {
      this.#unanswered = sessionId ?? this.#unanswered
      throw error
    }
  }

  /**
   * Reads both values, and reads them again if a new id came without its record: another process may have written
   * the record, and then the id, while the two requests were under way.
   */
  async #read(): Promise<StoredSessionReading | undefined> {
    const known = [this.#known.id.text, this.#unanswered]
    const reading = await this.#readOnce()
    if (reading?.refused !== 'no-record' || known.includes(this.#known.id.text)) return reading
    return this.#readOnce()
  }

  async #readOnce(): Promise<StoredSessionReading | undefined> {
    const { serverUrl, principal, key } = this.#options
    const before = this.#known
    const [id, record] = await Promise.all([this.#get('id'), this.#get('record')])
    if (id === undefined) {
      // The caller goes on as if nothing were stored, so its writes are conditional on that.
      this.#known = {
        id: before.id.isRead ? before.id : ABSENT,
        record: before.record.isRead ? before.record : ABSENT,
      }
      return undefined
    }
    this.#known = { id, record: record ?? before.record }
    const texts = { id: id.text, record: this.#known.record.text }
    const owner = { serverUrl, principal, bareIds: key.shared }
    const reading = parseStoredSession(texts, owner)
    if (record === undefined && reading.refused === 'no-record') {
      // A record may exist that could not be read. The id counts as absent, so the next write of it conflicts.
      this.#known = { ...this.#known, id: ABSENT }
      return undefined
    }
    if (reading.refused === 'no-id') {
      this.#report('UNEXPECTED_RESPONSE', 'The stored value is not a session id')
    }
    return reading
  }

  /** Returns `undefined` if the value could not be read. */
  async #get(part: Part): Promise<Known | undefined> {
    const { values, key, onError } = this.#options
    try {
      return { isRead: true, ...(await values.read(key[part])) }
    } catch (error) {
      if (!(error instanceof DebugStateError)) throw error
      onError(error)
      return undefined
    }
  }

  #learn(part: Part, value: RemoteValue): void {
    this.#known = { ...this.#known, [part]: { isRead: true, ...value } }
  }

  #report(code: DebugStateError['code'], message: string): void {
    this.#options.onError(new DebugStateError(code, message))
  }
}

type Part = 'id' | 'record'

/** In the order in which they are written. */
const PARTS: readonly Part[] = ['record', 'id']

/** Last known state of a remote value. */
interface Known extends RemoteValue {
  /** False before the first read or write. */
  readonly isRead: boolean
}

const UNREAD: Known = { isRead: false, text: undefined, etag: undefined }
const ABSENT: Known = { isRead: true, text: undefined, etag: undefined }

/** Returns the condition for replacing a known value. Without ETags there is none, and the last writer wins. */
function toCondition({ text, etag }: Known): WriteCondition {
  if (text === undefined) return { ifAbsent: true }
  return etag === undefined ? undefined : { ifMatch: etag }
}

/** A record of a newer format stays, unless it names another session. */
function isStored(record: SessionRecord, text: string | undefined): boolean {
  if (text === undefined) return false
  const head = parseRecordHead(text)
  if (head?.isNewer) return head.sessionId === record.sessionId
  return serializeRecord(record) === withoutReplaces(text)
}

/** True if the service refuses the value, and would refuse it again. */
function isRefusal(error: unknown): error is DebugStateError {
  return (
    error instanceof DebugStateError && (error.code === 'REJECTED' || error.code === 'TOO_LARGE')
  )
}
