import { setTimeout } from 'node:timers/promises'
import { isSessionId } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import type {
  DebugStateClient,
  RemoteValue,
  WriteCondition,
  WriteOutcome,
} from './debug-state-client.ts'
import { DebugStateError } from './debug-state-error.ts'
import type { DebugStateKey } from './debug-state-key.ts'
import { ABSENT, overwriting, seen, UNSEEN, type Seen } from './seen-value.ts'
import type { StoredSession } from './session-copy.ts'
import {
  newerRecordFrom,
  recordText,
  sessionIdFrom,
  storedSessionFrom,
  unmarked,
} from './stored-session.ts'
import type { SessionOwner, StoredSessionReading } from './stored-session.ts'

/** The three calls needed of a client. */
export type RemoteValues = Pick<DebugStateClient, 'read' | 'write' | 'remove'>

export interface RemoteSessionOptions {
  readonly values: RemoteValues
  readonly key: DebugStateKey
  readonly owner: SessionOwner
  readonly onError: (error: DebugStateError) => void
  /** How the time passes between two looks at a session that is being stored. @default timers */
  readonly wait?: ((ms: number) => Promise<void>) | undefined
}

/** Another process has stored its session; ours is not there, or not any more. */
export interface Superseded {
  readonly by: StoredSession
}

/**
 * How long a process is given to write the record of its id. Only older versions write the id first, and
 * both requests follow each other at once.
 */
const LOOK_AGAIN_MS = [10, 20, 40, 80, 160, 320]

/**
 * Two remote values that are one session. Remembers what was last seen of each, so that only changes are
 * written, and only over what was seen: the condition of a write is what its caller had been told.
 *
 * The record decides which of two processes wins: it names the session, and one conditional write changes
 * it. The id follows, for other implementations. Until it does, the record names the id that it replaces, so
 * that a reader never takes half a session for none. Steps must not overlap.
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
    return (await this.#readSettled())?.session
  }

  /** Like `read`, but `undefined` also where nothing has changed since it was last seen or written. */
  async readChange(): Promise<StoredSession | undefined> {
    const [id, record] = [this.#id, this.#record]
    const reading = await this.#readSettled()
    if (this.#id.text === id.text && this.#record.text === record.text) return undefined
    const { sessionId } = reading?.session ?? {}
    // Our own write, whose answer was lost: older than what its writer has by now.
    if (sessionId !== undefined && sessionId === this.#unanswered) return undefined
    return reading?.session
  }

  /** Makes the stored session the wanted one, in as many requests as differences. */
  async write(wanted: StoredSession): Promise<Superseded | undefined> {
    const { sessionId, record } = wanted
    if (sessionId !== undefined && !isSessionId(sessionId)) {
      throw new DebugStateError(
        'REJECTED',
        'A session id of other than 1 to 1024 visible ASCII characters is not stored',
      )
    }
    const known = [this.#id.text, sessionIdFrom(this.#record.text), this.#unanswered]
    const first = record === undefined ? 'written' : await this.#putRecord(record, known)
    if (first !== 'written') return first === 'kept' ? undefined : first
    const outcome = await this.#writeId(sessionId, known)
    if (outcome !== 'written') return outcome === 'kept' ? undefined : outcome
    // Beside a bare id any record may stay: it counts only if it names that very id.
    if (record === undefined && sessionId === undefined) await this.#removeRecord()
    return undefined
  }

  /** Forgets what a lost race showed, so that a write of something else does not pass for an informed one. */
  forgetRival(): void {
    this.#id = ABSENT
    this.#record = ABSENT
  }

  async #read(): Promise<StoredSessionReading | undefined> {
    const { values, key, owner, onError } = this.#options
    const before = this.#record
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
      this.#record = before.isSeen ? before : ABSENT
      return undefined
    }
    this.#id = seen(id)
    const texts = { id: this.#id.text, record: this.#record.text }
    const reading = storedSessionFrom(texts, owner)
    if (record instanceof DebugStateError && reading.refused === 'no-record') {
      // Its record may well be there: a write must not pass for one that has seen that there is none.
      this.#id = ABSENT
      return undefined
    }
    if (reading.refused === 'no-id') {
      onError(new DebugStateError('UNEXPECTED_RESPONSE', 'What is stored is not a session id'))
    }
    return reading
  }

  /** The one write that decides. `kept`: what is stored belongs to another process and stays. */
  async #putRecord(record: SessionRecord, known: KnownIds): Promise<Written> {
    const { values, key, onError } = this.#options
    const { sessionId } = record
    for (let attempts = 0; attempts < 3; attempts++) {
      const replaces = this.#id.text === sessionId ? undefined : this.#id.text
      const text = recordText(record, replaces)
      if (text === undefined) {
        onError(new DebugStateError('TOO_LARGE', 'The session record is too large to be stored'))
        return 'written' // the id alone is worth something
      }
      if (this.#record.isSeen && recordText(record) === unmarked(this.#record.text))
        return 'written'
      const newer = newerRecordFrom(this.#record.text)
      // One for another session vouches for nothing any more.
      if (newer !== undefined && newer.sessionId === sessionId) return 'written'
      const seenBefore = [this.#id, this.#record] as const
      try {
        // Unseen counts as absent here, because a newer format might be there.
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
        return 'written' // a service that keeps ids only
      }
      const stored = (await this.#readSettled())?.session
      if (stored === undefined) return 'kept'
      const other = stored.sessionId
      if (other === undefined || other === sessionId || known.includes(other)) continue
      if (sessionId !== undefined) return { by: stored }
      // Somebody has already replaced what we gave up. The caller has not been told of it.
      ;[this.#id, this.#record] = seenBefore
      return 'kept'
    }
    return 'kept'
  }

  async #writeId(wanted: string | undefined, known: KnownIds): Promise<Written> {
    for (let attempts = 0; attempts < 2; attempts++) {
      if (this.#id.isSeen && this.#id.text === wanted) return 'written'
      if (await this.#putId(wanted)) return 'written'
      // Somebody has already replaced what we gave up: it is theirs.
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

  /** Reads, and looks again where an older version may be about to write the record of its id. */
  async #readSettled(): Promise<StoredSessionReading | undefined> {
    const { wait = sleep } = this.#options
    const known = [this.#id.text, this.#unanswered]
    let reading = await this.#read()
    for (const ms of LOOK_AGAIN_MS) {
      if (reading?.refused !== 'no-record' || known.includes(this.#id.text)) break
      await wait(ms)
      reading = await this.#read()
    }
    return reading
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

  async #removeRecord(): Promise<void> {
    const { values, key } = this.#options
    if (!this.#record.isSeen) this.#record = seen(await values.read(key.record))
    const { text } = this.#record
    if (text === undefined || newerRecordFrom(text) !== undefined) return
    const outcome = await values.remove(key.record, overwriting(this.#record))
    if (outcome !== 'conflict') this.#record = seen({ text: undefined, etag: outcome.etag })
  }
}

type Written = 'written' | 'kept' | Superseded

/** Ids that a write may replace: this process has seen or written them. */
type KnownIds = readonly (string | undefined)[]

/** The service does not take this value, and will not take it a second time. */
function isRefusal({ code }: DebugStateError): boolean {
  return code === 'REJECTED' || code === 'TOO_LARGE'
}

/** Keeps no process alive. */
async function sleep(ms: number): Promise<void> {
  await setTimeout(ms, undefined, { ref: false })
}

async function settled(value: Promise<RemoteValue>): Promise<RemoteValue | DebugStateError> {
  try {
    return await value
  } catch (error) {
    if (error instanceof DebugStateError) return error
    throw error
  }
}
