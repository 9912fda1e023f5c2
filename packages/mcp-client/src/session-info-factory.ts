import { SessionInfo } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * Decides where the session with a server is kept. This one: in memory.
 *
 * Asked once per life of a client, with everything that is known about the server. Reading and writing
 * happen in the `SessionInfo`.
 */
export class SessionInfoFactory {
  createSession(_server: McpServer, _scope?: SessionScope): SessionInfo {
    return new SessionInfo()
  }
}

/** What a client asks for its `SessionInfo`: a `SessionInfoFactory`, or one that has to wait for something first. */
export interface SessionInfoSource {
  /**
   * The first call waits for it, at most 2 s: then the session is kept in memory, and a warning is logged.
   * What it rejects with is what the call rejects with.
   */
  createSession(server: McpServer, scope?: SessionScope): SessionInfo | Promise<SessionInfo>
}
