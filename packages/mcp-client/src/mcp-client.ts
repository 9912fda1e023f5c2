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
import { BoundedMap, isRecord } from '@x/internal'
import { reserveAuthProvider, TransportError } from '@x/mcp-transport'
import type { RequestOutcome } from '@x/mcp-transport'
import { clientOptionChecks, DEFAULT_TIMEOUT_MS } from './options.ts'
import type { CallOptions, CallToolOptions, McpClientOptions, TimeoutExtension } from './options.ts'
import { Deadline, LONGEST_MS } from './deadline.ts'
import { ClientEvents } from './events.ts'
import type { McpClientEvents } from './events.ts'
import {
  assertClientOptions,
  copyForCaller,
  getOperationName,
  getOutcome,
  getTransportError,
  McpClientError,
  notExecuted,
  toOperationError,
} from './errors.ts'
import { toInputRequired } from './input-required.ts'
import type { InputRequired, TaskReference } from './input-required.ts'
import { assertKey, KeyedCall, KEYED_RETRIES } from './keyed-call.ts'
import { IDEMPOTENCY_KEY, isAway, recoveryDelayMs, retryDelayMs, systemTiming } from './retry.ts'
import type { RetryTiming } from './retry.ts'
import { inOwnRun } from './run-scope.ts'
import { isSlugConfig, parseServerConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { SessionManager } from './session-manager.ts'
import type { DisposeOptions } from './session-manager.ts'
import { Terminations } from './generation.ts'
import type { Attempt, Operation, RequestOperation } from './generation.ts'
import type { Session } from './session.ts'
import type { OpenCall, TrackedCall } from './session-calls.ts'
import type { SessionScope } from './session-scope.ts'
import type { LastError, McpClientStatus, SessionStatus } from './session-state.ts'
import { McpTask } from './task.ts'
import type { TaskOwner } from './task.ts'
import { assertReference, createReference } from './task-reference.ts'
import { parseTask } from './task-state.ts'
import { readResult } from './requests.ts'
import { StoredToolLists } from './stored-tools.ts'
import type { StoredToolList } from './stored-tools.ts'
import { allPages, lacksStructure, outputProblem, parseToolPage } from './tool-list.ts'
import type { LeftOutTool, Page, ToolsRead } from './tool-list.ts'

/** Time in which a list of a server with sessions counts as current in the next process, in milliseconds. */
const LIST_MS = 300_000
/** Servers choose the names of tools, so the memory for them is limited. */
const MAX_REPORTED_TOOLS = 1000

const NO_SESSION: SessionStatus = {
  state: 'created',
  era: undefined,
  protocolVersion: undefined,
  epoch: undefined,
  sessionId: undefined,
  tools: undefined,
  leftOutTools: undefined,
}

/** Requests during which no server sends requests to the client. */
const QUIET_METHODS = /^ping$|\/list$|\/(un)?subscribe$|^logging\/setLevel$/

/** A tool call that has ended, or that the server continues as a task. */
export type StartedTool<Result = CallToolResult> =
  | { readonly result: Result; readonly task?: undefined }
  | { readonly task: McpTask; readonly result?: undefined }

/** The session that serves an operation, and the options of the caller. */
interface Lease {
  readonly session: Session
  /** Undefined if the server cannot send requests in this operation. */
  readonly call: TrackedCall | undefined
  readonly options: CallToolOptions
}

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
  readonly #label: string
  readonly #events = new ClientEvents()
  readonly #sessions: SessionManager
  readonly #options: McpClientOptions
  #lastError: LastError | undefined
  /** Lists whose unusable tools are in the log. */
  readonly #reported = new WeakSet<readonly Tool[]>()
  /** Tools that were reported, because their results lack the structured content that they declare. */
  readonly #withoutStructure = new BoundedMap<string, true>(MAX_REPORTED_TOOLS)

  /**
   * @param config a URL is short for `{ url }`
   * @throws McpClientError `CONFIG` for a config that names no server or several, for an unknown or invalid option,
   * and for an `authProvider` that is in use for another origin
   */
  constructor(config: McpServerConfig | string | URL, options: McpClientOptions = {}) {
    this.#config = parseServerConfig(config)
    const name = serverLabel(this.#config)
    assertClientOptions('McpClient', options, { checks: clientOptionChecks, server: name })
    const server = (this.#label = options.label ?? name)
    reserveProvider(this.#config, options)
    const { scope } = options
    this.#options = { ...options, scope: typeof scope === 'object' ? { ...scope } : scope }
    this.#sessions = new SessionManager({
      config: this.#config,
      options: this.#options,
      server,
      events: this.#events,
      knownEra: undefined,
      knownRetentionMs: undefined,
      lastDeclined: undefined,
      terminations: new Terminations(),
      storedTools: new StoredToolLists(options.sessionInfoFactory, this.#events),
    })
  }

  /**
   * True from the first session until `dispose()`, also while a lost session is replaced. With a scope function: of
   * the session of the current scope.
   */
  get isClientInitialized(): boolean {
    return this.#findSession()?.isInitialized ?? false
  }

  /** The slug in the config of this client, if there is one. */
  get serverSlug(): string | undefined {
    return isSlugConfig(this.#config) ? this.#config.slug : undefined
  }

  /** Limit of one operation without `timeoutMs` of its own, in milliseconds. */
  get timeoutMs(): number {
    return this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  }

  /** Extension of that limit by progress, for calls without `timeout` of their own. */
  get timeout(): TimeoutExtension | undefined {
    return this.#options.timeout
  }

  /**
   * The current session id in full: do not log it. Without a session, the id in the session store. Undefined before
   * the first call, on servers without sessions, and if the store fails, which is logged. Rejects with the error of
   * the scope function.
   */
  async getSessionId(): Promise<string | undefined> {
    return this.#sessions.find()?.getSessionId()
  }

  /**
   * Status for health checks, without a request. With a scope function: of the session of the current scope, or
   * `created` if it has none; `sessions` has the status of all scopes.
   */
  status(): McpClientStatus {
    const { status = NO_SESSION } = this.#findSession() ?? {}
    const { lastDeclined, sessions } = this.#sessions
    return { server: this.#label, ...status, lastError: this.#lastError, lastDeclined, sessions }
  }

  /**
   * Adds a listener. Returns a function that removes it. A listener that throws does not affect others. `scope` is
   * that of the session that emits the event.
   */
  on<Name extends keyof McpClientEvents>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
  ): () => void {
    return this.#events.on(event, listener)
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
      return this.#resumeTask(resume.task, name, options).result({ ...options, inputResponses })
    }
    const startedAt = performance.now()
    return this.#startTool({ name, args }, options, (started, lease) => {
      if (!(started instanceof McpTask)) return started
      // The limit of the call includes the time until the server has answered.
      const leftMs = timeoutMs && Math.max(timeoutMs - (performance.now() - startedAt), 1)
      return started.finish(lease.session, { ...lease.options, timeoutMs: leftMs }, lease.call)
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
      const task = this.#resumeTask(reference, name, options)
      if (inputResponses !== undefined) await task.answer(inputResponses, options)
      return { task }
    }
    return this.#startTool({ name, args }, options, (started) =>
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
    return this.#resumeTask(reference)
  }

  /** `tool`: the tool that the task must belong to. */
  #resumeTask(reference: TaskReference, tool?: string, options?: CallOptions): McpTask {
    assertReference(reference, { server: this.#label, tool })
    return new McpTask(this.#taskOwner(options), reference)
  }

  /** Calls a tool, and `use` with its result or its task. */
  #startTool<T>(
    { name, args }: { readonly name: string; readonly args: Readonly<Record<string, unknown>> },
    options: CallToolOptions,
    use: (started: CallToolResult | InputRequired | McpTask, lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    const { caller, idempotencyKey } = options
    assertKey(options, { tool: name, server: this.#label })
    const meta = metaOf(options)
    const operation: Operation<CallToolResult> = {
      method: 'tools/call',
      tool: name,
      params: { name, arguments: { ...args }, ...(meta === undefined ? {} : { _meta: meta }) },
      schema: CallToolResultSchema,
      isSafe: false,
    }
    const call = { method: 'tools/call', tool: name, caller }
    return this.#use(call, options, async (lease) => {
      const { session } = lease
      const result = await this.#run(operation, lease)
      if (result['resultType'] !== 'task') {
        return use(toInputRequired(result) ?? this.#checkedResult(result, name, session), lease)
      }
      const task = parseTask(result)
      if (task === undefined) {
        const server = this.#label
        const message = `tool "${name}" of MCP server "${server}" became a task that has no id or status: report it to the authors of the server`
        throw new McpClientError('UNEXPECTED_RESPONSE', message, {
          server,
          tool: name,
          outcome: 'unknown',
        })
      }
      const reference = createReference(task, name, { session, idempotencyKey })
      return use(new McpTask(this.#taskOwner(options), reference, task), lease)
    })
  }

  /** The task keeps the scope and the headers of the call that it comes from, in memory. */
  #taskOwner(origin: Pick<CallOptions, 'scope' | 'headers'> = {}): TaskOwner {
    const server = this.#label
    const { scope } = origin
    const headers = this.#headersOf(origin)
    return {
      server,
      timing: this.#options.retryTiming ?? systemTiming,
      timeoutMs: this.timeoutMs,
      use: (reference, options, run) => {
        const { tool, principal } = reference
        const call = { method: 'tools/call', tool, caller: options.caller }
        const own = {
          ...options,
          scope: options.scope ?? scope,
          headers: this.#headersOf(options) ?? headers,
        }
        return this.#use(call, own, async ({ session, call: tracked, options: given }) => {
          if ((session.scope?.principal ?? null) !== principal) {
            const message = `tool "${tool}" of MCP server "${server}": the task belongs to another principal: resume it in the scope in which it was started`
            const outcome = 'unknown'
            throw new McpClientError('TASK_REFERENCE', message, { server, tool, outcome })
          }
          return run(session, { ...own, signal: given.signal }, tracked)
        })
      },
      checkedResult: (result, tool, session) => this.#checkedResult(result, tool, session),
    }
  }

  /**
   * All tools of the server, cached until the server announces a change, the session is replaced, or `forceRefresh`.
   * Concurrent callers share one request. The list is frozen.
   *
   * @param options `onLeftOut` receives each tool that cannot be used. Without it, they are warnings in the event `log`.
   * `acceptStored` also accepts the list that an earlier process has stored with its session, while that counts as
   * current: for the `ttlMs` of the server, or 5 minutes on a server with sessions
   * @throws McpClientError `INVALID_LIST` for a list with more than 64 pages or a repeated cursor
   */
  async listTools(
    options: Omit<CallOptions, 'headers'> & {
      readonly acceptStored?: boolean | undefined
      readonly forceRefresh?: boolean | undefined
      readonly onLeftOut?: ((tool: LeftOutTool) => void) | undefined
    } = {},
  ): Promise<readonly Tool[]> {
    const { acceptStored = false, forceRefresh = false, onLeftOut } = options
    return this.#use({ method: 'tools/list' }, options, async (lease) => {
      const { session } = lease
      const { current } = session.tools
      if (acceptStored && !forceRefresh && current === undefined) {
        const stored = await session.readStoredTools(lease.options.signal)
        if (stored !== undefined && stored.currentMs > 0) {
          if (onLeftOut !== undefined) stored.leftOut.forEach(onLeftOut)
          return stored.tools
        }
      }
      // A tool of an agent definition compares its list before each call.
      const tools =
        forceRefresh || current === undefined
          ? await this.#requestTools(lease, forceRefresh)
          : current
      const isNew = !this.#reported.has(tools)
      if (onLeftOut === undefined && isNew) this.#reported.add(tools)
      for (const tool of session.tools.leftOutOf(tools)) {
        const { name, reason } = tool
        if (onLeftOut !== undefined) onLeftOut(tool)
        else if (isNew) session.log('warning', `tool "${name}" is left out: ${reason}`)
      }
      return tools
    })
  }

  async #requestTools(lease: Lease, forceRefresh: boolean): Promise<readonly Tool[]> {
    const { session, options } = lease
    using deadline = new Deadline(options.timeoutMs ?? this.timeoutMs, options.signal)
    const { signal } = deadline
    try {
      const tools = await session.tools.get(
        (onRequested, shared) => this.#readTools(lease, onRequested, shared),
        { forceRefresh, signal },
      )
      await session.storeTools()
      return tools
    } catch (error) {
      if (!signal.aborted) throw McpClientError.is(error) ? copyForCaller(error) : error
      const about = {
        method: 'tools/list',
        server: this.#label,
        signal,
        outcome: 'unknown',
      } as const
      throw toOperationError(error, about)
    }
  }

  /**
   * The list of tools that an earlier process, or this one, has stored with its session, at most a day old. Sends no
   * request to the server, which may have another list by now. Undefined if there is none, or no store that outlives
   * the process.
   *
   * @throws the error of the directory
   */
  async storedTools(
    options: Omit<CallOptions, 'headers'> = {},
  ): Promise<StoredToolList | undefined> {
    if (this.#options.sessionInfoFactory === undefined) return undefined
    return this.#use({ method: 'tools/list' }, options, ({ session, options: { signal } }) =>
      session.readStoredTools(signal),
    )
  }

  /** All resources of the server, from all pages. */
  listResources(options: CallOptions = {}): Promise<readonly Resource[]> {
    return this.#list('resources/list', options, (result) => {
      const { resources: items, nextCursor } = readResult(ListResourcesResultSchema, result)
      return { items, nextCursor }
    })
  }

  /** All resource templates of the server, from all pages. */
  listResourceTemplates(options: CallOptions = {}): Promise<readonly ResourceTemplate[]> {
    return this.#list('resources/templates/list', options, (result) => {
      const { resourceTemplates: items, nextCursor } = readResult(
        ListResourceTemplatesResultSchema,
        result,
      )
      return { items, nextCursor }
    })
  }

  /** The contents of one resource. `uri` comes from `listResources()` or from a template. */
  readResource(uri: string, options: CallOptions = {}): Promise<ReadResourceResult> {
    return this.#request(
      {
        method: 'resources/read',
        resource: uri,
        params: { uri },
        schema: ReadResourceResultSchema,
        isSafe: true,
      },
      options,
    )
  }

  /** From now on the event `resourceUpdated` reports changes of the resource, also in a session that replaces this one. */
  async subscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    const operation = emptyOperation('resources/subscribe', { uri })
    await this.#use(operation, options, async (lease) => {
      await this.#run(operation, lease)
      lease.session.setSetting(uri, operation)
    })
  }

  /** Ends a subscription, also for sessions that replace a lost one. */
  async unsubscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    const operation = emptyOperation('resources/unsubscribe', { uri })
    await this.#use(operation, options, async (lease) => {
      lease.session.setSetting(uri, undefined)
      await this.#run(operation, lease)
    })
  }

  /** All prompts of the server, from all pages. */
  listPrompts(options: CallOptions = {}): Promise<readonly Prompt[]> {
    return this.#list('prompts/list', options, (result) => {
      const { prompts: items, nextCursor } = readResult(ListPromptsResultSchema, result)
      return { items, nextCursor }
    })
  }

  /** The messages of one prompt with these arguments. */
  getPrompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    options: CallOptions = {},
  ): Promise<GetPromptResult> {
    return this.#request(
      {
        method: 'prompts/get',
        prompt: name,
        params: { name, arguments: { ...args } },
        schema: GetPromptResultSchema,
        isSafe: true,
      },
      options,
    )
  }

  /** Values that the server proposes for an argument of a prompt or a resource template. */
  complete(params: CompleteRequest['params'], options: CallOptions = {}): Promise<CompleteResult> {
    return this.#request(
      { method: 'completion/complete', params, schema: CompleteResultSchema, isSafe: true },
      options,
    )
  }

  /** Sets the lowest level for the event `serverLog`, also for sessions that replace this one. */
  async setLoggingLevel(level: LoggingLevel, options: CallOptions = {}): Promise<void> {
    const operation = emptyOperation('logging/setLevel', { level })
    await this.#use(operation, options, async (lease) => {
      await this.#run(operation, lease)
      lease.session.setSetting('logging/setLevel', operation)
    })
  }

  /** Checks that the server answers. */
  async ping(options: CallOptions = {}): Promise<void> {
    await this.#request(emptyOperation('ping'), options)
  }

  /**
   * Sends any other request; the result is not checked. The request must not run twice, unless `idempotent` is true.
   */
  request(
    request: { readonly method: string; readonly params?: Readonly<Record<string, unknown>> },
    options: CallOptions & { readonly idempotent?: boolean | undefined } = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const { method, params = {} } = request
    return this.#request(
      { method, params: { ...params }, schema: ResultSchema, isSafe: false },
      options,
    )
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
    await this.#sessions.dispose(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  /** Returns the session of the current scope. Undefined without a session, or if the scope function throws. */
  #findSession(): Session | undefined {
    try {
      return this.#sessions.find()
    } catch {
      return undefined // getters and health checks do not report errors of the scope function
    }
  }

  #request<T>(operation: Operation<T>, options: CallOptions): Promise<T> {
    return this.#use({ method: operation.method }, options, (lease) => this.#run(operation, lease))
  }

  #list<Item>(
    method: string,
    options: CallOptions,
    parsePage: (result: unknown) => Page<Item>,
  ): Promise<readonly Item[]> {
    const list = { server: this.#label, method }
    const operation: Operation<readonly Item[]> = {
      method,
      isSafe: true,
      readList: (requestPage) =>
        allPages(list, async (cursor) => parsePage(await requestPage(cursor))),
    }
    return this.#request(operation, options)
  }

  #readTools({ session }: Lease, onRequested: () => void, signal: AbortSignal): Promise<ToolsRead> {
    const method = 'tools/list'
    const server = this.#label
    const operation: Operation<ToolsRead> = {
      method,
      isSafe: true,
      readList: async (requestPage) => {
        onRequested()
        const leftOut: LeftOutTool[] = []
        // A server with sessions does not say how long its list is valid, but can report changes.
        const defaultMs = session.connection?.era === 'modern' ? 0 : LIST_MS
        let ttlMs = Infinity
        const tools = await allPages({ server, method }, async (cursor) => {
          const page = parseToolPage(await requestPage(cursor))
          if (page === undefined) {
            const message = `MCP server "${server}" answered tools/list without a list of tools`
            throw new McpClientError('UNEXPECTED_RESPONSE', message, { server })
          }
          leftOut.push(...page.leftOut)
          ttlMs = Math.min(ttlMs, page.ttlMs ?? defaultMs)
          return page
        })
        return { tools, leftOut, ttlMs }
      },
    }
    // Each caller that waits for the list has its own limit. The signal aborts when the last one has left.
    const options = { signal, timeoutMs: LONGEST_MS }
    return this.#run(operation, { session, call: undefined, options })
  }

  /**
   * Returns the result if it fits the output schema of the tool, as far as that is known. Structured content that is
   * missing is only a warning: many servers declare a schema and send a text (n8n-mcp#343).
   */
  #checkedResult(result: CallToolResult, name: string, session: Session): CallToolResult {
    const tool = session.tools.find(name)
    if (tool === undefined) return result
    if (lacksStructure(tool, result)) this.#warnOfStructure(tool, session)
    const problem = outputProblem(tool, result)
    if (problem === undefined) return result
    const server = this.#label
    const message = `tool "${name}" of MCP server "${server}" has run, but its output ${problem}`
    const outcome = 'executed'
    throw new McpClientError('INVALID_OUTPUT', message, { server, tool: name, outcome, result })
  }

  #warnOfStructure({ name }: Tool, session: Session): void {
    if (this.#withoutStructure.has(name)) return
    this.#withoutStructure.set(name, true)
    session.log(
      'warning',
      `tool "${name}" declares an output schema, but its result has no structured content`,
    )
  }

  /** Calls `use` with the session that serves the call. */
  async #use<T>(
    call: OpenCall,
    options: CallOptions,
    use: (lease: Lease) => Promise<T>,
  ): Promise<T> {
    try {
      const useSession = (): Promise<T> => this.#useSession(call, options, use)
      // A list needs no state of a session, and is read while agents are built.
      const isAlone =
        options.scope === undefined && call.method.endsWith('/list') && this.#sessions.needsRun
      return await (isAlone ? inOwnRun(useSession) : useSession())
    } catch (error) {
      if (McpClientError.is(error)) {
        const { code, message } = error
        this.#lastError = { code, message, at: new Date().toISOString() }
      }
      throw error
    }
  }

  async #useSession<T>(
    call: OpenCall,
    options: CallOptions,
    use: (lease: Lease) => Promise<T>,
  ): Promise<T> {
    const asking = QUIET_METHODS.test(call.method) ? undefined : call
    const { entry, signal } = this.#sessions.acquire(options.scope)
    const { session } = entry
    const tracked = asking && session.calls?.start(asking)
    const lease: Lease = { session, call: tracked, options: withSignal(options, signal) }
    try {
      return await use(lease)
    } catch (error) {
      if (tracked !== undefined) session.calls?.failed(tracked, error)
      throw error
    } finally {
      if (tracked !== undefined) session.calls?.end(tracked)
      this.#sessions.release(entry)
    }
  }

  /**
   * The headers of an operation, as they are now. Undefined if there are none.
   *
   * @throws McpClientError `CONFIG` for another type, whose headers would be lost
   */
  #headersOf({ headers }: Pick<CallOptions, 'headers'>): CallOptions['headers'] {
    if (headers === undefined) return undefined
    if (!isRecord(headers) || Symbol.iterator in headers) {
      const message = 'headers must be an object of strings, such as { "x-tenant": "shop" }'
      throw notExecuted('CONFIG', message, { server: this.#label })
    }
    return Object.keys(headers).length === 0 ? undefined : { ...headers }
  }

  /** Runs an operation to its end, within one time limit. */
  async #run<T>(operation: Operation<T>, lease: Lease): Promise<T> {
    const { session, call, options } = lease
    const { timeout = this.#options.timeout, onProgress, idempotent = false } = options
    const isExtended = operation.tool !== undefined && timeout?.resetOnProgress === true
    // Not `using`, which takes V8 longer than the rest of this method.
    const deadline = new Deadline(
      options.timeoutMs ?? this.timeoutMs,
      options.signal,
      isExtended ? timeout.maxMs : undefined,
    )
    const attempt: Attempt = {
      lifetime: session.lifetime,
      signal: deadline.signal,
      mayRunTwice: operation.isSafe || idempotent,
      onprogress: isExtended
        ? (progress) => {
            deadline.extend()
            onProgress?.(progress)
          }
        : onProgress,
      call,
      headers: this.#headersOf(options),
      surface: options.inputRequired === 'surface',
      resume: options.resume,
      isSent: false,
    }
    try {
      return await session.observer.operation(operation, () =>
        this.#retry(operation, lease, { attempt, deadline }),
      )
    } finally {
      deadline[Symbol.dispose]()
    }
  }

  /** Sends an operation, again if that is harmless. Nothing else in this package decides to send a request twice. */
  async #retry<T>(
    operation: Operation<T>,
    { session, options }: Lease,
    { attempt, deadline }: { readonly attempt: Attempt; readonly deadline: Deadline },
  ): Promise<T> {
    const { maxRetries, retryTiming = systemTiming, replay = 'session-loss' } = this.#options
    const { idempotent = false, resume, idempotencyKey, sentAt } = options
    const { tool } = operation
    const { signal } = attempt
    const server = this.#label
    const key = idempotencyKey === undefined ? undefined : new KeyedCall(session, tool, sentAt)
    if (key !== undefined && !idempotent) attempt.assertSendable = () => key.assertSendable()
    // Earlier rounds, or an earlier process, may have executed the call.
    const isNew = resume === undefined && sentAt === undefined
    let outcome: RequestOutcome = isNew ? 'not-executed' : 'unknown'
    try {
      for (let retries = 0; ;) {
        attempt.isSent = false
        try {
          return await session.request(operation, attempt)
        } catch (error) {
          if (attempt.isSent && getOutcome(error) !== 'not-executed') outcome = 'unknown'
          attempt.resume = getTransportError(error)?.resume ?? attempt.resume
          if (signal.aborted) throw error
          const hasKey = key?.isHonoured === true
          // Without `maxRetries`, a call with a key waits for a server that is away until the time limit.
          const waits = hasKey && isAway(error)
          if (!waits || maxRetries !== undefined) retries++
          if (retries > (maxRetries ?? (hasKey ? KEYED_RETRIES : 1))) throw error
          const isTrusted =
            replay === 'idempotent' &&
            tool !== undefined &&
            session.tools.isDeclaredIdempotent(tool)
          const mayRunTwice = attempt.mayRunTwice || isTrusted
          const rules = { policy: replay, isAllowed: idempotent, mayRunTwice, hasKey }
          const asked = retryDelayMs(error, rules, deadline.leftMs)
          if (asked === undefined) throw error
          const needsKey = key?.failed(error, rules) === true
          // After a broken connection, the server may need a moment to come back.
          const delayMs =
            key !== undefined && (waits || needsKey)
              ? Math.max(asked, recoveryDelayMs(key.failures + 1, retryTiming))
              : asked
          session.log('info', `${getOperationName(operation)} is sent again`, error)
          if (delayMs > 0) await wait(retryTiming, delayMs, [signal, session.closing])
        }
      }
    } catch (error) {
      throw toOperationError(error, { ...operation, server, signal, outcome, tried: key })
    }
  }
}

/** @throws the reason of the first signal that aborts */
async function wait(
  timing: RetryTiming,
  ms: number,
  signals: readonly AbortSignal[],
): Promise<void> {
  const ended = AbortSignal.any([...signals])
  try {
    await timing.wait(ms, ended)
  } catch (error) {
    ended.throwIfAborted()
    throw error
  }
}

/** An operation without a result that has no further effect if it runs twice: ping, subscribe, unsubscribe, setLevel. */
function emptyOperation(
  method: string,
  params?: Readonly<Record<string, string>>,
): RequestOperation<unknown> {
  return { method, params, resource: params?.['uri'], schema: EmptyResultSchema, isSafe: true }
}

/** The same options, with a second signal that aborts the operation. */
function withSignal(options: CallOptions, signal: AbortSignal | undefined): CallOptions {
  const { signal: own } = options
  if (signal === undefined || signal === own) return options
  return { ...options, signal: own === undefined ? signal : AbortSignal.any([own, signal]) }
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

/** The `_meta` of the caller, with the idempotency key. */
function metaOf({
  meta,
  idempotencyKey: key,
}: CallToolOptions): Record<string, unknown> | undefined {
  return key === undefined ? meta && { ...meta } : { ...meta, [IDEMPOTENCY_KEY]: key }
}
