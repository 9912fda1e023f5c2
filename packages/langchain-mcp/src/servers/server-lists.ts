import { randomBytes } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import { BoundedMap, type Listeners } from '@x/internal'
import { McpClientError } from '@x/mcp-client'
import type { DeclinedQuestion, McpClient, SessionScope } from '@x/mcp-client'
import { ToolListCache, toolListChange, type ToolListChange } from '../base/tool-lists.ts'
import type { QuarantinedTool, ToolDefinition } from '../base/tool-source.ts'
import { inCall, type CallContext, type CallContexts } from '../sessions/call-context.ts'

/** A changed tool list. Tools that were made before stay valid while their server has them. */
export interface ToolsChanged extends ToolListChange {
  /** Key of the server in `servers`. */
  readonly server: string
  /** Principal whose list changed, if there are principals. */
  readonly principal?: string | undefined
}

export interface ServerListsOptions {
  /** Key of the server in `servers`. */
  readonly name: string
  readonly client: McpClient
  readonly contexts: CallContexts
  /** Limit of one list request, in milliseconds. */
  readonly listMs: number
  /** Number of principals whose lists are kept. */
  readonly listsMax: number
  /** Emits when a list differs from the previous list of the same principal. */
  readonly toolsChanged: Listeners<ToolsChanged>
}

export interface ListRequest {
  /** Config of the user that the list is for; its headers are sent. @default the config of the current run */
  readonly config?: RunnableConfig | undefined
  /** Ignores cached lists. @default false */
  readonly forceRefresh?: boolean | undefined
}

/** Result of the last list request to a server. */
export interface ServerStatus {
  /** Key of the server in `servers`. */
  readonly name: string
  /** `untried` before the first list request, then `up` or `down` by the last one. */
  readonly state: 'untried' | 'up' | 'down'
  /**
   * Why the server is down. Errors of other classes are the `cause` of an `McpClientError`: with the code
   * `REJECTED` for an error response of the server, and `CONFIG` for an error of your own function
   * (`principal`, `headers`, a directory).
   */
  readonly error?: McpClientError
  /** The last question of the server that was refused, because it may have been for several calls. */
  readonly lastDeclined?: DeclinedQuestion
  /** Tools of the last list that were left out, with the reasons. Undefined if there are none. */
  readonly quarantined?: readonly QuarantinedTool[]
}

/** A list request that failed. */
export interface ListFailure {
  readonly error: unknown
  readonly at: number
}

/** JSON-RPC code that a server without tools answers `tools/list` with. */
const METHOD_NOT_FOUND = -32_601

/**
 * The tool lists of one server, by principal, and the result of the last request. Where all calls share a
 * session, that session reads the list; else a separate session does, so that no thread gets a session
 * before its first call.
 */
export class ServerLists {
  readonly #options: ServerListsOptions
  readonly #cache: ToolListCache
  /** The last list of each principal, to find changes. */
  readonly #last: BoundedMap<string | undefined, readonly ToolDefinition[]>
  readonly #failures: BoundedMap<string | undefined, ListFailure>
  #status: ServerStatus
  #isClosed = false

  constructor(options: ServerListsOptions) {
    const { name, listsMax } = options
    this.#options = options
    this.#cache = new ToolListCache(listsMax)
    this.#last = new BoundedMap(listsMax)
    this.#failures = new BoundedMap(listsMax)
    this.#status = { name, state: 'untried' }
  }

  get status(): ServerStatus {
    return this.#status
  }

  /** Returns the list of the caller's principal: cached if it is valid, else from the server. */
  async read(request: ListRequest): Promise<readonly ToolDefinition[]> {
    const { name, contexts } = this.#options
    try {
      const context = contexts.of(request.config)
      const { principal } = context.scope
      const tools = await this.#tools(context, request).catch((error: unknown) => {
        this.#failures.delete(principal)
        this.#failures.set(principal, { error, at: performance.now() })
        throw error
      })
      this.#status = { name, state: 'up' }
      this.#failures.delete(principal)
      this.#emitChange(principal, tools)
      return tools
    } catch (error) {
      if (!this.#isClosed) {
        this.#status = { name, state: 'down', error: toMcpClientError(error, name) }
      }
      throw error
    }
  }

  /** Returns the last list, also an outdated one, without a request. */
  peek(principal: string | undefined): readonly ToolDefinition[] | undefined {
    return this.#last.get(principal)
  }

  /** Returns why the last list request failed, if it failed less than `ms` ago. */
  failureWithin(ms: number, principal: string | undefined): ListFailure | undefined {
    const failure = this.#failures.get(principal)
    return failure !== undefined && performance.now() - failure.at < ms ? failure : undefined
  }

  /** Makes the next `read()` of each principal ask the server. */
  invalidate(): void {
    this.#cache.invalidate()
  }

  /** Stops all events. */
  close(): void {
    this.#isClosed = true
  }

  #tools(
    context: CallContext,
    { forceRefresh = false }: ListRequest,
  ): Promise<readonly ToolDefinition[]> {
    const { mode } = this.#options.contexts
    // The client of the shared session caches the list and receives list changes.
    if (mode === 'shared') return this.#request(context, forceRefresh)
    if (forceRefresh) this.#cache.invalidate()
    return this.#cache.get(context.scope.principal, () =>
      mode === 'run' ? this.#request(context, true) : this.#requestInOwnSession(context),
    )
  }

  /** A server without tools has an empty list. */
  async #request(context: CallContext, forceRefresh: boolean): Promise<readonly ToolDefinition[]> {
    const { client, listMs: timeoutMs } = this.#options
    try {
      return await inCall(context, () => client.listTools({ forceRefresh, timeoutMs }))
    } catch (error) {
      if (isErrorResponse(error) && error.code === METHOD_NOT_FOUND) return []
      throw error
    }
  }

  async #requestInOwnSession(context: CallContext): Promise<readonly ToolDefinition[]> {
    const { principal } = context.scope
    const scope: SessionScope = { principal, run: `list_${randomBytes(8).toString('hex')}` }
    try {
      return await this.#request({ ...context, scope, store: undefined }, true)
    } finally {
      await this.#options.client.dispose({ scope, terminate: true })
    }
  }

  #emitChange(principal: string | undefined, tools: readonly ToolDefinition[]): void {
    const before = this.#last.get(principal)
    if (before === tools) return
    this.#last.delete(principal)
    this.#last.set(principal, tools)
    const change = before && toolListChange(before, tools)
    if (change === undefined || this.#isClosed) return
    const { name: server, toolsChanged } = this.#options
    toolsChanged.emit({ ...change, server, ...(principal !== undefined && { principal }) })
  }
}

function toMcpClientError(error: unknown, server: string): McpClientError {
  if (McpClientError.is(error)) return error
  const message = error instanceof Error ? error.message : String(error)
  const code = isErrorResponse(error) ? 'REJECTED' : 'CONFIG'
  return new McpClientError(code, message, { server, cause: error })
}

/** Returns true for an error response of the server: `McpError` of the SDK. */
function isErrorResponse(error: unknown): error is Error & { readonly code: unknown } {
  return error instanceof Error && error.name === 'McpError' && 'code' in error
}
