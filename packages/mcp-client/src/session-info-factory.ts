import { SessionInfo } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * Creates the store for the session with a server. This one keeps it in memory.
 *
 * Called once for each session of a client, before the first request. The `SessionInfo` reads and writes.
 */
export class SessionInfoFactory {
  createSession(_server: McpServer, _scope?: SessionScope): SessionInfo {
    return new SessionInfo()
  }
}

/** A `SessionInfoFactory`, or an object whose `createSession()` is asynchronous. */
export interface SessionInfoSource {
  /**
   * The first call waits for it, at most 2 s: then the session is kept in memory, and a warning is logged. If it
   * rejects, the call rejects with the same error.
   */
  createSession(server: McpServer, scope?: SessionScope): SessionInfo | Promise<SessionInfo>
}
