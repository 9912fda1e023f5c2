import { randomBytes } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import { McpClientError } from '@x/mcp-client'
import type { McpClient, SessionScope } from '@x/mcp-client'
import { inCall, type CallContext } from '../calls/call-context.ts'
import type { SessionMode } from '../sessions/session-mode.ts'
import { ToolCatalogue } from './tool-catalogue.ts'
import { ToolListChanges, type ToolListChange } from './tool-list-changes.ts'
import type { ToolDefinition } from './tool-source.ts'

export interface ServerListsOptions {
  /** As in the config. */
  readonly name: string
  readonly client: McpClient
  readonly mode: SessionMode
  /** May throw, where there must be no call. No config: nobody is called for. */
  readonly contextOf: (config: RunnableConfig | undefined) => CallContext
  /** Limit of one list, in milliseconds. */
  readonly listMs: number
  readonly listMaxAgeMs: number
  readonly listsMax: number
  /** Told when a list differs from the one before for the same principal. */
  readonly onToolsChanged: (change: ToolListChange & { readonly principal?: string }) => void
}

export interface ListRequest {
  /** Whom the list is for. @default nobody in particular */
  readonly config?: RunnableConfig | undefined
  /** @default false */
  readonly forceRefresh?: boolean | undefined
}

/** Whether a server gave its tools. */
export interface ServerStatus {
  /** As in the config. */
  readonly name: string
  /** `untried` before it is first asked for its tools; then whether it gave them the last time. */
  readonly state: 'untried' | 'up' | 'down'
  /**
   * Why it is down. What is no `McpClientError` is its `cause`: an error that the server answered with has the code
   * `REJECTED`, an error of your own function (`principal`, `headers`, a directory) `CONFIG`.
   */
  readonly error?: McpClientError
}

/** A list that could not be read. */
export interface ListFailure {
  readonly error: unknown
  readonly at: number
}

/** JSON-RPC: what a server answers to `tools/list` that has no tools at all. */
const METHOD_NOT_FOUND = -32_601

/**
 * What one server offers, to each principal: read in the session that calls will use where all share one,
 * else apart from the sessions of threads; and what became of the last reading.
 */
export class ServerLists {
  readonly #options: ServerListsOptions
  readonly #catalogue: ToolCatalogue
  readonly #changes: ToolListChanges
  /** By principal: when a list could not be read, and why. */
  readonly #failures = new Map<string | undefined, ListFailure>()
  #status: ServerStatus
  #isClosed = false

  constructor(options: ServerListsOptions) {
    const { name, listMaxAgeMs: maxAgeMs, listsMax: max } = options
    this.#options = options
    this.#catalogue = new ToolCatalogue({ maxAgeMs, max })
    this.#changes = new ToolListChanges(max)
    this.#status = { name, state: 'untried' }
  }

  get status(): ServerStatus {
    return this.#status
  }

  /** Of this caller, as far as it is known; else as the server tells it now. */
  async read(request: ListRequest): Promise<readonly ToolDefinition[]> {
    const { name, contextOf, onToolsChanged } = this.#options
    try {
      const context = contextOf(request.config)
      const { principal } = context.scope
      const tools = await this.#tools(context, request).catch((error: unknown) => {
        this.#failed(principal, error)
        throw error
      })
      this.#status = { name, state: 'up' }
      this.#failures.delete(principal)
      const change = this.#changes.observe(principal, tools)
      if (change !== undefined && !this.#isClosed) {
        onToolsChanged({ ...change, ...(principal !== undefined && { principal }) })
      }
      return tools
    } catch (error) {
      if (!this.#isClosed) this.#status = { name, state: 'down', error: listErrorFrom(error, name) }
      throw error
    }
  }

  /** What is known now, however old. Asks nobody. */
  peek(principal: string | undefined): readonly ToolDefinition[] | undefined {
    return this.#catalogue.peek(principal)
  }

  /** Why the last list could not be read, if that is not longer ago. Asks nobody. */
  failureWithin(ms: number, principal: string | undefined): ListFailure | undefined {
    const failure = this.#failures.get(principal)
    return failure !== undefined && performance.now() - failure.at < ms ? failure : undefined
  }

  /** Each list is read again when it is next asked for. */
  invalidate(): void {
    this.#catalogue.invalidate()
  }

  /** From now on nothing is told. */
  close(): void {
    this.#isClosed = true
  }

  async #tools(
    context: CallContext,
    { forceRefresh = false }: ListRequest,
  ): Promise<readonly ToolDefinition[]> {
    const { client, mode, listMs: timeoutMs } = this.#options
    if (mode === 'shared') {
      // The session that the calls will use: its client keeps the list, and hears of changes.
      return inCall(context, () => listOf(client, { forceRefresh, timeoutMs }))
    }
    if (forceRefresh) this.#catalogue.invalidate()
    return this.#catalogue.get(context.scope.principal, () =>
      mode === 'run' ? this.#inSession(context) : this.#apart(context),
    )
  }

  #inSession(context: CallContext): Promise<readonly ToolDefinition[]> {
    const { client, listMs: timeoutMs } = this.#options
    return inCall(context, () => listOf(client, { forceRefresh: true, timeoutMs }))
  }

  /** In a session of its own that ends with it: no thread shall need one before its first call. */
  async #apart({
    scope: { principal },
    configurable,
  }: CallContext): Promise<readonly ToolDefinition[]> {
    const scope: SessionScope = { principal, run: `list_${randomBytes(8).toString('hex')}` }
    try {
      return await this.#inSession({ scope, configurable, store: undefined })
    } finally {
      await this.#options.client.dispose({ scope, terminate: true })
    }
  }

  #failed(principal: string | undefined, error: unknown): void {
    this.#failures.delete(principal)
    this.#failures.set(principal, { error, at: performance.now() })
    for (const oldest of this.#failures.keys()) {
      if (this.#failures.size <= this.#options.listsMax) break
      this.#failures.delete(oldest)
    }
  }
}

function listErrorFrom(error: unknown, server: string): McpClientError {
  if (McpClientError.is(error)) return error
  const message = error instanceof Error ? error.message : String(error)
  const code = isServerError(error) ? 'REJECTED' : 'CONFIG'
  return new McpClientError(code, message, { server, cause: error })
}

/** Whether the server answered with an error: the SDK's `McpError`. */
function isServerError(error: unknown): error is Error & { readonly code: unknown } {
  return error instanceof Error && error.name === 'McpError' && 'code' in error
}

/** A server without tools is there all the same. */
async function listOf(
  client: McpClient,
  options: { readonly forceRefresh: boolean; readonly timeoutMs: number },
): Promise<readonly ToolDefinition[]> {
  try {
    return await client.listTools(options)
  } catch (error) {
    if (isServerError(error) && error.code === METHOD_NOT_FOUND) return []
    throw error
  }
}
