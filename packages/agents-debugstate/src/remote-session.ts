import { isSessionId } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { DebugStateError } from './debug-state-client.ts'
import type {
  DebugStateClient,
  RemoteValue,
  WriteCondition,
  WriteOutcome,
} from './debug-state-client.ts'
import type { DebugStateKey } from './debug-state-config.ts'
import {
  parseNewerRecord,
  parseRecordId,
  parseStoredSession,
  serializeRecord,
  withoutReplaces,
} from './stored-session.ts'
import type { SessionOwner, StoredSession, StoredSessionReading } from './stored-session.ts'

/** The methods that a `RemoteSession` calls. */
export type RemoteValues = Pick<DebugStateClient, 'read' | 'write' | 'remove'>

export interface RemoteSessionOptions {
  /** Usually a `DebugStateClient`. */
  readonly values: RemoteValues
  /** The result of `debugStateKey()`. */
  readonly key: DebugStateKey
  /** The endpoint that a stored record must name. @default any */
  readonly serverUrl?: string | undefined
  /** The principal that a stored record may name. @default none */
  readonly principal?: string | undefined
  /** Receives every failure; none is thrown. It must not throw. */
  readonly onError: (error: DebugStateError) => void
}

/** The service holds the session of another process instead of ours. */
interface Superseded {
  readonly by: StoredSession
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
  readonly #owner: SessionOwner
  #id: Seen = UNSEEN
  #record: Seen = UNSEEN
  /** Id of a write without an answer. If the service holds this id later, it is ours. */
  #unanswered: string | undefined

  constructor(options: RemoteSessionOptions) {
    this.#options = options
    const { serverUrl, principal, key } = options
    this.#owner = { serverUrl, principal, bareIds: key.shared }
  }

  /** Returns the stored session, as far as it may be used. Returns `undefined` if the service did not answer. */
  async read(): Promise<StoredSession | undefined> {
    return (await this.#readSettled())?.session
  }

  /** Like `read()`, but also returns `undefined` if nothing has changed since the last read or write. */
  async readChange(): Promise<StoredSession | undefined> {
    const [id, record] = [this.#id, this.#record]
    const reading = await this.#readSettled()
    if (this.#id.text === id.text && this.#record.text === record.text) return undefined
    const { sessionId } = reading?.session ?? {}
    // Our own write, whose answer was lost. The local copy is at least as new.
    if (sessionId !== undefined && sessionId === this.#unanswered) return undefined
    return reading?.session
  }

  /** Stores the wanted session. Sends one request for each value that differs. */
  async write(wanted: StoredSession): Promise<Superseded | undefined> {
    const { sessionId, record } = wanted
    if (sessionId !== undefined && !isSessionId(sessionId)) {
      throw new DebugStateError(
        'REJECTED',
        'The session id is not stored: it must be 1 to 1024 visible ASCII characters',
      )
    }
    const known = [this.#id.text, parseRecordId(this.#record.text), this.#unanswered]
    const first = record === undefined ? 'written' : await this.#putRecord(record, known)
    if (first !== 'written') return first === 'kept' ? undefined : first
    const outcome = await this.#writeId(sessionId, known)
    if (outcome !== 'written') return outcome === 'kept' ? undefined : outcome
    // An old record may stay if an id is stored: readers ignore a record that does not name the stored id.
    if (record === undefined && sessionId === undefined) await this.#removeRecord()
    return undefined
  }

  /**
   * Forgets the values that were read from another process. The next write then succeeds only if the service
   * holds no value, so it does not overwrite the session of that process unseen.
   */
  forgetRival(): void {
    this.#id = ABSENT
    this.#record = ABSENT
  }

  async #read(): Promise<StoredSessionReading | undefined> {
    const { values, key, onError } = this.#options
    const before = this.#record
    const [id, record] = await Promise.all([
      settled(values.read(key.id)),
      settled(values.read(key.record)),
    ])
    if (record instanceof DebugStateError) onError(record)
    else this.#record = seen(record)
    if (id instanceof DebugStateError) {
      onError(id)
      // The caller goes on as if nothing were stored, so its writes are conditional on that.
      if (!this.#id.isSeen) this.#id = ABSENT
      this.#record = before.isSeen ? before : ABSENT
      return undefined
    }
    this.#id = seen(id)
    const texts = { id: this.#id.text, record: this.#record.text }
    const reading = parseStoredSession(texts, this.#owner)
    if (record instanceof DebugStateError && reading.refused === 'no-record') {
      // A record may exist that could not be read. The id counts as absent, so the next write of it conflicts.
      this.#id = ABSENT
      return undefined
    }
    if (reading.refused === 'no-id') {
      onError(new DebugStateError('UNEXPECTED_RESPONSE', 'The stored value is not a session id'))
    }
    return reading
  }

  /** Writes the record, which decides the race. `kept`: the stored session of another process stays. */
  async #putRecord(record: SessionRecord, known: KnownIds): Promise<Written> {
    const { values, key, onError } = this.#options
    const { sessionId } = record
    for (let attempts = 0; attempts < 3; attempts++) {
      const replaces = this.#id.text === sessionId ? undefined : this.#id.text
      const text = serializeRecord(record, replaces)
      if (text === undefined) {
        onError(new DebugStateError('TOO_LARGE', 'The session record is too large to be stored'))
        return 'written' // the id is stored alone
      }
      if (this.#record.isSeen && serializeRecord(record) === withoutReplaces(this.#record.text)) {
        return 'written'
      }
      const newer = parseNewerRecord(this.#record.text)
      // A record of a newer format stays, unless it names another session.
      if (newer !== undefined && newer.sessionId === sessionId) return 'written'
      const seenBefore = [this.#id, this.#record] as const
      try {
        // A record that was never read counts as missing here: it might have a newer format.
        const outcome = await values.write(key.record, text, overwriting(this.#record))
        if (outcome !== 'conflict') {
          this.#unanswered = undefined
          this.#record = seen({ text, etag: outcome.etag })
          return 'written'
        }
      } catch (error) {
        if (!(error instanceof DebugStateError) || !isRefusal(error)) {
          this.#unanswered = sessionId
          throw error
        }
        onError(error)
        return 'written' // this service stores ids only
      }
      const stored = (await this.#readSettled())?.session
      if (stored === undefined) return 'kept'
      const other = stored.sessionId
      if (other === undefined || other === sessionId || known.includes(other)) continue
      if (sessionId !== undefined) return { by: stored }
      // Another process has already replaced the session that we clear. The caller does not know that yet.
      ;[this.#id, this.#record] = seenBefore
      return 'kept'
    }
    return 'kept'
  }

  async #writeId(wanted: string | undefined, known: KnownIds): Promise<Written> {
    for (let attempts = 0; attempts < 2; attempts++) {
      if (this.#id.isSeen && this.#id.text === wanted) return 'written'
      if (await this.#putId(wanted)) return 'written'
      // Another process has already replaced the id that we clear: it stays.
      if (wanted === undefined) return 'kept'
      const reading = await this.#readSettled()
      if (reading === undefined) return 'kept'
      const { sessionId } = reading.session
      if (this.#id.text === wanted) return 'written'
      const isOurs = sessionId === wanted || known.includes(sessionId)
      if (sessionId !== undefined && !isOurs) return { by: reading.session }
    }
    return 'kept'
  }

  /**
   * Reads both values, and reads them again if a new id came without its record: another process may have written
   * the record, and then the id, while the two requests were under way.
   */
  async #readSettled(): Promise<StoredSessionReading | undefined> {
    const known = [this.#id.text, this.#unanswered]
    const reading = await this.#read()
    if (reading?.refused !== 'no-record' || known.includes(this.#id.text)) return reading
    return this.#read()
  }

  async #putId(wanted: string | undefined): Promise<boolean> {
    const { values, key } = this.#options
    const condition = this.#id.isSeen ? overwriting(this.#id) : undefined
    const outcome =
      wanted === undefined
        ? await values.remove(key.id, condition)
        : await this.#sendId(wanted, condition)
    if (outcome === 'conflict') return false
    this.#unanswered = undefined
    this.#id = seen({ text: wanted, etag: outcome.etag })
    return true
  }

  /** Remembers the id if the write gets no answer. */
  async #sendId(wanted: string, condition: WriteCondition): Promise<WriteOutcome> {
    const { values, key } = this.#options
    try {
      return await values.write(key.id, wanted, condition)
    } catch (error) {
      this.#unanswered = wanted
      throw error
    }
  }

  async #removeRecord(): Promise<void> {
    const { values, key } = this.#options
    if (!this.#record.isSeen) this.#record = seen(await values.read(key.record))
    const { text } = this.#record
    if (text === undefined || parseNewerRecord(text) !== undefined) return
    const outcome = await values.remove(key.record, overwriting(this.#record))
    if (outcome !== 'conflict') this.#record = seen({ text: undefined, etag: outcome.etag })
  }
}

type Written = 'written' | 'kept' | Superseded

/** Ids that a write may replace, because this process has read or written them. */
type KnownIds = readonly (string | undefined)[]

/** True if the service refuses the value, and would refuse it again. */
function isRefusal({ code }: DebugStateError): boolean {
  return code === 'REJECTED' || code === 'TOO_LARGE'
}

async function settled(value: Promise<RemoteValue>): Promise<RemoteValue | DebugStateError> {
  try {
    return await value
  } catch (error) {
    if (error instanceof DebugStateError) return error
    throw error
  }
}

/** Last known state of a remote value. */
interface Seen extends RemoteValue {
  /** False before the first read or write. */
  readonly isSeen: boolean
}

const UNSEEN: Seen = { isSeen: false, text: undefined, etag: undefined }
const ABSENT: Seen = { isSeen: true, text: undefined, etag: undefined }

function seen({ text, etag }: RemoteValue): Seen {
  return { isSeen: true, text, etag }
}

/** Returns the condition for replacing a known value. Without ETags there is none, and the last writer wins. */
function overwriting({ text, etag }: Seen): WriteCondition {
  if (text === undefined) return { ifAbsent: true }
  return etag === undefined ? undefined : { ifMatch: etag }
}
