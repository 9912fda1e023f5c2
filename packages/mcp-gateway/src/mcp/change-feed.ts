import { isRecord } from '@x/internal'

import type { ArtifactChange } from '../files/artifacts.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/timers.ts'
import { LogFollower, type EventLogs, type LogLimits } from '../store/gateway-store.ts'
import type { Params } from './json-rpc.ts'

/** Lists that change. */
export const LISTS = ['tools', 'prompts', 'resources'] as const

/** A change that clients receive a notification for. */
export type Change =
  | { readonly type: 'tools' | 'prompts' }
  /** The list of resources of one owner. Without an owner: of all callers. */
  | { readonly type: 'resources'; readonly owner?: string }
  | { readonly type: 'resource'; readonly uri: string }

/** The changes that a client is notified of. */
export interface Interest {
  readonly lists: readonly (typeof LISTS)[number][]
  /** Owner of the list of resources that the client sees. `undefined`: it sees the resources of all callers only. */
  readonly owner: string | undefined
  readonly uris: readonly string[]
}

export interface ChangeListener {
  readonly interest: Interest
  notify(method: string, params: Params): void
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
  /** Time since which nothing has changed. Infinity: not known yet. */
  #quietSince = Infinity
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
      this.#quietSince = Math.min(this.#quietSince, this.#options.clock.now())
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

  /** Notifies a client of the changes that it is interested in, until the returned function is called. */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Returns whether something may have changed since `time`. */
  mayHaveChangedSince(time: number): boolean {
    return this.#quietSince > time
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
    this.#quietSince = this.#options.clock.now()
    for (const listener of this.#listeners) notifyOfAll(listener)
  }

  /** Notifies the clients of this process: of a list at once, and once more if other processes announce it a little later. */
  #received(change: Change): void {
    const { type } = change
    if (this.#isClosed) return
    this.#quietSince = this.#options.clock.now()
    if (type !== 'resource' && !('owner' in change)) {
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
    for (const listener of this.#listeners) {
      if (isOf(listener.interest, change)) notify(listener, change)
    }
  }
}

/** Notifies a client of everything that may have changed. */
export function notifyOfAll(listener: ChangeListener): void {
  const { lists, uris } = listener.interest
  for (const type of lists) notify(listener, { type })
  for (const uri of uris) notify(listener, { type: 'resource', uri })
}

const METHODS = {
  tools: 'notifications/tools/list_changed',
  prompts: 'notifications/prompts/list_changed',
  resources: 'notifications/resources/list_changed',
  resource: 'notifications/resources/updated',
} as const

function notify(listener: ChangeListener, change: Change): void {
  listener.notify(METHODS[change.type], change.type === 'resource' ? { uri: change.uri } : {})
}

function isOf({ lists, owner, uris }: Interest, change: Change): boolean {
  switch (change.type) {
    case 'tools':
    case 'prompts':
      return lists.includes(change.type)
    case 'resources':
      return lists.includes('resources') && (change.owner === undefined || change.owner === owner)
    case 'resource':
      return uris.includes(change.uri)
  }
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
      return typeof owner === 'string' ? { type, owner } : { type }
    case 'resource':
      return typeof uri === 'string' ? { type, uri } : undefined
    default:
      return undefined
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
