import { isRecord } from '@x/internal'

import type { ArtifactChange } from '../files/artifacts.ts'
import type { Clock } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import { Debouncer } from '../internal/timers.ts'
import { LogFollower, type EventLogs, type LogLimits } from '../store/gateway-store.ts'
import { toEvent, type EventStream } from './event-stream.ts'
import type { LiveSession, Sessions, SessionUse } from './sessions.ts'

/** A change that clients receive a notification for. */
export type Change =
  | { readonly type: 'tools' | 'prompts' }
  /** The list of resources of one owner. */
  | { readonly type: 'resources'; readonly owner: string }
  | { readonly type: 'resource'; readonly uri: string }

export interface ChangeListener {
  changed(change: Change): void
  /** Changes may have been lost. */
  missed(): void
}

export interface ChangeFeedOptions {
  readonly logs: EventLogs
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

const LOG = 'changes'
const LIMITS: LogLimits = { maxEvents: 1000, ttlMs: 60_000 }
const RETRY_MS = 1000
/** After a notification about a list, further ones about it come together at the end of this time. */
const QUIET_MS = 250

/**
 * Changes of lists and resources, from all processes to the clients of all processes: one log, which each process
 * reads once and hands to its own listeners. Each process announces what it notices itself: a client that lists its
 * tools after the first announcement may get the earlier list from a process that announces later.
 */
export class ChangeFeed {
  readonly #options: ChangeFeedOptions
  readonly #listeners = new Set<ChangeListener>()
  /** Changes that other processes have not received, by their JSON. */
  readonly #unsent = new Map<string, Change>()
  /** Lists whose clients were notified a moment ago. `isDue`: they have changed since. */
  readonly #recent = new Map<Change['type'], { isDue: boolean; readonly stop: () => void }>()
  readonly #log: LogFollower
  #stopRetry: (() => void) | undefined
  /** Changes of other processes could not be followed: some may have been missed. */
  #isBehind = false
  #isClosed = false

  constructor(options: ChangeFeedOptions) {
    this.#options = options
    this.#log = new LogFollower(options.logs, LOG, {
      onEvent: ({ event }) => {
        const change = parseChange(event)
        if (change) this.#received(change)
      },
      onGap: () => this.#missed(),
    })
  }

  /** Begins to follow the changes of other processes. Never rejects: it is tried again. */
  async start(): Promise<void> {
    if (this.#isClosed || this.#isBehind) return
    try {
      await this.#log.start()
    } catch (cause) {
      if (this.#isBehind) return
      const { onError } = this.#options
      onError(new Error('Changes of other processes cannot be followed at the moment', { cause }))
      this.#isBehind = true
      this.#retryLater()
    }
  }

  /** Notifies the clients of all processes. Never rejects. */
  async publish(change: Change): Promise<void> {
    if (this.#isClosed) return
    try {
      await this.#send(change)
    } catch (cause) {
      if (this.#unsent.size === 0) {
        const text = 'A change could not be sent to other processes. It is sent again later.'
        this.#options.onError(new Error(text, { cause }))
      }
      this.#unsent.set(JSON.stringify(change), change)
      this.#received(change)
      this.#retryLater()
    }
  }

  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#stopRetry?.()
    for (const { stop } of this.#recent.values()) stop()
    await this.#log.stop()
  }

  async #send(change: Change): Promise<void> {
    await this.#log.start()
    await this.#options.logs.append(LOG, change, { limits: LIMITS, isLast: false })
  }

  #retryLater(): void {
    if (this.#isClosed) return
    this.#stopRetry ??= this.#options.clock.after(RETRY_MS, () => void this.#retry())
  }

  /** Follows other processes, and sends changes that they did not receive. */
  async #retry(): Promise<void> {
    this.#stopRetry = undefined
    try {
      await this.#log.start()
      if (this.#isBehind) this.#missed()
      this.#isBehind = false
      for (const [key, change] of this.#unsent) {
        await this.#send(change)
        this.#unsent.delete(key)
      }
    } catch {
      this.#retryLater()
    }
  }

  /** Notifies the clients of this process of everything that may have changed. */
  #missed(): void {
    for (const listener of this.#listeners) listener.missed()
  }

  /** Notifies the clients of this process: of a list at once, and once more if other processes announce it a little later. */
  #received(change: Change): void {
    const { type } = change
    if (this.#isClosed) return
    if (type === 'tools' || type === 'prompts') {
      const recent = this.#recent.get(type)
      if (recent) {
        recent.isDue = true
        return
      }
      const stop = this.#options.clock.after(QUIET_MS, () => {
        const { isDue } = this.#recent.get(type) ?? {}
        this.#recent.delete(type)
        if (isDue) this.#received(change)
      })
      this.#recent.set(type, { isDue: false, stop })
    }
    for (const listener of this.#listeners) listener.changed(change)
  }
}

/** A run may write a hundred files at once. */
const BATCH_MS = { quiet: 50, max: 500 }

/** Collects changes of artifacts for a short time, and publishes each list and each URI once. */
export class ChangeBatches {
  readonly #changes: Pick<ChangeFeed, 'publish'>
  readonly #debouncer: Debouncer
  /** Owners whose lists have one more entry. */
  readonly #owners = new Set<string>()
  /** URIs with new versions. */
  readonly #updated = new Set<string>()
  #isClosed = false

  constructor(changes: Pick<ChangeFeed, 'publish'>, clock: Clock) {
    this.#changes = changes
    const onDue = (): void => this.#publish()
    this.#debouncer = new Debouncer({ clock, quietMs: BATCH_MS.quiet, maxMs: BATCH_MS.max, onDue })
  }

  add({ uri, owner, isNew }: ArtifactChange): void {
    if (this.#isClosed) return
    if (isNew && owner !== null) this.#owners.add(owner)
    this.#updated.add(uri)
    this.#debouncer.touch()
  }

  /** Publishes what was collected. */
  close(): void {
    this.#isClosed = true
    this.#debouncer.clear()
    this.#publish()
  }

  #publish(): void {
    for (const owner of this.#owners) void this.#changes.publish({ type: 'resources', owner })
    for (const uri of this.#updated) void this.#changes.publish({ type: 'resource', uri })
    this.#owners.clear()
    this.#updated.clear()
  }
}

export interface SessionListenerOptions {
  readonly session: LiveSession
  readonly stream: EventStream
  readonly sessions: Sessions
  readonly feed: ChangeFeed
  /** Whose resources the session may see. `undefined`: it has no list of resources. */
  readonly owner: string | undefined
  readonly lists: readonly ('tools' | 'prompts')[]
}

/** The stream on which the client of a session listens, beside its calls. Its last one, at whatever process. */
export class SessionListener implements SessionUse, ChangeListener {
  readonly isCall = false
  readonly stream: EventStream
  /** Id of its first event. A client that comes back with it replaces this stream. */
  readonly id: string = `listener-${randomHex(8)}`
  readonly #options: SessionListenerOptions
  /** The record of the session names this stream. */
  #isRecorded = false

  constructor(options: SessionListenerOptions) {
    const { session, stream, feed } = options
    this.stream = stream
    this.#options = options
    const leave = session.use(this)
    const stop = feed.listen(this)
    stream.onClose(() => {
      leave()
      stop()
    })
  }

  /**
   * Ends other listening streams of the session. A client that has listened before is notified of all that may have
   * changed in between.
   *
   * @returns whether the session still exists
   * @throws GatewayError `UNAVAILABLE`
   */
  async begin(): Promise<boolean> {
    const { session, sessions } = this.#options
    let before: string | undefined
    const exists = await sessions.update(session, (record) => {
      before = record.listener
      return { ...record, listener: this.id }
    })
    if (!exists) return false
    this.#isRecorded = true
    if (before !== undefined) this.missed()
    return true
  }

  changed(change: Change): void {
    const { owner, session } = this.#options
    if (change.type === 'resources' && change.owner !== owner) return
    if (change.type === 'resource' && !session.record.followed.includes(change.uri)) return
    this.stream.write(toNotification(change))
  }

  missed(): void {
    const { lists, owner, session } = this.#options
    for (const type of lists) this.changed({ type })
    if (owner !== undefined) this.changed({ type: 'resources', owner })
    for (const uri of session.record.followed) this.changed({ type: 'resource', uri })
  }

  /** The record of the session has changed: another stream may have taken over. */
  recordChanged(): void {
    const { listener } = this.#options.session.record
    if (this.#isRecorded && listener !== this.id) this.stream.end()
  }

  end(): void {
    this.stream.end()
  }
}

/** Whether a `Last-Event-ID` comes from a stream on which a client has listened. */
export function isListenerId(eventId: string): boolean {
  return /^listener-[0-9a-f]{16}$/.test(eventId)
}

export const CHANGE_METHODS = {
  tools: 'notifications/tools/list_changed',
  prompts: 'notifications/prompts/list_changed',
  resources: 'notifications/resources/list_changed',
  resource: 'notifications/resources/updated',
} as const

function toNotification(change: Change): string {
  const params = change.type === 'resource' ? { uri: change.uri } : undefined
  return toEvent(JSON.stringify({ jsonrpc: '2.0', method: CHANGE_METHODS[change.type], params }))
}

/** `undefined` for changes that this version does not know. */
function parseChange(event: unknown): Change | undefined {
  if (!isRecord(event)) return undefined
  const { type, owner, uri } = event
  switch (type) {
    case 'tools':
    case 'prompts':
      return { type }
    case 'resources':
      return typeof owner === 'string' ? { type, owner } : undefined
    case 'resource':
      return typeof uri === 'string' ? { type, uri } : undefined
    default:
      return undefined
  }
}
