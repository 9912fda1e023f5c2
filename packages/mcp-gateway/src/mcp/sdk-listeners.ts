import type { Server, ServerNotifier } from '@modelcontextprotocol/server'

import type { Change, ChangeListener } from './change-feed.ts'
import { MAX_FOLLOWED } from './request-context.ts'

/** The client of a server. */
export interface Audience {
  /** Owner of the resources that the client may see. `undefined`: it receives nothing about the list of resources. */
  readonly owner?: string | undefined
  /** The SDK knows the subscriptions of the client: the server receives every change of the owner's resources. */
  readonly isFiltered?: boolean | undefined
}

interface SdkListener extends Audience {
  readonly followed: Set<string>
}

export interface SdkListenersOptions {
  /** Lists for which clients receive notifications. */
  readonly lists: readonly ('tools' | 'prompts')[]
  readonly onError: (error: Error) => void
}

/**
 * Sends changes to the clients of the SDK's servers: clients on stdio by their own server, listeners of revision
 * 2026-07-28 by the notifier of the SDK.
 */
export class SdkListeners implements ChangeListener {
  readonly #options: SdkListenersOptions
  readonly #servers = new Map<Server, SdkListener>()
  readonly #streams = new Set<{ readonly uris: readonly string[] }>()
  #notifier: ServerNotifier | undefined

  constructor(options: SdkListenersOptions) {
    this.#options = options
  }

  /** Sets the notifier of listeners of 2026-07-28. */
  notifyWith(notifier: ServerNotifier): void {
    this.#notifier = notifier
  }

  /** Adds a server whose client is ready for notifications. */
  add(server: Server, audience: Audience = {}): void {
    if (!this.#servers.has(server)) this.#servers.set(server, { ...audience, followed: new Set() })
  }

  remove(server: Server): void {
    this.#servers.delete(server)
  }

  /**
   * Notes the subscriptions of a listener of 2026-07-28, which the SDK does not show.
   *
   * @returns a function that removes them
   */
  addStream(uris: readonly string[]): () => void {
    const stream = { uris }
    this.#streams.add(stream)
    return () => void this.#streams.delete(stream)
  }

  /** Returns `false` if the client has 256 subscriptions already. */
  follow(server: Server, uri: string): boolean {
    const followed = this.#servers.get(server)?.followed
    if (!followed || (followed.size >= MAX_FOLLOWED && !followed.has(uri))) return false
    followed.add(uri)
    return true
  }

  unfollow(server: Server, uri: string): void {
    this.#servers.get(server)?.followed.delete(uri)
  }

  changed(change: Change): void {
    this.#notify(change)
    for (const [server, listener] of this.#servers) {
      if (concerns(change, listener)) this.#send(server, change)
    }
  }

  /** Clients receive a notification for everything that may have changed. */
  missed(): void {
    for (const type of this.#options.lists) this.changed({ type })
    this.#notifier?.resourcesChanged()
    const uris = new Set([...this.#streams].flatMap((stream) => stream.uris))
    for (const uri of uris) this.#notifier?.resourceUpdated(uri)
    for (const [server, { followed, owner }] of this.#servers) {
      if (owner !== undefined) this.#send(server, { type: 'resources', owner })
      for (const uri of followed) this.#send(server, { type: 'resource', uri })
    }
  }

  #notify(change: Change): void {
    switch (change.type) {
      case 'tools':
        return this.#notifier?.toolsChanged()
      case 'prompts':
        return this.#notifier?.promptsChanged()
      case 'resources':
        return this.#notifier?.resourcesChanged()
      case 'resource':
        return this.#notifier?.resourceUpdated(change.uri)
    }
  }

  #send(server: Server, change: Change): void {
    sendTo(server, change).catch((cause: unknown) => {
      this.#options.onError(new Error('A client could not be notified of a change', { cause }))
    })
  }
}

function concerns(change: Change, { owner, followed, isFiltered }: SdkListener): boolean {
  if (change.type === 'resources') return owner === change.owner
  if (change.type !== 'resource' || followed.has(change.uri)) return true
  return isFiltered === true && owner !== undefined && owner === change.owner
}

function sendTo(server: Server, change: Change): Promise<void> {
  switch (change.type) {
    case 'tools':
      return server.sendToolListChanged()
    case 'prompts':
      return server.sendPromptListChanged()
    case 'resources':
      return server.sendResourceListChanged()
    case 'resource':
      return server.sendResourceUpdated({ uri: change.uri })
  }
}
