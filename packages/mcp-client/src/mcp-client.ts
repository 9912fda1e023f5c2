import {
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
import { reserveAuthProvider, TransportError } from '@x/mcp-transport'
import { clientOptionChecks } from './options.ts'
import type { CallOptions, CallToolOptions, McpClientOptions, TimeoutExtension } from './options.ts'
import { ClientEvents } from './events.ts'
import type { McpClientEvents } from './events.ts'
import { assertClientOptions, notExecuted } from './errors.ts'
import type { InputRequired, TaskReference } from './input-required.ts'
import { readList, toolsOf } from './lists.ts'
import type { ListToolsOptions } from './lists.ts'
import { Operations } from './operation.ts'
import type { RequestOperation } from './operation.ts'
import { isSlugConfig, parseServerConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import type { ClientSetup, ScopeSlot } from './scope-slot.ts'
import { IDLE_MAX, ScopeSlots } from './scope-slots.ts'
import type { DisposeOptions } from './scope-slots.ts'
import type { SessionScope } from './session-scope.ts'
import type { McpClientStatus, SessionStatus } from './session-state.ts'
import { McpTask } from './task.ts'
import { assertReference } from './task-data.ts'
import { StoredToolLists } from './stored-tool-lists.ts'
import { Terminations } from './terminations.ts'
import { startCall } from './tool-call.ts'
import { PrincipalLists } from './tool-list.ts'
import type { KnownTools } from './tool-list.ts'

const NO_SESSION: SessionStatus = {
  state: 'created',
  era: undefined,
  protocolVersion: undefined,
  epoch: undefined,
  sessionId: undefined,
  tools: undefined,
  leftOutTools: undefined,
}

/** A tool call that has ended, or that the server continues as a task. */
export type StartedTool<Result = CallToolResult> =
  | { readonly result: Result; readonly task?: undefined }
  | { readonly task: McpTask; readonly result?: undefined }

/**
 * A client of one MCP server. Opens nothing until the first call. Then it finds the server (phase 1), opens a session
 * (phase 2) and uses it for all calls. When the server has lost the session, the client opens a new one on the same
 * connections, and sends the requests again that the server certainly did not run.
 *
 * @throws McpClientError from every operation without an answer; the SDK's `McpError` if the server answered with an
 * error; the reason of the caller's signal if that aborted; the error of the directory
 * @example
 * ```ts
 * import { McpClient } from '@x/mcp-client'
 *
 * await using client = new McpClient('https://shop.example/mcp') // opens nothing yet
 * const { content } = await client.callTool('cart_add', { item: 'apple' })
 * ```
 */
export class McpClient implements AsyncDisposable {
  readonly #config: McpServerConfig
  readonly #setup: ClientSetup
  readonly #slots: ScopeSlots
  readonly #operations: Operations

  /**
   * @param config a URL is short for `{ url }`
   * @throws McpClientError `CONFIG` for a config that names no server or several, for an unknown or invalid option,
   * and for an `authProvider` that is in use for another origin
   */
  constructor(config: McpServerConfig | string | URL, options: McpClientOptions = {}) {
    this.#config = parseServerConfig(config)
    const name = serverLabel(this.#config)
    assertClientOptions('McpClient', options, { checks: clientOptionChecks, server: name })
    const { label: server = name } = options
    reserveProvider(this.#config, options)
    const { scope, toolsPer, idleScopes } = options
    const events = new ClientEvents()
    this.#setup = {
      config: this.#config,
      options: { ...options, scope: typeof scope === 'object' ? { ...scope } : scope },
      server,
      events,
      terminations: new Terminations(),
      storedTools: new StoredToolLists(options.sessionInfoFactory, events),
      principalLists:
        toolsPer === 'principal'
          ? new PrincipalLists(events, Math.max(idleScopes?.max ?? 0, IDLE_MAX))
          : undefined,
      knownEra: undefined,
      knownRetentionMs: undefined,
      lastDeclined: undefined,
    }
    this.#slots = new ScopeSlots(this.#setup)
    this.#operations = new Operations(this.#setup, this.#slots)
  }

  /**
   * True from the first session until `dispose()`, also while a lost session is replaced. With a scope function: of
   * the session of the current scope.
   */
  get isClientInitialized(): boolean {
    return this.#findSlot()?.isInitialized ?? false
  }

  /** The slug in the config of this client, if there is one. */
  get serverSlug(): string | undefined {
    return isSlugConfig(this.#config) ? this.#config.slug : undefined
  }

  /** Limit of one operation without `timeoutMs` of its own, in milliseconds. */
  get timeoutMs(): number {
    return this.#operations.timeoutMs
  }

  /** Extension of that limit by progress, for calls without `timeout` of their own. */
  get timeout(): TimeoutExtension | undefined {
    return this.#setup.options.timeout
  }

  /**
   * The current session id in full: do not log it. Without a session, the id in the session store. Undefined before
   * the first call, on servers without sessions, and if the store fails, which is logged. Rejects with the error of
   * the scope function.
   */
  async getSessionId(): Promise<string | undefined> {
    return this.#slots.find()?.getSessionId()
  }

  /**
   * Status for health checks, without a request. With a scope function: of the session of the current scope, or
   * `created` if it has none; `sessions` has the status of all scopes.
   */
  status(): McpClientStatus {
    const { status = NO_SESSION } = this.#findSlot() ?? {}
    const { server, lastDeclined } = this.#setup
    const { lastError } = this.#operations
    return { server, ...status, lastError, lastDeclined, sessions: this.#slots.statuses }
  }

  /**
   * Adds a listener. Returns a function that removes it. A listener that throws does not affect others. `scope` is
   * that of the session that emits the event.
   */
  on<Name extends keyof McpClientEvents>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
  ): () => void {
    return this.#setup.events.on(event, listener)
  }

  /**
   * Calls a tool. A tool that failed returns a result with `isError`; the call does not reject. With
   * `inputRequired: 'surface'`, requests of the server are returned instead of the result.
   *
   * @throws McpClientError with `outcome: 'unknown'` if the tool may or may not have run; `INVALID_OUTPUT` with the
   * `result` if it has run, and its structured content does not fit the output schema in the last list of tools (the
   * call requests no list). Structured content that is missing is a warning in the event `log`
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
    const { resume, timeoutMs } = options
    if (resume?.task !== undefined) {
      const { inputResponses } = resume
      const task = this.#taskOf(resume.task, options, name)
      return task.result({ ...options, inputResponses })
    }
    const startedAt = performance.now()
    return startCall(this.#operations, { name, args, options }, (started, lease) => {
      if (!(started instanceof McpTask)) return started
      // The limit of the call includes the time until the server has answered.
      const leftMs = timeoutMs && Math.max(timeoutMs - (performance.now() - startedAt), 1)
      return started.finish(lease.slot, { ...lease.options, timeoutMs: leftMs }, lease.call)
    })
  }

  /**
   * Calls a tool, and returns as soon as the server has answered: with the `result`, or with a `task` that the server
   * continues. Only servers of 2026-07-28 start tasks; the server decides about each call.
   *
   * @throws as `callTool()`
   */
  startTool(
    name: string,
    args: Readonly<Record<string, unknown>> | undefined,
    options: CallToolOptions & { readonly inputRequired: 'surface' },
  ): Promise<StartedTool<CallToolResult | InputRequired>>
  startTool(
    name: string,
    args?: Readonly<Record<string, unknown>>,
    options?: CallToolOptions & { readonly inputRequired?: 'answer' | undefined },
  ): Promise<StartedTool>
  async startTool(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallToolOptions = {},
  ): Promise<StartedTool<CallToolResult | InputRequired>> {
    const { task: reference, inputResponses } = options.resume ?? {}
    if (reference !== undefined) {
      const task = this.#taskOf(reference, options, name)
      if (inputResponses !== undefined) await task.answer(inputResponses, options)
      return { task }
    }
    return startCall(this.#operations, { name, args, options }, (started) =>
      started instanceof McpTask ? { task: started } : { result: started },
    )
  }

  /**
   * Continues a task, also in another process than the one that called the tool. Sends nothing yet.
   *
   * @throws McpClientError `TASK_REFERENCE` for an invalid reference. The methods of the task reject with this code if
   * the reference belongs to another server or principal
   */
  resumeTask(reference: TaskReference): McpTask {
    return this.#taskOf(reference)
  }

  /**
   * All tools of the server, cached until the server announces a change, the session is replaced, or `forceRefresh`.
   * Concurrent callers in one session share one request. The list is frozen, and the same array until there is another
   * one. A server without tools has an empty list.
   *
   * @throws McpClientError `INVALID_LIST` for a list with more than 64 pages. At a repeated cursor, the list ends with a warning
   */
  listTools(options: ListToolsOptions = {}): Promise<readonly Tool[]> {
    return this.#operations.use({ method: 'tools/list' }, options, (lease) =>
      toolsOf(this.#operations, lease, options),
    )
  }

  /**
   * The list of tools that `listTools()` has returned last to this principal, without a request. Undefined before the
   * first list, and without `toolsPer: 'principal'`.
   */
  lastTools(principal?: string): KnownTools | undefined {
    return this.#setup.principalLists?.known(principal)
  }

  /** All resources of the server, from all pages. */
  listResources(options: CallOptions = {}): Promise<readonly Resource[]> {
    const list = { schema: ListResourcesResultSchema, key: 'resources' } as const
    return readList(this.#operations, { method: 'resources/list', ...list }, options)
  }

  /** All resource templates of the server, from all pages. */
  listResourceTemplates(options: CallOptions = {}): Promise<readonly ResourceTemplate[]> {
    const list = { schema: ListResourceTemplatesResultSchema, key: 'resourceTemplates' } as const
    return readList(this.#operations, { method: 'resources/templates/list', ...list }, options)
  }

  /** The contents of one resource. `uri` comes from `listResources()` or from a template. */
  readResource(uri: string, options: CallOptions = {}): Promise<ReadResourceResult> {
    const about = { method: 'resources/read', resource: uri, isSafe: true }
    const operation = { ...about, params: { uri }, schema: ReadResourceResultSchema }
    return this.#operations.request(operation, options)
  }

  /** From now on the event `resourceUpdated` reports changes of the resource, also in a session that replaces this one. */
  subscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    return this.#send(emptyOperation('resources/subscribe', { uri }), options)
  }

  /** Ends a subscription, also for sessions that replace a lost one. */
  unsubscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    return this.#send(emptyOperation('resources/unsubscribe', { uri }), options)
  }

  /** All prompts of the server, from all pages. */
  listPrompts(options: CallOptions = {}): Promise<readonly Prompt[]> {
    const list = { schema: ListPromptsResultSchema, key: 'prompts' } as const
    return readList(this.#operations, { method: 'prompts/list', ...list }, options)
  }

  /** The messages of one prompt with these arguments. */
  getPrompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    options: CallOptions = {},
  ): Promise<GetPromptResult> {
    const about = { method: 'prompts/get', prompt: name, isSafe: true }
    const params = { name, arguments: { ...args } }
    return this.#operations.request({ ...about, params, schema: GetPromptResultSchema }, options)
  }

  /** Values that the server proposes for an argument of a prompt or a resource template. */
  complete(params: CompleteRequest['params'], options: CallOptions = {}): Promise<CompleteResult> {
    const about = { method: 'completion/complete', isSafe: true }
    return this.#operations.request({ ...about, params, schema: CompleteResultSchema }, options)
  }

  /** Sets the lowest level for the event `serverLog`, also for sessions that replace this one. */
  setLoggingLevel(level: LoggingLevel, options: CallOptions = {}): Promise<void> {
    return this.#send(emptyOperation('logging/setLevel', { level }), options)
  }

  /**
   * Capabilities of the server, from its answer to `initialize` or `server/discover`. Opens a session if there is none.
   */
  serverCapabilities(options: CallOptions = {}): Promise<Readonly<Record<string, unknown>>> {
    const ping = emptyOperation('ping')
    return this.#operations.use(ping, options, async (lease) => {
      if (lease.slot.session === undefined) await this.#operations.run(ping, lease)
      return lease.slot.connection?.serverCapabilities ?? {}
    })
  }

  /** Checks that the server answers. */
  ping(options: CallOptions = {}): Promise<void> {
    return this.#send(emptyOperation('ping'), options)
  }

  /**
   * Sends any other request; the result is not checked. The request must not run twice, unless `idempotent` is true.
   */
  request(
    request: { readonly method: string; readonly params?: Readonly<Record<string, unknown>> },
    options: CallOptions & { readonly idempotent?: boolean | undefined } = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const { method, params = {} } = request
    const operation = { method, params: { ...params }, schema: ResultSchema, isSafe: false }
    return this.#operations.request(operation, options)
  }

  /**
   * Closes everything within 1 s if the server does not answer, and within 5 s if a store or a child process is slow.
   * Sessions are terminated 16 at a time, all of them within 20 s. Those of detached runs that only this process can
   * continue are terminated too.
   * Calls in flight reject with `CLOSED`, the session is terminated or left on the server, and connections are
   * closed. Does not throw for errors on the way. The client can be used again: a call during the disposal waits for
   * its end, then opens a new session.
   */
  async dispose(options: DisposeOptions = {}): Promise<void> {
    await this.#slots.dispose(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  /** Returns the slot of the current scope. Undefined without one, or if the scope function throws. */
  #findSlot(): ScopeSlot | undefined {
    try {
      return this.#slots.find()
    } catch {
      return undefined // getters and health checks do not report errors of the scope function
    }
  }

  #taskOf(reference: TaskReference, origin: CallOptions = {}, tool?: string): McpTask {
    assertReference(reference, { server: this.#operations.server, tool })
    return new McpTask(this.#operations, { reference, origin })
  }

  async #send(operation: RequestOperation<unknown>, options: CallOptions): Promise<void> {
    await this.#operations.request(operation, options)
  }
}

/** An operation without a result that has no further effect if it runs twice: ping, subscribe, unsubscribe, setLevel. */
function emptyOperation(
  method: string,
  params?: Readonly<Record<string, string>>,
): RequestOperation<unknown> {
  return { method, params, resource: params?.['uri'], schema: EmptyResultSchema, isSafe: true }
}

/** @throws McpClientError `CONFIG` for a provider that is in use for another origin, before anything is sent */
function reserveProvider(
  config: McpServerConfig,
  { authProvider, label: server = serverLabel(config) }: McpClientOptions,
): void {
  if (typeof authProvider !== 'object' || !('url' in config)) return
  try {
    reserveAuthProvider(authProvider, config.url)
  } catch (cause) {
    if (!TransportError.is(cause)) throw cause
    throw notExecuted('CONFIG', cause.message, { server, cause })
  }
}
