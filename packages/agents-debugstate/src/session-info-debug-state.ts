import { fulfilledWithin, Listeners } from '@x/internal'
import { SessionInfo } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { DebugStateError } from './debug-state-client.ts'
import { RemoteSession } from './remote-session.ts'
import type { RemoteSessionOptions } from './remote-session.ts'
import { isInterchangeable } from './stored-session.ts'
import type { StoredSession } from './stored-session.ts'

export interface SessionInfoDebugStateOptions extends RemoteSessionOptions {
  /** Limit of `flush()`. @default 5000 */
  readonly flushMs?: number | undefined
}

/**
 * Stores a session in a debug-state service, where the next process finds it. `SessionInfoDebugStateFactory`
 * creates it.
 *
 * The first read asks the service; later reads use a local copy. A write changes the copy at once and is sent in
 * the background: one write at a time, and only the newest value. `flush()` waits for these writes. No method
 * rejects: without the service, everything works in memory. If two processes store a session at the same time,
 * the first session stays and the other process adopts it.
 */
export class SessionInfoDebugState extends SessionInfo {
  override readonly durable: boolean = true
  readonly #remote: RemoteSession
  readonly #onError: (error: DebugStateError) => void
  readonly #flushMs: number
  readonly #queue: WriteQueue = new WriteQueue(() => this.#store())
  #copy: SessionCopy = { phase: 'not-loaded' }
  #loading: Promise<void> | undefined
  readonly #superseded: Listeners<string> = new Listeners((error) => this.#report(error))

  constructor(options: SessionInfoDebugStateOptions) {
    super()
    this.#remote = new RemoteSession(options)
    this.#onError = options.onError
    this.#flushMs = options.flushMs ?? 5000
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
   * Asks the service again, after the writes in progress. The local copy stays if the service does not answer, or
   * if nothing there has changed.
   */
  override async refresh(): Promise<void> {
    if (this.#copy.phase === 'not-loaded') return this.#load()
    await this.#queue.run(async () => {
      const before = this.#copy
      const session = await this.#guarded(() => this.#remote.readChange())
      if (session === undefined) return
      if (this.#copy === before) {
        this.#dispatch({ type: 'superseded', session, insteadOf: getSession(before).sessionId })
      } else {
        this.#remote.forgetRival()
      }
    })
  }

  override onSuperseded(listener: (sessionId: string) => void): () => void {
    return this.#superseded.add(listener)
  }

  /** Resolves when all earlier writes are stored or have failed, or after `flushMs`. */
  override async flush(): Promise<void> {
    await fulfilledWithin(this.#queue.idle(), this.#flushMs)
  }

  async #session(): Promise<StoredSession> {
    if (this.#copy.phase === 'not-loaded') await this.#load()
    return getSession(this.#copy)
  }

  /** Concurrent callers share one read. */
  #load(): Promise<void> {
    this.#loading ??= this.#queue
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
    // Also if nothing changed, because an earlier write may have failed. A stored value is not written again.
    this.#queue.requestWrite()
  }

  async #store(): Promise<void> {
    const wanted = getSession(this.#copy)
    const superseded = await this.#guarded(() => this.#remote.write(wanted))
    if (superseded === undefined) return
    const { sessionId, record } = wanted
    if (getSession(this.#copy).sessionId !== sessionId) return this.#remote.forgetRival()
    const { by } = superseded
    this.#dispatch({ type: 'superseded', session: by, insteadOf: sessionId })
    // Listeners switch to the other session. That is possible without a handshake only if the records agree.
    if (sessionId === undefined || record === undefined || by.record === undefined) return
    if (!isInterchangeable(record, by.record)) return
    this.#superseded.emit(sessionId)
  }

  async #guarded<Result>(step: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await step()
    } catch (error) {
      this.#report(error)
      return undefined
    }
  }

  #report(cause: unknown): void {
    const message = 'The debug state could not be used'
    this.#onError(
      cause instanceof DebugStateError
        ? cause
        : new DebugStateError('UNEXPECTED_RESPONSE', message, { cause }),
    )
  }

  #dispatch(event: SessionCopyEvent): void {
    this.#copy = nextCopy(this.#copy, event)
  }
}

/** The local copy of the stored session. */
export type SessionCopy =
  | { readonly phase: 'not-loaded' }
  | {
      readonly phase: 'loaded'
      readonly session: StoredSession
      /** Id of our own session that `session` replaced. A late write of that id is ignored. */
      readonly insteadOf?: string | undefined
    }
  /** Cleared by this process. The service is not asked again, because it may still hold the dead id. */
  | { readonly phase: 'cleared' }

export type SessionCopyEvent =
  | { readonly type: 'read'; readonly session: StoredSession }
  | { readonly type: 'idSet'; readonly sessionId: string | undefined }
  | { readonly type: 'recordSet'; readonly record: SessionRecord | undefined }
  /** Another process stored `session` first. `insteadOf` is the id of our own session, if it had one. */
  | {
      readonly type: 'superseded'
      readonly session: StoredSession
      readonly insteadOf?: string | undefined
    }

/** Returns the next state of a local copy. Pure. Returns the same object if nothing changed. */
export function nextCopy(copy: SessionCopy, event: SessionCopyEvent): SessionCopy {
  switch (event.type) {
    case 'read':
      // A value that was set while the request was in flight is newer than the answer.
      return copy.phase === 'not-loaded' ? { phase: 'loaded', session: event.session } : copy
    case 'idSet':
      if (event.sessionId === undefined) return { phase: 'cleared' }
      if (copy.phase === 'loaded') {
        if (copy.session.sessionId === event.sessionId) return copy
        if (copy.insteadOf === event.sessionId) return copy
      }
      return { phase: 'loaded', session: { sessionId: event.sessionId } }
    case 'recordSet': {
      if (event.record === undefined) return { phase: 'cleared' }
      const { sessionId } = event.record
      if (copy.phase === 'loaded' && sessionId !== undefined && copy.insteadOf === sessionId) {
        return copy
      }
      return { phase: 'loaded', session: { sessionId, record: event.record } }
    }
    case 'superseded':
      return { phase: 'loaded', session: event.session, insteadOf: event.insteadOf }
  }
}

function getSession(copy: SessionCopy): StoredSession {
  return copy.phase === 'loaded' ? copy.session : {}
}

/**
 * Runs steps for one remote value strictly one after the other. A write is only requested: it reads the newest
 * value when its turn comes. So several requests become one write, and an old value never replaces a newer one.
 */
export class WriteQueue {
  readonly #write: () => Promise<void>
  #tail: Promise<unknown> = Promise.resolve()
  #isRequested = false

  /** `write` must not reject. */
  constructor(write: () => Promise<void>) {
    this.#write = write
  }

  /** Requests a write after all steps that are waiting or running. */
  requestWrite(): void {
    if (this.#isRequested) return
    this.#isRequested = true
    void this.run(() => {
      this.#isRequested = false
      return this.#write()
    })
  }

  /** Runs a step when its turn comes. `step` must not reject. */
  run<Result>(step: () => Promise<Result>): Promise<Result> {
    const result = this.#tail.then(step)
    this.#tail = result
    return result
  }

  /** Resolves when no step is waiting or running. */
  async idle(): Promise<void> {
    for (let tail; tail !== this.#tail;) {
      tail = this.#tail
      await tail
    }
  }
}
