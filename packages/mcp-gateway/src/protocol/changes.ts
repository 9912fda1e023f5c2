import type { Server, ServerNotifier } from '@modelcontextprotocol/server'

/** Resources that one session may follow. */
const MAX_FOLLOWED = 256

/**
 * Tells clients of changes, on two ways: sessions and stdio on their own servers, modern listeners by the
 * notifier of their leg. What is told here was already collected by whoever noticed the change.
 */
export class Changes {
  readonly #servers = new Map<Server, Set<string>>()
  readonly #onError: (error: Error) => void
  #notifier: ServerNotifier | undefined

  constructor(onError: (error: Error) => void) {
    this.#onError = onError
  }

  /** Modern listeners, from here on. */
  tellBy(notifier: ServerNotifier): void {
    this.#notifier = notifier
  }

  /** A server of a session, once its client is ready to hear. */
  add(server: Server): void {
    this.#servers.set(server, this.#servers.get(server) ?? new Set())
  }

  remove(server: Server): void {
    this.#servers.delete(server)
  }

  /** @returns whether there was room */
  follow(server: Server, uri: string): boolean {
    const followed = this.#servers.get(server)
    if (!followed || (followed.size >= MAX_FOLLOWED && !followed.has(uri))) return false
    followed.add(uri)
    return true
  }

  unfollow(server: Server, uri: string): void {
    this.#servers.get(server)?.delete(uri)
  }

  toolsChanged(): void {
    this.#notifier?.toolsChanged()
    for (const server of this.#servers.keys()) this.#send(server.sendToolListChanged())
  }

  promptsChanged(): void {
    this.#notifier?.promptsChanged()
    for (const server of this.#servers.keys()) this.#send(server.sendPromptListChanged())
  }

  /** Modern listeners re-read their own lists; of sessions, only those are told that may see what changed. */
  resourcesChanged(isConcerned: (server: Server) => boolean): void {
    this.#notifier?.resourcesChanged()
    for (const server of this.#servers.keys()) {
      if (isConcerned(server)) this.#send(server.sendResourceListChanged())
    }
  }

  resourceUpdated(uri: string): void {
    this.#notifier?.resourceUpdated(uri)
    for (const [server, followed] of this.#servers) {
      if (followed.has(uri)) this.#send(server.sendResourceUpdated({ uri }))
    }
  }

  #send(sending: Promise<void>): void {
    sending.catch((error: unknown) => {
      this.#onError(new Error('A client could not be told of a change', { cause: error }))
    })
  }
}
