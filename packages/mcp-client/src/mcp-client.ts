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
import { INPUT_META_KEY, reserveAuthProvider, TransportError } from '@x/mcp-transport'
import type { Era } from '@x/mcp-transport'
import { ClientEvents } from './client-events.ts'
import { clientOptionChecks } from './client-options.ts'
import type {
  AroundOperation,
  CallOptions,
  CallToolOptions,
  McpClientEvents,
  McpClientOptions,
} from './client-options.ts'
import { Deadline } from './deadline.ts'
import type { Epoch } from './life/epoch.ts'
import { thrownFrom } from './failure.ts'
import { continuedFrom, inputRequiredFrom } from './operations/input-required.ts'
import type { InputRequired } from './operations/input-required.ts'
import { assertClientOptions, McpClientError } from './mcp-client-error.ts'
import type { Operation, RequestOptions } from './operations/operation-runner.ts'
import { allPages, listRequest } from './operations/pages.ts'
import type { ListRequest, Page } from './operations/pages.ts'
import { ScopedSession } from './scoped-session.ts'
import { clientFor } from './session-calls.ts'
import { assertServerConfig, isSlugConfig, serverConfigFrom, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import type { SessionScope } from './session-scope.ts'
import { SessionsByScope } from './sessions-by-scope.ts'
import type { AskingCall, DisposeOptions } from './sessions-by-scope.ts'
import type { LastError, McpClientStatus } from './telemetry/client-status.ts'
import { logTo } from './telemetry/logger.ts'
import type { ObservedOperation } from './telemetry/span-attributes.ts'
import { withSignal } from './operations/with-signal.ts'

/** Requests in which no server asks for anything. */
const QUIET_METHODS = /^ping$|\/list$|\/(un)?subscribe$|^logging\/setLevel$/

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
  readonly #sessions: SessionsByScope
  readonly #around: AroundOperation
  #lastError: LastError | undefined
  /** What one scope has found out of the server, others need not ask again. */
  #knownEra: Era | undefined

  /**
   * @param config a URL is short for `{ url }`
   * @throws McpClientError `CONFIG` for a config that names no server, or several, for an option that is
   * unknown or cannot be used, and for an `authProvider` that serves another origin
   */
  constructor(config: McpServerConfig | string | URL, options: McpClientOptions = {}) {
    this.#config = serverConfigFrom(config)
    const named = serverLabel(this.#config)
    assertClientOptions('McpClient', options, { checks: clientOptionChecks, server: named })
    const server = (this.#label = options.label ?? named)
    assertServerConfig(this.#config, options.secrets)
    reserveProvider(this.#config, options)
    const { scope, idleScopes, around = justRun, ...rest } = options
    if (rest.logger !== undefined) logTo(rest.logger, this.#events, server)
    this.#around = around
    const isAuto = (rest.era ?? 'auto') === 'auto'
    this.#sessions = new SessionsByScope({
      scope: typeof scope === 'function' ? scope : scope && { ...scope },
      idle: idleScopes,
      events: this.#events,
      make: (own, isOfOneCall) => {
        const events = this.#events.of(own)
        const era = this.#knownEra === 'legacy' && isAuto ? 'legacy-first' : rest.era
        const onOpened = (found: Era | undefined): void => void (this.#knownEra = found)
        const scoped = {
          ...rest,
          era,
          scope: own,
          // Nobody can go on with it: it is kept nowhere.
          ...(isOfOneCall ? { sessionInfoFactory: undefined, terminateOnClose: true } : {}),
        }
        return new ScopedSession({
          config: this.#config,
          options: scoped,
          server,
          events,
          onOpened,
        })
      },
    })
  }

  /**
   * True from the first session until `dispose()`, also while a lost session is replaced. With a scope
   * function: of the session of the present scope.
   */
  get isClientInitialized(): boolean {
    try {
      return this.#sessions.find()?.life.isInitialized ?? false
    } catch {
      return false // there is no scope now, and a getter is no place to complain of it
    }
  }

  /** The slug that this client was made with, if it was. */
  get serverSlug(): string | undefined {
    return isSlugConfig(this.#config) ? this.#config.slug : undefined
  }

  /**
   * The current session id, whole: do not log it. While there is no session, the one that the store names.
   * Undefined before the first call, on servers without sessions, and where the store fails, which is told
   * as `log`. Rejects with what the scope function throws.
   */
  async getSessionId(): Promise<string | undefined> {
    return this.#sessions.find()?.life.getSessionId()
  }

  /**
   * Where this client stands, without a request: for health checks. With a scope function: its session
   * of the present scope, as new where there is none; `sessions` has those of all scopes.
   */
  status(): McpClientStatus {
    let session: ScopedSession | undefined
    try {
      session = this.#sessions.find()
    } catch {
      // There is no scope now: a health check is no place to complain of it.
    }
    const { status = { state: 'created' as const } } = session ?? {}
    const sessions = this.#sessions.status()
    return { server: this.#label, ...status, lastError: this.#lastError, sessions }
  }

  /**
   * Returns the undo function. A listener that throws disturbs nobody. `scope` is that of the session
   * that the event is about, where there is one.
   */
  on<Name extends keyof McpClientEvents>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
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
    const { onProgress, idempotent, timeout, caller, ownSession } = options
    const call = { method: 'tools/call', tool: name, caller, ownSession }
    const meta = metaOf(options)
    const params = { name, arguments: { ...args }, ...(meta === undefined ? {} : { _meta: meta }) }
    const operation = async (
      session: ScopedSession,
      sending: CallToolOptions,
    ): Promise<CallToolResult | InputRequired> => {
      const result = await session.run(
        {
          label: `tool "${name}"`,
          tool: name,
          isSafe: false,
          isContinued: options.resume !== undefined,
          isAllowed: idempotent,
          timeout,
          onProgress,
          isDeclaredIdempotent: () => session.isDeclaredIdempotent(name),
          run: (epoch, request) =>
            clientFor(epoch).request(
              continuedFrom({ method: 'tools/call', params }, request.resume),
              CallToolResultSchema,
              request,
            ),
        },
        sending,
      )
      return inputRequiredFrom(result) ?? session.checked(name, result)
    }
    return this.#use(call, options, operation)
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
    return this.#use({ method: 'tools/list' }, options, async (session, given) => {
      const { forceRefresh = false, signal: caller, timeoutMs = session.timeoutMs } = given
      using deadline = new Deadline(timeoutMs, caller)
      const { signal } = deadline
      try {
        return await session.tools.get({ forceRefresh, signal })
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
    })
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

  /** The contents of one resource. `uri` is one of `listResources()`, or made from a template. */
  readResource(uri: string, options: CallOptions = {}): Promise<ReadResourceResult> {
    const asked = { method: 'resources/read', params: { uri } } as const
    return this.#ask({ label: asked.method, resource: uri }, options, (client, request) =>
      client.request(continuedFrom(asked, request.resume), ReadResourceResultSchema, request),
    )
  }

  /** From now on `resourceUpdated` tells when the resource changes, also after a session was replaced. */
  async subscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    await this.#use({ method: 'resources/subscribe' }, options, async (session, sending) => {
      await this.#tell(session, { method: 'resources/subscribe', params: { uri } }, sending)
      session.settings.subscribed(uri)
    })
  }

  /** The opposite: also a session that replaces a lost one is not told of it any more. */
  async unsubscribeResource(uri: string, options: CallOptions = {}): Promise<void> {
    await this.#use({ method: 'resources/unsubscribe' }, options, async (session, sending) => {
      session.settings.unsubscribed(uri)
      await this.#tell(session, { method: 'resources/unsubscribe', params: { uri } }, sending)
    })
  }

  /** All prompts of the server, from all pages. */
  listPrompts(options: CallOptions = {}): Promise<readonly Prompt[]> {
    return this.#list('prompts/list', options, async (client, request, asked) => {
      const page = await client.request(asked, ListPromptsResultSchema, request)
      return { items: page.prompts, nextCursor: page.nextCursor }
    })
  }

  /** The messages of one prompt, with these arguments in it. */
  getPrompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    options: CallOptions = {},
  ): Promise<GetPromptResult> {
    const asked = { method: 'prompts/get', params: { name, arguments: { ...args } } } as const
    return this.#ask({ label: asked.method, prompt: name }, options, (client, request) =>
      client.request(continuedFrom(asked, request.resume), GetPromptResultSchema, request),
    )
  }

  /** Values that the server proposes for an argument of a prompt or a resource template. */
  complete(params: CompleteRequest['params'], options: CallOptions = {}): Promise<CompleteResult> {
    const asked = { method: 'completion/complete', params } as const
    return this.#ask({ label: asked.method }, options, (client, request) =>
      client.request(asked, CompleteResultSchema, request),
    )
  }

  /** From which level on `serverLog` tells of the server's log, also after a session was replaced. */
  async setLoggingLevel(level: LoggingLevel, options: CallOptions = {}): Promise<void> {
    await this.#use({ method: 'logging/setLevel' }, options, async (session, sending) => {
      await this.#tell(session, { method: 'logging/setLevel', params: { level } }, sending)
      session.settings.level = level
    })
  }

  /** Asks the server for a sign of life. */
  async ping(options: CallOptions = {}): Promise<void> {
    await this.#use({ method: 'ping' }, options, (session, sending) =>
      this.#tell(session, { method: 'ping' }, sending),
    )
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
    const operation: Operation<Readonly<Record<string, unknown>>> = {
      label: method,
      isSafe: false,
      isAllowed: options.idempotent,
      run: (epoch, sending) =>
        clientFor(epoch).request({ method, params: { ...params } }, ResultSchema, sending),
    }
    return this.#use({ method }, options, (session, given) => session.run(operation, given))
  }

  /**
   * Ends everything, in at most 1 s if the server does not answer, and in at most 5 s where a store or a child
   * process takes its time: calls in flight reject with `CLOSED`, the session is ended on the
   * server or left, connections are closed. Never throws for what fails on the way. The client can be
   * used again afterwards; a call that arrives meanwhile waits and then starts anew.
   */
  async dispose(options: DisposeOptions = {}): Promise<void> {
    await this.#sessions.dispose(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  async #use<T, Options extends CallOptions>(
    call: AskingCall,
    options: Options,
    operation: (session: ScopedSession, options: Options) => Promise<T>,
  ): Promise<T> {
    const { method } = call
    const asking = QUIET_METHODS.test(method) ? undefined : call
    const run = (also?: { readonly signal: AbortSignal }): Promise<T> =>
      this.#sessions.use((session) => operation(session, withSignal(options, also?.signal)), asking)
    try {
      return await this.#around(run, { method, server: this.#label })
    } catch (error) {
      if (McpClientError.is(error)) this.#lastError = { code: error.code, at: new Date() }
      throw error
    }
  }

  /** A request that changes nothing, or may be made twice: it may be repeated. */
  #ask<T>(about: ObservedOperation, options: CallOptions, send: Send<T>): Promise<T> {
    return this.#use({ method: about.label }, options, (session, given) =>
      session.run(
        { ...about, isSafe: true, run: (epoch, request) => send(clientFor(epoch), request) },
        given,
      ),
    )
  }

  /** One that has no answer but that it was heard. */
  async #tell(
    session: ScopedSession,
    asked: { readonly method: string; readonly params?: Readonly<Record<string, string>> },
    options: CallOptions,
  ): Promise<void> {
    const operation: Operation<unknown> = {
      label: asked.method,
      resource: asked.params?.['uri'],
      isSafe: true,
      run: ({ client }, request) => client.request(asked, EmptyResultSchema, request),
    }
    await session.run(operation, options)
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
    return this.#ask({ label: method }, options, (client, request) =>
      allPages({ server: this.#label, method }, (cursor) =>
        readPage(client, request, listRequest(method, cursor)),
      ),
    )
  }
}

/** @throws McpClientError `CONFIG` for a provider that serves another origin: before anything is sent */
function reserveProvider(
  config: McpServerConfig,
  { authProvider, label: server = serverLabel(config) }: McpClientOptions,
): void {
  if (typeof authProvider !== 'object' || !('url' in config)) return
  try {
    reserveAuthProvider(authProvider, config.url)
  } catch (cause) {
    if (!TransportError.is(cause)) throw cause
    throw new McpClientError('CONFIG', cause.message, { server, outcome: 'not-executed', cause })
  }
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

function justRun<T>(operation: () => Promise<T>): Promise<T> {
  return operation()
}
