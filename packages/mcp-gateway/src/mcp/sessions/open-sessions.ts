import type { Principal } from '../../internal/principal.ts'
import type { Clock } from '../../internal/clock.ts'
import type { SessionEnd } from '../../internal/observer.ts'
import type { LegacySession } from './legacy-session.ts'
import type { ServerParts } from '../sdk-server.ts'
import type { EffectiveSessionLimits } from './session-limits.ts'
import type { MadeSession, SessionMaker } from './session-maker.ts'
import { SessionSweep } from './session-sweep.ts'
import type { SharedSession } from '../replicas/shared-session.ts'
import type { SharedSessions } from '../replicas/shared-sessions.ts'

export interface OpenSessionsOptions {
  readonly parts: ServerParts
  readonly maker: SessionMaker
  /** As they are now. */
  readonly limits: () => EffectiveSessionLimits
  /** Where other processes have the same sessions. @default they have not */
  readonly shared: SharedSessions | undefined
  readonly clock: Clock
}

/** What a session is called, and whose it is. */
export interface SessionNames {
  readonly id: string
  /** What stands for it outside of this process. */
  readonly name: string
  readonly principal: Principal
}

/** The sessions for which this process has a server. */
export class OpenSessions {
  readonly #options: OpenSessionsOptions
  readonly #sessions = new Map<string, LegacySession>()
  readonly #held = new Map<LegacySession, SharedSession>()
  readonly #perPrincipal = new Map<string, number>()
  readonly #sweep: SessionSweep
  #isClosed = false

  constructor(options: OpenSessionsOptions) {
    const { clock, limits } = options
    this.#options = options
    this.#sweep = new SessionSweep({ clock, limits, look: () => this.#look() })
  }

  get size(): number {
    return this.#sessions.size
  }

  /** None begins any more. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** @returns `undefined`: there is none here, it is somebody else's, or its time is over */
  get(id: string, principal: Principal): LegacySession | undefined {
    const session = this.#sessions.get(id)
    const isOwn = session && session.principalId === principal.id && !this.#isOver(session)
    return isOwn ? session : undefined
  }

  sharedOf(session: LegacySession): SharedSession | undefined {
    return this.#held.get(session)
  }

  /** Of one caller. */
  countOf({ id }: Principal): number {
    return this.#perPrincipal.get(id) ?? 0
  }

  make(
    plan: SessionNames & {
      readonly scope: string | undefined
      /** @default now */
      readonly createdAt?: number
    },
  ): Promise<MadeSession> {
    const { id, name, principal, scope, createdAt } = plan
    const { limits, maker, parts, shared } = this.#options
    return maker.make({
      id,
      name,
      principalId: principal.id,
      scope,
      createdAt,
      limits: limits(),
      onClosed: (session) => this.#forget(id, session),
      onReady: (session) => {
        if (!shared && this.#sessions.get(id) === session) {
          parts.changes.add(session.server, { owner: this.#ownerOf(principal, scope) })
        }
      },
    })
  }

  /** @returns what it is to other processes, if they have the same sessions */
  hold(
    { id, name, principal }: SessionNames,
    { session, events }: MadeSession,
  ): SharedSession | undefined {
    const { parts, shared } = this.#options
    this.#sessions.set(id, session)
    this.#perPrincipal.set(principal.id, this.countOf(principal) + 1)
    parts.observer?.sessionOpened()
    if (!shared) return undefined
    // Which of the processes its client listens at is not known before it does.
    parts.changes.add(session.server, { owner: this.#ownerOf(principal, session.scope) })
    parts.changes.listen(session.server, false)
    const held = shared.hold(name, session, events)
    this.#held.set(session, held)
    return held
  }

  /** Sessions that end are looked for from now on, as long as there are any. */
  watch(): void {
    if (!this.#isClosed && this.size > 0) this.#sweep.begin()
  }

  /** Ends one, if it is here. */
  async end(id: string): Promise<void> {
    await this.#sessions.get(id)?.close()
  }

  /** None begins, or is looked for, any more. */
  stop(): void {
    this.#isClosed = true
    this.#sweep.stop()
  }

  /** Ends all. */
  async close(): Promise<void> {
    this.stop()
    await Promise.all([...this.#sessions.values()].map((session) => session.close()))
  }

  /** Whose resources a session may see. */
  #ownerOf(principal: Principal, scope: string | undefined): string | undefined {
    return this.#options.parts.resources?.listOf({ principal, scope })
  }

  #forget(id: string, session: LegacySession): void {
    if (this.#sessions.get(id) !== session) return
    const { clock, parts, shared } = this.#options
    this.#sessions.delete(id)
    parts.changes.remove(session.server)
    const held = this.#held.get(session)
    if (held) shared?.release(held)
    this.#held.delete(session)
    const left = (this.#perPrincipal.get(session.principalId) ?? 1) - 1
    if (left > 0) this.#perPrincipal.set(session.principalId, left)
    else this.#perPrincipal.delete(session.principalId)
    const openMs = clock.now() - session.createdAt
    parts.observer?.sessionClosed({ reason: this.#reasonOf(session), openMs })
    this.#end(session)
  }

  #reasonOf(session: LegacySession): SessionEnd['reason'] {
    if (this.#isClosed) return 'gateway'
    if (!this.#isOver(session)) return 'client'
    const { clock, limits } = this.#options
    return clock.now() - session.createdAt >= limits().absoluteTtlMs ? 'expired' : 'idle'
  }

  #isOver(session: LegacySession): boolean {
    const now = this.#options.clock.now()
    const { idleTtlMs, absoluteTtlMs } = this.#options.limits()
    return now - session.seenAt >= idleTtlMs || now - session.createdAt >= absoluteTtlMs
  }

  /** @returns whether there are any left to look at */
  #look(): boolean {
    for (const session of this.#sessions.values()) {
      if (this.#isOver(session) && !session.hasCalls) {
        this.#end(session)
        continue
      }
      const held = session.isInUse ? this.#held.get(session) : undefined
      if (held) this.#options.shared?.touch(held)
    }
    return this.size > 0
  }

  #end(session: LegacySession): void {
    session.close().catch((error: unknown) => {
      this.#options.parts.onError(new Error('A session did not end well', { cause: error }))
    })
  }
}
