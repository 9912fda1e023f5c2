import { hash, randomBytes } from 'node:crypto'

import { isRecord, removeFrom } from '@x/internal'
import { z } from 'zod'
import { newScopeId } from '../files/scopes.ts'
import type { Caller, Principal } from '../internal/principal.ts'
import type { Clock } from '../internal/clock.ts'
import { GatewayError } from '../errors.ts'
import type { SessionSettings } from '../options.ts'
import type { GatewayObserver, SessionEnd } from '../internal/observer.ts'
import { LogFollower, type GatewayStore, type LogLimits } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import { isRequestId, type Params } from './json-rpc.ts'
import { tryLater, type Reply } from './reply.ts'
import type { ClientInfo } from './request-context.ts'

/** All that a process needs to serve a session. Stored as JSON. */
export interface SessionRecord {
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly scope: string | undefined
  readonly handshake: ClientInfo
  /** Level of `logging/setLevel`. `undefined`: all messages are sent. */
  readonly level: string | undefined
  readonly followed: readonly string[]
  /** Id of the stream on which the client listens, or listened last. */
  readonly listener: string | undefined
}

export const SESSION_LIMITS: Omit<SessionLimits, keyof SessionSettings> = {
  // A client that comes back at once would meet the process that is just ending.
  retryMs: 1000,
  // More than a long answer in pieces needs; the memory of a call stays bounded.
  events: { maxEvents: 1000, ttlMs: 300_000 },
  absoluteTtlMs: 43_200_000,
}

export interface SessionLimits extends SessionSettings {
  /** A session ends after this time in any case; calls in flight may end. Milliseconds. */
  readonly absoluteTtlMs: number
  /** Time that a client is asked to wait before it comes back to a stream. */
  readonly retryMs: number
  /** Limits of the event log of each call. `undefined`: streams cannot be resumed. */
  readonly events: LogLimits | undefined
}

export type SessionStore = Pick<
  GatewayStore,
  'records' | 'logs' | 'rates' | 'isShared' | 'isDurable'
>

export interface SessionParts {
  readonly store: SessionStore
  readonly lease: ProcessLease
  readonly settings: SessionLimits
  /** Time in which a client has to answer a question. Progress of the client extends it. */
  readonly questionTimeoutMs: number
  readonly observer: Pick<Required<GatewayObserver>, 'sessionOpened' | 'sessionClosed'> | undefined
  readonly clock: Clock
  /** Is called for failures that no response reports. */
  readonly onError: (error: Error) => void
}

/** A message between processes about a session. `to` is the id of a process. */
export type SessionSignal =
  | { readonly type: 'ended' | 'changed' }
  | { readonly type: 'cancel'; readonly requestId: string | number }
  | { readonly type: 'answer'; readonly to: string; readonly message: Params }
  | { readonly type: 'progress'; readonly to: string; readonly token: string }

/** A call or a stream that a session has open in this process. */
export interface SessionUse {
  readonly isCall: boolean
  /** The session has ended, or the gateway stops. */
  end(reason: Error): void
}

/** A session as this process serves it: the record, and what is in flight here. */
export class LiveSession {
  readonly id: string
  /** Stands for the session in the store: it shows neither the id nor the principal. */
  readonly name: string
  readonly principalId: string
  readonly uses: SessionUse[] = []
  /** Logs of the last calls here whose clients have read them to the end. */
  readonly readLogs: string[] = []
  record: SessionRecord
  /** When a request of the session came last to this process. */
  seenAt: number
  /** When the life of the record was extended last. */
  touchedAt: number
  isEnded = false
  /** The session ends here, but its client may read its logs at another process, or later. */
  keepsLogs = false
  readonly #clock: Clock
  #onIdle: (() => void) | undefined

  constructor(names: SessionNames, record: SessionRecord, clock: Clock) {
    this.id = names.id
    this.name = names.name
    this.principalId = names.principalId
    this.record = record
    this.#clock = clock
    this.seenAt = clock.now()
    this.touchedAt = this.seenAt
  }

  get hasCalls(): boolean {
    return this.uses.some(({ isCall }) => isCall)
  }

  /** Notes a use, which ends with the session. @returns a function that removes it */
  use(use: SessionUse): () => void {
    // The session may have ended while the request was read.
    if (this.isEnded) queueMicrotask(() => use.end(new Error('The session has ended')))
    this.uses.push(use)
    return () => {
      removeFrom(this.uses, use)
      this.seenAt = this.#clock.now()
      if (!this.hasCalls) this.#onIdle?.()
    }
  }

  /** Resolves when no call is in flight here: the answers are stored. */
  whenIdle(): Promise<void> {
    if (!this.hasCalls) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onIdle = resolve
    })
  }

  end(reason: Error): void {
    for (const use of this.uses.slice()) use.end(reason) // each removes itself
  }
}

type SessionNames = Pick<LiveSession, 'id' | 'name' | 'principalId'>

const PREFIX = 'session:'
const SIGNALS = 'signals'
const SIGNAL_LIMITS: LogLimits = { maxEvents: 1000, ttlMs: 60_000 }
/** Number of logs that are kept after a client read them to the end: their last bytes may not have arrived. */
const KEPT_LOGS = 8
const MAX_CONFLICTS = 10
const RETRY_MS = 1000
/** Time after which some session may have ended. */
const LATER_MS = 60_000
/** Shortest and longest time between two extensions of the life of a record. */
const TOUCH_MS = { min: 250, max: 60_000 }
const SWEEP_MS = { min: 1000, max: 60_000 }

/** The sessions of all processes that share a store, as this process knows them. */
export class Sessions {
  /** Called for signals about calls and streams of sessions that this process serves. */
  onSignal: ((session: LiveSession, signal: SessionSignal) => void) | undefined
  readonly parts: SessionParts
  readonly #live = new Map<string, LiveSession>()
  /** By name, for signals of other processes. */
  readonly #byName = new Map<string, LiveSession>()
  readonly #loading = new Map<string, Promise<LiveSession | undefined>>()
  /** Sessions are opened one after the other, so that each one counts all that were opened before. */
  #opening: Promise<unknown> = Promise.resolve()
  readonly #signals: LogFollower | undefined
  #stopSweep: (() => void) | undefined
  /** Events can be stored. Reported once each time that this changes. */
  #isStoring = true
  #isClosed = false

  constructor(parts: SessionParts) {
    this.parts = parts
    const { isShared, logs } = parts.store
    if (!isShared) return
    this.#signals = new LogFollower(logs, SIGNALS, {
      onEvent: ({ event }) => this.#received(event),
      onGap: () => void this.#lookAgain(),
    })
  }

  get size(): number {
    return this.#live.size
  }

  /** Reports that events cannot be stored, once for each outage. */
  noteStored(error?: unknown): void {
    if (error !== undefined && this.#isStoring) {
      const text = 'Events of sessions cannot be stored: their streams cannot be resumed'
      this.parts.onError(new Error(text, { cause: error }))
    }
    this.#isStoring = error === undefined
  }

  /** Keeps the logs of the last calls that clients have read: their last bytes may not have arrived. */
  noteRead({ readLogs }: LiveSession, log: string): void {
    readLogs.push(log)
    const old = readLogs.length > KEPT_LOGS ? readLogs.shift() : undefined
    if (old !== undefined) this.deleteLog(old)
  }

  /** Logs that cannot be deleted end by themselves. */
  deleteLog(log: string): void {
    void this.parts.store.logs.delete(log).catch(() => undefined)
  }

  /** Opens a session. Returns the refusal if a limit forbids it. @throws GatewayError `UNAVAILABLE` */
  async open(
    handshake: ClientInfo,
    { principal }: Pick<Caller, 'principal'>,
  ): Promise<LiveSession | Reply> {
    await this.#signals?.start()
    const id = randomBytes(24).toString('base64url')
    const names = { id, name: sessionName(principal.id, id), principalId: principal.id }
    const scope = principal.isAnonymous ? newScopeId() : undefined
    const record = { ...newRecord(handshake, this.parts.clock.now()), scope }
    const admission = this.#opening.then(() => this.#admit(names.name, record, principal))
    this.#opening = admission.catch(() => undefined)
    return (await admission) ?? this.#serve(new LiveSession(names, record, this.parts.clock))
  }

  /**
   * Returns the session of this id, if it is this principal's and has not ended.
   *
   * @throws GatewayError `UNAVAILABLE`, `CLOSED`
   */
  async find(id: string, principal: Principal): Promise<LiveSession | undefined> {
    const session = this.#live.get(id)
    if (session && session.principalId !== principal.id) return undefined
    if (!session) return this.#load(id, principal)
    const now = this.parts.clock.now()
    const reason = this.#endOf(session, now)
    if (reason === undefined) {
      const isDue = now - session.touchedAt >= this.#touchMs()
      if (isDue && !(await this.#touch(session))) return undefined
      session.seenAt = now
      return session
    }
    if (session.hasCalls) return undefined
    await this.#expire(session, reason)
    // Idle here, but perhaps used at another process.
    return reason === 'idle' && this.parts.store.isShared ? this.#load(id, principal) : undefined
  }

  /**
   * Changes a record at all processes. Returns `false` if the session has ended.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async update(
    session: LiveSession,
    change: (record: SessionRecord) => SessionRecord,
  ): Promise<boolean> {
    const { records } = this.parts.store
    const key = PREFIX + session.name
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      const found = await records.get(key)
      const record = parseSessionRecord(found?.value)
      if (!found || !record) {
        this.#noRecord(session)
        return false
      }
      const changed = change(record)
      const options = { ttlMs: this.#ttlOf(record), ifVersion: found.version }
      if ((await records.put(key, changed, options)) === undefined) continue
      session.record = changed
      await this.signal(session, { type: 'changed' })
      return true
    }
    throw new GatewayError('UNAVAILABLE', 'Too many requests change a session at once. Try again.')
  }

  /** Ends a session at all processes. @throws GatewayError `UNAVAILABLE`, and the session goes on */
  async end(session: LiveSession): Promise<void> {
    await this.parts.store.records.delete(PREFIX + session.name)
    this.#close(session, 'client')
    await this.signal(session, { type: 'ended' })
  }

  /** Sends a signal to all processes, this one included. Never rejects. */
  async signal(session: LiveSession, signal: SessionSignal): Promise<boolean> {
    const { lease, onError, store } = this.parts
    if (!store.isShared) return true
    const message = { ...signal, session: session.name, from: lease.id }
    try {
      await store.logs.append(SIGNALS, message, { limits: SIGNAL_LIMITS, isLast: false })
      return true
    } catch (cause) {
      const text = `A signal about a session ("${signal.type}") could not be sent to other processes`
      onError(new Error(text, { cause }))
      return false
    }
  }

  /** Resolves when no call is in flight here: clients that are away find their answers in the store. */
  async whenIdle(): Promise<void> {
    await Promise.all([...this.#live.values()].map((session) => session.whenIdle()))
  }

  /** Ends what is in flight here. Records stay if other processes, or a later one, can use them. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#stopSweep?.()
    await Promise.allSettled([this.#opening, ...this.#loading.values()])
    for (const session of this.#live.values()) this.#close(session, 'gateway')
    await this.#signals?.stop()
  }

  /** Writes the record, and counts it with all others. Returns the refusal if they are too many. */
  async #admit(
    name: string,
    record: SessionRecord,
    principal: Principal,
  ): Promise<Reply | undefined> {
    const { records } = this.parts.store
    const { max, maxPerPrincipal } = this.parts.settings
    const stopping = tryLater(503, 'The gateway is stopping', 1000)
    if (this.#isClosed) return stopping
    await records.put(PREFIX + name, record, { ttlMs: this.#ttlOf(record) })
    const [all, own] = await Promise.all([
      records.count(PREFIX),
      principal.isAnonymous ? 0 : records.count(`${PREFIX}${hashOf(principal.id)}:`),
    ])
    if (all <= max && own <= maxPerPrincipal && !this.#isClosed) return undefined
    await records.delete(PREFIX + name)
    if (this.#isClosed) return stopping
    return all > max
      ? tryLater(503, `There are ${max} sessions already. End one, or try later.`, LATER_MS)
      : tryLater(429, `The caller has ${maxPerPrincipal} sessions already.`, LATER_MS)
  }

  #load(id: string, principal: Principal): Promise<LiveSession | undefined> {
    const name = sessionName(principal.id, id)
    const before = this.#loading.get(name)
    if (before) return before
    const loading = this.#restore({ id, name, principalId: principal.id }).finally(() => {
      this.#loading.delete(name)
    })
    this.#loading.set(name, loading)
    return loading
  }

  async #restore(names: SessionNames): Promise<LiveSession | undefined> {
    await this.#signals?.start()
    const found = await this.parts.store.records.get(PREFIX + names.name)
    const record = parseSessionRecord(found?.value)
    if (!record || this.#ttlOf(record) <= 0) return undefined
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The gateway is closed')
    const session = this.#serve(new LiveSession(names, record, this.parts.clock))
    // The session may have ended before this process followed its signals.
    return (await this.#touch(session)) && !session.isEnded ? session : undefined
  }

  #serve(session: LiveSession): LiveSession {
    this.#live.set(session.id, session)
    if (this.parts.store.isShared) this.#byName.set(session.name, session)
    this.parts.observer?.sessionOpened()
    this.#stopSweep ??= this.#sweepLater()
    return session
  }

  /** Returns whether the session has not ended elsewhere. If the store fails, sessions of this process go on. */
  async #touch(session: LiveSession): Promise<boolean> {
    const now = this.parts.clock.now()
    const before = session.touchedAt
    session.touchedAt = now
    try {
      const ttlMs = Math.max(1, this.#ttlOf(session.record))
      if (await this.parts.store.records.touch(PREFIX + session.name, ttlMs)) return true
    } catch (cause) {
      session.touchedAt = Math.max(before, now - this.#touchMs() + RETRY_MS)
      this.parts.onError(new Error('The record of a session cannot be extended', { cause }))
      return true
    }
    this.#noRecord(session)
    return false
  }

  /** A client has ended the session elsewhere. A session that ended by its age goes on until its calls have ended. */
  #noRecord(session: LiveSession): void {
    if (this.#endOf(session, this.parts.clock.now()) === undefined) this.#close(session, 'client')
  }

  #sweepLater(): () => void {
    const { idleTtlMs, absoluteTtlMs } = this.parts.settings
    const shortest = Math.min(idleTtlMs, absoluteTtlMs)
    const ms = Math.min(SWEEP_MS.max, Math.max(SWEEP_MS.min, shortest / 4))
    return this.parts.clock.after(ms, () => {
      this.#sweep()
      this.#stopSweep = this.#live.size > 0 && !this.#isClosed ? this.#sweepLater() : undefined
    })
  }

  #sweep(): void {
    const now = this.parts.clock.now()
    for (const session of this.#live.values()) {
      const reason = this.#endOf(session, now)
      const isDue = session.uses.length > 0 && now - session.touchedAt >= this.#touchMs()
      if (reason === undefined) {
        if (isDue) void this.#touch(session)
      } else if (!session.hasCalls) {
        void this.#expire(session, reason)
      }
    }
  }

  /** Why a session has ended by its age, if it has. */
  #endOf(session: LiveSession, now: number): 'idle' | 'expired' | undefined {
    const { idleTtlMs, absoluteTtlMs } = this.parts.settings
    if (now - session.record.createdAt >= absoluteTtlMs) return 'expired'
    return session.uses.length === 0 && now - session.seenAt >= idleTtlMs ? 'idle' : undefined
  }

  /** An idle session may be in use at another process: then its record stays. */
  async #expire(session: LiveSession, reason: 'idle' | 'expired'): Promise<void> {
    const isOver = reason === 'expired' || !this.parts.store.isShared
    this.#close(session, reason)
    if (!isOver) return
    try {
      await this.parts.store.records.delete(PREFIX + session.name)
    } catch (cause) {
      this.parts.onError(new Error('The record of a session cannot be deleted', { cause }))
    }
  }

  #close(session: LiveSession, reason: SessionEnd['reason']): void {
    if (session.isEnded) return
    const { isShared, isDurable } = this.parts.store
    session.isEnded = true
    session.keepsLogs = (isShared && reason === 'idle') || (isDurable && reason === 'gateway')
    this.#live.delete(session.id)
    this.#byName.delete(session.name)
    const error = new Error(
      reason === 'gateway' ? 'The gateway is stopping' : 'The session has ended',
    )
    session.end(error)
    if (!session.keepsLogs) for (const log of session.readLogs) this.deleteLog(log)
    const openMs = this.parts.clock.now() - session.record.createdAt
    this.parts.observer?.sessionClosed({ reason, openMs })
  }

  #received(event: unknown): void {
    if (!isRecord(event)) return
    const { session: name, from } = event
    const session = typeof name === 'string' ? this.#byName.get(name) : undefined
    const signal = parseSignal(event)
    if (!session || !signal || typeof from !== 'string') return
    const isOwn = from === this.parts.lease.id
    if (signal.type === 'ended') this.#close(session, 'client')
    else if (signal.type !== 'changed') this.onSignal?.(session, signal)
    else if (!isOwn) void this.#refresh(session)
  }

  async #lookAgain(): Promise<void> {
    for (const session of this.#live.values()) await this.#refresh(session)
  }

  async #refresh(session: LiveSession): Promise<void> {
    try {
      const found = await this.parts.store.records.get(PREFIX + session.name)
      const record = parseSessionRecord(found?.value)
      if (!record) return this.#noRecord(session)
      session.record = record
      this.onSignal?.(session, { type: 'changed' })
    } catch (error) {
      this.#report(error)
    }
  }

  /** Time until a record ends. Longer than the idle time, because not every request extends it. */
  #ttlOf({ createdAt }: SessionRecord): number {
    const { idleTtlMs, absoluteTtlMs } = this.parts.settings
    const left = createdAt + absoluteTtlMs - this.parts.clock.now()
    return Math.min(idleTtlMs + this.#touchMs(), left)
  }

  #touchMs(): number {
    return Math.min(TOUCH_MS.max, Math.max(TOUCH_MS.min, this.parts.settings.idleTtlMs / 8))
  }

  readonly #report = (cause: unknown): void => {
    this.parts.onError(new Error('The record of a session cannot be reached', { cause }))
  }
}

/** Returns the record of a session whose client has sent nothing but a handshake. */
function newRecord(handshake: ClientInfo, createdAt: number): SessionRecord {
  const none = { scope: undefined, level: undefined, listener: undefined }
  return { ...none, createdAt, handshake, followed: [] }
}

const jsonObject = z.custom<Params>(isRecord)

const StoredSession = z.object({
  createdAt: z.number(),
  scope: z.string().optional(),
  handshake: z.object({
    protocolVersion: z.string(),
    capabilities: jsonObject,
  }),
  level: z.string().optional(),
  followed: z.array(z.string()),
  listener: z.string().optional(),
})

/** Reads a stored record. JSON has no key for a field without a value. */
function parseSessionRecord(value: unknown): SessionRecord | undefined {
  const record = StoredSession.safeParse(value).data
  return record && { ...newRecord(record.handshake, record.createdAt), ...record }
}

/** `undefined` for signals that this version does not know. */
function parseSignal(value: Params): SessionSignal | undefined {
  const { type, to, requestId, token, message } = value
  if (type === 'ended' || type === 'changed') return { type }
  if (type === 'cancel' && isRequestId(requestId)) return { type, requestId }
  if (typeof to !== 'string') return undefined
  if (type === 'answer' && isRecord(message)) return { type, to, message }
  return type === 'progress' && typeof token === 'string' ? { type, to, token } : undefined
}

/** Hides the id in the store, and keeps the sessions of principals apart. */
function sessionName(principalId: string, id: string): string {
  return `${hashOf(principalId)}:${hashOf(id)}`
}

function hashOf(text: string): string {
  return hash('sha256', text).slice(0, 32)
}
