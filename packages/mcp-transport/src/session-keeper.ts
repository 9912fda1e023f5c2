import { isSessionId, within } from '@x/internal'
import type { SessionInfo } from './session-info.ts'
import { sessionRecordFrom } from './session-record.ts'
import type { Era, SessionRecord, StoredTools } from './session-record.ts'
import { TransportError } from './transport-error.ts'

export interface SessionKeeperOptions {
  readonly info: SessionInfo
  /** `ServerUrl.identity` */
  readonly serverUrl: string
  readonly principal: string | undefined
  /** Called once for each kind of store failure. */
  readonly report: (error: TransportError) => void
}

export interface StoredSession {
  /** Id of the stored session, possibly without a record: set by hand or by another implementation. */
  readonly id: string | undefined
  /** A record for this server and principal. May hold no session, only what outlives one. */
  readonly record: SessionRecord | undefined
}

const NO_SESSION = {
  sessionId: undefined,
  protocolVersion: undefined,
  initializeResult: undefined,
  discoverResult: undefined,
  toolHeaders: undefined,
  initializeParamsHash: undefined,
  tools: undefined,
}

/** Fields that describe a session. A record without them holds only the era of the server. */
export type SessionPart = Pick<SessionRecord, keyof typeof NO_SESSION>

/** Limit for each access to the store. */
const STORE_MS = 2000
/** Time until a store that did not answer is used again. */
const RETRY_STORE_MS = 30_000
/** Stores that did not answer, and when to use them again. A call must not wait for every access. */
const silentStores = new WeakMap<SessionInfo, number>()

/** Last session of each store that this process uses. The next session gets a higher generation, also without a record. */
const generations = new WeakMap<SessionInfo, { epoch: number; sessionId: string | undefined }>()

/**
 * The only code that reads and writes a `SessionInfo`. Every access is limited in time, and a failing store
 * counts as empty: storing a session is never a reason to fail a call.
 */
export class SessionKeeper {
  readonly #info: SessionInfo
  readonly #options: SessionKeeperOptions
  #reported: Set<string> | undefined
  #record: SessionRecord | undefined
  #verdict: Pick<SessionRecord, 'era' | 'eraCheckedAt'> | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: SessionKeeperOptions) {
    this.#info = options.info
    this.#options = options
  }

  get record(): SessionRecord | undefined {
    return this.#record
  }

  async load(): Promise<StoredSession> {
    const [stored, id] = await Promise.all([
      this.#bounded('read', () => this.#info.getRecord()),
      this.#bounded('read', () => this.#info.getSessionId()),
    ])
    let record = this.#fitting(stored, id)
    const sessionId = record?.sessionId
    if (record !== undefined && sessionId !== undefined) {
      record = { ...record, epoch: this.#assignGeneration(sessionId, record.epoch) }
    }
    this.#record = record
    if (sessionId !== undefined || stored?.sessionId !== undefined) return { id: sessionId, record }
    if (id === undefined || isSessionId(id)) return { id, record }
    this.#warn('The stored session id is not visible ASCII of at most 1 KiB, so it is ignored')
    return { id: undefined, record }
  }

  /** Sets the era that was just detected. Stored with the next record. @param ageMs makes the detection count as older */
  checkedEra(era: Era, ageMs = 0): void {
    this.#verdict = { era, eraCheckedAt: new Date(Date.now() - ageMs).toISOString() }
  }

  /** Stores what a modern server has said of itself since, also for the next process. */
  learned(part: Pick<SessionRecord, 'toolHeaders' | 'discoverResult'>): Promise<void> {
    return this.#inOrder(async () => {
      if (this.#record?.era !== 'modern') return
      await this.#write({ ...this.#record, ...part, updatedAt: timestamp() })
    })
  }

  /**
   * Stores the list of tools of a server of this era; `undefined` removes the stored one. Keeps the session in the
   * record. Writes nothing if the store cannot be read, or has a session that is not known here.
   */
  keepTools(tools: StoredTools | undefined, era: Era): Promise<void> {
    return this.#inOrder(async () => {
      // Another process, or another object in this one, may have changed the record.
      const stored = await this.#bounded('read', async () => {
        await this.#info.refresh()
        return { record: await this.#info.getRecord(), id: await this.#info.getSessionId() }
      })
      const known = stored && this.#fitting(stored.record, stored.id)
      if (stored === undefined || stored.id !== known?.sessionId) return
      if (tools === undefined && known?.tools === undefined) return
      if (known === undefined) this.checkedEra(era)
      const record = { ...(known ?? this.#base()), tools, updatedAt: timestamp() }
      await this.#write(withoutUndefined(record))
      // A store may write a removal only at its end, and a killed process has none.
      if (tools === undefined) await this.#bounded('write', () => this.#info.flush())
    })
  }

  /** Creates the record of a new session, with its generation. Does not store it. */
  next(part: SessionPart): Promise<SessionRecord> {
    return this.#inOrder(async () => {
      const epoch = this.#assignGeneration(part.sessionId, (this.#record?.epoch ?? 0) + 1)
      const era = part.discoverResult === undefined ? 'legacy' : 'modern'
      if ((this.#verdict?.era ?? this.#record?.era) !== era) this.checkedEra(era)
      return withoutUndefined({ ...this.#base(), ...part, epoch })
    })
  }

  /**
   * Stores the record of an open session. Others may use the session from now on. The last write wins, without a look at
   * the store: it may still hold the session that has just failed.
   */
  opened(record: SessionRecord): Promise<void> {
    return this.#inOrder(() => this.#write(record))
  }

  /**
   * Removes the session from the record. If the store already holds another session, that session stays:
   * another process has replaced the lost one.
   */
  lost(sessionId: string | undefined): Promise<void> {
    return this.#inOrder(async () => {
      const known = this.#record?.sessionId
      if (known !== undefined && known !== sessionId) return // a late report about an older session
      this.#record = this.#base()
      // No refresh is needed if the local copy already names another session.
      if (await this.#namesAnother(sessionId)) return
      await this.#bounded('read', () => this.#info.refresh())
      if (await this.#namesAnother(sessionId)) return
      await this.#write(this.#base())
    })
  }

  /** Returns whether the store holds another session now. */
  async isReplaced(sessionId: string): Promise<boolean> {
    await this.#bounded('read', () => this.#info.refresh())
    return this.#namesAnother(sessionId)
  }

  /** Reports once that the stored session is not used. */
  ignoreRecord(why: string): undefined {
    this.#warn(`The stored session record ${why}, so it is ignored, and a new session is opened`)
  }

  async #namesAnother(sessionId: string | undefined): Promise<boolean> {
    const current = await this.#bounded('read', () => this.#info.getSessionId())
    return current !== undefined && current !== sessionId
  }

  /** Returns the part of the record that outlives a session. */
  #base(): SessionRecord {
    const now = timestamp()
    const { serverUrl, principal } = this.#options
    return withoutUndefined({
      epoch: 0,
      eraCheckedAt: now,
      createdAt: now,
      ...this.#record,
      ...NO_SESSION,
      ...this.#verdict,
      v: 1,
      serverUrl,
      principal,
      era: this.#verdict?.era ?? this.#record?.era ?? 'legacy',
      updatedAt: now,
    })
  }

  /** Two sessions of one store never have the same generation in this process. */
  #assignGeneration(sessionId: string | undefined, atLeast: number): number {
    const last = generations.get(this.#info)
    const isSame = sessionId !== undefined && sessionId === last?.sessionId
    const epoch = isSame ? last.epoch : Math.max(atLeast, (last?.epoch ?? 0) + 1)
    generations.set(this.#info, { epoch, sessionId })
    return epoch
  }

  /** Runs one access at a time: a slow write must not overtake a later one. */
  #inOrder<T>(access: () => Promise<T>): Promise<T> {
    const done = this.#last.then(access)
    this.#last = done.catch(() => {})
    return done
  }

  async #write(record: SessionRecord): Promise<void> {
    this.#record = record
    await this.#bounded('write', () => this.#info.setRecord(record))
  }

  #fitting(stored: unknown, id: string | undefined): SessionRecord | undefined {
    if (stored === undefined) return undefined
    const record = sessionRecordFrom(stored)
    const { serverUrl, principal } = this.#options
    if (record === undefined) return this.ignoreRecord('is not a session record of this version')
    if (record.serverUrl !== serverUrl) return this.ignoreRecord('belongs to another server URL')
    if (record.principal !== principal) return this.ignoreRecord('belongs to another principal')
    if (record.sessionId !== id) return this.ignoreRecord('does not match the stored session id')
    return record
  }

  #warn(message: string, cause?: unknown): void {
    this.#reported ??= new Set()
    if (this.#reported.has(message)) return
    this.#reported.add(message)
    const { serverUrl: url, report } = this.#options
    report(new TransportError('RECORD_UNUSABLE', message, { url, cause }))
  }

  /** Returns undefined if the store fails or did not answer last time. */
  async #bounded<T>(what: 'read' | 'write', access: () => Promise<T>): Promise<T | undefined> {
    const info = this.#info
    if (performance.now() < (silentStores.get(info) ?? 0)) return undefined
    try {
      const answer = access()
      return await within(answer, STORE_MS, () => {
        silentStores.set(info, performance.now() + RETRY_STORE_MS)
        const answered = (): unknown => silentStores.delete(info)
        answer.then(answered, answered)
        throw new Error(`No answer within ${STORE_MS} ms`)
      })
    } catch (cause) {
      const how = what === 'read' ? 'read from' : 'written to'
      this.#warn(`The session could not be ${how} its store`, cause)
      return undefined
    }
  }
}

function timestamp(): string {
  return new Date().toISOString()
}

function withoutUndefined<T extends object>(value: T): T {
  const copy = { ...value }
  for (const [name, field] of Object.entries(copy)) {
    if (field === undefined) Reflect.deleteProperty(copy, name)
  }
  return copy
}
