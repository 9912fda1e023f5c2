import { isSessionId } from '@x/mcp-transport'
import type {
  DebugStateClient,
  RemoteValue,
  WriteCondition,
  WriteOutcome,
} from './debug-state-client.ts'
import { DebugStateError } from './debug-state-error.ts'
import type { DebugStateKey } from './debug-state-key.ts'
import type { StoredSession } from './session-copy.ts'
import { isNewerRecord, recordText, storedSessionFrom } from './stored-session.ts'
import type { SessionOwner, StoredSessionReading } from './stored-session.ts'

/** The three calls needed of a client. */
export type RemoteValues = Pick<DebugStateClient, 'read' | 'write' | 'remove'>

export interface RemoteSessionOptions {
  readonly values: RemoteValues
  readonly key: DebugStateKey
  readonly owner: SessionOwner
  readonly onError: (error: DebugStateError) => void
}

/** Another process had stored its session; ours was not written. */
export interface Superseded {
  readonly by: StoredSession
}

/**
 * Two remote values that are one session. Remembers what was last seen of each, so that only changes are
 * written, and only over what was seen: the condition of a write is what its caller had been told.
 * The id decides which of two processes wins; the record follows it. Steps must not overlap.
 */
export class RemoteSession {
  readonly #options: RemoteSessionOptions
  #id: Seen = UNSEEN
  #record: Seen = UNSEEN
  /** An id whose write got no answer. If it turns up, it is ours and no rival's. */
  #unanswered: string | undefined

  constructor(options: RemoteSessionOptions) {
    this.#options = options
  }

  /** What is stored and may be used. `undefined`: could not look. */
  async read(): Promise<StoredSession | undefined> {
    return (await this.#read())?.session
  }

  /** Like `read`, but `undefined` also where nothing has changed since it was last seen or written. */
  async readChange(): Promise<StoredSession | undefined> {
    const [id, record] = [this.#id, this.#record]
    const reading = await this.#read()
    if (this.#id.text === id.text && this.#record.text === record.text) return undefined
    // Our own write, whose answer was lost: older than what its writer has by now.
    if (this.#id.text !== undefined && this.#id.text === this.#unanswered) return undefined
    return reading?.session
  }

  /** Makes the stored session the wanted one, in as many requests as differences. */
  async write(wanted: StoredSession): Promise<Superseded | undefined> {
    if (wanted.sessionId !== undefined && !isSessionId(wanted.sessionId)) {
      throw new DebugStateError(
        'REJECTED',
        'A session id of other than 1 to 1024 visible ASCII characters is not stored',
      )
    }
    const outcome = await this.#writeId(wanted.sessionId)
    if (outcome === 'written') await this.#writeRecord(wanted)
    return typeof outcome === 'object' ? outcome : undefined
  }

  /** Forgets what a lost race showed, so that a write of something else does not pass for an informed one. */
  forgetRival(): void {
    this.#id = ABSENT
  }

  async #read(): Promise<StoredSessionReading | undefined> {
    const { values, key, owner, onError } = this.#options
    const [id, record] = await Promise.all([
      settled(values.read(key.id)),
      settled(values.read(key.record)),
    ])
    if (record instanceof DebugStateError) onError(record)
    else this.#record = seen(record)
    if (id instanceof DebugStateError) {
      onError(id)
      // The caller goes on as if nothing were stored, so that is what its writes are conditional on.
      if (!this.#id.isSeen) this.#id = ABSENT
      return undefined
    }
    this.#id = seen(id)
    const texts = { id: this.#id.text, record: this.#record.text }
    const reading = storedSessionFrom(texts, owner)
    if (texts.id !== undefined && !isSessionId(texts.id)) {
      onError(new DebugStateError('UNEXPECTED_RESPONSE', 'What is stored is not a session id'))
    }
    return reading
  }

  /** `kept`: what is stored belongs to another process and stays. */
  async #writeId(wanted: string | undefined): Promise<'written' | 'kept' | Superseded> {
    for (let attempts = 0; attempts < 2; attempts++) {
      if (this.#id.isSeen && this.#id.text === wanted) return 'written'
      if (await this.#putId(wanted)) return 'written'
      // Somebody has already replaced what we gave up: it is theirs.
      if (wanted === undefined) return 'kept'
      const known = [this.#id.text, this.#unanswered]
      const reading = await this.#read()
      if (reading === undefined) return 'kept'
      const { sessionId } = reading.session
      if (sessionId === wanted) return 'written'
      if (sessionId !== undefined && !known.includes(sessionId)) return { by: reading.session }
      if (reading.refused === 'no-record' && !known.includes(this.#id.text)) {
        // The other process may still be writing the record that its id needs: look again next time.
        this.#id = ABSENT
        return 'kept'
      }
    }
    return 'kept'
  }

  async #putId(wanted: string | undefined): Promise<boolean> {
    const { values, key } = this.#options
    const condition = this.#id.isSeen ? overwriting(this.#id) : undefined
    const outcome =
      wanted === undefined
        ? await values.remove(key.id, condition)
        : await this.#putNoting(wanted, condition)
    if (outcome === 'conflict') return false
    this.#unanswered = undefined
    this.#id = seen({ text: wanted, etag: outcome.etag })
    return true
  }

  async #putNoting(wanted: string, condition: WriteCondition): Promise<WriteOutcome> {
    const { values, key } = this.#options
    try {
      return await values.write(key.id, wanted, condition)
    } catch (error) {
      this.#unanswered = wanted
      throw error
    }
  }

  async #writeRecord({ sessionId, record }: StoredSession): Promise<void> {
    const { values, key } = this.#options
    const wanted = record === undefined ? undefined : recordText(record)
    if (record !== undefined && wanted === undefined) {
      throw new DebugStateError('TOO_LARGE', 'The session record is too large to be stored')
    }
    if (wanted === undefined) {
      // Beside a bare id any record may stay: it counts only if it vouches for that very id.
      if (sessionId !== undefined) return
      if (!this.#record.isSeen) this.#record = seen(await values.read(key.record))
    }
    for (let attempts = 0; attempts < 2; attempts++) {
      if (this.#record.isSeen && this.#record.text === wanted) return
      if (isNewerRecord(this.#record.text)) return
      // Unseen counts as absent here, because a newer format might be there.
      const condition = overwriting(this.#record)
      const outcome =
        wanted === undefined
          ? await values.remove(key.record, condition)
          : await values.write(key.record, wanted, condition)
      if (outcome !== 'conflict') {
        this.#record = seen({ text: wanted, etag: outcome.etag })
        return
      }
      this.#record = seen(await values.read(key.record))
    }
  }
}

/** What was last seen of a remote value. */
interface Seen extends RemoteValue {
  readonly isSeen: boolean
}

const UNSEEN: Seen = { isSeen: false, text: undefined, etag: undefined }
const ABSENT: Seen = { isSeen: true, text: undefined, etag: undefined }

function seen({ text, etag }: RemoteValue): Seen {
  return { isSeen: true, text, etag }
}

/** A service that gave a value but no ETag has no conditions: there the last writer wins. */
function overwriting({ text, etag }: Seen): WriteCondition {
  if (text === undefined) return { ifAbsent: true }
  return etag === undefined ? undefined : { ifMatch: etag }
}

async function settled(value: Promise<RemoteValue>): Promise<RemoteValue | DebugStateError> {
  try {
    return await value
  } catch (error) {
    if (error instanceof DebugStateError) return error
    throw error
  }
}
