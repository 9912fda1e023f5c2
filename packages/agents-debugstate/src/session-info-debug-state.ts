import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { SessionInfo } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { DebugStateError } from './debug-state-error.ts'
import type { DebugStateKey } from './debug-state-key.ts'
import { RemoteSession } from './remote-session.ts'
import type { RemoteValues } from './remote-session.ts'
import { nextCopy } from './session-copy.ts'
import type { SessionCopy, SessionCopyEvent, StoredSession } from './session-copy.ts'
import { isInterchangeable } from './stored-session.ts'
import type { SessionOwner } from './stored-session.ts'
import { WriteBehind } from './write-behind.ts'

export interface SessionInfoDebugStateOptions {
  /** Usually a `DebugStateClient`. */
  readonly values: RemoteValues
  /** From `debugStateKey`. */
  readonly key: DebugStateKey
  /** The endpoint that a stored record must name. @default any */
  readonly serverUrl?: string | undefined
  /** The principal that a stored record may name. @default none */
  readonly principal?: string | undefined
  /** Told of every failure; none of them is thrown. Must not throw itself. */
  readonly onError: (error: DebugStateError) => void
  /** Limit of `flush()`. @default 5000 */
  readonly flushMs?: number | undefined
  /** How the time passes until what another process is writing is looked at again. @default timers */
  readonly wait?: ((ms: number) => Promise<void>) | undefined
}

const optionChecks: Checks<SessionInfoDebugStateOptions> = {
  values: check.required({
    ...check.methods('read', 'write', 'remove'),
    takes: 'a DebugStateClient',
  }),
  key: check.required({ ...check.record, takes: 'what debugStateKey() returns' }),
  serverUrl: check.string,
  principal: check.string,
  onError: check.required(check.func),
  flushMs: check.number(),
  wait: check.func,
}

/**
 * Keeps a session in a debug-state service, where the next process finds it.
 *
 * Reading asks the service once and then answers from a local copy. Setting changes the copy at once
 * and writes behind it, one write at a time and the newest value only; `flush()` waits for that.
 * No method ever rejects: without the service everything works, in memory. When two processes store a
 * session at the same time, the first one stays, and the other adopts it.
 */
export class SessionInfoDebugState extends SessionInfo {
  override readonly durable: boolean = true
  readonly #remote: RemoteSession
  readonly #onError: (error: DebugStateError) => void
  readonly #flushMs: number
  readonly #steps: WriteBehind = new WriteBehind(() => this.#store())
  #copy: SessionCopy = { phase: 'not-loaded' }
  #loading: Promise<void> | undefined
  readonly #supersededListeners = new Set<(sessionId: string) => void>()

  /** @throws TypeError for options that are unknown or have a wrong value */
  constructor(options: SessionInfoDebugStateOptions) {
    super()
    assertOptions('SessionInfoDebugState', options, optionChecks)
    const { values, key, serverUrl, principal, onError, flushMs = 5000, wait } = options
    const owner: SessionOwner = { serverUrl, principal, bareIds: key.shared }
    this.#remote = new RemoteSession({ values, key, owner, onError, wait })
    this.#onError = onError
    this.#flushMs = flushMs
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.#session()).sessionId
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    this.#set({ type: 'idSet', sessionId })
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    return (await this.#session()).record
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    this.#set({ type: 'recordSet', record })
  }

  /**
   * Reads past the local copy, after the writes under way. The copy stays where the service is silent,
   * or holds what we already knew of.
   */
  override async refresh(): Promise<void> {
    if (this.#copy.phase === 'not-loaded') return this.#load()
    await this.#steps.run(async () => {
      const before = this.#copy
      const session = await this.#guarded(() => this.#remote.readChange())
      if (session === undefined) return
      if (this.#copy === before)
        this.#dispatch({ type: 'superseded', session, insteadOf: idOf(before) })
      else this.#remote.forgetRival()
    })
  }

  /** A listener must not throw. */
  override onSuperseded(listener: (sessionId: string) => void): () => void {
    const entry = (sessionId: string): void => listener(sessionId)
    this.#supersededListeners.add(entry)
    return () => void this.#supersededListeners.delete(entry)
  }

  /** Resolves when everything set so far is stored or has failed, or after `flushMs`. */
  override async flush(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#flushMs)
    })
    try {
      await Promise.race([this.#steps.idle(), limit])
    } finally {
      clearTimeout(timer)
    }
  }

  async #session(): Promise<StoredSession> {
    if (this.#copy.phase === 'not-loaded') await this.#load()
    return sessionOf(this.#copy)
  }

  /** Concurrent callers share one read. */
  #load(): Promise<void> {
    this.#loading ??= this.#steps
      .run(async () => {
        const session = (await this.#guarded(() => this.#remote.read())) ?? {}
        this.#dispatch({ type: 'read', session })
      })
      .finally(() => {
        this.#loading = undefined
      })
    return this.#loading
  }

  #set(event: SessionCopyEvent): void {
    this.#dispatch(event)
    // Also where nothing changed: an earlier write may have failed, and what is stored is not written again.
    this.#steps.request()
  }

  async #store(): Promise<void> {
    const wanted = sessionOf(this.#copy)
    const superseded = await this.#guarded(() => this.#remote.write(wanted))
    if (superseded === undefined) return
    if (idOf(this.#copy) !== wanted.sessionId) return this.#remote.forgetRival()
    this.#dispatch({ type: 'superseded', session: superseded.by, insteadOf: wanted.sessionId })
    this.#tellSuperseded(wanted, superseded.by)
  }

  /** Only where a client can simply go on in the other session: else each keeps its own until it ends. */
  #tellSuperseded({ sessionId, record }: StoredSession, by: StoredSession): void {
    if (sessionId === undefined || record === undefined || by.record === undefined) return
    if (!isInterchangeable(record, by.record)) return
    for (const listener of new Set(this.#supersededListeners)) listener(sessionId)
  }

  async #guarded<Result>(step: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await step()
    } catch (error) {
      this.#onError(
        error instanceof DebugStateError
          ? error
          : new DebugStateError('UNEXPECTED_RESPONSE', 'The debug state could not be used', {
              cause: error,
            }),
      )
      return undefined
    }
  }

  #dispatch(event: SessionCopyEvent): void {
    this.#copy = nextCopy(this.#copy, event)
  }
}

function sessionOf(copy: SessionCopy): StoredSession {
  return copy.phase === 'loaded' ? copy.session : {}
}

function idOf(copy: SessionCopy): string | undefined {
  return sessionOf(copy).sessionId
}
