import { fulfilledWithin } from '@x/internal'
import { SessionInfo } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { DebugStateError } from './debug-state-client.ts'
import { RemoteSession } from './remote-session.ts'
import type { RemoteSessionOptions } from './remote-session.ts'
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
  #copy: SessionCopy = { phase: 'not-loaded' }
  /** The last of the steps that use the service. They run one after the other. */
  #lastStep: Promise<unknown> = Promise.resolve()
  #isWriteRequested = false
  #loading: Promise<void> | undefined

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
    this.#set(sessionId === undefined ? undefined : { sessionId })
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    return (await this.#session()).record
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    this.#set(record && { sessionId: record.sessionId, record })
  }

  /**
   * Asks the service again, after the writes in progress. The local copy stays if the service does not answer, or
   * if nothing there has changed.
   */
  override async refresh(): Promise<void> {
    if (this.#copy.phase === 'not-loaded') return this.#load()
    await this.#run(async () => {
      const before = this.#copy
      const session = await this.#remote.readChange()
      if (session === undefined) return
      if (this.#copy === before) {
        this.#dispatch({ type: 'superseded', session, insteadOf: getSession(before).sessionId })
      } else {
        this.#remote.forgetRival()
      }
    })
  }

  /** Resolves when all earlier writes are stored or have failed, or after `flushMs`. */
  override async flush(): Promise<void> {
    await fulfilledWithin(this.#settled(), this.#flushMs)
  }

  async #session(): Promise<StoredSession> {
    if (this.#copy.phase === 'not-loaded') await this.#load()
    return getSession(this.#copy)
  }

  /** Concurrent callers share one read. */
  async #load(): Promise<void> {
    this.#loading ??= this.#run(async () => {
      this.#dispatch({ type: 'read', session: (await this.#remote.read()) ?? {} })
    })
    await this.#loading
    this.#loading = undefined
  }

  #set(session: StoredSession | undefined): void {
    this.#dispatch({ type: 'set', session })
    // Also if nothing changed, because an earlier write may have failed. A stored value is not written again.
    if (this.#isWriteRequested) return
    this.#isWriteRequested = true
    void this.#run(() => {
      this.#isWriteRequested = false
      return this.#store() // the newest value: so several requests become one write
    })
  }

  async #store(): Promise<void> {
    const wanted = getSession(this.#copy)
    const other = await this.#remote.write(wanted)
    if (other === undefined) return
    const { sessionId } = wanted
    if (getSession(this.#copy).sessionId !== sessionId) return this.#remote.forgetRival()
    this.#dispatch({ type: 'superseded', session: other, insteadOf: sessionId })
  }

  /** Runs a step after all earlier ones. Reports its error. */
  #run(step: () => Promise<void>): Promise<void> {
    const result = this.#lastStep.then(step).catch((error: unknown) => this.#report(error))
    this.#lastStep = result
    return result
  }

  async #settled(): Promise<void> {
    let last: Promise<unknown>
    do {
      last = this.#lastStep
      await last
    } while (last !== this.#lastStep)
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
      readonly insteadOf: string | undefined
    }
  /** Cleared by this process. The service is not asked again, because it may still hold the dead id. */
  | { readonly phase: 'cleared' }

export type SessionCopyEvent =
  | { readonly type: 'read'; readonly session: StoredSession }
  /** `undefined` clears. */
  | { readonly type: 'set'; readonly session: StoredSession | undefined }
  /** Another process stored `session` first. `insteadOf` is the id of our own session, if it had one. */
  | {
      readonly type: 'superseded'
      readonly session: StoredSession
      readonly insteadOf: string | undefined
    }

/** Returns the next state of a local copy. Pure. Returns the same object if nothing changed. */
export function nextCopy(copy: SessionCopy, event: SessionCopyEvent): SessionCopy {
  const { session } = event
  if (session === undefined) return { phase: 'cleared' }
  switch (event.type) {
    case 'read':
      // A value that was set while the request was in flight is newer than the answer.
      if (copy.phase !== 'not-loaded') return copy
      break
    case 'set': {
      if (copy.phase !== 'loaded' || session.sessionId === undefined) break
      if (copy.insteadOf === session.sessionId) return copy
      const isSameId = copy.session.sessionId === session.sessionId
      if (isSameId && session.record === undefined) return copy // keeps the record
      break
    }
    case 'superseded':
      return { phase: 'loaded', session, insteadOf: event.insteadOf }
  }
  return { phase: 'loaded', session, insteadOf: undefined }
}

function getSession(copy: SessionCopy): StoredSession {
  return copy.phase === 'loaded' ? copy.session : {}
}
