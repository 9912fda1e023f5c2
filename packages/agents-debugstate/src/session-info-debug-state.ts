import { fulfilledWithin, isNewerRecord, isSessionId } from '@x/internal'
import { SessionInfo, sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { DebugStateError } from './debug-state-client.ts'
import type { DebugStateClient } from './debug-state-client.ts'
import type { DebugStateKey } from './debug-state-config.ts'

export interface SessionInfoDebugStateOptions {
  /** Usually a `DebugStateClient`. */
  readonly values: Pick<DebugStateClient, 'read' | 'write'>
  /** The result of `debugStateKey()`. */
  readonly key: DebugStateKey
  /** Receives every failure; none is thrown. It must not throw. */
  readonly onError: (error: DebugStateError) => void
}

/** A session record, the bare id of a session, or nothing. */
type Session = SessionRecord | string | undefined

/** Largest stored record, in bytes of UTF-8. The service refuses larger ones. */
const MAX_RECORD_BYTES = 65_536
/** Limit of `flush()`. */
const FLUSH_MS = 5000

/**
 * Stores a session in a debug-state service, where the next process finds it. `SessionInfoDebugStateFactory`
 * creates it.
 *
 * The first read asks the service; later reads use a local copy. A session is sent in the background: one write at a
 * time, and only the newest value. The service keeps a cleared session until the next one replaces it, or until
 * `flush()`, which also waits for all writes. No method rejects: without the service, everything works in memory. If
 * several processes store a session, the last write wins.
 *
 * @example
 * ```ts
 * import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
 *
 * const sessions = new SessionInfoDebugStateFactory({ agentId: 'my-agent' })
 * const shop = sessions.createSession({ slug: 'shop', mcpUrl: 'https://shop.example/mcp' })
 * console.log(await shop.getSessionId()) // of the last process
 * await shop.flush() // at the end: waits until the service has everything
 * ```
 */
export class SessionInfoDebugState extends SessionInfo {
  override readonly durable: boolean = true
  readonly #options: SessionInfoDebugStateOptions
  /** The session that this object returns. `undefined` before the first read or write. */
  #copy: { readonly session: Session } | undefined
  /** The text that the service is known to hold. `undefined` if it has not answered yet. */
  #known: { readonly text: string | undefined } | undefined
  /** The last of the steps that use the service. They run one after the other. */
  #lastStep: Promise<unknown> = Promise.resolve()
  #loading: Promise<void> | undefined
  /** True if `#copy` was set here, and is not stored yet. */
  #isUnsaved = false
  #isWriteRequested = false

  constructor(options: SessionInfoDebugStateOptions) {
    super()
    this.#options = options
  }

  override async getSessionId(): Promise<string | undefined> {
    return idOf(await this.#session())
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    const current = this.#copy?.session
    this.#set(sessionId !== undefined && idOf(current) === sessionId ? current : sessionId)
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    const session = await this.#session()
    return typeof session === 'string' ? undefined : session
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    this.#set(record)
  }

  /**
   * Asks the service again, after the writes in progress. The local copy stays if the service does not answer, or
   * if nothing there has changed.
   */
  override async refresh(): Promise<void> {
    if (this.#copy === undefined) return this.#load()
    await this.#run(async () => {
      const [copy, known] = [this.#copy, this.#known?.text]
      const text = await this.#ask()
      // A session that was set meanwhile is newer than the answer.
      if (text !== known && this.#copy === copy) this.#copy = { session: this.#parse(text) }
    })
  }

  /** Resolves when everything is stored or has failed, or after 5 s. */
  override async flush(): Promise<void> {
    if (this.#isUnsaved) this.#requestWrite()
    await fulfilledWithin(this.#settled(), FLUSH_MS)
  }

  async #session(): Promise<Session> {
    if (this.#copy === undefined) await this.#load()
    return this.#copy?.session
  }

  /** Concurrent callers share one read. */
  async #load(): Promise<void> {
    this.#loading ??= this.#run(async () => {
      try {
        const text = await this.#ask()
        this.#copy ??= { session: this.#parse(text) }
      } finally {
        this.#copy ??= { session: undefined }
      }
    })
    await this.#loading
    this.#loading = undefined
  }

  #set(session: Session): void {
    this.#copy = { session }
    this.#isUnsaved = true
    // A lost session is usually replaced at once: that is one write, not two.
    if (isUsable(session)) this.#requestWrite()
  }

  #requestWrite(): void {
    if (this.#isWriteRequested) return
    this.#isWriteRequested = true
    void this.#run(() => {
      this.#isWriteRequested = false
      return this.#store() // the newest value: so several requests become one write
    })
  }

  async #store(): Promise<void> {
    const [copy, known] = [this.#copy, this.#known]
    const isClearing = !isUsable(copy?.session)
    // The service is asked before it forgets a session, because another process may have replaced that session, and
    // before the first write, because a value of a newer version of this package stays.
    const stored = known === undefined || isClearing ? await this.#ask() : known.text
    const isReplaced = isClearing && stored !== known?.text
    const text = isReplaced ? stored : this.#serialize(copy?.session)
    if (text !== stored) {
      if (isNewerRecord(parseJson(stored))) {
        const message = 'The stored record has a newer format, so it stays: update this package'
        throw new DebugStateError('UNEXPECTED_RESPONSE', message)
      }
      const { values, key } = this.#options
      await values.write(key.name, text)
      this.#known = { text }
    }
    if (this.#copy === copy) this.#isUnsaved = false
  }

  async #ask(): Promise<string | undefined> {
    const { values, key } = this.#options
    const text = await values.read(key.name)
    this.#known = { text }
    return text
  }

  /** The transport checks that a record belongs to its server and principal. */
  #parse(text: string | undefined): Session {
    if (text === undefined) return undefined
    const value = parseJson(text)
    const record = sessionRecordFrom(value)
    if (record !== undefined) return record
    if (isNewerRecord(value)) return undefined
    // Proxies and wrong addresses answer with markup or JSON instead of an id.
    if (!isSessionId(text) || /^[<{["]/.test(text)) {
      this.#report('UNEXPECTED_RESPONSE', 'The stored value is not a session')
      return undefined
    }
    return this.#options.key.isShared ? text : undefined
  }

  /**
   * A record over the limit is stored without the instructions of the server: they can be that long, and a model
   * works without them. If it is still too large, only the id is stored.
   */
  #serialize(session: Session): string | undefined {
    if (session === undefined) return undefined
    if (typeof session === 'string') {
      if (isSessionId(session)) return session
      const message = 'A session id must be 1 to 1024 visible ASCII characters'
      throw new DebugStateError('REJECTED', message)
    }
    const { instructions: _, ...initializeResult } = session.initializeResult ?? {}
    const texts = [session, { ...session, initializeResult }].map((one) => JSON.stringify(one))
    const fitting = texts.find((text) => Buffer.byteLength(text) <= MAX_RECORD_BYTES)
    if (fitting !== undefined) return fitting
    const what = session.tools === undefined ? 'session record' : 'list of tools'
    this.#report('TOO_LARGE', `The ${what} is too large to be stored`)
    return session.sessionId
  }

  /** Runs a step after all earlier ones. Reports its error. */
  #run(step: () => Promise<void>): Promise<void> {
    const result = this.#lastStep.then(step).catch((cause: unknown) => {
      if (cause instanceof DebugStateError) this.#options.onError(cause)
      else this.#report('UNEXPECTED_RESPONSE', 'The debug state could not be used', cause)
    })
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

  #report(code: DebugStateError['code'], message: string, cause?: unknown): void {
    this.#options.onError(new DebugStateError(code, message, { cause }))
  }
}

function idOf(session: Session): string | undefined {
  return typeof session === 'string' ? session : session?.sessionId
}

/** False for a record that only says how to open the next session. */
function isUsable(session: Session): boolean {
  if (session === undefined || typeof session === 'string') return session !== undefined
  const { sessionId, initializeResult, discoverResult, tools } = session
  return [sessionId, initializeResult, discoverResult, tools].some((part) => part !== undefined)
}

function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}
