import { isRecord } from '@x/internal'

import type { ArtifactChange } from '../files/artifacts.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/timers.ts'
import {
  LogFollower,
  type EventLogs,
  type LoggedEvent,
  type LogLimits,
} from '../store/gateway-store.ts'
import { toEvent, type EventStream } from './event-stream.ts'
import type { LiveSession, Sessions, SessionUse } from './sessions.ts'

/** A change that clients receive a notification for. */
export type Change =
  /** `version` of the list: clients are notified once per version, however many processes publish it. */
  | { readonly type: 'tools' | 'prompts'; readonly version?: string | undefined }
  /** The list of resources of one owner. */
  | { readonly type: 'resources'; readonly owner: string }
  | { readonly type: 'resource'; readonly uri: string }

export interface ChangeListener {
  /** @param event in the format of server-sent events; `id` is its place in the feed, if it has one */
  changed(change: Change, event: { readonly id: string | undefined; readonly text: string }): void
  /** Changes may have been lost. */
  missed(): void
}

export interface ChangeFeedOptions {
  readonly logs: EventLogs
  readonly limits: LogLimits
  readonly process: string
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

export const CHANGES = 'changes'
const RETRY_MS = 1000
/** Time in which processes that notice a change later than others notify clients together. */
const LATE_MS = 250

/**
 * Changes of lists and resources, from all processes to the clients of all processes: one log, which each process
 * reads once and hands to its own listeners.
 */
export class ChangeFeed {
  readonly #options: ChangeFeedOptions
  readonly #listeners = new Set<ChangeListener>()
  /** Versions of lists in the latest notifications. */
  readonly #versions = new Map<string, string>()
  readonly #ownVersions = new Map<string, string>()
  /** Versions that this process has later than others, and of which clients are notified again. */
  readonly #late = new Map<string, { readonly version: string; readonly stop: () => void }>()
  readonly #unsent = new Map<string, object>()
  #queue: Promise<unknown> = Promise.resolve()
  readonly #log: LogFollower
  #last: { readonly id: string; readonly at: number } | undefined
  #stopRetry: (() => void) | undefined
  /** Changes of other processes could not be followed: some may have been missed. */
  #isBehind = false
  #isClosed = false

  constructor(options: ChangeFeedOptions) {
    this.#options = options
    this.#log = new LogFollower(options.logs, CHANGES, {
      onEvent: (event) => this.#received(event),
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

  /**
   * Notifies the clients of all processes. Never rejects.
   *
   * Each process notices a new version of a list itself. Clients are notified once, and once more after the last
   * process has the version: a client that lists its tools before may get the earlier version from that process.
   */
  publish(change: Change): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    if ('version' in change && change.version !== undefined) {
      if (this.#ownVersions.get(change.type) === change.version) return Promise.resolve()
      this.#ownVersions.set(change.type, change.version)
      if (this.#isDelivered(change)) {
        this.#publishLater(change, change.version)
        return Promise.resolve()
      }
    }
    const publishing = this.#queue.then(() => this.#publish(change))
    this.#queue = publishing
    return publishing
  }

  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /**
   * Returns the id of the latest change. Clients can resume after it. `undefined` if the store does not answer.
   * Stores a mark if the latest change would soon be dropped.
   */
  async place(): Promise<string | undefined> {
    const { clock, limits } = this.#options
    const isFresh = this.#last && clock.now() - this.#last.at < limits.ttlMs / 2
    if (isFresh) return this.#last?.id
    try {
      await this.#log.start()
      await this.#append({ type: 'mark' })
      return this.#last?.id
    } catch {
      return undefined
    }
  }

  /** Returns whether an event id belongs to this feed, also if the event was dropped. */
  async isPlace(eventId: string): Promise<boolean> {
    const place = await this.place()
    return place !== undefined && tagOf(place) === tagOf(eventId)
  }

  /** Returns the changes after an event. `undefined`: some were dropped. @throws GatewayError `UNAVAILABLE` */
  async since(eventId: string): Promise<readonly LoggedChange[] | undefined> {
    const events = await this.#options.logs.read(CHANGES, eventId)
    return events?.flatMap(({ id, event }) => {
      const change = parseChange(event)
      return change ? [{ id, change }] : []
    })
  }

  async close(): Promise<void> {
    await this.#queue
    this.#isClosed = true
    this.#stopRetry?.()
    for (const { stop } of this.#late.values()) stop()
    this.#late.clear()
    await this.#log.stop()
  }

  /** @param about added to the stored change, for other processes */
  async #publish(change: Change, about: { readonly isRepeated?: true } = {}): Promise<void> {
    if (this.#isClosed || (!about.isRepeated && this.#isDelivered(change))) return
    const event = { ...change, ...about }
    try {
      await this.#log.start()
      await this.#append(event)
    } catch (cause) {
      if (this.#unsent.size === 0) {
        const text = 'A change could not be sent to other processes. It is sent again later.'
        this.#options.onError(new Error(text, { cause }))
      }
      this.#unsent.set(JSON.stringify(Object.entries({ ...change, version: undefined })), event)
      this.#deliver(change, undefined)
      this.#retryLater()
    }
  }

  #publishLater(change: Change, version: string): void {
    this.#late.get(change.type)?.stop()
    const stop = this.#options.clock.after(LATE_MS, () => {
      this.#late.delete(change.type)
      this.#queue = this.#queue.then(() => this.#publish(change, { isRepeated: true }))
    })
    this.#late.set(change.type, { version, stop })
  }

  #retryLater(): void {
    this.#stopRetry ??= this.#options.clock.after(RETRY_MS, () => void this.#retry())
  }

  /** Follows other processes, and sends changes that they did not receive. Clients of this process have received them. */
  async #retry(): Promise<void> {
    this.#stopRetry = undefined
    if (this.#isClosed) return
    try {
      await this.#log.start()
      if (this.#isBehind) this.#missed()
      this.#isBehind = false
      for (const [key, event] of this.#unsent) {
        await this.#append({ ...event, deliveredBy: this.#options.process })
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

  async #append(event: object): Promise<void> {
    const { limits, logs } = this.#options
    const id = await logs.append(CHANGES, event, { limits, isLast: false })
    this.#note(id)
  }

  #received({ id, event }: LoggedEvent): void {
    this.#note(id)
    const change = parseChange(event)
    if (!change || !isRecord(event) || event['deliveredBy'] === this.#options.process) return
    const isRepeated = event['isRepeated'] === true
    if (isRepeated && 'version' in change) this.#repeated(change.type, change.version)
    if (isRepeated || !this.#isDelivered(change)) this.#deliver(change, id)
  }

  /** Another process notifies clients of a version which this one has too. */
  #repeated(type: string, version: string | undefined): void {
    const late = this.#late.get(type)
    if (!late || late.version !== version) return
    late.stop()
    this.#late.delete(type)
  }

  #note(id: string): void {
    if (this.#last && id <= this.#last.id) return
    this.#last = { id, at: this.#options.clock.now() }
  }

  #isDelivered(change: Change): boolean {
    if (change.type !== 'tools' && change.type !== 'prompts') return false
    return change.version !== undefined && this.#versions.get(change.type) === change.version
  }

  #deliver(change: Change, id: string | undefined): void {
    if ('version' in change && change.version !== undefined) {
      this.#versions.set(change.type, change.version)
    }
    // Encoded once for all listeners.
    const event = { id, text: toNotification(change, id) }
    for (const listener of this.#listeners) listener.changed(change, event)
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

export interface LoggedChange {
  readonly id: string
  readonly change: Change
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

/** The stream on which the client of a session listens, beside its calls. */
export class SessionListener implements SessionUse, ChangeListener {
  readonly isCall = false
  readonly stream: EventStream
  readonly #options: SessionListenerOptions
  /** Changes that came while earlier ones were read. */
  #waiting: (LoggedChange & { readonly text: string })[] | undefined = []
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
   * Ends other listening streams of the session, and sends the changes that the client missed.
   *
   * @param lastEventId id of the last change that the client has
   * @returns whether the session still exists
   * @throws GatewayError `UNAVAILABLE`
   */
  async begin(lastEventId: string | undefined): Promise<boolean> {
    const { feed, session, sessions, stream } = this.#options
    let before: string | undefined
    const exists = await sessions.update(session, (record) => {
      before = record.listener
      return { ...record, listener: stream.id }
    })
    if (!exists) return false
    this.#isRecorded = true
    const missed = lastEventId === undefined ? undefined : await feed.since(lastEventId)
    for (const { id, change } of missed ?? []) this.#send(change, toNotification(change, id))
    if (!missed && before !== undefined) this.missed()
    const last = missed?.at(-1)?.id ?? ''
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    for (const { id, change, text } of waiting) if (id === '' || id > last) this.#send(change, text)
    return true
  }

  changed(
    change: Change,
    { id = '', text }: { readonly id: string | undefined; readonly text: string },
  ): void {
    if (this.#waiting) this.#waiting.push({ id, change, text })
    else this.#send(change, text)
  }

  missed(): void {
    const { lists, owner, session } = this.#options
    for (const type of lists) this.stream.write(toNotification({ type }))
    if (owner !== undefined) this.stream.write(toNotification({ type: 'resources', owner }))
    for (const uri of session.record.followed) {
      this.stream.write(toNotification({ type: 'resource', uri }))
    }
  }

  /** The record of the session has changed: another stream may have taken over. */
  recordChanged(): void {
    const { listener } = this.#options.session.record
    if (this.#isRecorded && listener !== this.stream.id) this.stream.end()
  }

  end(): void {
    this.stream.end()
  }

  #send(change: Change, text: string): void {
    const { owner, session, sessions } = this.#options
    if (change.type === 'resources' && change.owner !== owner) return
    if (change.type === 'resource' && !session.record.followed.includes(change.uri)) return
    // Without an id, the client does not try to resume.
    this.stream.write(sessions.parts.settings.events ? text : toNotification(change))
  }
}

export const CHANGE_METHODS = {
  tools: 'notifications/tools/list_changed',
  prompts: 'notifications/prompts/list_changed',
  resources: 'notifications/resources/list_changed',
  resource: 'notifications/resources/updated',
} as const

function toNotification(change: Change, id?: string): string {
  const params = change.type === 'resource' ? { uri: change.uri } : undefined
  return toEvent(
    JSON.stringify({ jsonrpc: '2.0', method: CHANGE_METHODS[change.type], params }),
    id,
  )
}

/** `undefined` for marks, and for changes that this version does not know. */
function parseChange(event: unknown): Change | undefined {
  if (!isRecord(event)) return undefined
  const { type, version, owner, uri } = event
  switch (type) {
    case 'tools':
    case 'prompts':
      return { type, version: typeof version === 'string' ? version : undefined }
    case 'resources':
      return typeof owner === 'string' ? { type, owner } : undefined
    case 'resource':
      return typeof uri === 'string' ? { type, uri } : undefined
    default:
      return undefined
  }
}

/** Ids of one log begin with the same tag. */
function tagOf(eventId: string): string {
  return eventId.slice(0, Math.max(0, eventId.indexOf('.')))
}
