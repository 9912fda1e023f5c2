import type { RunnableConfig } from '@langchain/core/runnables'
import type { AuthProviderOf, McpClientOptions, SessionInfoSource } from '@x/mcp-client'
import type { AuthProvider } from '@x/mcp-transport'
import type { PrincipalOf } from './calls/call-scope.ts'
import type { McpTool } from './calls/mcp-tool.ts'
import type { McpToolsServerConfig } from './calls/run-headers.ts'
import type { BuildToolsOptions, QuarantinedTool } from './catalogue/build-tools.ts'
import type { McpServerHandle } from './catalogue/live-server.ts'
import type { ServerStatus } from './catalogue/server-lists.ts'
import type { ToolListChange } from './catalogue/tool-list-changes.ts'
import type { OnServerError } from './on-server-error.ts'
import type { GraphStore } from './sessions/graph-store.ts'
import type { SessionMode } from './sessions/session-mode.ts'

export interface CreateMcpToolsOptions
  extends BuildToolsOptions, Omit<McpClientOptions, 'scope' | 'around'> {
  /**
   * The servers, by the name that is used for them in messages and in `status()`. An entry may have
   * `authProvider`, `dispatcher`, `era`, `limits` and `timeoutMs` of its own, which take the place of the
   * options for all servers. A URL is short for `{ url }`.
   */
  readonly servers: Readonly<Record<string, McpToolsServerConfig | string | URL>>
  /**
   * Gets the tokens that a server wants, where its entry has no `authProvider`. A function is told the
   * server, whose `name` is its key in `servers`. One provider for servers of several origins is refused
   * (`CONFIG`): its token would reach all of them. @default none
   */
  readonly authProvider?: AuthProvider | AuthProviderOf | undefined
  /**
   * What a session belongs to, beside its server and principal.
   * - `'shared'`: all calls.
   * - `'thread'`: those with one `thread_id`. Kept in the graph's own store, so that the next process
   *   goes on with it; without a store in the run, in memory. `sessionInfoFactory` keeps it elsewhere.
   * - `'run'`: those inside one `runInSessionScope()`, at the end of which it is ended. A call outside is
   *   refused.
   * - a factory: all calls, and the factory decides where the session is kept.
   *
   * @default 'shared'
   */
  readonly session?: SessionMode | SessionInfoSource | undefined
  /**
   * Names whoever a call is made for: a stable name, never a token. Two principals share no session, list
   * or header. Asked at every call, with its config; throw where there must be no call.
   * @default all calls are for one
   */
  readonly principal?: PrincipalOf | undefined
  /** What becomes of a server that gives no list of its tools. @default 'skip' */
  readonly onServerError?: OnServerError | undefined
  /** How long a list is good that was read apart from sessions (`'thread'`, `'run'`), in milliseconds. @default 300_000 */
  readonly listMaxAgeMs?: number | undefined
}

export interface ListMcpToolsOptions {
  /** Whom the list is for, and the headers it is asked with. @default the config of the run that goes on, if there is one */
  readonly config?: RunnableConfig | undefined
  /** Asks the servers in any case. @default false */
  readonly forceRefresh?: boolean | undefined
  /**
   * How long a server that gave no list is left alone before it is asked again, in milliseconds. For those
   * who list often: a server that does not answer keeps each list waiting. @default 0
   */
  readonly retryDownAfterMs?: number | undefined
}

export interface DeleteThreadOptions {
  /** The store of the graph. @default those of the runs that called tools in this process */
  readonly store?: GraphStore | undefined
}

/** A list that is not what it was. Tools that were made before stay valid, as far as their server still has them. */
export interface ToolsChanged extends ToolListChange {
  /** As in the config. */
  readonly server: string
  /** Whose list it is, where there are principals. */
  readonly principal?: string | undefined
}

export interface McpToolsEvents {
  /** A list that was read differs from the one before. */
  toolsChanged: ToolsChanged
}

/** Whether a server gave its tools, and what of them cannot be used. */
export interface McpToolsServerStatus extends ServerStatus {
  /** Tools of the last list that were left out, if there are any, each with the reason. */
  readonly quarantined?: readonly QuarantinedTool[]
}

/** The tools of several servers, live: good for every thread, run and user, until they are closed. */
export interface McpTools extends AsyncDisposable {
  /**
   * The tools of all servers that can be asked, in the order of the config. What is known is not asked
   * again; a server that was skipped is.
   *
   * @throws what a server failed with, or a function made of it, unless `onServerError` is `'skip'`
   * @throws {McpClientError} `CLOSED` after `close()`
   * @throws {McpToolError} `NAME_COLLISION`, with `onNameCollision: 'throw'`
   */
  listTools(options?: ListMcpToolsOptions): Promise<McpTool[]>
  /**
   * Told when a list that was read differs from the one before. Where all calls are for one, and share a
   * session, a list is read as soon as its server says that it changed; else when it is next asked for.
   * Returns the undo.
   */
  on<Name extends keyof McpToolsEvents>(
    event: Name,
    listener: (payload: McpToolsEvents[Name]) => unknown,
  ): () => void
  /**
   * The resources and prompts of a server, for `loadMcpResources()` and `loadMcpPrompt()`. Opens nothing.
   * @throws {McpClientError} `CONFIG` for a name that is not in the config
   */
  server(name: string): McpServerHandle
  /** What is known of each server, in the order of the config. Asks nobody. */
  status(): McpToolsServerStatus[]
  /**
   * Deletes all that belongs to a thread: ends its sessions of this process on their servers, and deletes its
   * stored sessions and records of calls. Call it where you delete the checkpoints of the thread, when no run
   * of it goes on.
   *
   * @throws {McpClientError} `CONFIG` where no store is given and no tool was called in this process, so that
   * the store of the graph is not known
   * @throws what the store throws
   */
  deleteThread(threadId: string, options?: DeleteThreadOptions): Promise<void>
  /** Ends what belongs to this process, and leaves what is kept for the next one. Later calls are refused (`CLOSED`). Never throws. */
  close(): Promise<void>
}
