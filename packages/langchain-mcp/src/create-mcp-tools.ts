import { check, isRecord, Listeners, withoutErrorLink, type Check, type Checks } from '@x/internal'
import { clientOptionChecks, McpClientError } from '@x/mcp-client'
import { logOnce, processWarnings, type ToolLog } from './log.ts'
import { mapBounded } from './map-bounded.ts'
import { assertOptions, configError, wordOrFunction, wrongValue } from './options.ts'
import { answeringFrom, type ElicitationToInterrupt } from './graph/elicitation-to-interrupt.ts'
import {
  LiveServer,
  type ListRequest,
  type McpServerHandle,
  type ServerStatus,
  type ToolsChanged,
} from './definitions/live-server.ts'
import {
  assertOneOrigin,
  MAX_LOCAL_LISTS,
  MAX_REMOTE_LISTS,
  ServerClients,
  skipServer,
  type McpToolsServerConfig,
  type OnServerError,
  type ServerClientsOptions,
} from './definitions/server-clients.ts'
import { isErrorOfUser, isTokenRefused } from './definitions/user-tokens.ts'
import type { NeedsAccess } from './graph/list-sign-in.ts'
import {
  ambientConfig,
  CallContexts,
  deleteItems,
  threadNamespace,
  toGraphStore,
  type GraphStore,
} from './graph/call-context.ts'
import { buildOptionChecks, buildTools, type BuildToolsOptions } from './tools/build-tools.ts'
import {
  deferTools,
  namesOf,
  ToolSearch,
  toolSearchChecks,
  unknownNames,
  type ToolSearchOptions,
} from './search/tool-search.ts'
import { ToolPins } from './tools/interceptors.ts'
import type { McpTool } from './tools/mcp-tool.ts'
import { serverTitle } from './tool-source.ts'

export interface CreateMcpToolsOptions extends BuildToolsOptions, ServerClientsOptions {
  /**
   * The servers, by the name that messages and `status()` use. An entry may have its own `authProvider`,
   * `dispatcher`, `era`, `limits`, `listen` and `timeoutMs`, which replace the options for all servers. A URL is short
   * for `{ url }`.
   */
  readonly servers: Readonly<Record<string, McpToolsServerConfig | string | URL>>
  /**
   * Handling of a server that gives no list of its tools. A list fails whatever this says if `principal` throws or
   * returns no name, and without a token of its user (`userTokens()`), because other servers need that user, too.
   * @default 'skip'
   */
  readonly onServerError?: OnServerError | undefined
  /** Which tools a model sees, if there are many. @default a search above 40 tools */
  readonly tools?: ToolSearchOptions | undefined
}

const { scope: _scope, toolsPer: _toolsPer, ...sharedClientChecks } = clientOptionChecks

const sessionModes = check.oneOf('run', 'thread', 'shared')

const optionChecks: Checks<CreateMcpToolsOptions> = {
  ...sharedClientChecks,
  ...buildOptionChecks,
  servers: check.anything, // checked by toServers()
  session: check.or(sessionModes, {
    ...check.methods('createSession'),
    takes: 'a SessionInfoFactory',
  }),
  principal: check.func,
  onServerError: wordOrFunction('skip', 'throw'),
  tools: check.section(toolSearchChecks),
}

interface ListMcpToolsOptions extends ListRequest {
  /**
   * Time after a failed list request in which the server is not asked again, in milliseconds, unless it refused a token.
   * For agents that list often: a server that does not answer delays each list. @default 0
   */
  readonly retryDownAfterMs?: number | undefined
}

/** The tools of several servers, for every thread, run and user, until `close()`. */
export interface McpTools extends AsyncDisposable {
  /**
   * Returns the tools of all servers that answer, in the order of the config. Cached lists are not requested
   * again, and the first list may be that of an earlier process, at most a day old, which is read again after the first
   * call; a skipped server is asked again.
   *
   * @throws the error of a server, or of the `onServerError` function, unless `onServerError` is `'skip'`; the error of the
   * credentials of `userTokens()`
   * @throws {McpClientError} `CLOSED` after `close()`; `CONFIG` if `principal` throws or returns no name, and if
   * `tools.alwaysShow` names a tool that no server has. With `principal`, and while a server gives no list, that is a warning
   */
  listTools(options?: ListMcpToolsOptions): Promise<McpTool[]>
  /**
   * Returns the current tools as `listTools()` does, with the search of the option `tools`, for a graph with a `ToolNode` of
   * your own. `mcpToolsMiddleware()` does it for `createAgent()`.
   *
   * @throws what `listTools()` throws
   */
  toolSearch(options?: ListMcpToolsOptions): Promise<ToolSearch>
  /**
   * Listens to changes: a list differs from the previous list of the same server and principal. With one principal and a shared session, a list is read as soon as
   * its server reports a change, else when it is next requested. Returns a function that removes the listener.
   */
  on(event: 'toolsChanged', listener: (change: ToolsChanged) => unknown): () => void
  /**
   * Returns the other operations of a server, also for `loadMcpResources()` and `loadMcpPrompt()`. Opens nothing.
   * @throws {McpClientError} `CONFIG` for a name that is not in the config
   */
  server(name: string): McpServerHandle
  /** Returns the result of the last list request to each server, in the order of the config. */
  status(): ServerStatus[]
  /**
   * Deletes everything that belongs to a thread: ends the sessions of this process on their servers, and
   * deletes stored sessions and call records. Call it where you delete the checkpoints of the thread, while no
   * run uses the thread.
   *
   * @param options `store`: the store of the graph. The default is the stores of the runs that called tools in this
   * process
   * @throws {McpClientError} `CONFIG` if no store is given and no tool was called in this process, because the
   * store of the graph is unknown
   * @throws the error of the store
   */
  deleteThread(
    threadId: string,
    options?: { readonly store?: GraphStore | undefined },
  ): Promise<void>
  /** Closes the sessions of this process, and keeps stored sessions for the next one. Later calls are refused (`CLOSED`). Never throws. */
  close(): Promise<void>
}

/** Limit of one list after the handshake, which has its own. */
const LIST_MS = 30_000
/** The client's default of `handshakeMs`. */
const HANDSHAKE_MS = 30_000
const REMEMBERED_MAX = 1000

/**
 * Creates the live tools of MCP servers, for agents that serve many threads, runs and users. It is synchronous
 * and opens nothing before the first list or call. The config of each call selects its session.
 *
 * @throws {McpClientError} `CONFIG` for a server that cannot be used as it is configured, and for an option
 * that is unknown or has a wrong value
 * @example
 * ```ts
 * import { createMcpTools } from '@x/langchain-mcp'
 *
 * await using mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const tools = await mcp.listTools() // for createAgent({ model, tools }), or new ToolNode(tools)
 * ```
 */
export function createMcpTools(options: CreateMcpToolsOptions): McpTools {
  return new LiveTools(options)
}

/** Advice for the options of `MultiServerMCPClient` of `@langchain/mcp-adapters`. MIGRATION.md has the same. */
const adapterOptions: Readonly<Record<string, Check>> = {
  mcpServers: check.foreign('Write it as "servers"'),
  connections: check.foreign('Write it as "servers"'),
  throwOnLoadError: check.foreign(
    'A tool that cannot be used is left out, with the reason in status(). To fail if a server gives no list, write onServerError: "throw"',
  ),
  onConnectionError: check.foreign('Write it as onServerError: "skip" or "throw"'),
  prefixToolNameWithServerName: check.foreign('Write it as "prefixToolNames"'),
  additionalToolNamePrefix: check.foreign(
    'Write prefixToolNames: true, and the prefix in the keys of "servers"',
  ),
  useStandardContentBlocks: check.foreign('Leave it out: the content is always in standard blocks'),
  outputHandling: check.foreign(
    'The artifact has every block. "maxMediaBytes" limits what the model reads of files',
  ),
  defaultToolTimeout: check.foreign('Write it as "timeoutMs"'),
  beforeToolCall: check.foreign(
    'Write an interceptor: interceptors: [(request, next) => next({ args })]',
  ),
  afterToolCall: check.foreign(
    'Write an interceptor: interceptors: [async (request, next) => await next()]',
  ),
  onProgress: check.foreign(
    'Read it from the stream of the graph: streamMode: "custom", type "mcp_progress"',
  ),
  onMessage: check.foreign(
    'Read it from the stream of the graph: streamMode: "custom", type "mcp_log"',
  ),
  onToolsListChanged: check.foreign('Listen to it: mcp.on("toolsChanged", listener)'),
}

/** Servers that are not in `servers`, as in `new MultiServerMCPClient({ shop: { url } })`. */
function refuseServersAsOptions(options: object): void {
  for (const [name, value] of Object.entries(options)) {
    if (Object.hasOwn(optionChecks, name) || Object.hasOwn(adapterOptions, name)) continue
    if (isRecord(value) && ('url' in value || 'command' in value)) {
      throw configError(
        `createMcpTools(): there is no option "${name}". Write servers as { servers: { ${name}: … } }`,
      )
    }
  }
}

class LiveTools implements McpTools {
  readonly #options: CreateMcpToolsOptions
  readonly #elicitation: ElicitationToInterrupt
  readonly #log: ToolLog
  readonly #listLog: ToolLog
  /** Shared by all lists, because `'first-use'` compares with the first list. */
  readonly #pins: ToolPins | undefined
  readonly #clients: ServerClients
  readonly #contexts: CallContexts
  readonly #servers: readonly LiveServer[]
  readonly #toolsChanged: Listeners<ToolsChanged>
  /** Names of `tools.alwaysShow` that no list has had yet. */
  readonly #unseen: Set<string>
  #closing: Promise<void> | undefined

  constructor(options: CreateMcpToolsOptions) {
    refuseServersAsOptions(options)
    assertOptions('createMcpTools()', options, { ...adapterOptions, ...optionChecks })
    const servers = toServers(options.servers)
    assertOneOrigin(
      options.authProvider,
      servers.map(([, server]) => server),
    )
    const { log = processWarnings, session = 'shared', principal } = options
    const { elicitation, handlers } = answeringFrom(options.elicitation, options.handlers, log)
    this.#elicitation = elicitation
    this.#options = { ...options, elicitation }
    this.#pins = options.pin && new ToolPins(options.pin)
    this.#unseen = new Set(options.tools?.alwaysShow)
    this.#log = log
    this.#listLog = logOnce(log)
    this.#toolsChanged = new Listeners((error) => this.#listenerFailed(error))
    this.#contexts = new CallContexts(typeof session === 'string' ? session : 'shared', principal)
    this.#clients = new ServerClients({ ...options, handlers, log })
    this.#servers = servers.map(([name, server]) => this.#liveServer(name, server))
  }

  async listTools(options: ListMcpToolsOptions = {}): Promise<McpTool[]> {
    try {
      return await this.#listTools(options)
    } catch (error) {
      // Several callers may share a list. The copy has the stack of this one.
      throw McpClientError.is(error) ? new McpClientError(error.code, error.message, error) : error
    }
  }

  /** Pins must be compared with what the server says now, so they accept no list of an earlier process. */
  async #listTools(
    options: ListMcpToolsOptions,
    acceptStored: boolean = this.#pins === undefined,
  ): Promise<McpTool[]> {
    const lists = await this.#elicitation.listWithSignIn(
      {
        servers: this.#servers.map(({ name }) => name),
        read: (needsAccess) => this.#readLists({ ...options, acceptStored }, needsAccess),
      },
      ambientConfig(),
    )
    const found = lists.filter((list) => list !== undefined)
    const toolOptions = { ...this.#options, log: this.#listLog }
    const { tools, quarantined: unusable } = buildTools(found, toolOptions, this.#pins)
    const dropped = deferTools(tools, this.#options.tools ?? {})
    for (const { server, toolName: tool, reason } of dropped) {
      const message = `Tool "${tool}" of MCP server "${serverTitle(server)}" may not reach the model: ${reason}`
      this.#listLog({
        level: 'warning',
        code: 'TOOL_QUARANTINED',
        message,
        server: serverTitle(server),
        tool,
      })
    }
    const quarantined = [...unusable, ...dropped]
    const names = tools.flatMap(namesOf)
    const isComplete = found.length === lists.length
    const leftOut = quarantined.map(({ toolName }) => toolName)
    const appTools = found.flatMap(({ source }) => source.appTools)
    const allNames = [...names, ...leftOut, ...appTools]
    for (const name of allNames) this.#unseen.delete(name)
    // An earlier process may have stored its list before the server had these tools.
    if (this.#unseen.size > 0 && found.some(({ isStored }) => isStored)) {
      return this.#listTools(options, false)
    }
    this.#assertSeen(allNames, { isComplete })
    for (const { server, source } of found) {
      source.quarantined = quarantined.filter((tool) => tool.server === server)
    }
    return tools
  }

  /** Returns the lists of the servers, in their order. Undefined for a server that is skipped. */
  #readLists(
    {
      config = ambientConfig(),
      forceRefresh = false,
      retryDownAfterMs = 0,
      acceptStored,
    }: ListMcpToolsOptions & { readonly acceptStored: boolean },
    needsAccess?: NeedsAccess,
  ) {
    this.#contexts.of(config) // fails here if `principal` fails: such an error leaves no single server out
    return mapBounded(this.#servers, maxParallelLists, async (server) => {
      const { label } = server
      const { timeoutMs } = server.config
      const failure = forceRefresh ? undefined : server.failureWithin(retryDownAfterMs, config)
      try {
        // The user may have signed in since.
        if (failure !== undefined && !isTokenRefused(failure.error)) throw failure.error
        const { tools, ...list } = await server.list({ config, forceRefresh, acceptStored })
        return {
          ...list,
          server: label,
          source: server,
          definitions: tools,
          principal: server.principalOf(config),
          timeoutMs,
        }
      } catch (error) {
        const isOver = this.#closing !== undefined || config?.signal?.aborted === true
        if (isOver || isErrorOfUser(error)) throw error
        if (needsAccess?.(error, label) === true) return undefined
        const { onServerError } = this.#options
        const isLogged = failure !== undefined && String(error) === String(failure.error)
        const log: ToolLog = isLogged ? () => {} : this.#log
        await skipServer(error, label, { onServerError, log, next: 'The next list asks it again.' })
        return undefined
      }
    })
  }

  async toolSearch(options?: ListMcpToolsOptions): Promise<ToolSearch> {
    const { tools: settings } = this.#options
    const tools = await this.listTools(options)
    const known = new Set(tools.flatMap(namesOf))
    const alwaysShow = settings?.alwaysShow?.filter((name) => known.has(name))
    return new ToolSearch(tools, { ...settings, alwaysShow }, this.#listLog)
  }

  on(_event: 'toolsChanged', listener: (change: ToolsChanged) => unknown): () => void {
    return this.#toolsChanged.add(listener)
  }

  server(name: string): McpServerHandle {
    const server = this.#servers.find((one) => one.name === name)
    if (server !== undefined) return server
    const names = this.#servers.map((one) => `"${one.name}"`).join(', ')
    const message = `There is no MCP server "${name}" in the config of these tools. The servers are ${names}.`
    throw new McpClientError('CONFIG', message, { server: name, outcome: 'not-executed' })
  }

  status(): ServerStatus[] {
    return this.#servers.map(({ status }) => status)
  }

  async deleteThread(
    threadId: string,
    { store }: { readonly store?: GraphStore | undefined } = {},
  ): Promise<void> {
    const given = toGraphStore(store)
    const { stores } = this.#contexts
    if (given === undefined && stores.size === 0) {
      const message =
        'deleteThread() does not know the store of the graph, because no tool was called in this process yet: pass { store }'
      throw new McpClientError('CONFIG', message, { server: 'all', outcome: 'not-executed' })
    }
    await this.#clients.endThread(threadId)
    for (const one of given === undefined ? stores : [given]) {
      if (one === undefined) continue
      await deleteItems(one, threadNamespace('session', threadId))
      await this.#elicitation.deleteThread(threadId, one)
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#toolsChanged.clear()
    for (const server of this.#servers) server.close()
    await Promise.all([this.#clients.disconnect(), this.#elicitation.settle()])
  }

  #liveServer(name: string, server: McpToolsServerConfig): LiveServer {
    const { idleScopes } = this.#options
    const {
      timeoutMs = this.#options.timeoutMs ?? Infinity,
      session = 'command' in server ? 'shared' : this.#contexts.mode,
    } = server
    const { handshakeMs = this.#options.handshakeMs ?? HANDSHAKE_MS } = server
    assertOptions(`servers.${name}`, { session }, { session: sessionModes })
    const contexts = this.#contexts.with(session)
    return new LiveServer({
      name,
      label: {
        name,
        ...('slug' in server && { slug: server.slug }),
        ...('folderPath' in server && { folderPath: server.folderPath }),
      },
      config: server,
      client: this.#clients.create(name, server, contexts),
      contexts,
      listMs: Math.min(timeoutMs, handshakeMs + LIST_MS),
      remembered: idleScopes?.max ?? REMEMBERED_MAX,
      toolsChanged: this.#toolsChanged,
    })
  }

  /** Looks for the names of `tools.alwaysShow`. A name that was there once is not looked for again: servers remove tools. */
  #assertSeen(names: readonly string[], { isComplete }: { readonly isComplete: boolean }): void {
    if (this.#unseen.size === 0) return
    const message = `createMcpTools(): "tools.alwaysShow" names tools that no server has: ${unknownNames(this.#unseen, names)}`
    // Another server, or the list of another principal, may have them.
    if (isComplete && this.#options.principal === undefined) throw configError(message)
    this.#listLog({ level: 'warning', code: 'TOOL_MISSING', message, server: 'all' })
  }

  #listenerFailed(error: unknown): void {
    const reason = withoutErrorLink(error instanceof Error ? error.message : String(error))
    const message = `A listener for changed tools failed: ${reason}`
    this.#log({ level: 'warning', code: 'LISTENER_FAILED', message, server: 'all' })
  }
}

function maxParallelLists({ config }: LiveServer): number {
  return 'command' in config ? MAX_LOCAL_LISTS : MAX_REMOTE_LISTS
}

/** @throws {McpClientError} `CONFIG` for anything but servers by name */
function toServers(
  servers: CreateMcpToolsOptions['servers'],
): (readonly [name: string, server: McpToolsServerConfig])[] {
  if (!isRecord(servers)) throw wrongValue('servers', '{ [name]: config }', servers)
  return Object.entries(servers).map(([name, server]) => {
    if (typeof server === 'string' || server instanceof URL) return [name, { url: server }]
    if (!isRecord(server)) {
      throw wrongValue(`servers.${name}`, 'a URL, or an object like { url }', server)
    }
    return [name, server]
  })
}
