import {
  CallToolResultSchema,
  EmptyResultSchema,
  ResultSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import { ClientEvents } from './client-events.ts'
import { ClientLife } from './client-life.ts'
import type {
  CallOptions,
  CallToolOptions,
  McpClientEvents,
  McpClientOptions,
} from './client-options.ts'
import { Deadline, LONGEST_MS } from './deadline.ts'
import type { Epoch } from './epoch.ts'
import { failureFrom, outcomeOf, thrownFrom } from './failure.ts'
import { McpClientError } from './mcp-client-error.ts'
import type { OperationOutcome } from './mcp-client-error.ts'
import { mayReplay } from './replay.ts'
import type { FailedAttempt } from './replay.ts'
import { assertServerConfig, isSlugConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { allPages, ToolList } from './tool-list.ts'
import { toolPageFrom } from './tool-page.ts'
import type { ToolPage } from './tool-page.ts'

/** One request to the server, or several that belong together. */
interface Operation<T> {
  /** For messages. */
  readonly label: string
  readonly tool?: string | undefined
  /** Changes nothing on the server: may always be repeated. */
  readonly isSafe: boolean
  /** The caller allows this one to run twice. */
  readonly isAllowed?: boolean | undefined
  run(epoch: Epoch, request: RequestOptions): Promise<T>
}

interface RequestOptions {
  readonly signal: AbortSignal
  readonly timeout: number
}

const TIMEOUT_MS = 600_000

/**
 * A client of one MCP server. Opens nothing until the first call; then finds the server (phase 1), opens
 * a session (phase 2) and keeps it for all calls. When the server has forgotten the session, opens a
 * new one on the same connections and repeats what the server provably did not run.
 *
 * @throws McpClientError from every operation that came to no answer; the SDK's `McpError` where the
 * server answered with an error; the reason of the caller's signal where that aborted; what the
 * directory threw.
 */
export class McpClient implements AsyncDisposable {
  readonly #config: McpServerConfig
  readonly #options: McpClientOptions
  readonly #label: string
  readonly #events = new ClientEvents()
  readonly #tools: ToolList
  readonly #life: ClientLife

  /** @throws McpClientError `CONFIG` for a config that names no server, or several. */
  constructor(config: McpServerConfig, options: McpClientOptions = {}) {
    assertServerConfig(config)
    this.#config = { ...config }
    this.#options = { ...options }
    this.#label = serverLabel(config)
    this.#tools = new ToolList(
      (onAsked, signal) => this.#readTools(onAsked, signal),
      (changes) => this.#events.emit('toolsChanged', changes),
    )
    this.#life = new ClientLife({
      config: this.#config,
      options: this.#options,
      server: this.#label,
      events: this.#events,
      onToolsChanged: () => this.#tools.invalidate(),
      onDisposing: (reason) => this.#tools.clear(reason),
    })
  }

  /** True from the first session until `dispose()`, also while a lost session is replaced. */
  get isClientInitialized(): boolean {
    return this.#life.isInitialized
  }

  /** The slug that this client was made with, if it was. */
  get serverSlug(): string | undefined {
    return isSlugConfig(this.#config) ? this.#config.slug : undefined
  }

  /** The current session id. Undefined before the first call, and on servers without sessions. */
  async getSessionId(): Promise<string | undefined> {
    return this.#life.getSessionId()
  }

  /** Returns the undo function. A listener that throws disturbs nobody. */
  on<Name extends keyof McpClientEvents>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
  ): () => void {
    return this.#events.on(event, listener)
  }

  /**
   * Calls a tool. A tool that failed by itself is a result with `isError`, not a rejection.
   *
   * @throws McpClientError with `outcome: 'unknown'` if the tool may or may not have run.
   */
  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallToolOptions = {},
  ): Promise<CallToolResult> {
    const { onProgress, meta, idempotent } = options
    const params = {
      name,
      arguments: { ...args },
      ...(meta === undefined ? {} : { _meta: { ...meta } }),
    }
    return this.#execute(
      {
        label: `tool "${name}"`,
        tool: name,
        isSafe: false,
        isAllowed: idempotent,
        run: ({ client }, request) =>
          client.request({ method: 'tools/call', params }, CallToolResultSchema, {
            ...request,
            ...(onProgress === undefined ? {} : { onprogress: onProgress }),
          }),
      },
      options,
    )
  }

  /**
   * All tools of the server: cached until the server says they changed, the session is replaced, or
   * `forceRefresh`. Concurrent callers share one fetch. The list is frozen.
   *
   * @throws McpClientError `INVALID_LIST` for a list of more than 64 pages, or that repeats a cursor.
   */
  async listTools(
    options: CallOptions & { readonly forceRefresh?: boolean | undefined } = {},
  ): Promise<readonly Tool[]> {
    const { forceRefresh = false, signal: caller, timeoutMs } = options
    using deadline = new Deadline(timeoutMs ?? this.#timeoutMs, caller)
    const { signal } = deadline
    try {
      return await this.#tools.get({ forceRefresh, signal })
    } catch (error) {
      if (!signal.aborted) throw error
      throw thrownFrom(error, {
        label: 'tools/list',
        server: this.#label,
        signal,
        outcome: 'unknown',
      })
    }
  }

  /** Asks the server for a sign of life. */
  async ping(options: CallOptions = {}): Promise<void> {
    await this.#execute(
      {
        label: 'ping',
        isSafe: true,
        run: ({ client }, request) =>
          client.request({ method: 'ping' }, EmptyResultSchema, request),
      },
      options,
    )
  }

  /**
   * Ends everything, in at most 5 s: calls in flight reject with `CLOSED`, the session is ended on the
   * server or left, connections are closed. Never throws for what fails on the way. The client can be
   * used again afterwards; a call that arrives meanwhile waits and then starts anew.
   */
  async dispose(): Promise<void> {
    await this.#life.dispose()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  async #execute<T>(
    operation: Operation<T>,
    { signal: caller, timeoutMs }: CallOptions,
  ): Promise<T> {
    using deadline = new Deadline(timeoutMs ?? this.#timeoutMs, caller)
    const { signal } = deadline
    const { maxRetries = 1 } = this.#options
    let outcome: OperationOutcome | undefined = 'not-executed'
    try {
      const life = await this.#life.enter(signal)
      for (let retries = 0; ; retries++) {
        let isSent = false
        try {
          return await this.#life.use(
            (epoch) => {
              isSent = true
              return operation.run(epoch, { signal, timeout: LONGEST_MS })
            },
            { life, signal },
          )
        } catch (error) {
          // An attempt that may have run stays one, whatever became of later ones.
          if (isSent && outcome !== 'unknown') outcome = outcomeOf(error)
          const mayRetry = retries < maxRetries && !signal.aborted
          if (!mayRetry || !this.#mayReplay(error, operation)) throw error
          this.#events.log('info', `${this.#label}: ${operation.label} is sent again`, error)
        }
      }
    } catch (error) {
      throw thrownFrom(error, { ...operation, server: this.#label, signal, outcome })
    }
  }

  #mayReplay(error: unknown, { isSafe, isAllowed, tool }: Operation<unknown>): boolean {
    const failed = failureFrom(error) ?? unopened(error)
    if (failed === undefined) return false
    const annotations = tool === undefined ? undefined : this.#tools.find(tool)?.annotations
    return mayReplay({
      error: failed,
      policy: this.#options.replay ?? 'session-loss',
      isSafe,
      isAllowed: isAllowed ?? false,
      isDeclaredIdempotent:
        annotations?.readOnlyHint === true || annotations?.idempotentHint === true,
    })
  }

  #readTools(onAsked: () => void, signal: AbortSignal): Promise<readonly Tool[]> {
    return this.#execute(
      {
        label: 'tools/list',
        isSafe: true,
        run: ({ client }, request) => {
          onAsked()
          return allPages(this.#label, async (cursor) => {
            const params = cursor === undefined ? {} : { params: { cursor } }
            const asked = { method: 'tools/list', ...params }
            return this.#toolPage(await client.request(asked, ResultSchema, request))
          })
        },
      },
      // Those who wait have their own limits; when the last one has left, the signal aborts.
      { signal, timeoutMs: LONGEST_MS },
    )
  }

  #toolPage(result: Readonly<Record<string, unknown>>): ToolPage {
    const page = toolPageFrom(result)
    if (page === undefined) {
      const message = `tools/list of MCP server "${this.#label}" was answered with no list of tools`
      throw new McpClientError('UNEXPECTED_RESPONSE', message, { server: this.#label })
    }
    for (const why of page.setAside ?? []) {
      this.#events.log('warning', `${this.#label}: a tool is set aside: ${why}`)
    }
    return page
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? TIMEOUT_MS
  }
}

/** No session could be opened: whatever it was that failed, nothing was sent in it. */
function unopened(error: unknown): FailedAttempt | undefined {
  if (!McpClientError.is(error)) return undefined
  return { code: error.code, certain: error.outcome === 'not-executed' }
}
