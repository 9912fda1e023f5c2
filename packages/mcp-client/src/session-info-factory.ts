import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { assertOptions, check, scopeKey } from '@x/internal'
import { FileSessionInfo, SessionInfo } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * What a `SessionInfo` is created for: absent for a session, or the list of tools of a principal, which belongs to all
 * its threads and runs. A factory that ignores the difference keeps such a list beside the session without a thread.
 */
export type SessionInfoPurpose = 'tools'

/**
 * Creates the store for the session with a server. This one keeps it in memory.
 *
 * Called before the first request in a scope of a client, and again after `dispose()` or a failed first connection.
 * Also called once for the list of tools of a principal (`purpose`). The `SessionInfo` reads and writes.
 *
 * @example
 * ```ts
 * import { McpClient, SessionInfoFactory } from '@x/mcp-client'
 * import type { McpServer, SessionScope } from '@x/mcp-client'
 * import { FileSessionInfo, SessionInfo } from '@x/mcp-transport'
 *
 * // Keeps the sessions of one user in files, and those of others in memory.
 * class AdaFirst extends SessionInfoFactory {
 *   override createSession(server: McpServer, scope?: SessionScope): SessionInfo {
 *     const isAda = scope?.principal === 'ada' && server.slug === 'shop'
 *     return isAda ? new FileSessionInfo('.mcp/ada-shop.json') : new SessionInfo()
 *   }
 * }
 * const client = new McpClient('https://shop.example/mcp', { sessionInfoFactory: new AdaFirst() })
 * ```
 */
export class SessionInfoFactory {
  createSession(
    _server: McpServer,
    _scope?: SessionScope,
    _purpose?: SessionInfoPurpose,
  ): SessionInfo {
    return new SessionInfo()
  }
}

/**
 * Keeps sessions in a folder, so that the next process continues them: one file for each server and scope, and one for
 * each server and principal with the list of tools. The folder is created if it is missing. The name of a file is a
 * digest, and only the owner can read it (mode 0600), because a session id is a credential. Windows has no modes: there,
 * use a folder that only the owner can read, such as one below `%LOCALAPPDATA%`.
 *
 * Processes that share the folder do not lock it: the last write wins. A session of a run ends with the run, and the
 * session of a child process with the process, so both stay in memory. The files of old threads stay in the folder.
 *
 * @example
 * ```ts
 * import { FileSessionInfoFactory, McpClient } from '@x/mcp-client'
 *
 * const sessionInfoFactory = new FileSessionInfoFactory('/var/lib/agent/sessions')
 * const client = new McpClient('https://shop.example/mcp', { sessionInfoFactory })
 * ```
 */
export class FileSessionInfoFactory extends SessionInfoFactory {
  readonly #folder: string

  /** @throws TypeError for a path that is empty or not a string */
  constructor(folder: string) {
    super()
    assertOptions('FileSessionInfoFactory', { folder }, { folder: check.required(check.text) })
    this.#folder = folder
  }

  override createSession(
    server: McpServer,
    scope: SessionScope = {},
    purpose?: SessionInfoPurpose,
  ): SessionInfo {
    const { slug, folderKey, mcpUrl } = server
    // A file of one endpoint is never used for another one, also if both have the slug.
    const of = [folderKey ?? null, slug ?? null, mcpUrl ?? null, scopeKey(scope)]
    const key = purpose === undefined ? of : [...of, purpose]
    if (!mcpUrl || scope.run !== undefined) return super.createSession(server, scope)
    const name = createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 32)
    return new FileSessionInfo(join(this.#folder, `${name}.json`))
  }
}

/** A `SessionInfoFactory`, or an object whose `createSession()` is asynchronous. */
export interface SessionInfoSource {
  /**
   * The first call waits for the `SessionInfo`, at most 2 s. After that, the session is kept in memory, and a warning
   * is logged. If `createSession()` rejects, the call rejects with the same error. Later failures of the `SessionInfo`
   * itself fail no call.
   */
  createSession(
    server: McpServer,
    scope?: SessionScope,
    purpose?: SessionInfoPurpose,
  ): SessionInfo | Promise<SessionInfo>
}
