import type { RunnableConfig } from '@langchain/core/runnables'
import { Listeners } from '@x/internal'
import { McpClientError } from '@x/mcp-client'
import type { CallContext } from './calls/call-context.ts'
import { ambientConfig, callContextFrom } from './calls/call-scope.ts'
import type { McpTool } from './calls/mcp-tool.ts'
import { entryFrom, toldOfRun, type McpToolsServerConfig } from './calls/run-headers.ts'
import { toolPinsFrom } from './calls/tool-hooks.ts'
import { buildTools, type QuarantinedTool } from './catalogue/build-tools.ts'
import { LiveServer, type McpServerHandle } from './catalogue/live-server.ts'
import { parallelLists } from './catalogue/parallel-lists.ts'
import { toldOnce } from './catalogue/told-once.ts'
import { deleteItems } from './interrupts/call-journal.ts'
import { elicitationOf } from './interrupts/handlers-of.ts'
import { mapBounded } from './map-bounded.ts'
import type {
  CreateMcpToolsOptions,
  DeleteThreadOptions,
  ListMcpToolsOptions,
  McpTools,
  McpToolsEvents,
  McpToolsServerStatus,
  ToolsChanged,
} from './mcp-tools.ts'
import { skipServer } from './on-server-error.ts'
import {
  assertOneOrigin,
  assertOptions,
  assertRules,
  createOptionChecks,
  serversFrom,
} from './option-check.ts'
import { graphStoreFrom, threadNamespace, type GraphStore } from './sessions/graph-store.ts'
import { sessionClientsFor, sessionModeOf } from './sessions/session-clients.ts'
import { processWarnings, type ToolLog } from './tool-log.ts'
import type { McpServerLabel } from './tool-origin.ts'

const LIST_MS = 60_000
const LIST_MAX_AGE_MS = 300_000
const LISTS_MAX = 1000
/** More stores than this come only from graphs that are made for each request. */
const MAX_STORES = 100

/**
 * Live tools of MCP servers, for agents that serve many threads, runs and users. Synchronous: nothing is
 * opened before the first list or call. Each call uses the session that its own config says.
 *
 * @throws {McpClientError} `CONFIG` for a server that cannot be used as it is configured, and for an option
 * that is unknown or cannot be used
 */
export function createMcpTools(options: CreateMcpToolsOptions): McpTools {
  return new LiveTools(options)
}

interface ListedServer {
  readonly label: McpServerLabel
  readonly isLocal: boolean
  /** Limit of one call, in milliseconds. */
  readonly timeoutMs: number | undefined
  readonly live: LiveServer
}

class LiveTools implements McpTools {
  readonly #options: CreateMcpToolsOptions
  readonly #log: ToolLog
  readonly #listLog: ToolLog
  readonly #servers: readonly ListedServer[]
  readonly #endThread: (thread: string) => Promise<void>
  readonly #disconnect: () => Promise<void>
  /** Stores of the runs that called tools; undefined for those that have none. */
  readonly #stores = new Set<GraphStore | undefined>()
  /** Of the last list of each server, by its name. */
  readonly #quarantined = new Map<string, readonly QuarantinedTool[]>()
  readonly #toolsChanged: Listeners<ToolsChanged>
  #closing: Promise<void> | undefined

  constructor(options: CreateMcpToolsOptions) {
    assertOptions('createMcpTools()', options, createOptionChecks)
    const servers = serversFrom(options.servers)
    assertOneOrigin(options.authProvider, Object.values(servers))
    const { principal, listMaxAgeMs = LIST_MAX_AGE_MS, log = processWarnings } = options
    // What was seen first must be known to all lists.
    const elicitation = elicitationOf(options)
    this.#options = { ...options, elicitation, pin: toolPinsFrom(options.pin) }
    this.#log = log
    this.#listLog = toldOnce(log)
    this.#toolsChanged = new Listeners((error) => this.#listenerFailed(error))
    const mode = sessionModeOf(options)
    const addsOwn = (options.interceptors ?? []).length > 0
    const refreshesItself = mode === 'shared' && principal === undefined
    const { createClient, endThread, disconnect } = sessionClientsFor(options, {
      mode,
      log,
      elicitation,
    })
    this.#endThread = endThread
    this.#disconnect = disconnect
    this.#servers = Object.entries(servers).map(([name, entry]) => {
      const { config, own } = entryFrom(entry)
      const { timeoutMs } = own
      return {
        label: labelOf(name, config),
        isLocal: 'command' in config,
        timeoutMs,
        live: new LiveServer({
          name,
          client: named(name, () => createClient(toldOfRun(config, { addsOwn }), { name, own })),
          mode,
          contextOf: (given) => this.#noted(given, callContextFrom(given, { mode, principal })),
          repeatsHarmless: options.replay === 'idempotent',
          listMs: Math.min(timeoutMs ?? options.timeoutMs ?? LIST_MS, LIST_MS),
          listMaxAgeMs,
          listsMax: options.idleScopes?.max ?? LISTS_MAX,
          onToolsChanged: (change) => this.#toolsChanged.emit({ ...change, server: name }),
          onListOutdated: () => {
            if (refreshesItself) this.#refresh(name)
          },
        }),
      }
    })
    assertRules(
      options,
      this.#servers.map(({ label }) => label),
    )
  }

  async listTools(options: ListMcpToolsOptions = {}): Promise<McpTool[]> {
    const { config = ambientConfig(), forceRefresh = false, retryDownAfterMs = 0 } = options
    const lists = await mapBounded(
      this.#servers,
      parallelLists,
      async ({ label, live, timeoutMs }) => {
        let log = this.#log
        try {
          const known = forceRefresh ? undefined : live.failureWithin(retryDownAfterMs, config)
          if (known !== undefined) {
            log = () => {} // it was told when the server was asked
            throw known.error
          }
          const definitions = await live.listTools({ config, forceRefresh })
          const principal = live.principalOf(config)
          return { server: label, source: live, definitions, principal, timeoutMs }
        } catch (error) {
          if (this.#closing !== undefined) throw error
          const { onServerError } = this.#options
          const next = 'The next list asks it again.'
          await skipServer(error, { server: label, onServerError, log, next })
          return undefined
        }
      },
    )
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

  async deleteThread(threadId: string, { store }: DeleteThreadOptions = {}): Promise<void> {
    const given = graphStoreFrom(store)
    if (given === undefined && this.#stores.size === 0) {
      const message =
        'deleteThread() does not know the store of the graph, because no tool was called in this process yet: pass { store }'
      throw new McpClientError('CONFIG', message, { server: 'all', outcome: 'not-executed' })
    }
    await this.#endThread(threadId)
    const { elicitation } = this.#options
    for (const one of given === undefined ? this.#stores : [given]) {
      if (one === undefined) continue
      await deleteItems(one, threadNamespace('session', threadId))
      if (elicitation) await elicitation.deleteThread(threadId, one)
      else await deleteItems(one, threadNamespace('call', threadId))
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
    for (const { live } of this.#servers) live.close()
    const { elicitation } = this.#options
    await Promise.all([this.#disconnect(), elicitation ? elicitation.settle() : undefined])
  }

  #noted(config: RunnableConfig | undefined, context: CallContext): CallContext {
    if (config !== undefined && this.#stores.size < MAX_STORES) this.#stores.add(context.store)
    return context
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

function labelOf(name: string, config: McpToolsServerConfig): McpServerLabel {
  return {
    name,
    ...('slug' in config && { slug: config.slug }),
    ...('folderPath' in config && { folderPath: config.folderPath }),
  }
}
