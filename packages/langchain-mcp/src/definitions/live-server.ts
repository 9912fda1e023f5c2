import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import { BoundedMap, type Listeners, scopeKey, untilAborted, withErrorLink } from '@x/internal'
import { currentRun, McpClientError } from '@x/mcp-client'
import type {
  CallOptions,
  DeclinedQuestion,
  KnownTools,
  LastError,
  LeftOutTool,
  McpClient,
  McpClientEvents,
  SessionScope,
} from '@x/mcp-client'
import { isAppOnly } from '../mcp-apps.ts'
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
import { isErrorOfUser, withOwnToken } from './user-tokens.ts'

/** A changed tool list. Tools that were made before stay valid while their server has them. */
export interface ToolsChanged {
  /** Names on the server. */
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Tools with another description, schema, annotations or user interface. */
  readonly changed: readonly string[]
  /** Key of the server in `servers`. */
  readonly server: string
  /** Principal whose list changed, if there are principals. */
  readonly principal?: string | undefined
}

/** The last list request of a principal, if it failed. Holds no list. */
interface ListFailure {
  readonly error: unknown
  readonly at: number
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
  /** Number of principals and threads that are remembered. */
  readonly remembered: number
  /** Emits when a list differs from the previous list of the same principal. */
  readonly toolsChanged: Listeners<ToolsChanged>
}

export interface ListRequest {
  /** Config of the user that the list is for; its headers are sent. @default the config of the current run */
  readonly config?: RunnableConfig | undefined
  /** Ignores cached lists, and those of an earlier process. @default false */
  readonly forceRefresh?: boolean | undefined
}

type ListOptions = ListRequest & Parameters<McpToolSource['listTools']>[0]

/** Result of the last list request to a server. Plain JSON, without session ids and tokens. */
export interface ServerStatus {
  /** Key of the server in `servers`. */
  readonly name: string
  /**
   * `untried` before the first list request (the list of an earlier process needs none), then by the last one: `up`,
   * `partial` if tools are left out (see `quarantined`), or `down`.
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
 * principals, and only the client keeps them. Where threads have sessions, a separate session reads the list, so that no
 * thread gets a session before its first call.
 */
export class LiveServer implements McpToolSource, McpServerHandle {
  readonly name: string
  readonly label: McpServerLabel
  readonly config: McpToolsServerConfig
  readonly #options: LiveServerOptions
  /** The client, without the overloads of its methods. */
  readonly #caller: Required<Pick<McpToolSource, 'callTool' | 'startTool'>>
  /** By principal. */
  readonly #failures: BoundedMap<string | undefined, ListFailure>
  /** Requests for lists in separate sessions, which concurrent callers share. */
  readonly #reading = new Map<string, Promise<KnownTools>>()
  /** Principals whose list is read after a call. */
  readonly #refreshing = new Set<string | undefined>()
  #status: ServerStatus
  readonly #replacements: SessionReplacements
  readonly #unlisten: readonly (() => void)[]
  /** Tools of the last list that were left out. */
  quarantined: readonly QuarantinedTool[] = []
  /** Tools of the last list that only an app may call. */
  appTools: readonly string[] = []
  #isClosed = false

  constructor(options: LiveServerOptions) {
    const { name, label, config, client, remembered } = options
    this.name = name
    this.label = label
    this.config = config
    this.#options = options
    this.#caller = client
    this.#failures = new BoundedMap(remembered)
    this.#status = { name, state: 'untried' }
    this.#replacements = new SessionReplacements(remembered)
    this.#unlisten = [
      client.on('toolsChanged', (change, { principal } = {}) =>
        this.#options.toolsChanged.emit({
          ...change,
          server: name,
          ...(principal !== undefined && { principal }),
        }),
      ),
      client.on('toolListChanged', () => this.#changed()),
      client.on('sessionReplaced', ({ newEpoch: epoch, reason }, scope) => {
        this.#replacements.add(scopeKey(scope), { epoch, reason })
        this.#changed() // the new session may have another list
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
    const { tools, leftOut } = await this.list(options)
    for (const tool of leftOut) options?.onLeftOut?.(tool)
    return tools
  }

  async list({
    config = ambientConfig(),
    signal = config?.signal,
    ...options
  }: ListOptions = {}): Promise<KnownTools> {
    if (this.#isClosed) throw this.#closedError()
    const { name, contexts } = this.#options
    const context = contexts.of(config) // its errors say nothing about the server
    try {
      const reading = withOwnToken(context.config, () => this.#read(context, options))
      return await untilAborted(reading, signal) // others may wait for the same list
    } catch (error) {
      if (signal?.aborted !== true && !isErrorOfUser(error)) {
        this.#failures.set(context.scope.principal, { error, at: performance.now() })
        if (!this.#isClosed) this.#status = { name, state: 'down', error: lastErrorFrom(error) }
      }
      throw error
    }
  }

  /** Returns the last list of the caller's principal, without a request. */
  knownTools(config: RunnableConfig): readonly ToolDefinition[] | undefined {
    return this.#options.client.lastTools(this.principalOf(config))?.tools
  }

  /** Returns the error of the last list request of the caller's principal, if it failed less than `ms` ago. */
  failureWithin(ms: number, config: RunnableConfig | undefined): ListFailure | undefined {
    const failure = this.#failures.get(this.principalOf(config))
    return failure !== undefined && performance.now() - failure.at < ms ? failure : undefined
  }

  readonly callTool: McpToolSource['callTool'] = (name, args, options) =>
    this.#call(name, options, (limits) => this.#caller.callTool(name, args, limits))

  readonly startTool: NonNullable<McpToolSource['startTool']> = (name, args, options) =>
    this.#call(name, options, async (limits, context) => {
      const started = await this.#caller.startTool(name, args, limits)
      const { task } = started
      if (task === undefined) return started
      // The status is asked for in the session of the call, with its credentials. The context is a copy, because the
      // call has ended by then.
      const status = AsyncLocalStorage.bind((bounds?: CallOptions) =>
        inCall({ ...context }, () => task.status(bounds)),
      )
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
    send: (limits: ToolCallOptions, context: CallContext) => Promise<Answer>,
  ): Promise<Answer> {
    if (this.#isClosed) throw this.#closedError(name)
    const { contexts } = this.#options
    const { mode } = contexts
    const context = contexts.of(config)
    const { scope } = context
    const key = scopeKey(mode === 'run' ? { ...scope, run: currentRun()?.id } : scope)
    const { caller } = limits
    const owner = `${key}\n${caller?.owner ?? ''}`
    const before = this.#replacements.knownTo(owner, key)
    const options = {
      ...limits,
      signal: limits.signal ?? config.signal,
      ...('url' in this.config && { headers }), // a child process refuses them
    }
    try {
      return await withOwnToken(config, () => inCall({ ...context }, () => send(options, context)))
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
    const signal = bounds.signal ?? config?.signal
    return withOwnToken(context.config, () =>
      inCall({ ...used }, () => send(client, { ...bounds, signal })),
    )
  }

  /** @param isInCall the session of the call reads the list, which needs no other session then */
  async #read(
    context: CallContext,
    { forceRefresh = false, acceptStored = false }: Omit<ListOptions, 'config'>,
    isInCall = false,
  ): Promise<KnownTools> {
    const { client, contexts, listMs: timeoutMs } = this.#options
    const { principal } = context.scope
    const last = forceRefresh ? undefined : client.lastTools(principal)
    const isCurrent = last?.isCurrent === true && (acceptStored || !last.isStored)
    if (last !== undefined && isCurrent) return this.#listed(last, principal)
    const accepted = acceptStored && ('first-call' as const)
    const options = { acceptStored: accepted, forceRefresh, timeoutMs }
    const request = async (used: CallContext): Promise<KnownTools> => {
      const leftOut: LeftOutTool[] = []
      // The caller reports tools that are left out.
      const onLeftOut = (tool: LeftOutTool): unknown => leftOut.push(tool)
      const tools = await inCall({ ...used, isList: true }, () =>
        client.listTools({ ...options, onLeftOut }),
      )
      // The client has no list if those of other principals took its place.
      return client.lastTools(principal) ?? { tools, leftOut, isStored: false, isCurrent: true }
    }
    const isSeparate = contexts.mode === 'thread' && !isInCall
    const list = await (isSeparate
      ? this.#inSeparateSession(context, request, options)
      : request(context))
    return this.#listed(list, principal)
  }

  /** Requests a list in a session that ends after it. */
  #inSeparateSession(
    context: CallContext,
    request: (used: CallContext) => Promise<KnownTools>,
    {
      acceptStored,
      forceRefresh,
    }: { readonly acceptStored: unknown; readonly forceRefresh: boolean },
  ): Promise<KnownTools> {
    const { principal } = context.scope
    const key = `${String(acceptStored)} ${principal ?? ''}`
    const running = forceRefresh ? undefined : this.#reading.get(key)
    if (running !== undefined) return running
    const scope: SessionScope = { principal, run: `list_${randomBytes(8).toString('hex')}` }
    const reading = request({ ...context, scope }).finally(() => {
      if (this.#reading.get(key) === reading) this.#reading.delete(key)
      // No list waits for it, but `close()` does.
      void Promise.allSettled([this.#options.client.dispose({ scope, terminate: true })])
    })
    this.#reading.set(key, reading)
    return reading
  }

  #listed(list: KnownTools, principal: string | undefined): KnownTools {
    if (!list.isStored) {
      this.#status = { name: this.name, state: 'up' }
      this.#failures.delete(principal)
    }
    this.appTools = list.tools.filter(isAppOnly).map(({ name }) => name)
    return list
  }

  /** Reads the list after a call, if the tools still come from an outdated list of an earlier process. */
  #refreshAfterCall(context: CallContext): void {
    const { principal } = context.scope
    const known = this.#options.client.lastTools(principal)
    if (this.#isClosed || known?.isStored !== true || known.isCurrent) return
    if (this.#refreshing.has(principal)) return
    this.#refreshing.add(principal)
    void this.#read(context, {}, true)
      .catch(() => {}) // the next call tries again, and the next list reports the failure
      .finally(() => this.#refreshing.delete(principal))
  }

  /** The list may have changed. It is read at once if one session serves all calls and there are listeners. */
  #changed(): void {
    this.#reading.clear() // they may have started before
    const { contexts, toolsChanged } = this.#options
    if (this.#isClosed || toolsChanged.isEmpty || !contexts.isOneSession) return
    this.list({ config: {} }).catch(() => {}) // the next list reports the failure
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

/** Stands for no replacement, for threads that used the first session. */
const NOT_REPLACED: unique symbol = Symbol('not replaced')

/**
 * Reports a replaced session once to each thread that used the old one. Each thread of a shared session gets its own
 * report, because each may have left state in the session. Threads that begin later get none.
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
