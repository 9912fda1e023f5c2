import { setTimeout } from 'node:timers/promises'
import { isSessionId } from '@x/mcp-transport'
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
import { newerRecordFrom, recordText, storedSessionFrom } from './stored-session.ts'
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
 * How long a process is given to write the record beside its id: both requests follow each other at once,
 * so that the first look nearly always finds it.
 */
const LOOK_AGAIN_MS = [10, 20, 40, 80, 160, 320]

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
    if (outcome === 'written') return this.#writeRecord(wanted)
    return outcome === 'kept' ? undefined : outcome
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

  /** `kept`: what is stored belongs to another process and stays. */
  async #writeId(wanted: string | undefined): Promise<'written' | 'kept' | Superseded> {
    for (let attempts = 0; attempts < 2; attempts++) {
      if (this.#id.isSeen && this.#id.text === wanted) return 'written'
      if (await this.#putId(wanted)) return 'written'
      // Somebody has already replaced what we gave up: it is theirs.
      if (wanted === undefined) return 'kept'
      const known = [this.#id.text, this.#unanswered, wanted]
      const reading = await this.#readSettled(known)
      if (reading === undefined) return 'kept'
      const { sessionId } = reading.session
      if (sessionId === wanted) return 'written'
      if (sessionId !== undefined && !known.includes(sessionId)) return { by: reading.session }
    }
    return 'kept'
  }

  /**
   * Reads, and looks again where there is an id of another process without its record: that one may still
   * be on its way. If it does not come, the process has ended in between, or knows of no records.
   */
  async #readSettled(
    known: readonly (string | undefined)[],
  ): Promise<StoredSessionReading | undefined> {
    const { wait = sleep } = this.#options
    let reading = await this.#read()
    for (const ms of LOOK_AGAIN_MS) {
      const isHalf = reading?.session.record === undefined && isSessionId(this.#id.text)
      if (!isHalf || known.includes(this.#id.text) || reading?.refused === 'other-owner') break
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

  async #writeRecord({ sessionId, record }: StoredSession): Promise<Superseded | undefined> {
    const { values, key } = this.#options
    const wanted = record === undefined ? undefined : recordText(record)
    if (record !== undefined && wanted === undefined) {
      throw new DebugStateError('TOO_LARGE', 'The session record is too large to be stored')
    }
    if (wanted === undefined) {
      // Beside a bare id any record may stay: it counts only if it vouches for that very id.
      if (sessionId !== undefined) return undefined
      if (!this.#record.isSeen) this.#record = seen(await values.read(key.record))
    }
    for (let attempts = 0; attempts < 2; attempts++) {
      if (this.#record.isSeen && this.#record.text === wanted) return undefined
      const newer = newerRecordFrom(this.#record.text)
      // One for another session vouches for nothing any more; but there is no need to remove it.
      if (newer !== undefined && (wanted === undefined || newer.sessionId === sessionId)) {
        return undefined
      }
      // Unseen counts as absent here, because a newer format might be there.
      const condition = overwriting(this.#record)
      const outcome =
        wanted === undefined
          ? await values.remove(key.record, condition)
          : await values.write(key.record, wanted, condition)
      if (outcome !== 'conflict') {
        this.#record = seen({ text: wanted, etag: outcome.etag })
        return undefined
      }
      const reading = await this.#readSettled([sessionId])
      if (reading === undefined) return undefined
      // The id is not ours any more: then the record is not, either.
      if (this.#id.text !== sessionId) {
        return reading.session.sessionId === undefined ? undefined : { by: reading.session }
      }
    }
    return undefined
  }
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
