// Stores of sessions.
import { FileSessionInfo, SessionInfo } from '@x/mcp-transport'
import type {
  McpServer,
  SessionInfoPurpose,
  SessionInfoSource,
  SessionScope,
} from '../src/index.ts'

/** A store in memory with other values of these members. */
export function storeWith(members: Partial<SessionInfo>): SessionInfo {
  return Object.assign(new SessionInfo(), members)
}

/** Keeps one session longer than the client, like a store outside of the process. */
export class DurableFactory implements SessionInfoSource {
  readonly #info = storeWith({ durable: true })

  createSession(): SessionInfo {
    return this.#info
  }
}

/** Keeps sessions longer than the client, one for each server and scope. */
export class ScopedFactory implements SessionInfoSource {
  readonly kept: Map<string, SessionInfo> = new Map()

  createSession({ mcpUrl }: McpServer, { principal, thread, run }: SessionScope = {}): SessionInfo {
    const key = JSON.stringify([mcpUrl, principal, thread, run])
    const info = this.kept.get(key) ?? storeWith({ durable: true })
    this.kept.set(key, info)
    return info
  }
}

/** Keeps sessions in memory, and records the servers and scopes of the sessions that it was asked for. */
export class RecordingFactory implements SessionInfoSource {
  readonly servers: McpServer[] = []
  readonly scopes: (SessionScope | undefined)[] = []

  createSession(
    server: McpServer,
    scope?: SessionScope,
    purpose?: SessionInfoPurpose,
  ): SessionInfo {
    if (purpose !== undefined) return new SessionInfo()
    this.servers.push(server)
    this.scopes.push(scope)
    return new SessionInfo()
  }
}

/** Keeps the session in a file, where the next process finds it. */
export function inFile(path: string): SessionInfoSource {
  return { createSession: () => new FileSessionInfo(path) }
}
