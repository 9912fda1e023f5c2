import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import { BoundedMap, type Listeners, withErrorLink } from '@x/internal'
import { currentRun, McpClientError } from '@x/mcp-client'
import type {
  CallOptions,
  DeclinedQuestion,
  LastError,
  LeftOutTool,
  McpClient,
  McpClientEvents,
  SessionScope,
} from '@x/mcp-client'
import { isAppOnly } from '../mcp-apps.ts'
import { ToolLists, toolListChange, type ServerList, type ToolListChange } from './tool-lists.ts'
import type {
  McpPromptSource,
  McpResourceSource,
  McpServerLabel,
  McpToolSource,
  QuarantinedTool,
  RequestOptions,
  SessionReplaced,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from '../tool-source.ts'
import { ToolCaller } from '../graph/live-call.ts'
import {
  ambientConfig,
  inCall,
  type CallContext,
  type CallContexts,
} from '../graph/call-context.ts'
import type { McpToolsServerConfig } from './server-clients.ts'
import { isErrorOfUser } from './user-tokens.ts'

/** A changed tool list. Tools that were made before stay valid while their server has them. */
export interface ToolsChanged extends ToolListChange {
  /** Key of the server in `servers`. */
  readonly server: string
  /** Principal whose list changed, if there are principals. */
  readonly principal?: string | undefined
}

export interface LiveServerOptions {
  /** Key of the server in `servers`. */
  readonly name: string
  readonly label: McpServerLabel
  readonly config: McpToolsServerConfig
  readonly client: McpClient
  readonly contexts: CallContexts
  /** Limit of one list request, in milliseconds. */
  readonly listMs: number
  /** Number of principals whose lists are kept. */
  readonly listsMax: number
  /** Emits when a list differs from the previous list of the same principal. */
  readonly toolsChanged: Listeners<ToolsChanged>
  /** `true`: read-only and idempotent tools may be called again after a broken connection. */
  readonly repeatsHarmless: boolean
}

export interface ListRequest {
  /** Config of the user that the list is for; its headers are sent. @default the config of the current run */
  readonly config?: RunnableConfig | undefined
  /** Ignores cached lists, and those of an earlier process. @default false */
  readonly forceRefresh?: boolean | undefined
}

interface ListOptions extends ListRequest {
  /** Accepts the list that an earlier process has stored with its session. @default false */
  readonly acceptStored?: boolean | undefined
}

/** Result of the last list request to a server. Plain JSON, without session ids and tokens. */
export interface ServerStatus {
  /** Key of the server in `servers`. */
  readonly name: string
  /**
   * `untried` before the first list request (the list of an earlier process needs none), then by the last one: `up`, `partial` if tools are left out (see
   * `quarantined`), or `down`.
   */
  readonly state: 'untried' | 'up' | 'partial' | 'down'
  /**
   * Why the server is down. The code is `REJECTED` for an error response of the server, and `CONFIG` for an error of your
   * own function (`principal`, `headers`, a directory). `onServerError` receives the error itself.
   */
  readonly error?: LastError
  /** The last question of the server that was refused, because it may have been for several calls. */
  readonly lastDeclined?: DeclinedQuestion
  /** Tools of the last list that were left out, with the reasons. Undefined if there are none. */
  readonly quarantined?: readonly QuarantinedTool[]
  /**
   * Tools of the last list that only an app may call (MCP Apps), by their names on the server. Undefined if there are
   * none. The model does not get them. A host calls them with `McpTools.server(name).callTool()`.
   */
  readonly appTools?: readonly string[]
}

/** JSON-RPC code that a server without tools answers `tools/list` with. */
const METHOD_NOT_FOUND = -32_601

/** Notifications of a server that `McpServerHandle.on()` passes on. */
type HandleEvent = 'serverLog' | 'resourceUpdated' | 'resourcesChanged' | 'promptsChanged'

type HostCallOptions = RequestOptions & Pick<ToolCallOptions, 'headers' | 'meta' | 'onProgress'>

/** Options of a request that needs no state of a session, such as a list. */
export interface StatelessRequestOptions extends RequestOptions {
  /** Sends the request in a session that no thread has, so that no thread gets a session for it. @default false */
  readonly withoutThread?: boolean | undefined
}

/** The operations of one server beside the calls of models. Each uses the session that a call with the same config uses. */
export interface McpServerHandle extends McpResourceSource, McpPromptSource {
  /** Key of the server in `servers`. */
  readonly name: string
  /** Returns the definitions of all tools, also of those that the model does not get. */
  listTools(options?: ListRequest): Promise<readonly ToolDefinition[]>
  /** Calls a tool by its name on the server, as a host does for an app that it shows. Interceptors are not called. */
  callTool(
    name: string,
    args?: Record<string, unknown>,
    options?: HostCallOptions,
  ): Promise<ToolResult>
  listResourceTemplates(options?: RequestOptions): ReturnType<McpClient['listResourceTemplates']>
  listPrompts(options?: RequestOptions): ReturnType<McpClient['listPrompts']>
  /** Returns the server's suggestions for an argument of a prompt or a resource template. */
  complete(
    params: Parameters<McpClient['complete']>[0],
    options?: RequestOptions,
  ): ReturnType<McpClient['complete']>
  /** Emits `resourceUpdated` when the resource changes. */
  subscribeResource(uri: string, options?: RequestOptions): Promise<void>
  unsubscribeResource(uri: string, options?: RequestOptions): Promise<void>
  /** Sets the lowest level of messages that `serverLog` receives. */
  setLoggingLevel(
    level: Parameters<McpClient['setLoggingLevel']>[0],
    options?: RequestOptions,
  ): Promise<void>
  /** Sends any other request. It is never sent twice, unless it is `idempotent`. */
  request(
    request: Parameters<McpClient['request']>[0],
    options?: StatelessRequestOptions & { readonly idempotent?: boolean | undefined },
  ): ReturnType<McpClient['request']>
  /** Returns what the server declares in its handshake, with its extensions. */
  serverCapabilities(options?: StatelessRequestOptions): ReturnType<McpClient['serverCapabilities']>
  /** Returns the principal of calls with this config. Undefined without the option `principal`. */
  principalOf(config: RunnableConfig | undefined): string | undefined
  /** Listens to the session that serves calls with this config. Returns a function that removes the listener. */
  on<Name extends HandleEvent>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
    config?: RunnableConfig,
  ): () => void
}

/**
 * One server behind live tools. The config of each call decides which session serves it. Tool lists belong to
 * principals, not to sessions. Where all calls share a session, that session reads the list; else a separate session
 * does, so that no thread gets a session before its first call.
 */
export class LiveServer implements McpToolSource, McpServerHandle {
  readonly name: string
  readonly label: McpServerLabel
  readonly config: McpToolsServerConfig
  readonly #options: LiveServerOptions
  /** The client, without the overloads of its methods. */
  readonly #caller: Required<Pick<McpToolSource, 'callTool' | 'startTool'>>
  /** By principal. */
  readonly #lists: BoundedMap<string | undefined, ToolLists>
  /** Lists that are read in the background. */
  readonly #refreshing = new Set<ToolLists>()
  /** The server has reported a change: no list of an earlier process is used any more. */
  #hasChanged = false
  #status: ServerStatus
  readonly #replacements: SessionReplacements
  readonly #unlisten: readonly (() => void)[]
  /** Tools of the last list that were left out. */
  quarantined: readonly QuarantinedTool[] = []
  /** Tools of the last list that only an app may call. */
  appTools: readonly string[] = []
  #isClosed = false

  constructor(options: LiveServerOptions) {
    const { name, label, config, client, listsMax } = options
    this.name = name
    this.label = label
    this.config = config
    this.#options = options
    this.#caller = client
    this.#lists = new BoundedMap(listsMax)
    this.#status = { name, state: 'untried' }
    this.#replacements = new SessionReplacements(listsMax)
    this.#unlisten = [
      client.on('toolListChanged', () => this.#invalidateList()),
      client.on('sessionReplaced', ({ newEpoch: epoch, reason }, scope) => {
        this.#replacements.add(scopeKey(scope), { epoch, reason })
        this.#invalidateList() // the new session may have another list
      }),
    ]
  }

  get status(): ServerStatus {
    const { lastDeclined } = this.#options.client.status()
    const { appTools, quarantined } = this
    const isPartial = this.#status.state === 'up' && quarantined.length > 0
    return {
      ...this.#status,
      ...(isPartial && { state: 'partial' }),
      ...(lastDeclined && { lastDeclined }),
      ...(quarantined.length > 0 && { quarantined }),
      ...(appTools.length > 0 && { appTools }),
    }
  }

  /** Returns the list of the caller's principal: cached if it is valid, else from the server. */
  async listTools(options?: ListOptions): Promise<readonly ToolDefinition[]> {
    return (await this.list(options)).tools
  }

  async list({
    config,
    forceRefresh = false,
    acceptStored = false,
  }: ListOptions = {}): Promise<ServerList> {
    if (this.#isClosed) throw this.#closedError()
    const { name, contexts } = this.#options
    const context = contexts.of(config) // its errors say nothing about the server
    const { principal } = context.scope
    try {
      const lists = this.#listsOf(principal)
      try {
        const isStoredAccepted = acceptStored && !forceRefresh && !this.#hasChanged
        const stored = isStoredAccepted ? await this.#storedList(lists, context) : undefined
        if (stored === undefined) {
          return this.#listed(lists, await this.#read(context, { forceRefresh }), principal)
        }
        return this.#use(lists, stored, principal)
      } catch (error) {
        if (!isErrorOfUser(error)) lists.failure = { error, at: performance.now() }
        throw error
      }
    } catch (error) {
      if (!this.#isClosed && !isErrorOfUser(error)) {
        this.#status = { name, state: 'down', error: lastErrorFrom(error) }
      }
      throw error
    }
  }

  /** Returns the last list of the caller's principal, without a request. */
  knownTools(config: RunnableConfig): readonly ToolDefinition[] | undefined {
    return this.#lists.get(this.principalOf(config))?.last?.tools
  }

  /** Returns the error of the last list request of the caller's principal, if it failed less than `ms` ago. */
  failureWithin(ms: number, config: RunnableConfig | undefined): ToolLists['failure'] {
    const failure = this.#lists.get(this.principalOf(config))?.failure
    return failure !== undefined && performance.now() - failure.at < ms ? failure : undefined
  }

  readonly callTool: McpToolSource['callTool'] = (name, args, options) =>
    this.#call(name, options, (limits) => this.#caller.callTool(name, args, limits))

  readonly startTool: NonNullable<McpToolSource['startTool']> = (name, args, options) =>
    this.#call(name, options, async (limits) => {
      const started = await this.#caller.startTool(name, args, limits)
      const { task } = started
      if (task === undefined) return started
      // The status is asked for in the session of the call, with its credentials.
      const status = AsyncLocalStorage.bind((bounds?: CallOptions) => task.status(bounds))
      return {
        task: {
          status,
          get reference() {
            return task.reference
          },
        },
      }
    })

  async #call<Answer>(
    name: string,
    { config = ambientConfig() ?? {}, headers, ...limits }: ToolCallOptions = {},
    send: (limits: ToolCallOptions) => Promise<Answer>,
  ): Promise<Answer> {
    if (this.#isClosed) throw this.#closedError(name)
    const { contexts, repeatsHarmless } = this.#options
    const { mode } = contexts
    const context = contexts.of(config)
    const { scope } = context
    const key = scopeKey(mode === 'run' ? { ...scope, run: currentRun()?.id } : scope)
    const { caller } = limits
    const owner = `${key}\n${caller?.owner ?? ''}`
    const before = this.#replacements.knownTo(owner, key)
    // The client of a shared session goes by its own list.
    const asksList = repeatsHarmless && mode !== 'shared'
    const options = {
      ...limits,
      signal: limits.signal ?? config.signal,
      ...('url' in this.config && { headers }), // a child process refuses them
      ...(asksList && { idempotent: this.#isHarmless(context, name) }),
    }
    try {
      return await inCall(context, () => send(options))
    } finally {
      const replaced = this.#replacements.since(before, owner, key)
      if (replaced !== undefined && caller instanceof ToolCaller) caller.replaced = replaced
      this.#refreshAfterCall(context)
    }
  }

  /** Returns the principal of a call, or undefined without the option `principal`. */
  principalOf(config: RunnableConfig | undefined): string | undefined {
    return this.#options.contexts.of(config).scope.principal
  }

  readonly listResources: McpServerHandle['listResources'] = (options) =>
    this.#request(options, (client, bounds) => client.listResources(bounds))

  readonly readResource: McpServerHandle['readResource'] = (uri, options) =>
    this.#request(options, (client, bounds) => client.readResource(uri, bounds))

  readonly getPrompt: McpServerHandle['getPrompt'] = (name, args, options) =>
    this.#request(options, (client, bounds) => client.getPrompt(name, args, bounds))

  readonly listResourceTemplates: McpServerHandle['listResourceTemplates'] = (options) =>
    this.#request(options, (client, bounds) => client.listResourceTemplates(bounds))

  readonly listPrompts: McpServerHandle['listPrompts'] = (options) =>
    this.#request(options, (client, bounds) => client.listPrompts(bounds))

  readonly complete: McpServerHandle['complete'] = (params, options) =>
    this.#request(options, (client, bounds) => client.complete(params, bounds))

  readonly subscribeResource: McpServerHandle['subscribeResource'] = (uri, options) =>
    this.#request(options, (client, bounds) => client.subscribeResource(uri, bounds))

  readonly unsubscribeResource: McpServerHandle['unsubscribeResource'] = (uri, options) =>
    this.#request(options, (client, bounds) => client.unsubscribeResource(uri, bounds))

  readonly setLoggingLevel: McpServerHandle['setLoggingLevel'] = (level, options) =>
    this.#request(options, (client, bounds) => client.setLoggingLevel(level, bounds))

  readonly request: McpServerHandle['request'] = (request, options) =>
    this.#request(options, (client, bounds) => client.request(request, bounds))

  readonly serverCapabilities: McpServerHandle['serverCapabilities'] = (options) =>
    this.#request(options, (client, bounds) => client.serverCapabilities(bounds))

  on<Name extends HandleEvent>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
    config: RunnableConfig = ambientConfig() ?? {},
  ): () => void {
    const { client, contexts } = this.#options
    const { principal, thread } = contexts.of(config).scope
    const run = contexts.mode === 'run' ? currentRun()?.id : undefined
    return client.on(event, (payload, scope = {}) => {
      const isSameScope =
        scope.principal === principal && scope.thread === thread && scope.run === run
      if (isSameScope) listener(payload)
    })
  }

  /** Refuses all later calls. */
  close(): void {
    this.#isClosed = true
    for (const undo of this.#unlisten) undo()
  }

  async #request<Result, Options extends StatelessRequestOptions>(
    options: Options | undefined,
    send: (
      client: McpClient,
      bounds: Omit<Partial<Options>, 'config' | 'withoutThread'>,
    ) => Promise<Result>,
  ): Promise<Result> {
    if (this.#isClosed) throw this.#closedError()
    const {
      config = ambientConfig(),
      withoutThread = false,
      ...bounds
    }: Partial<Options> = options ?? {}
    const { client, contexts } = this.#options
    const context = contexts.of(config ?? {})
    const { principal } = context.scope
    const used = withoutThread ? { ...context, scope: { principal }, isList: true } : context
    // An aborted run ends its requests.
    return inCall(used, () => send(client, { ...bounds, signal: bounds.signal ?? config?.signal }))
  }

  /** The lists that were used last are kept. */
  #listsOf(principal: string | undefined): ToolLists {
    const lists = this.#lists.get(principal) ?? new ToolLists()
    this.#lists.delete(principal)
    this.#lists.set(principal, lists)
    return lists
  }

  /** `isInCall`: the session of the call reads the list, which needs no session of its own then. */
  #read(context: CallContext, { forceRefresh = false, isInCall = false }): Promise<ServerList> {
    const { mode } = this.#options.contexts
    // The client of the shared session caches the list and receives list changes.
    if (mode === 'shared') return this.#requestList(context, forceRefresh)
    if (forceRefresh) for (const lists of this.#lists.values()) lists.forget()
    return this.#listsOf(context.scope.principal).get(() =>
      mode === 'run' || isInCall ? this.#requestList(context, true) : this.#inOwnSession(context),
    )
  }

  /** Takes over a list that the server has just given. */
  #listed(lists: ToolLists, list: ServerList, principal: string | undefined): ServerList {
    this.#status = { name: this.name, state: 'up' }
    lists.failure = undefined
    lists.endStored()
    return this.#use(lists, list, principal)
  }

  /** Returns the list of an earlier process, while it can be used. */
  #storedList(lists: ToolLists, context: CallContext): Promise<ServerList | undefined> {
    const { principal } = context.scope
    return lists.stored(() =>
      inCall({ ...context, scope: { principal }, isList: true }, () =>
        this.#options.client.storedTools(),
      ),
    )
  }

  /** Reads the list after a call, if the tools still come from an outdated list of an earlier process. */
  #refreshAfterCall(context: CallContext): void {
    const { principal } = context.scope
    const lists = this.#lists.get(principal)
    if (this.#isClosed || lists?.isOutdated !== true || this.#refreshing.has(lists)) return
    this.#refreshing.add(lists)
    this.#read(context, { isInCall: true })
      .then((list) => this.#listed(lists, list, principal))
      .catch(() => {}) // the next call tries again, and the next list reports the failure
      .finally(() => this.#refreshing.delete(lists))
  }

  /** A server without tools has an empty list. */
  async #requestList(context: CallContext, forceRefresh: boolean): Promise<ServerList> {
    const { client, listMs: timeoutMs } = this.#options
    const leftOut: LeftOutTool[] = []
    const onLeftOut = (tool: LeftOutTool): unknown => leftOut.push(tool)
    try {
      const tools = await inCall({ ...context, isList: true }, () =>
        client.listTools({ forceRefresh, timeoutMs, onLeftOut }),
      )
      return { tools, leftOut, isStored: false }
    } catch (error) {
      if (!isErrorResponse(error) || error.code !== METHOD_NOT_FOUND) throw error
      return { tools: [], leftOut, isStored: false }
    }
  }

  async #inOwnSession(context: CallContext): Promise<ServerList> {
    const { principal } = context.scope
    const scope: SessionScope = { principal, run: `list_${randomBytes(8).toString('hex')}` }
    try {
      return await this.#requestList({ ...context, scope }, true)
    } finally {
      await this.#options.client.dispose({ scope, terminate: true })
    }
  }

  /** Uses a list from now on, and emits its difference to the one before. */
  #use(lists: ToolLists, list: ServerList, principal: string | undefined): ServerList {
    const { last } = lists
    lists.last = list
    this.appTools = list.tools.filter(isAppOnly).map(({ name }) => name)
    const change = last && toolListChange(last.tools, list.tools)
    if (change === undefined || this.#isClosed) return list
    const { name: server, toolsChanged } = this.#options
    toolsChanged.emit({ ...change, server, ...(principal !== undefined && { principal }) })
    return list
  }

  /** Makes the next list a request. If one session serves all calls and there are listeners, it is read at once. */
  #invalidateList(): void {
    this.#hasChanged = true
    for (const lists of this.#lists.values()) lists.invalidate()
    const { contexts, toolsChanged } = this.#options
    if (this.#isClosed || toolsChanged.isEmpty || !contexts.isOneSession) return
    this.listTools().catch(() => {}) // the next list reports the failure
  }

  /** Goes by the tool's own annotations. False if the principal has no list, or only that of an earlier process. */
  #isHarmless({ scope }: CallContext, toolName: string): boolean {
    const list = this.#lists.get(scope.principal)?.last
    if (list === undefined || list.isStored) return false
    const tool = list.tools.find(({ name }) => name === toolName)
    return tool?.annotations?.readOnlyHint === true || tool?.annotations?.idempotentHint === true
  }

  #closedError(tool?: string): McpClientError {
    const message = `MCP server "${this.name}" was used after its tools were closed, so nothing was sent. Call createMcpTools() again.`
    const about = { server: this.name, tool, outcome: 'not-executed' } as const
    return new McpClientError('CLOSED', message, about)
  }
}

function lastErrorFrom(error: unknown): LastError {
  const at = new Date().toISOString()
  if (McpClientError.is(error)) return { code: error.code, message: error.message, at }
  const code = isErrorResponse(error) ? 'REJECTED' : 'CONFIG'
  const message = error instanceof Error ? error.message : String(error)
  return { code, message: withErrorLink(message, code), at }
}

/** Returns true for an error response of the server: `McpError` of the SDK. */
function isErrorResponse(error: unknown): error is Error & { readonly code: unknown } {
  return error instanceof Error && error.name === 'McpError' && 'code' in error
}

/** Equal for equal scopes. A field that is undefined counts as absent, as in the events of a client. */
function scopeKey({ principal, thread, run }: SessionScope = {}): string {
  if (principal === undefined && thread === undefined && run === undefined) return ''
  return JSON.stringify([principal ?? null, thread ?? null, run ?? null])
}

/** Stands for no replacement, for threads that used the first session. */
const NOT_REPLACED: unique symbol = Symbol('not replaced')

/**
 * Reports a replaced session once to each thread that used the old one. Threads that share a session are told
 * separately, because each may have left state in it. Later threads have no state in it.
 */
export class SessionReplacements {
  /** By scope. */
  readonly #last: BoundedMap<string, SessionReplaced>
  /** The replacement that was the last one at the end of a call, by thread and scope. */
  readonly #known: BoundedMap<string, SessionReplaced | typeof NOT_REPLACED>

  /** `max`: number of scopes and of threads that are remembered. */
  constructor(max: number) {
    this.#last = new BoundedMap(max)
    this.#known = new BoundedMap(max)
  }

  add(scope: string, replaced: SessionReplaced): void {
    this.#last.delete(scope)
    this.#last.set(scope, replaced)
  }

  /** Returns what `since()` needs from the start of a call. `owner`: the thread and the scope. */
  knownTo(owner: string, scope: string): SessionReplaced | typeof NOT_REPLACED {
    return this.#known.get(owner) ?? this.#last.get(scope) ?? NOT_REPLACED
  }

  /** Returns the replacement that a thread learns of, at the end of a call. */
  since(before: unknown, owner: string, scope: string): SessionReplaced | undefined {
    const last = this.#last.get(scope)
    this.#known.delete(owner)
    this.#known.set(owner, last ?? NOT_REPLACED)
    return last === before ? undefined : last
  }
}
