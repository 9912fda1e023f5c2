import { randomBytes } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import { currentRun, McpClientError } from '@x/mcp-client'
import type { McpClient, ServerLog, ServerStatus, SessionScope } from '@x/mcp-client'
import { inCall } from '../calls/call-context.ts'
import type { CallContext } from '../calls/call-context.ts'
import { ambientConfig } from '../calls/call-scope.ts'
import { SessionContinuity } from '../calls/session-continuity.ts'
import type { SessionMode } from '../sessions/session-mode.ts'
import { ToolCatalogue } from './tool-catalogue.ts'
import { ToolListChanges, type ToolListChange } from './tool-list-changes.ts'
import type { McpPromptSource, PromptOptions, PromptResult } from '../prompts/prompt-source.ts'
import type {
  ListedResource,
  McpResourceSource,
  ReadResource,
  ResourceOptions,
} from '../resources/resource-source.ts'
import type { McpToolSource, ToolCallOptions, ToolDefinition, ToolResult } from './tool-source.ts'

export interface LiveServerOptions {
  /** As in the config. */
  readonly name: string
  readonly client: McpClient
  readonly mode: SessionMode
  /** May throw, where there must be no call. No config: nobody is called for. */
  readonly contextOf: (config: RunnableConfig | undefined) => CallContext
  /** Whether tools that are declared harmless may be called again after a broken connection. */
  readonly repeatsHarmless: boolean
  /** Limit of one list, in milliseconds. */
  readonly listMs: number
  readonly listMaxAgeMs: number
  readonly listsMax: number
  /** Told when a list differs from the one before for the same principal. */
  readonly onToolsChanged: (change: ToolListChange & { readonly principal?: string }) => void
  /** Told when the server said that its list is another, or may have another in a new session. */
  readonly onListOutdated: () => void
}

/** One server's resources and prompts, in the session that a call with the same config would use. */
export interface McpServerHandle extends McpResourceSource, McpPromptSource {
  /** As in the config. */
  readonly name: string
}

/** A list that could not be read. */
export interface ListFailure {
  readonly error: unknown
  readonly at: number
}

/** JSON-RPC: what a server answers to `tools/list` that has no tools at all. */
const METHOD_NOT_FOUND = -32_601

/**
 * One server behind live tools: which session serves a call is decided by the config that comes with the
 * call. Its lists belong to principals, not to sessions.
 */
export class LiveServer implements McpToolSource, McpServerHandle {
  readonly name: string
  readonly #options: LiveServerOptions
  readonly #catalogue: ToolCatalogue
  readonly #changes: ToolListChanges
  readonly #continuity: SessionContinuity
  readonly #unlisten: readonly (() => void)[]
  /** By principal: when a list could not be read, and why. */
  readonly #failures = new Map<string | undefined, ListFailure>()
  #status: ServerStatus
  #isClosed = false

  constructor(options: LiveServerOptions) {
    const { name, client, listMaxAgeMs: maxAgeMs, listsMax: max } = options
    this.name = name
    this.#options = options
    this.#status = { name, state: 'untried' }
    this.#catalogue = new ToolCatalogue({ maxAgeMs, max })
    this.#changes = new ToolListChanges(max)
    this.#continuity = new SessionContinuity(max)
    const outdated = (): void => {
      this.#catalogue.invalidate()
      options.onListOutdated()
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
    return this.#status
  }

  /** Without a config: for nobody in particular. */
  async listTools(
    options: {
      readonly config?: RunnableConfig | undefined
      readonly forceRefresh?: boolean | undefined
    } = {},
  ): Promise<readonly ToolDefinition[]> {
    const { name } = this
    try {
      const principal = this.principalOf(options.config)
      const tools = await this.#tools(options).catch((error: unknown) => {
        this.#failed(principal, error)
        throw error
      })
      this.#status = { name, state: 'up' }
      this.#failures.delete(principal)
      const change = this.#changes.observe(principal, tools)
      if (change !== undefined && !this.#isClosed) {
        this.#options.onToolsChanged({ ...change, ...(principal !== undefined && { principal }) })
      }
      return tools
    } catch (error) {
      if (!this.#isClosed) this.#status = { name, state: 'down', error }
      throw error
    }
  }

  /** Why the last list could not be read, if that is not longer ago. Asks nobody. */
  failureWithin(ms: number, config: RunnableConfig | undefined): ListFailure | undefined {
    const failure = this.#failures.get(this.principalOf(config))
    return failure !== undefined && performance.now() - failure.at < ms ? failure : undefined
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

  /** Of the session that serves calls with this config, and of no other one. */
  on(
    event: 'serverLog',
    listener: (log: ServerLog) => void,
    config: RunnableConfig = {},
  ): () => void {
    const { client, mode, contextOf } = this.#options
    const { principal, thread } = contextOf(config).scope
    const run = mode === 'run' ? currentRun()?.id : undefined
    return client.on(event, (log, scope = {}) => {
      const isTheirs = scope.principal === principal && scope.thread === thread && scope.run === run
      if (isTheirs) listener(log)
    })
  }

  /** From now on nothing is called. */
  close(): void {
    this.#isClosed = true
    for (const undo of this.#unlisten) undo()
  }

  #failed(principal: string | undefined, error: unknown): void {
    this.#failures.delete(principal)
    this.#failures.set(principal, { error, at: performance.now() })
    for (const oldest of this.#failures.keys()) {
      if (this.#failures.size <= this.#options.listsMax) break
      this.#failures.delete(oldest)
    }
  }

  async #asked<Result>(
    { config = ambientConfig(), ...bounds }: ResourceOptions = {},
    ask: (client: McpClient, bounds: Omit<ResourceOptions, 'config'>) => Promise<Result>,
  ): Promise<Result> {
    this.#assertOpen()
    const { client, contextOf } = this.#options
    return inCall(contextOf(config ?? {}), () => ask(client, bounds))
  }

  async #tools({
    config,
    forceRefresh = false,
  }: {
    readonly config?: RunnableConfig | undefined
    readonly forceRefresh?: boolean | undefined
  }): Promise<readonly ToolDefinition[]> {
    this.#assertOpen()
    const { client, mode, contextOf, listMs: timeoutMs } = this.#options
    const context = contextOf(config)
    if (mode === 'shared') {
      // The session that the calls will use: its client keeps the list, and hears of changes.
      return inCall(context, () => listOf(client, { forceRefresh, timeoutMs }))
    }
    if (forceRefresh) this.#catalogue.invalidate()
    const { principal } = context.scope
    const read = mode === 'run' ? () => this.#read(context) : () => this.#readApart(context)
    return this.#catalogue.get(principal, read)
  }

  #read(context: CallContext): Promise<readonly ToolDefinition[]> {
    const { client, listMs: timeoutMs } = this.#options
    return inCall(context, () => listOf(client, { forceRefresh: true, timeoutMs }))
  }

  /** In a session of its own that ends with it: no thread shall need one before its first call. */
  async #readApart({
    scope: { principal },
    configurable,
  }: CallContext): Promise<readonly ToolDefinition[]> {
    const scope: SessionScope = { principal, run: `list_${randomBytes(8).toString('hex')}` }
    try {
      return await this.#read({ scope, configurable, store: undefined })
    } finally {
      await this.#options.client.dispose({ scope, terminate: true })
    }
  }

  /** By its own declaration. A session of a thread has no list that could say it. */
  #isHarmless({ scope }: CallContext, toolName: string): boolean {
    const tool = this.#catalogue.peek(scope.principal)?.find(({ name }) => name === toolName)
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

/** A server without tools is there all the same. */
async function listOf(
  client: McpClient,
  options: { readonly forceRefresh: boolean; readonly timeoutMs: number },
): Promise<readonly ToolDefinition[]> {
  try {
    return await client.listTools(options)
  } catch (error) {
    const hasNone =
      error instanceof Error &&
      error.name === 'McpError' &&
      'code' in error &&
      error.code === METHOD_NOT_FOUND
    if (hasNone) return []
    throw error
  }
}
