import { AsyncLocalStorage } from 'node:async_hooks'
import type { RunnableConfig } from '@langchain/core/runnables'
import { BoundedMap } from '@x/internal'
import { currentRun, McpClientError } from '@x/mcp-client'
import type { CallOptions, McpClient, McpClientEvents, SessionScope } from '@x/mcp-client'
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
} from '../base/tool-source.ts'
import { ToolCaller } from '../interrupts/live-call.ts'
import { ambientConfig, inCall, toThreadId, type CallContext } from '../sessions/call-context.ts'
import type { McpToolsServerConfig } from './server-clients.ts'
import {
  ServerLists,
  type ListFailure,
  type ListRequest,
  type ServerListsOptions,
  type ServerStatus,
} from './server-lists.ts'

export interface LiveServerOptions extends ServerListsOptions {
  readonly label: McpServerLabel
  readonly config: McpToolsServerConfig
  /** `true`: read-only and idempotent tools may be called again after a broken connection. */
  readonly repeatsHarmless: boolean
  /** `true`: sessions or headers depend on the call, which the client reads from the async context. */
  readonly readsCalls: boolean
}

/** Notifications of a server that `McpServerHandle.on()` passes on. */
type HandleEvent = 'serverLog' | 'resourceUpdated' | 'resourcesChanged' | 'promptsChanged'

/** The operations of one server beside tool calls. Each uses the session that a call with the same config uses. */
export interface McpServerHandle extends McpResourceSource, McpPromptSource {
  /** Key of the server in `servers`. */
  readonly name: string
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
    options?: RequestOptions & { readonly idempotent?: boolean | undefined },
  ): ReturnType<McpClient['request']>
  /** Listens to the session that serves calls with this config. Returns a function that removes the listener. */
  on<Name extends HandleEvent>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
    config?: RunnableConfig,
  ): () => void
}

/**
 * One server behind live tools. The config of each call decides which session serves it. Tool lists belong to
 * principals, not to sessions.
 */
export class LiveServer implements McpToolSource, McpServerHandle {
  readonly name: string
  readonly label: McpServerLabel
  readonly config: McpToolsServerConfig
  readonly #options: LiveServerOptions
  readonly #lists: ServerLists
  readonly #replacements: SessionReplacements
  readonly #unlisten: readonly (() => void)[]
  /** Tools of the last list that were left out. */
  quarantined: readonly QuarantinedTool[] = []
  #isClosed = false

  constructor(options: LiveServerOptions) {
    const { name, label, config, client, listsMax } = options
    this.name = name
    this.label = label
    this.config = config
    this.#options = options
    this.#lists = new ServerLists(options)
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
    const { quarantined } = this
    return {
      ...this.#lists.status,
      ...(lastDeclined && { lastDeclined }),
      ...(quarantined.length > 0 && { quarantined }),
    }
  }

  async listTools(request: ListRequest = {}): Promise<readonly ToolDefinition[]> {
    if (this.#isClosed) throw this.#closedError()
    return this.#lists.read(request)
  }

  /** Returns why the last list request of the caller's principal failed, if it failed less than `ms` ago. */
  failureWithin(ms: number, config: RunnableConfig | undefined): ListFailure | undefined {
    return this.#lists.failureWithin(ms, this.principalOf(config))
  }

  readonly callTool: McpToolSource['callTool'] = (name, args, options) =>
    this.#call(name, options, (source, limits) => source.callTool(name, args, limits))

  readonly startTool: NonNullable<McpToolSource['startTool']> = (name, args, options) =>
    this.#call(name, options, async (source, limits) => {
      const started = await source.startTool(name, args, limits)
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
    options: ToolCallOptions = {},
    send: (source: McpToolSource & TaskSource, limits: ToolCallOptions) => Promise<Answer>,
  ): Promise<Answer> {
    if (this.#isClosed) throw this.#closedError(name)
    const { config = {}, headers, ...rest } = options
    const { client, contexts, repeatsHarmless, readsCalls } = this.#options
    const context = contexts.of(config, headers)
    const { scope } = context
    const key = scopeKey(contexts.mode === 'run' ? { ...scope, run: currentRun()?.id } : scope)
    const thread = toThreadId(config.configurable?.['thread_id']) ?? ''
    const seen = this.#replacements.seenBy(key, thread)
    // The client of a shared session goes by its own list.
    const isRepeatable =
      repeatsHarmless && contexts.mode !== 'shared' && this.#isHarmless(context, name)
    const limits = isRepeatable ? { ...rest, idempotent: true } : rest
    try {
      return await (readsCalls ? inCall(context, () => send(client, limits)) : send(client, limits))
    } finally {
      const { caller } = rest
      const replaced = this.#replacements.since(seen, key, thread)
      if (replaced !== undefined && caller instanceof ToolCaller) caller.replaced = replaced
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
    this.#lists.close()
    for (const undo of this.#unlisten) undo()
  }

  async #request<Result, Options extends RequestOptions>(
    options: Options | undefined,
    send: (client: McpClient, bounds: Omit<Partial<Options>, 'config'>) => Promise<Result>,
  ): Promise<Result> {
    if (this.#isClosed) throw this.#closedError()
    const { config = ambientConfig(), ...bounds }: Partial<Options> = options ?? {}
    const { client, contexts } = this.#options
    return inCall(contexts.of(config ?? {}), () => send(client, bounds))
  }

  /** Makes the next list a request. If one session serves all calls and there are listeners, it is read at once. */
  #invalidateList(): void {
    this.#lists.invalidate()
    const { contexts, toolsChanged } = this.#options
    if (this.#isClosed || toolsChanged.isEmpty || !contexts.isOneSession) return
    this.listTools().catch(() => {}) // the next list reports the failure
  }

  /** Goes by the tool's own annotations. False if the principal has no list. */
  #isHarmless({ scope }: CallContext, toolName: string): boolean {
    const tool = this.#lists.peek(scope.principal)?.find(({ name }) => name === toolName)
    return tool?.annotations?.readOnlyHint === true || tool?.annotations?.idempotentHint === true
  }

  #closedError(tool?: string): McpClientError {
    const message = `MCP server "${this.name}" was used after its tools were closed, so nothing was sent. Call createMcpTools() again.`
    const about = { server: this.name, tool, outcome: 'not-executed' } as const
    return new McpClientError('CLOSED', message, about)
  }
}

/** A source that can start tasks. */
type TaskSource = Required<Pick<McpToolSource, 'startTool'>>

/** Equal for equal scopes. A field that is undefined counts as absent, as in the events of a client. */
function scopeKey({ principal, thread, run }: SessionScope = {}): string {
  if (principal === undefined && thread === undefined && run === undefined) return ''
  return JSON.stringify([principal ?? null, thread ?? null, run ?? null])
}

/**
 * Reports a replaced session once to each thread that used the old one. Threads that share a session are
 * counted separately, because each may have left state in it. A thread that comes later had no state there.
 */
export class SessionReplacements {
  /** The last replacement in each scope, and how many there were. */
  readonly #last: BoundedMap<string, SessionReplaced & { readonly count: number }>
  /** Number of replacements that a thread knows, by scope and thread. */
  readonly #seen: BoundedMap<string, number>

  /** `max`: number of scopes and of threads that are remembered. */
  constructor(max: number) {
    this.#last = new BoundedMap(max)
    this.#seen = new BoundedMap(max)
  }

  add(scope: string, { epoch, reason }: SessionReplaced): void {
    const count = this.#count(scope) + 1
    this.#last.delete(scope)
    this.#last.set(scope, { epoch, reason, count })
  }

  /** Returns the number of replacements that a thread knows, at the start of a call. */
  seenBy(scope: string, thread: string): number {
    return this.#seen.get(`${scope}\n${thread}`) ?? this.#count(scope)
  }

  /** Returns the replacement that a thread learns of, at the end of a call that began with `seen`. */
  since(seen: number, scope: string, thread: string): SessionReplaced | undefined {
    const key = `${scope}\n${thread}`
    const last = this.#last.get(scope)
    const known = Math.max(this.#seen.get(key) ?? seen, seen)
    this.#seen.delete(key)
    this.#seen.set(key, last?.count ?? known)
    if (last === undefined || last.count <= seen) return undefined
    return { epoch: last.epoch, reason: last.reason }
  }

  #count(scope: string): number {
    return this.#last.get(scope)?.count ?? 0
  }
}
