import type { RunnableConfig } from '@langchain/core/runnables'
import { currentRun, McpClientError } from '@x/mcp-client'
import type { McpClient, McpClientEvents, SessionScope } from '@x/mcp-client'
import { inCall } from '../calls/call-context.ts'
import type { CallContext } from '../calls/call-context.ts'
import { ambientConfig } from '../calls/call-scope.ts'
import { SessionContinuity } from '../calls/session-continuity.ts'
import type { McpPromptSource, PromptOptions, PromptResult } from '../prompts/prompt-source.ts'
import type {
  ListedResource,
  McpResourceSource,
  ReadResource,
  ResourceOptions,
} from '../resources/resource-source.ts'
import {
  ServerLists,
  type ListFailure,
  type ListRequest,
  type ServerListsOptions,
  type ServerStatus,
} from './server-lists.ts'
import type { McpToolSource, ToolCallOptions, ToolDefinition, ToolResult } from './tool-source.ts'

export interface LiveServerOptions extends ServerListsOptions {
  /** Whether tools that are declared harmless may be called again after a broken connection. */
  readonly repeatsHarmless: boolean
  /** Told when the server said that its list is another, or may have another in a new session. */
  readonly onListOutdated: () => void
}

/** What a server says on its own, that a handle tells. */
type HandleEvent = 'serverLog' | 'resourceUpdated' | 'resourcesChanged' | 'promptsChanged'

/** Everything of one server beside its tools, in the session that a call with the same config would use. */
export interface McpServerHandle extends McpResourceSource, McpPromptSource {
  /** As in the config. */
  readonly name: string
  listResourceTemplates(options?: ResourceOptions): ReturnType<McpClient['listResourceTemplates']>
  listPrompts(options?: ResourceOptions): ReturnType<McpClient['listPrompts']>
  /** Values that the server proposes for an argument of a prompt or a resource template. */
  complete(
    params: Parameters<McpClient['complete']>[0],
    options?: ResourceOptions,
  ): ReturnType<McpClient['complete']>
  /** `resourceUpdated` tells when the resource changes. */
  subscribeResource(uri: string, options?: ResourceOptions): Promise<void>
  unsubscribeResource(uri: string, options?: ResourceOptions): Promise<void>
  /** The lowest level of the messages that `serverLog` tells. */
  setLoggingLevel(
    level: Parameters<McpClient['setLoggingLevel']>[0],
    options?: ResourceOptions,
  ): Promise<void>
  /** Any other request. It is never sent twice, unless it is `idempotent`. */
  request(
    request: Parameters<McpClient['request']>[0],
    options?: ResourceOptions & { readonly idempotent?: boolean | undefined },
  ): ReturnType<McpClient['request']>
  /** Listens to the session that serves calls with this config. Returns the undo function. */
  on<Name extends HandleEvent>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
    config?: RunnableConfig,
  ): () => void
}

/**
 * One server behind live tools: which session serves a call is decided by the config that comes with the
 * call. Its lists belong to principals, not to sessions.
 */
export class LiveServer implements McpToolSource, McpServerHandle {
  readonly name: string
  readonly #options: LiveServerOptions
  readonly #lists: ServerLists
  readonly #continuity: SessionContinuity
  readonly #unlisten: readonly (() => void)[]
  #isClosed = false

  constructor(options: LiveServerOptions) {
    const { name, client, listsMax, onListOutdated } = options
    this.name = name
    this.#options = options
    this.#lists = new ServerLists(options)
    this.#continuity = new SessionContinuity(listsMax)
    const outdated = (): void => {
      this.#lists.invalidate()
      onListOutdated()
    }
    this.#unlisten = [
      client.on('toolListChanged', outdated),
      client.on('sessionReplaced', ({ newEpoch: epoch, reason }, scope) => {
        this.#continuity.replaced(placeOf(scope), { epoch, reason })
        outdated()
      }),
    ]
  }

  get status(): ServerStatus {
    return this.#lists.status
  }

  /** Without a config: for nobody in particular. */
  async listTools(request: ListRequest = {}): Promise<readonly ToolDefinition[]> {
    this.#assertOpen()
    return this.#lists.read(request)
  }

  /** Why the last list could not be read, if that is not longer ago. Asks nobody. */
  failureWithin(ms: number, config: RunnableConfig | undefined): ListFailure | undefined {
    return this.#lists.failureWithin(ms, this.principalOf(config))
  }

  async callTool(
    name: string,
    args?: Record<string, unknown>,
    options: ToolCallOptions = {},
  ): Promise<ToolResult> {
    this.#assertOpen(name)
    const { config = {}, inputRequired, headers, onSessionReplaced, ...rest } = options
    const { client, contextOf, mode, repeatsHarmless } = this.#options
    const caller = contextOf(config)
    const context = headers === undefined ? caller : { ...caller, headers }
    const news = this.#continuity.startOf(
      placeOf(mode === 'run' ? { ...context.scope, run: currentRun()?.id } : context.scope),
      threadOf(context),
    )
    const isHarmless = repeatsHarmless && this.#isHarmless(context, name)
    const sending = isHarmless ? { ...rest, idempotent: true } : rest
    try {
      return await inCall<Promise<ToolResult>>(context, () =>
        inputRequired === 'surface'
          ? client.callTool(name, args, { ...sending, inputRequired })
          : client.callTool(name, args, sending),
      )
    } finally {
      const replaced = news()
      if (replaced !== undefined) onSessionReplaced?.(replaced)
    }
  }

  /** Undefined where all calls are for one. */
  principalOf(config: RunnableConfig | undefined): string | undefined {
    return this.#options.contextOf(config).scope.principal
  }

  listResources(options?: ResourceOptions): Promise<readonly ListedResource[]> {
    return this.#asked(options, (client, bounds) => client.listResources(bounds))
  }

  readResource(uri: string, options?: ResourceOptions): Promise<ReadResource> {
    return this.#asked(options, (client, bounds) => client.readResource(uri, bounds))
  }

  getPrompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    options?: PromptOptions,
  ): Promise<PromptResult> {
    return this.#asked(options, (client, bounds) => client.getPrompt(name, args, bounds))
  }

  listResourceTemplates(
    options?: ResourceOptions,
  ): ReturnType<McpServerHandle['listResourceTemplates']> {
    return this.#asked(options, (client, bounds) => client.listResourceTemplates(bounds))
  }

  listPrompts(options?: ResourceOptions): ReturnType<McpServerHandle['listPrompts']> {
    return this.#asked(options, (client, bounds) => client.listPrompts(bounds))
  }

  complete(
    ...[params, options]: Parameters<McpServerHandle['complete']>
  ): ReturnType<McpServerHandle['complete']> {
    return this.#asked(options, (client, bounds) => client.complete(params, bounds))
  }

  subscribeResource(uri: string, options?: ResourceOptions): Promise<void> {
    return this.#asked(options, (client, bounds) => client.subscribeResource(uri, bounds))
  }

  unsubscribeResource(uri: string, options?: ResourceOptions): Promise<void> {
    return this.#asked(options, (client, bounds) => client.unsubscribeResource(uri, bounds))
  }

  setLoggingLevel(
    ...[level, options]: Parameters<McpServerHandle['setLoggingLevel']>
  ): Promise<void> {
    return this.#asked(options, (client, bounds) => client.setLoggingLevel(level, bounds))
  }

  request(
    ...[request, options]: Parameters<McpServerHandle['request']>
  ): ReturnType<McpServerHandle['request']> {
    return this.#asked(options, (client, bounds) => client.request(request, bounds))
  }

  on<Name extends HandleEvent>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
    config: RunnableConfig = ambientConfig() ?? {},
  ): () => void {
    const { client, mode, contextOf } = this.#options
    const { principal, thread } = contextOf(config).scope
    const run = mode === 'run' ? currentRun()?.id : undefined
    return client.on(event, (payload, scope = {}) => {
      const isTheirs = scope.principal === principal && scope.thread === thread && scope.run === run
      if (isTheirs) listener(payload)
    })
  }

  /** From now on nothing is called. */
  close(): void {
    this.#isClosed = true
    this.#lists.close()
    for (const undo of this.#unlisten) undo()
  }

  async #asked<Result, Options extends ResourceOptions>(
    options: Options | undefined,
    ask: (client: McpClient, bounds: Omit<Partial<Options>, 'config'>) => Promise<Result>,
  ): Promise<Result> {
    this.#assertOpen()
    const { config = ambientConfig(), ...bounds }: Partial<Options> = options ?? {}
    const { client, contextOf } = this.#options
    return inCall(contextOf(config ?? {}), () => ask(client, bounds))
  }

  /** By its own declaration. A session of a thread has no list that could say it. */
  #isHarmless({ scope }: CallContext, toolName: string): boolean {
    const tool = this.#lists.peek(scope.principal)?.find(({ name }) => name === toolName)
    return tool?.annotations?.readOnlyHint === true || tool?.annotations?.idempotentHint === true
  }

  #assertOpen(tool?: string): void {
    if (!this.#isClosed) return
    const message = `MCP server "${this.name}" was used after its tools were closed: nothing was sent`
    throw new McpClientError('CLOSED', message, {
      server: this.name,
      tool,
      outcome: 'not-executed',
    })
  }
}

/** As the events of a client name it: what is not set is the same as what is not there. */
function placeOf({ principal, thread, run }: SessionScope = {}): string {
  if (principal === undefined && thread === undefined && run === undefined) return ''
  return JSON.stringify([principal ?? null, thread ?? null, run ?? null])
}

/** Threads that share a session are told apart: each had something to lose. */
function threadOf({ configurable }: CallContext): string {
  const id = configurable['thread_id']
  return typeof id === 'string' || typeof id === 'number' ? String(id) : ''
}
