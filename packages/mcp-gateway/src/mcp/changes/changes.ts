import type { Server, ServerNotifier } from '@modelcontextprotocol/server'

/** Resources that one session may follow. */
const MAX_FOLLOWED = 256

/** Lists that say the same to all, as far as they may see it. */
export type ChangingList = 'tools' | 'prompts'

/** What clients are told of. */
export type Change =
  | { readonly type: ChangingList }
  /** Of one owner's list; other owners see other ones. */
  | { readonly type: 'resources'; readonly owner: string }
  /** `owner`: in whose list it is. */
  | { readonly type: 'resource'; readonly uri: string; readonly owner?: string | undefined }

/** Whose client a server has, and how it is told. */
export interface Audience {
  /** Whose resources it may see. @default nobody's: it hears of no list of resources */
  readonly owner?: string | undefined
  /** Its SDK passes on what the client listens to: it is told of all that is its owner's. @default false */
  readonly isFiltered?: boolean | undefined
}

/** A server of a session or a pipe, and what its client wants to hear. */
interface Hearer extends Audience {
  readonly followed: Set<string>
  /** Its stream is here, and not at another process. */
  isListening: boolean
}

/**
 * Tells clients of changes, on two ways: sessions and stdio on their own servers, modern listeners by the
 * notifier of their leg. What is told here was already collected by whoever noticed the change.
 */
export class Changes {
  readonly #hearers = new Map<Server, Hearer>()
  readonly #listeners = new Set<{ readonly uris: readonly string[] }>()
  readonly #onError: (error: Error) => void
  #notifier: ServerNotifier | undefined
  #also: ((change: Change | 'missed') => void) | undefined
  #carry: ((list: ChangingList) => void) | undefined
  #keep: ((server: Server, uri: string, isFollowed: boolean) => Promise<void>) | undefined

  constructor(onError: (error: Error) => void) {
    this.#onError = onError
  }

  /** Modern listeners, from here on. */
  tellBy(notifier: ServerNotifier): void {
    this.#notifier = notifier
  }

  /** What was noticed here is told by way of `carry`, which delivers it: here, and at other processes. */
  carryBy(carry: (list: ChangingList) => void): void {
    this.#carry = carry
  }

  /** What clients follow is kept by way of `keep`, for when they go on elsewhere. */
  keepBy(keep: (server: Server, uri: string, isFollowed: boolean) => Promise<void>): void {
    this.#keep = keep
  }

  /** A server of a session, once its client is ready to hear. */
  add(server: Server, audience: Audience = {}): void {
    if (this.#hearers.has(server)) return
    this.#hearers.set(server, { ...audience, followed: new Set(), isListening: true })
  }

  /** What a modern listener follows: its notifier knows, but does not say. @returns the end of it */
  heardOf(uris: readonly string[]): () => void {
    const listener = { uris }
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  remove(server: Server): void {
    this.#hearers.delete(server)
  }

  /** Whether its client hears by way of this process. @default from `add` on: yes */
  listen(server: Server, isListening: boolean): void {
    const hearer = this.#hearers.get(server)
    if (hearer) hearer.isListening = isListening
  }

  /** @returns whether there was room */
  async follow(server: Server, uri: string): Promise<boolean> {
    const followed = this.#hearers.get(server)?.followed
    if (!followed || (followed.size >= MAX_FOLLOWED && !followed.has(uri))) return false
    followed.add(uri)
    await this.#keep?.(server, uri, true)
    return true
  }

  async unfollow(server: Server, uri: string): Promise<void> {
    this.#hearers.get(server)?.followed.delete(uri)
    await this.#keep?.(server, uri, false)
  }

  /** What its client follows, as it said elsewhere. */
  setFollowed(server: Server, uris: readonly string[]): void {
    const followed = this.#hearers.get(server)?.followed
    followed?.clear()
    for (const uri of uris.slice(0, MAX_FOLLOWED)) followed?.add(uri)
  }

  toolsChanged(): void {
    this.#noticed('tools')
  }

  promptsChanged(): void {
    this.#noticed('prompts')
  }

  /** Sets a listener for every change, and for `missed`: changes of resources may have been lost. */
  also(listener: (change: Change | 'missed') => void): void {
    this.#also = listener
  }

  /** Tells the clients of this process, and nobody else. */
  deliver(change: Change): void {
    this.#notify(change)
    this.#also?.(change)
    for (const [server, hearer] of this.#hearers) {
      if (hearer.isListening && concerns(change, hearer)) this.#send(server, change)
    }
  }

  /** Changes may have been missed by a client: it is told of each that it would have heard of. */
  catchUp(server: Server, lists: readonly ChangingList[]): void {
    for (const type of lists) this.#send(server, { type })
    const { owner, followed } = this.#hearers.get(server) ?? {}
    if (owner !== undefined) this.#send(server, { type: 'resources', owner })
    for (const uri of followed ?? []) this.#send(server, { type: 'resource', uri })
  }

  /** Changes of resources may have been missed by all clients of this process. */
  catchUpResources(): void {
    this.#also?.('missed')
    this.#notifier?.resourcesChanged()
    const uris = new Set([...this.#listeners].flatMap((listener) => listener.uris))
    for (const uri of uris) this.#notifier?.resourceUpdated(uri)
    for (const [server, { isListening }] of this.#hearers) {
      if (isListening) this.catchUp(server, [])
    }
  }

  #noticed(list: ChangingList): void {
    if (this.#carry) this.#carry(list)
    else this.deliver({ type: list })
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
    sendTo(server, change).catch((error: unknown) => {
      this.#onError(new Error('A client could not be told of a change', { cause: error }))
    })
  }
}

function concerns(change: Change, { owner, followed, isFiltered }: Hearer): boolean {
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
