import type { Server } from '@modelcontextprotocol/server'

import type { Clock } from '../../internal/clock.ts'
import type { GatewayStore } from '../../store/gateway-store.ts'
import type { Changes, ChangingList } from '../changes/changes.ts'
import type { LegacySession } from '../sessions/legacy-session.ts'
import { ServerRequestIds } from './server-request-ids.ts'
import type { KeptEvent, SessionEvents } from '../sessions/session-events.ts'
import type { EffectiveSessionLimits } from '../sessions/session-limits.ts'
import { SessionPeers } from './session-peers.ts'
import type { SessionRecord } from './session-record.ts'
import { SessionRecords } from './session-records.ts'
import type { SessionSignal } from './session-signal.ts'
import { SharedSession } from './shared-session.ts'

export interface SharedSessionsOptions {
  readonly store: Pick<GatewayStore, 'values' | 'messages'>
  /** Names this process among those that share the store. */
  readonly replica: string
  readonly changes: Changes
  /** Lists of whose changes clients hear. */
  readonly lists: readonly ChangingList[]
  readonly limits: () => EffectiveSessionLimits
  readonly keepAliveMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** How long another process may take to answer. */
const ANSWER_MS = 1500
/** How often at most it is written down that a session was used. */
const TOUCH_MS = { least: 250, most: 60_000 }
/** When that failed, it is tried again after so long. */
const RETRY_MS = 1000

/** Whether a session may begin. */
export type Admission = 'ok' | 'too many' | 'too many of the caller'

/** Sessions of all processes that share a store, as far as this process has to do with them. */
export class SharedSessions {
  readonly ids: ServerRequestIds
  readonly #options: SharedSessionsOptions
  readonly #records: SessionRecords
  readonly #peers: SessionPeers
  readonly #held = new Map<string, SharedSession>()
  readonly #byServer = new WeakMap<Server, SharedSession>()
  readonly #touchedAt = new WeakMap<SharedSession, number>()

  constructor(options: SharedSessionsOptions) {
    const { store, replica, clock, onError } = options
    this.#options = options
    this.ids = new ServerRequestIds(replica)
    this.#records = new SessionRecords(store.values)
    this.#peers = new SessionPeers({
      messages: store.messages,
      replica,
      clock,
      answerMs: ANSWER_MS,
      onSignal: (name, signal, from) => this.#signalled(name, signal, from),
      onGap: () => void this.#lookAgain(),
      onError,
    })
    options.changes.keepBy(async (server, uri, isFollowed) => {
      await this.#byServer.get(server)?.follows(uri, isFollowed)
    })
  }

  get replica(): string {
    return this.#options.replica
  }

  /**
   * A session is about to begin: it is written down first.
   *
   * @throws GatewayError `UNAVAILABLE`, `LIMIT`
   */
  async begin(
    name: string,
    record: SessionRecord,
    principal: { readonly id: string; readonly isAnonymous: boolean },
  ): Promise<Admission> {
    const { max, maxPerPrincipal } = this.#options.limits()
    await this.#peers.ready()
    await this.#records.put(name, record, this.#ttlOf(record.createdAt))
    // Counted with itself, so that of two that begin at once no one is too many.
    const [all, own] = await Promise.all([
      this.#records.count(),
      principal.isAnonymous ? 0 : this.#records.count(principal.id),
    ])
    if (all <= max && own <= maxPerPrincipal) return 'ok'
    await this.#records.remove(name)
    return all > max ? 'too many' : 'too many of the caller'
  }

  /** It did not come about. */
  async undo(name: string): Promise<void> {
    await this.#records.remove(name)
  }

  /** A session of this caller that may have begun elsewhere. @throws GatewayError `UNAVAILABLE` */
  async find(name: string): Promise<SessionRecord | undefined> {
    await this.#peers.ready()
    const record = await this.#records.find(name)
    if (!record || this.#ttlOf(record.createdAt) <= 0) return undefined
    return record
  }

  /** Whether it has not ended while this process began to hold it. */
  confirm({ name, session }: SharedSession): Promise<boolean> {
    return this.#records.touch(name, Math.max(1, this.#ttlOf(session.createdAt)))
  }

  /** This process has a server for it from now on. */
  hold(name: string, session: LegacySession, events: SessionEvents | undefined): SharedSession {
    const { replica, changes, lists, limits, keepAliveMs, clock, onError } = this.#options
    const ttlMs = (): number => this.#ttlOf(session.createdAt)
    const shared = new SharedSession({
      name,
      session,
      events,
      replica,
      ids: this.ids,
      peers: this.#peers,
      update: (change) => this.#records.update(name, change, ttlMs()),
      remove: () => this.#records.remove(name),
      setListening: (server, isListening) => changes.listen(server, isListening),
      catchUp: (server) => changes.catchUp(server, lists),
      setFollowed: (server, uris) => changes.setFollowed(server, uris),
      graceMs: limits().disconnectGraceMs,
      keepAliveMs,
      clock,
      onError,
    })
    this.#held.set(name, shared)
    this.#byServer.set(session.server, shared)
    this.#touchedAt.set(shared, clock.now())
    return shared
  }

  /** It has no server here any more. */
  release(shared: SharedSession): void {
    if (this.#held.get(shared.name) === shared) this.#held.delete(shared.name)
    shared.release()
  }

  /** It is used: so that it does not end elsewhere, this is written down, but not each time. */
  touch(shared: SharedSession): void {
    const now = this.#options.clock.now()
    if (now - (this.#touchedAt.get(shared) ?? 0) < this.#touchMs()) return
    this.#touchedAt.set(shared, now)
    void this.#renew(shared)
  }

  kept(name: string, stream: string, event: KeptEvent): void {
    this.#held.get(name)?.kept(stream, event)
  }

  taken(name: string, stream: string): void {
    this.#held.get(name)?.taken(stream)
  }

  close(): Promise<void> {
    return this.#peers.close()
  }

  #signalled(name: string, signal: SessionSignal, from: string): string {
    return this.#held.get(name)?.signalled(signal, from) ?? 'none'
  }

  /** Signals were missed: of each session it is looked up whether it has ended elsewhere. */
  async #lookAgain(): Promise<void> {
    for (const shared of this.#held.values()) {
      await this.#renew(shared)
      await this.#refresh(shared)
    }
  }

  async #refresh(shared: SharedSession): Promise<void> {
    try {
      const record = await this.#records.find(shared.name)
      if (!record) return
      const { listener, followed, level } = record
      shared.signalled({ type: 'state', followed, level }, '')
      const isElsewhere = listener !== undefined && listener !== this.replica
      if (isElsewhere) shared.signalled({ type: 'listen' }, listener)
    } catch (error) {
      this.#report(error)
    }
  }

  async #renew(shared: SharedSession): Promise<void> {
    try {
      if (!(await this.confirm(shared))) shared.signalled({ type: 'ended' }, '')
    } catch (error) {
      const { clock } = this.#options
      this.#touchedAt.set(shared, clock.now() - this.#touchMs() + RETRY_MS)
      this.#report(error)
    }
  }

  /** How long its record is kept without being touched: longer than a session may be idle. */
  #ttlOf(createdAt: number): number {
    const { idleTtlMs, absoluteTtlMs } = this.#options.limits()
    const left = createdAt + absoluteTtlMs - this.#options.clock.now()
    return Math.min(idleTtlMs + this.#touchMs(), left)
  }

  #touchMs(): number {
    const { idleTtlMs } = this.#options.limits()
    return Math.min(TOUCH_MS.most, Math.max(TOUCH_MS.least, idleTtlMs / 8))
  }

  #report(cause: unknown): void {
    this.#options.onError(new Error('The record of a session cannot be reached now', { cause }))
  }
}
