import {
  CallToolResultSchema,
  CompleteResultSchema,
  EmptyResultSchema,
  GetPromptResultSchema,
  ListPromptsResultSchema,
  ListResourcesResultSchema,
  ListResourceTemplatesResultSchema,
  ReadResourceResultSchema,
  ResultSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type {
  CallToolResult,
  CompleteRequest,
  CompleteResult,
  GetPromptResult,
  LoggingLevel,
  Prompt,
  ReadResourceResult,
  Resource,
  ResourceTemplate,
  Tool,
} from '@modelcontextprotocol/sdk/types.js'
import { INPUT_META_KEY } from '@x/mcp-transport'
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
import { thrownFrom } from './failure.ts'
import { inputRequiredFrom } from './input-required.ts'
import type { InputRequired } from './input-required.ts'
import { McpClientError } from './mcp-client-error.ts'
import { OperationRunner } from './operation-runner.ts'
import type { RequestOptions } from './operation-runner.ts'
import { outputFault } from './output-validator.ts'
import { allPages } from './pages.ts'
import type { Page } from './pages.ts'
import { assertServerConfig, isSlugConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { SessionSettings } from './session-settings.ts'
import { ToolList } from './tool-list.ts'
import { toolPageFrom } from './tool-page.ts'

/** Sends one request in a session. */
type Send<T> = (client: Epoch['client'], request: RequestOptions) => Promise<T>

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
  readonly #label: string
  readonly #events = new ClientEvents()
  readonly #settings = new SessionSettings()
  readonly #tools: ToolList
  readonly #life: ClientLife
  readonly #runner: OperationRunner

  /** @throws McpClientError `CONFIG` for a config that names no server, or several. */
  constructor(config: McpServerConfig, options: McpClientOptions = {}) {
    assertServerConfig(config)
    this.#config = { ...config }
    const ownOptions = { ...options }
    this.#label = serverLabel(config)
    const events = this.#events
    this.#tools = new ToolList(
      (onAsked, signal) => this.#readTools(onAsked, signal),
      (changes) => events.emit('toolsChanged', changes),
    )
    this.#life = new ClientLife({
      config: this.#config,
      options: ownOptions,
      server: this.#label,
      events,
      news: {
        toolsChanged: () => this.#tools.invalidate(),
        promptsChanged: () => events.emit('promptsChanged', { server: this.#label }),
        resourcesChanged: () => events.emit('resourcesChanged', { server: this.#label }),
        resourceUpdated: (uri) => events.emit('resourceUpdated', { uri }),
        logged: (message) => events.emit('serverLog', message),
      },
      restore: ({ client }, signal) =>
        this.#settings.restore(client, { signal, timeout: LONGEST_MS }),
      onDisposing: (reason) => {
        this.#tools.clear(reason)
        this.#settings.clear()
      },
    })
    this.#runner = new OperationRunner({
      life: this.#life,
      options: ownOptions,
      server: this.#label,
      events,
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
   * Calls a tool. A tool that failed by itself is a result with `isError`, not a rejection. With
   * `inputRequired: 'surface'`, what the server must know first comes back in place of the result.
   *
   * @throws McpClientError with `outcome: 'unknown'` if the tool may or may not have run;
   * `INVALID_OUTPUT` if it has run, and its result does not fit the output schema in the list of tools
   * (where that is known: no list is asked for).
   */
  callTool(
    name: string,
    args: Readonly<Record<string, unknown>> | undefined,
    options: CallToolOptions & { readonly inputRequired: 'surface' },
  ): Promise<CallToolResult | InputRequired>
  callTool(
    name: string,
    args?: Readonly<Record<string, unknown>>,
    options?: CallToolOptions & { readonly inputRequired?: 'answer' | undefined },
  ): Promise<CallToolResult>
  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallToolOptions = {},
  ): Promise<CallToolResult | InputRequired> {
    const { onProgress, idempotent } = options
    const meta = metaOf(options)
    const params = { name, arguments: { ...args }, ...(meta === undefined ? {} : { _meta: meta }) }
    const result = await this.#runner.run(
      {
        label: `tool "${name}"`,
        tool: name,
        isSafe: false,
        isAllowed: idempotent,
        isDeclaredIdempotent: () => this.#isDeclaredIdempotent(name),
        run: ({ client }, request) =>
          client.request({ method: 'tools/call', params }, CallToolResultSchema, {
            ...request,
            ...(onProgress === undefined ? {} : { onprogress: onProgress }),
          }),
      },
      options,
    )
    return inputRequiredFrom(result) ?? this.#checked(name, result)
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
    const { forceRefresh = false, signal: caller, timeoutMs = this.#runner.timeoutMs } = options
    using deadline = new Deadline(timeoutMs, caller)
    const { signal } = deadline
    try {
      return await this.#tools.get({ forceRefresh, signal })
    } catch (error) {
      if (!signal.aborted) throw error
      const context = {
        label: 'tools/list',
        server: this.#label,
        signal,
        outcome: 'unknown',
      } as const
      throw thrownFrom(error, context)
    }
  }

  /** All resources of the server, from all pages. */
  listResources(options: CallOptions = {}): Promise<readonly Resource[]> {
    return this.#list('resources/list', options, async (client, request, asked) => {
      const page = await client.request(asked, ListResourcesResultSchema, request)
      return { items: page.resources, nextCursor: page.nextCursor }
    })
  }

  /** All templates for resources of the server, from all pages. */
  listResourceTemplates(options: CallOptions = {}): Promise<readonly ResourceTemplate[]> {
    return this.#list('resources/templates/list', options, async (client, request, asked) => {
      const page = await client.request(asked, ListResourceTemplatesResultSchema, request)
      return { items: page.resourceTemplates, nextCursor: page.nextCursor }
    })
  }

  readResource(uri: string, options: CallOptions = {}): Promise<ReadResourceResult> {
    const asked = { method: 'resources/read', params: { uri } } as const
    return this.#ask(asked.method, options, (client, request) =>
      client.request(asked, ReadResourceResultSchema, request),
    )
  }

  /** From now on `resourceUpdated` tells when the resource changes, also after a session was replaced. */
  async subscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    await this.#tell({ method: 'resources/subscribe', params: { uri } }, options)
    this.#settings.subscribed(uri)
  }

  async unsubscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    this.#settings.unsubscribed(uri)
    await this.#tell({ method: 'resources/unsubscribe', params: { uri } }, options)
  }

  /** All prompts of the server, from all pages. */
  listPrompts(options: CallOptions = {}): Promise<readonly Prompt[]> {
    return this.#list('prompts/list', options, async (client, request, asked) => {
      const page = await client.request(asked, ListPromptsResultSchema, request)
      return { items: page.prompts, nextCursor: page.nextCursor }
    })
  }

  getPrompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    options: CallOptions = {},
  ): Promise<GetPromptResult> {
    const asked = { method: 'prompts/get', params: { name, arguments: { ...args } } } as const
    return this.#ask(asked.method, options, (client, request) =>
      client.request(asked, GetPromptResultSchema, request),
    )
  }

  /** Values that the server proposes for an argument of a prompt or a resource template. */
  complete(params: CompleteRequest['params'], options: CallOptions = {}): Promise<CompleteResult> {
    const asked = { method: 'completion/complete', params } as const
    return this.#ask(asked.method, options, (client, request) =>
      client.request(asked, CompleteResultSchema, request),
    )
  }

  /** From which level on `serverLog` tells of the server's log, also after a session was replaced. */
  async setLoggingLevel(level: LoggingLevel, options: CallOptions = {}): Promise<void> {
    await this.#tell({ method: 'logging/setLevel', params: { level } }, options)
    this.#settings.level = level
  }

  /** Asks the server for a sign of life. */
  async ping(options: CallOptions = {}): Promise<void> {
    await this.#tell({ method: 'ping' }, options)
  }

  /**
   * Any other request; the result is not checked. It is taken for one that must not run twice, unless
   * `idempotent` says otherwise.
   */
  request(
    request: { readonly method: string; readonly params?: Readonly<Record<string, unknown>> },
    options: CallOptions & { readonly idempotent?: boolean | undefined } = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const { method, params = {} } = request
    return this.#runner.run(
      {
        label: method,
        isSafe: false,
        isAllowed: options.idempotent,
        run: ({ client }, sending) =>
          client.request({ method, params: { ...params } }, ResultSchema, sending),
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

  /** A request that changes nothing, or may be made twice: it may be repeated. */
  #ask<T>(label: string, options: CallOptions, send: Send<T>): Promise<T> {
    return this.#runner.run(
      { label, isSafe: true, run: ({ client }, request) => send(client, request) },
      options,
    )
  }

  /** One that has no answer but that it was heard. */
  async #tell(
    asked: { readonly method: string; readonly params?: Record<string, unknown> },
    options: CallOptions,
  ): Promise<void> {
    await this.#ask(asked.method, options, (client, request) =>
      client.request(asked, EmptyResultSchema, request),
    )
  }

  #list<Item>(
    method: string,
    options: CallOptions,
    readPage: (
      client: Epoch['client'],
      request: RequestOptions,
      asked: ListRequest,
    ) => Promise<Page<Item>>,
  ): Promise<readonly Item[]> {
    return this.#ask(method, options, (client, request) =>
      allPages({ server: this.#label, method }, (cursor) =>
        readPage(client, request, listRequest(method, cursor)),
      ),
    )
  }

  #readTools(onAsked: () => void, signal: AbortSignal): Promise<readonly Tool[]> {
    const method = 'tools/list'
    // Those who wait have their own limits; when the last one has left, the signal aborts.
    const options = { signal, timeoutMs: LONGEST_MS }
    return this.#ask(method, options, (client, request) => {
      onAsked()
      return allPages({ server: this.#label, method }, async (cursor) =>
        this.#toolPage(await client.request(listRequest(method, cursor), ResultSchema, request)),
      )
    })
  }

  #toolPage(result: Readonly<Record<string, unknown>>): Page<Tool> {
    const page = toolPageFrom(result)
    if (page === undefined) {
      const message = `tools/list of MCP server "${this.#label}" was answered with no list of tools`
      throw new McpClientError('UNEXPECTED_RESPONSE', message, { server: this.#label })
    }
    for (const why of page.setAside ?? []) {
      this.#events.log('warning', `${this.#label}: a tool is set aside: ${why}`)
    }
    return { items: page.tools, nextCursor: page.nextCursor }
  }

  #isDeclaredIdempotent(tool: string): boolean {
    const annotations = this.#tools.find(tool)?.annotations
    return annotations?.readOnlyHint === true || annotations?.idempotentHint === true
  }

  #checked(name: string, result: CallToolResult): CallToolResult {
    const tool = this.#tools.find(name)
    const fault = tool === undefined ? undefined : outputFault(tool, result)
    if (fault === undefined) return result
    const message = `tool "${name}" of MCP server "${this.#label}" has run, but its output ${fault}`
    throw new McpClientError('INVALID_OUTPUT', message, { server: this.#label, tool: name, result })
  }
}

interface ListRequest {
  readonly method: string
  readonly params?: { cursor: string }
}

function listRequest(method: string, cursor: string | undefined): ListRequest {
  return cursor === undefined ? { method } : { method, params: { cursor } }
}

/** The caller's `_meta`, with what the transport must know of inputs, which it keeps to itself. */
function metaOf({
  meta,
  inputRequired,
  resume,
}: CallToolOptions): Record<string, unknown> | undefined {
  if (inputRequired !== 'surface' && resume === undefined) return meta && { ...meta }
  const instructions = { surface: inputRequired === 'surface', answers: resume }
  return { ...meta, [INPUT_META_KEY]: instructions }
}
