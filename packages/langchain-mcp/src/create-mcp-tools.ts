import type { RunnableConfig } from '@langchain/core/runnables'
import { McpClient, McpClientError, SessionPool } from '@x/mcp-client'
import type {
  McpClientOptions,
  McpServerConfig,
  ScopedRequest,
  ServerStatus,
  SessionInfoFactory,
  SessionScope,
  UrlConfig,
} from '@x/mcp-client'
import { createDispatcher } from '@x/mcp-transport'
import {
  buildTools,
  type BuildToolsOptions,
  type QuarantinedTool,
} from './catalogue/build-tools.ts'
import { currentCall } from './calls/call-context.ts'
import { ambientConfig, callContextFrom } from './calls/call-scope.ts'
import type { PrincipalOf } from './calls/call-scope.ts'
import type { ElicitationToInterrupt } from './interrupts/elicitation-to-interrupt.ts'
import { elicitationOf, handlersOf } from './interrupts/handlers-of.ts'
import { LiveServer } from './catalogue/live-server.ts'
import type { McpServerHandle } from './catalogue/live-server.ts'
import type { SessionMode } from './sessions/session-mode.ts'
import { Listeners } from './listeners.ts'
import { mapBounded } from './map-bounded.ts'
import type { McpTool } from './calls/mcp-tool.ts'
import { skipServer, type OnServerError } from './on-server-error.ts'
import { parallelLists } from './catalogue/parallel-lists.ts'
import { assertOptions, assertRules, assertServers } from './option-check.ts'
import { SessionInfoLangGraphStoreFactory } from './sessions/session-info-langgraph-store-factory.ts'
import { toldOnce } from './catalogue/told-once.ts'
import { toolPinsFrom } from './calls/tool-hooks.ts'
import type { ToolListChange } from './catalogue/tool-list-changes.ts'
import { processWarnings, type ToolLog } from './tool-log.ts'
import type { McpServerLabel } from './tool-origin.ts'

/** What a request to a server is for, whose it is, and what the run says of it. */
export interface ToolRequest extends ScopedRequest {
  /** `configurable` of the config that the tool was called with. */
  readonly configurable: Readonly<Record<string, unknown>>
}

/** Headers, or a function that is asked for them before every request. */
export type ToolHeaders =
  | Readonly<Record<string, string>>
  | ((
      request: ToolRequest,
    ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)

/** A server as a client takes it; its headers may also depend on the run. */
export type McpToolsServerConfig =
  | Exclude<McpServerConfig, UrlConfig>
  | (Omit<UrlConfig, 'headers'> & { readonly headers?: ToolHeaders | undefined })

export interface CreateMcpToolsOptions
  extends BuildToolsOptions, Omit<McpClientOptions, 'scope' | 'around'> {
  /** The servers, by the name that is used for them in messages and in `status()`. */
  readonly servers: Readonly<Record<string, McpToolsServerConfig>>
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
  readonly session?: SessionMode | SessionInfoFactory | undefined
  /**
   * Names whoever a call is made for: a stable name, never a token. Two principals share no session, list
   * or header. Asked at every call, with its config; throw where there must be no call.
   * @default all calls are for one
   */
  readonly principal?: PrincipalOf | undefined
  /** @default 'skip' */
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

/** A list that is not what it was. Tools that were made before stay valid, as far as their server still has them. */
export interface ToolsChanged extends ToolListChange {
  /** As in the config. */
  readonly server: string
  /** Whose list it is, where there are principals. */
  readonly principal?: string | undefined
}

export interface McpToolsEvents {
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
  /** Ends what belongs to this process, and leaves what is kept for the next one. Later calls are refused (`CLOSED`). Never throws. */
  close(): Promise<void>
}

const LIST_MS = 60_000
const LIST_MAX_AGE_MS = 300_000
const LISTS_MAX = 1000

/**
 * Live tools of MCP servers, for agents that serve many threads, runs and users. Synchronous: nothing is
 * opened before the first list or call. Each call uses the session that its own config says.
 *
 * @throws {McpClientError} `CONFIG` for a server that cannot be used as it is configured
 */
export function createMcpTools(options: CreateMcpToolsOptions): McpTools {
  return new LiveTools(options)
}

interface ListedServer {
  readonly label: McpServerLabel
  readonly isLocal: boolean
  readonly live: LiveServer
}

class LiveTools implements McpTools {
  readonly #options: CreateMcpToolsOptions
  readonly #log: ToolLog
  readonly #listLog: ToolLog
  readonly #servers: readonly ListedServer[]
  readonly #disconnect: () => Promise<void>
  /** Of the last list of each server, by its name. */
  readonly #quarantined = new Map<string, readonly QuarantinedTool[]>()
  readonly #toolsChanged: Listeners<ToolsChanged>
  #closing: Promise<void> | undefined

  constructor(options: CreateMcpToolsOptions) {
    assertServers(options.servers)
    assertOptions(options)
    const { servers, principal, listMaxAgeMs = LIST_MAX_AGE_MS, log = processWarnings } = options
    // What was seen first must be known to all lists.
    const elicitation = elicitationOf(options)
    this.#options = { ...options, elicitation, pin: toolPinsFrom(options.pin) }
    this.#log = log
    this.#listLog = toldOnce(log)
    this.#toolsChanged = new Listeners((error) => this.#listenerFailed(error))
    const mode = modeOf(options)
    const refreshesItself = mode === 'shared' && principal === undefined
    const { createClient, disconnect } = clientsFor(options, { mode, log, elicitation })
    this.#disconnect = disconnect
    this.#servers = Object.entries(servers).map(([name, config]) => ({
      label: labelOf(name, config),
      isLocal: 'command' in config,
      live: new LiveServer({
        name,
        client: named(name, () => createClient(toldOfRun(config, options))),
        mode,
        contextOf: (given) => callContextFrom(given, { mode, principal }),
        repeatsHarmless: options.replay === 'idempotent',
        listMs: Math.min(options.timeoutMs ?? LIST_MS, LIST_MS),
        listMaxAgeMs,
        listsMax: options.idleScopes?.max ?? LISTS_MAX,
        onToolsChanged: (change) => this.#toolsChanged.emit({ ...change, server: name }),
        onListOutdated: () => {
          if (refreshesItself) this.#refresh(name)
        },
      }),
    }))
    assertRules(
      options,
      this.#servers.map(({ label }) => label),
    )
  }

  async listTools(options: ListMcpToolsOptions = {}): Promise<McpTool[]> {
    const { config = ambientConfig(), forceRefresh = false, retryDownAfterMs = 0 } = options
    const lists = await mapBounded(this.#servers, parallelLists, async ({ label, live }) => {
      let log = this.#log
      try {
        const known = forceRefresh ? undefined : live.failureWithin(retryDownAfterMs, config)
        if (known !== undefined) {
          log = () => {} // it was told when the server was asked
          throw known.error
        }
        const definitions = await live.listTools({ config, forceRefresh })
        const principal = live.principalOf(config)
        return { server: label, source: live, definitions, principal }
      } catch (error) {
        if (this.#closing !== undefined) throw error
        const { onServerError } = this.#options
        const next = 'The next list asks it again.'
        await skipServer(error, { server: label, onServerError, log, next })
        return undefined
      }
    })
    const found = lists.filter((list) => list !== undefined)
    for (const { server } of found) this.#quarantined.delete(server.name ?? '')
    return buildTools(found, {
      ...this.#options,
      log: this.#listLog,
      onQuarantine: (tool) => {
        const { name = '' } = tool.server
        this.#quarantined.set(name, [...(this.#quarantined.get(name) ?? []), tool])
        this.#options.onQuarantine?.(tool)
      },
    })
  }

  on<Name extends keyof McpToolsEvents>(
    _event: Name,
    listener: (payload: McpToolsEvents[Name]) => unknown,
  ): () => void {
    return this.#toolsChanged.add(listener)
  }

  server(name: string): McpServerHandle {
    const server = this.#servers.find(({ live }) => live.name === name)
    if (server !== undefined) return server.live
    const message = `There is no MCP server "${name}" in the config of these tools`
    throw new McpClientError('CONFIG', message, { server: name, outcome: 'not-executed' })
  }

  status(): McpToolsServerStatus[] {
    return this.#servers.map(({ live }) => {
      const quarantined = this.#quarantined.get(live.name) ?? []
      return { ...live.status, ...(quarantined.length > 0 && { quarantined }) }
    })
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
    for (const { live } of this.#servers) live.close()
    await this.#disconnect()
  }

  /** Reads a list again for those who listen. One that cannot be read is told by whoever asks for it next. */
  #refresh(name: string): void {
    if (this.#toolsChanged.isEmpty || this.#closing !== undefined) return
    const server = this.#servers.find(({ live }) => live.name === name)
    server?.live.listTools().catch(() => {})
  }

  #listenerFailed(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    const message = `A listener for changed tools failed: ${reason}`
    this.#log({ level: 'warning', code: 'LISTENER_FAILED', message, server: 'all' })
  }
}

interface Clients {
  readonly createClient: (config: McpServerConfig) => McpClient
  /** Never rejects. */
  readonly disconnect: () => Promise<void>
}

/** One client for each server; its sessions are told apart by the scope, asked at each call. */
function clientsFor(
  options: CreateMcpToolsOptions,
  {
    mode,
    log,
    elicitation,
  }: {
    readonly mode: SessionMode
    readonly log: ToolLog
    readonly elicitation: ElicitationToInterrupt | undefined
  },
): Clients {
  // Sessions come and go, connections need not: one pool for all of them.
  const own =
    options.dispatcher === undefined
      ? createDispatcher({ connectMs: options.timeouts?.connectMs })
      : undefined
  const sessionInfoFactory = factoryOf(options, { mode, log })
  const handlers = handlersOf(elicitation, options.handlers)
  const common = { ...options, dispatcher: options.dispatcher ?? own, sessionInfoFactory, handlers }
  const pool = mode === 'run' ? new SessionPool({ ...common, scope }) : undefined
  const isOne = mode === 'shared' && options.principal === undefined
  const clients: McpClient[] = []
  return {
    createClient(config) {
      // A scope that never changes is no function: what is asked for is let go of when nobody uses it.
      const client =
        pool?.acquire(config) ?? new McpClient(config, { ...common, ...(isOne ? {} : { scope }) })
      clients.push(client)
      return client
    },
    async disconnect() {
      await Promise.allSettled([pool?.dispose(), ...clients.map((client) => client.dispose())])
      await own?.destroy().catch(() => {}) // closed by now, in whatever way
    },
  }
}

/** Which of the servers it is: a config that cannot be read has no name of its own. */
function named<Result>(name: string, make: () => Result): Result {
  try {
    return make()
  } catch (cause) {
    if (!McpClientError.is(cause)) throw cause
    const { code, message } = cause
    throw new McpClientError(code, `servers.${name}: ${message}`, {
      server: name,
      outcome: 'not-executed',
      cause,
    })
  }
}

function scope(): SessionScope {
  return currentCall()?.scope ?? {}
}

function modeOf({ session = 'shared' }: CreateMcpToolsOptions): SessionMode {
  return typeof session === 'string' ? session : 'shared'
}

function factoryOf(
  { session, sessionInfoFactory }: CreateMcpToolsOptions,
  { mode, log }: { readonly mode: SessionMode; readonly log: ToolLog },
): SessionInfoFactory | undefined {
  if (typeof session === 'object') return session
  if (sessionInfoFactory !== undefined || mode !== 'thread') return sessionInfoFactory
  return new SessionInfoLangGraphStoreFactory({ log })
}

/** Header functions are told what the run says; a client knows nothing of that. */
function toldOfRun(
  config: McpToolsServerConfig,
  { interceptors = [] }: CreateMcpToolsOptions,
): McpServerConfig {
  if (!('url' in config)) return config
  const { headers, ...rest } = config
  if (typeof headers !== 'function' && interceptors.length === 0) return { ...rest, headers }
  return {
    ...rest,
    async headers(request) {
      const { configurable = {}, headers: own } = currentCall() ?? {}
      const common =
        typeof headers === 'function' ? await headers({ ...request, configurable }) : headers
      // Those of one call are for its own request, never for a handshake or a stream that others share.
      return request.rpcMethod === 'tools/call' ? overridden(common, own) : { ...common }
    },
  }
}

/** Names of headers have no case: one that is given twice would be sent twice. */
function overridden(
  common: Readonly<Record<string, string>> = {},
  own: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const entries = [...Object.entries(common), ...Object.entries(own)]
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
}

function labelOf(name: string, config: McpToolsServerConfig): McpServerLabel {
  return {
    name,
    ...('slug' in config && { slug: config.slug }),
    ...('folderPath' in config && { folderPath: config.folderPath }),
  }
}
