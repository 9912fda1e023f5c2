import { SessionInfo } from '@x/mcp-transport'
import type { McpServer } from './directory/mcp-server.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * Decides where the session with a server is kept. This one: in memory.
 *
 * Asked once per life of a client, with everything that is known about the server. Cheap and without
 * I/O: reading and writing happen in the `SessionInfo`.
 */
export class SessionInfoFactory {
  createSession(_server: McpServer, _scope?: SessionScope): SessionInfo {
    return new SessionInfo()
  }
}
