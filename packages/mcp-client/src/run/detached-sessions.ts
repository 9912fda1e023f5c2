import type { SessionInfo } from '@x/mcp-transport'
import type { McpServer } from '../directory/server-directory.ts'
import type { SessionInfoSource } from '../session-info-factory.ts'
import { scopeKey } from '../session-scope.ts'
import type { SessionScope } from '../session-scope.ts'

/** Beyond that, what was detached first is forgotten; the server ends it in its own time. */
const MAX_DETACHED = 1000

/**
 * Where the sessions of runs that have stopped are kept until these go on in the same process, if their
 * store would forget them. What is durable is kept by its store, and not here.
 */
export class DetachedSessions {
  readonly #open = new Map<string, SessionInfo>()
  /** Those that were detached first come first. */
  readonly #detached = new Map<string, SessionInfo>()

  /** Makes what `inner` makes, or gives back what was detached in that scope. `server` tells servers apart. */
  factoryFor(server: string, inner: SessionInfoSource): SessionInfoSource {
    const opened = (key: string, info: SessionInfo): SessionInfo => {
      if (!info.durable) this.#open.set(key, info)
      return info
    }
    const createSession = (
      of: McpServer,
      scope?: SessionScope,
    ): SessionInfo | Promise<SessionInfo> => {
      const key = keyOf(server, scope)
      const info = this.#detached.get(key) ?? inner.createSession(of, scope)
      this.#detached.delete(key)
      return info instanceof Promise ? info.then((made) => opened(key, made)) : opened(key, info)
    }
    return { createSession }
  }

  /** A session is left on its server. */
  detach(server: string, scope: SessionScope): void {
    const key = keyOf(server, scope)
    const info = this.#open.get(key)
    if (info === undefined) return
    this.#open.delete(key)
    this.#detached.set(key, info)
    if (this.#detached.size <= MAX_DETACHED) return
    const [oldest = key] = this.#detached.keys()
    this.#detached.delete(oldest)
  }

  /** A session has ended. */
  forget(server: string, scope: SessionScope): void {
    this.#open.delete(keyOf(server, scope))
  }
}

function keyOf(server: string, scope: SessionScope | undefined): string {
  return JSON.stringify([server, scopeKey(scope)])
}
