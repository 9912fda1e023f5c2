import { SessionInfo } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * Creates the store for the session with a server. This one keeps it in memory.
 *
 * Called before the first request in a scope of a client, and again after `dispose()` or a failed first connection.
 * The `SessionInfo` reads and writes.
 */
export class SessionInfoFactory {
  createSession(_server: McpServer, _scope?: SessionScope): SessionInfo {
    return new SessionInfo()
  }
}

/** A `SessionInfoFactory`, or an object whose `createSession()` is asynchronous. */
export interface SessionInfoSource {
  /**
   * The first call waits for the `SessionInfo`, at most 2 s. After that, the session is kept in memory, and a warning
   * is logged. If `createSession()` rejects, the call rejects with the same error. Later failures of the `SessionInfo`
   * itself fail no call.
   */
  createSession(server: McpServer, scope?: SessionScope): SessionInfo | Promise<SessionInfo>
}
