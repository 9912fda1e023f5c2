import { LONGEST_MS, readPackageVersion } from '@x/internal'

import { AgentRegistry, DEBOUNCE_MS } from '../tools/agent-registry.ts'
import { Artifacts, READ_MAX_BYTES } from '../files/artifacts.ts'
import { ArtifactLinks } from '../files/links.ts'
import { ArtifactResources } from '../files/resources.ts'
import { newScopeId } from '../files/scopes.ts'
import { gatewayFiles } from '../files/run-files.ts'
import { anonymousPrincipal, type Principal } from '../internal/principal.ts'
import { checkAuthFits } from '../http/auth/combine.ts'
import { signInRefusal, type Authenticator } from '../http/auth/authenticator.ts'
import { sleep, systemClock, type Clock } from '../internal/clock.ts'
import { MAX_TTL_MS } from '../internal/setting-kinds.ts'
import { inTime } from '../internal/timers.ts'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import type { ListenOptions, CheckedOptions, GatewayOptions, SessionSettings } from '../options.ts'
import { Admission, LOOPBACK_NAMES } from '../http/admission.ts'
import { ARTIFACTS_PATH, ArtifactRoutes } from '../http/artifact-routes.ts'
import { addressFrom, forwardedAddress, RateLimits } from '../http/rate-limits.ts'
import { basePaths, endpointPaths, publicUrlsOf, type PublicUrls } from '../http/public-url.ts'
import { GatewayListeners, WRITE_TIMEOUT_MS, type GatewayListener } from '../http/server.ts'
import { UNREAD_LIMITS, UnreadBytes, type UnreadLimits } from '../http/unread-bytes.ts'
import { checkedOptions, listenChecks, stdioChecks } from './checked-options.ts'
import { gatewayMetrics, metricsRoute, type GatewayMetrics } from './metrics.ts'
import { StoreReadiness } from './store-readiness.ts'
import { loggerObserver, stderrLogger } from '../internal/logger.ts'
import { allObservers, type GatewayObserver } from '../internal/observer.ts'
import { ChangeBatches, ChangeFeed } from '../mcp/change-feed.ts'
import { GatewayHandlers, PAGE_SIZE, type HandlerParts, type McpHandlers } from '../mcp/handlers.ts'
import { OpenStreams, STREAMS_PER_ADDRESS } from '../mcp/open-streams.ts'
import { QUESTION_TIMEOUT_MS } from '../mcp/session-context.ts'
import { SessionHttp, type SessionHttpOptions } from '../mcp/session-http.ts'
import { SESSION_LIMITS, type SessionLimits } from '../mcp/sessions.ts'
import { StatelessHttp } from '../mcp/stateless-http.ts'
import { RequestStates } from '../runs/request-state.ts'
import { ResultCache } from '../tools/result-cache.ts'
import { namesAgent } from '../mcp/skill-methods.ts'
import { SkillFolder } from '../skills/skill-folder.ts'
import { SignedCursors, stateKeyFrom } from '../internal/signing.ts'
import {
  documentRoute,
  HEALTH_PATH,
  notFound,
  pathOf,
  READY_PATH,
  Router,
  type Document,
  type HttpRoute,
} from '../http/router.ts'
import { toResponse, webExchange } from '../http/web-edge.ts'
import { RPC_ERROR } from '../mcp/json-rpc.ts'
import { refused } from '../mcp/reply.ts'
import { toReply, type HttpExchange, type Reply } from '../mcp/reply.ts'
import { StdioPipe, type StdioConnection, type StdioOptions } from '../mcp/stdio.ts'
import { LocalEngine, type RunEngine } from '../runs/engine.ts'
import { Runs, STOP_GRACE_MS } from '../runs/runs.ts'
import { executeOrder } from '../mcp/tool-call.ts'
import { CallWorker } from '../runs/call-worker.ts'
import { Calls } from '../runs/calls.ts'
import { Tasks } from '../tasks/tasks.ts'
import { langGraphSource } from '../agents/langgraph/source.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { ProcessLease } from '../store/lease.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'

/** Time that responses have to reach their clients, or the store, when the gateway closes. */
const LAST_RESPONSES_MS = 1000
/** Most clients on a pipe read the list of tools once, so it waits until all sources have looked for agents. */
const STDIO_WAIT_MS = 5000
/** Time within which Redis counts the queued tasks for the metrics. */
const COUNT_MS = 1000

/** Limits that are no settings. */
const LIMITS: Limits = {
  ...SESSION_LIMITS,
  ...UNREAD_LIMITS,
  debounceMs: DEBOUNCE_MS,
  pageSize: PAGE_SIZE,
  questionTimeoutMs: QUESTION_TIMEOUT_MS,
  readMaxBytes: READ_MAX_BYTES,
  stopGraceMs: STOP_GRACE_MS,
  streamsPerAddress: STREAMS_PER_ADDRESS,
  writeTimeoutMs: WRITE_TIMEOUT_MS,
}

interface Limits extends Omit<SessionLimits, keyof SessionSettings>, UnreadLimits {
  readonly debounceMs: number
  readonly pageSize: number
  readonly questionTimeoutMs: number
  readonly readMaxBytes: number
  readonly stopGraceMs: number
  readonly streamsPerAddress: number
  readonly writeTimeoutMs: number
}

/** The files of a gateway: in the store, as resources, and by links. */
interface GatewayArtifacts {
  readonly artifacts: Artifacts
  readonly changes: ChangeBatches
  readonly links: ArtifactLinks
  readonly resources: ArtifactResources
}

/** Parts that tests and the conformance suite replace. */
export interface RuntimeEdges extends Partial<Limits> {
  /** Makes what answers requests over HTTP. @default the agents */
  readonly makeHandlers?: (parts: HandlerParts) => McpHandlers
}

/** A running gateway: makes its parts, connects them, and closes them. `createGateway()` shows the public part of it. */
export class Runtime implements AsyncDisposable {
  /** The agents, and the names of their tools. */
  readonly registry: AgentRegistry
  readonly #options: CheckedOptions
  readonly #limits: Limits
  readonly #unread: UnreadBytes
  readonly #maxBodyBytes: number
  readonly #clock: Clock
  readonly #store: GatewayStore
  readonly #readiness: StoreReadiness
  readonly #key: Uint8Array
  readonly #anonymous: Principal
  readonly #metrics: GatewayMetrics | undefined
  readonly #observer: Required<GatewayObserver>
  /** Shows other processes that this one lives. */
  readonly #lease: ProcessLease
  readonly #changes: ChangeFeed
  readonly #artifacts: GatewayArtifacts | undefined
  readonly #engine: RunEngine
  readonly #calls: Calls
  readonly #worker: CallWorker
  readonly #tasks: Tasks
  readonly #parts: HandlerParts
  readonly #handlers: McpHandlers
  /** Serves 2026-07-28. */
  readonly #modern: StatelessHttp
  /** Serves the revisions with sessions. */
  readonly #legacy: SessionHttp
  readonly #router: Router
  readonly #probes: readonly HttpRoute[]
  readonly #rates: RateLimits
  /** `undefined` without `http.publicUrl`. */
  readonly #urls: PublicUrls | undefined
  readonly #listeners: GatewayListeners
  readonly #pipes = new Set<StdioConnection>()
  /** Load balancers should send calls elsewhere. Calls are still served. */
  #isUnready = false
  /** Calls are refused. */
  #isDraining = false
  /** A load balancer may send requests here. */
  #isReachable = false
  #closing: Promise<void> | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(
    given: GatewayOptions,
    { makeHandlers = (parts) => new GatewayHandlers(parts), ...limits }: RuntimeEdges = {},
  ) {
    const options = checkedOptions('createGateway()', given)
    this.#limits = { ...LIMITS, ...limits }
    this.#unread = new UnreadBytes(this.#limits)
    const { agents, artifacts, clock = systemClock, http, sources = [], store } = options
    this.#options = options
    this.#urls = http.publicUrl === undefined ? undefined : publicUrlsOf(http.publicUrl, http.path)
    this.#clock = clock
    this.#maxBodyBytes = http.maxBodyBytes ?? (options.auth ? 4 : 1) * 1_048_576
    if (http.metricsPath !== undefined) {
      this.#metrics = gatewayMetrics({
        registry: () => this.registry,
        countQueued: () => this.#countQueued(),
        isStoreReady: () => this.#readiness.isReady(),
        unreadBytes: () => this.#unread.total,
      })
    }
    const { log = stderrLogger(), observer = {} } = options
    const logObserver = log === false ? {} : loggerObserver(log)
    this.#observer = allObservers([this.#metrics?.observer ?? {}, observer, logObserver])
    const onWarning = this.#observer.warned
    this.#store = store ?? new MemoryGatewayStore({ now: () => clock.now() })
    this.#readiness = new StoreReadiness({
      store: this.#store,
      clock,
      // close() ends a check together with the store.
      onWarning: (message, cause) => {
        if (!this.#closing) onWarning(message, cause)
      },
    })
    this.#key = stateKeyFrom({
      stateKey: options.stateKey,
      isShared: this.#store.isShared,
      isLasting: this.#store.isDurable,
      onWarning,
    })
    this.#anonymous = anonymousPrincipal()
    this.#lease = new ProcessLease(this.#store.records, clock)
    this.#changes = new ChangeFeed({
      logs: this.#store.logs,
      clock,
      onError: this.#onError,
    })
    this.#artifacts = this.#makeArtifacts()
    this.registry = new AgentRegistry({
      ...this.#limits,
      sources: agents
        ? [langGraphSource(agents, { clock, isShared: this.#store.isShared }), ...sources]
        : sources,
      tools: {
        ...options.tools,
        artifactTtlMs: artifacts.quota > 0 ? options.resultTtlMs : undefined,
        takesFiles: artifacts.quota > 0 && artifacts.upload,
        takesConversation: options.runs.mode === 'thread',
      },
      onWarning,
      clock,
    })
    this.registry.on('changed', ({ tools, prompts }) => {
      if (tools) void this.#changes.publish({ type: 'tools' })
      if (prompts) void this.#changes.publish({ type: 'prompts' })
    })
    this.#engine = options.engine ?? new LocalEngine()
    const runsOptions = {
      ...options.runs,
      ...this.#limits,
      resultTtlMs: options.resultTtlMs,
      agents: this.registry,
      records: this.#store.records,
      lease: this.#lease,
      files: gatewayFiles({
        ...artifacts,
        artifacts: this.#artifacts?.artifacts,
        inline: options.inline,
      }),
      onEvent: this.#observer.runEvent,
      clock,
    }
    const runs = new Runs(runsOptions)
    const callsOptions = {
      ...runsOptions,
      runs,
      engine: this.#engine,
      isEngineShared: options.engine !== undefined,
      logs: this.#store.isShared ? this.#store.logs : undefined,
      outlive: this.#store.isShared || this.#store.isDurable,
      onError: this.#onError,
    }
    this.#calls = new Calls(callsOptions)
    this.#worker = new CallWorker({
      ...callsOptions,
      calls: this.#calls,
      toolOf: (name) => this.registry.plan().byName(name),
      execute: (execution) => executeOrder(this.#parts, execution),
    })
    this.#tasks = new Tasks({
      calls: this.#calls,
      maxPerPrincipal: options.tasks.maxPerPrincipal,
      clock,
      onError: this.#onError,
    })
    if (options.engine === undefined) void this.#worker.work()
    this.#rates = new RateLimits(this.#store.rates, options.requestsPerMinute, this.#onError)
    this.#parts = this.#handlerParts(runs)
    this.#handlers = makeHandlers(this.#parts)
    const streams = this.#makeStreams()
    this.#modern = new StatelessHttp({
      handlers: this.#handlers,
      parts: this.#parts,
      changes: this.#changes,
      maxSubscriptions: options.sessions.max,
      streams,
      clock,
    })
    this.#legacy = this.#makeLegacy({ streams })
    this.#probes = this.#makeProbes()
    this.#router = this.#makeRouter()
    const endpoints = endpointPaths(http.publicUrl, http.path)
    this.#listeners = new GatewayListeners({
      auth: options.auth,
      http,
      maxBodyBytes: this.#maxBodyBytes,
      serve: (exchange) => this.#serve(exchange, { endpoints }),
      serveProbes: async (exchange) => {
        const path = pathOf(exchange.url)
        const isProbe = this.#probes.some((route) => route.matches(path))
        return isProbe ? this.#serve(exchange, {}) : notFound()
      },
      isStreamed: (requestPath) => this.#router.isStreamed(requestPath),
      unread: this.#unread,
      writeTimeoutMs: this.#limits.writeTimeoutMs,
      onError: this.#onError,
    })
  }

  /** Serves a request of any application with `fetch`-shaped requests. Needs no `this`. Never rejects. `context` is passed to `clientAddress`. */
  readonly fetch = async (request: Request, context?: unknown): Promise<Response> => {
    this.#isReachable = true
    void this.#start()
    const exchange = webExchange(request, this.#maxBodyBytes)
    return toResponse(await this.#serve(exchange, { context }), request.signal)
  }

  /**
   * Listens on an address.
   *
   * @throws GatewayError `LISTEN` if it cannot; `CONFIG` for an address that other machines can reach, without auth
   */
  async listen(options: ListenOptions = {}): Promise<GatewayListener> {
    assertGatewayOptions('gateway.listen()', options, listenChecks)
    const listener = await this.#listeners.listen(options)
    // A store that cannot be used is in the log from the start, not only when somebody asks for readiness.
    void this.#readiness.isReady()
    // No load balancer sends calls to an address that answers probes only.
    if (!options.probesOnly) this.#isReachable = true
    void this.#start()
    return listener
  }

  /** Serves one client on a pipe. @throws GatewayError `CONFIG` with auth: a pipe cannot carry a credential */
  serveStdio(options: StdioOptions = {}): StdioConnection {
    assertGatewayOptions('gateway.serveStdio()', options, stdioChecks)
    checkAuthFits(this.#options.auth, 'stdio')
    if (this.#closing) throw new GatewayError('CLOSED', 'The gateway was closed')
    const started = this.#start()
    const store = new MemoryGatewayStore({ now: () => this.#clock.now() })
    const pipe = new StdioPipe({
      ...options,
      caller: { principal: this.#anonymous, scope: newScopeId() },
      modern: this.#modern,
      legacy: this.#makePipeSessions(store),
      whenListable: async () => {
        await Promise.all([this.#within(STDIO_WAIT_MS, started), this.registry.whenPopulated()])
      },
      onError: this.#onError,
    })
    this.#pipes.add(pipe)
    void pipe.closed.then(() => {
      this.#pipes.delete(pipe)
      return store.close()
    })
    return pipe
  }

  /**
   * Executes tasks of all processes in this one, until `close()`. Resolves when it has begun; while the engine cannot be
   * reached, waits for it, and logs each attempt. Without this, a gateway with an engine only accepts them.
   *
   * @throws GatewayError `CONFIG` without the option `engine`, or if the engine refuses access; `CLOSED`
   */
  async work(): Promise<void> {
    if (this.#closing) throw new GatewayError('CLOSED', 'The gateway was closed')
    if (!this.#options.engine) {
      throw new GatewayError('CONFIG', 'To work, a gateway needs the option "engine"')
    }
    await this.#start()
    await this.#worker.work()
  }

  /**
   * Refuses new calls, lets calls in flight end within `http.shutdownGraceMs`, then aborts them. When it resolves, no
   * run, session, timer or socket is left.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    // The timers of the clock do not keep the process alive: it would end in the middle of a wait.
    const keepsAlive = setInterval(() => undefined, LONGEST_MS)
    try {
      await this.#closeAll()
    } finally {
      clearInterval(keepsAlive)
    }
  }

  async #closeAll(): Promise<void> {
    this.#isUnready = true
    const { drainDelayMs, shutdownGraceMs } = this.#options.http
    // Queued tasks do not come through load balancers.
    const handedOver = this.#worker.stop()
    if (this.#isReachable && drainDelayMs > 0) await sleep(this.#clock, drainDelayMs)
    this.#isDraining = true
    this.#listeners.stop()
    await this.#calls.close(shutdownGraceMs)
    await handedOver
    const answered = [this.#router.whenIdle(), this.#legacy.sessions.whenIdle()]
    await this.#within(LAST_RESPONSES_MS, Promise.all(answered))
    await Promise.all([
      this.#modern.close(),
      this.#legacy.close(),
      ...[...this.#pipes].map((pipe) => pipe.close()),
    ])
    await this.#listeners.close()
    this.#artifacts?.changes.close()
    await this.#changes.close()
    await this.#lease[Symbol.asyncDispose]().catch((cause: unknown) => {
      this.#onError(
        new Error('Other processes do not see at once that this one has ended', { cause }),
      )
    })
    await this.registry.close()
    this.#metrics?.close()
    if (this.#options.store === undefined) await this.#store.close()
  }

  /** Serves a request, with the address of its client. */
  #serve(
    exchange: HttpExchange,
    {
      endpoints,
      context,
    }: { readonly endpoints?: ReadonlySet<string>; readonly context?: unknown },
  ): Promise<Reply> {
    const { clientAddress, http } = this.#options
    try {
      if (clientAddress !== undefined) {
        exchange.address = addressFrom(clientAddress(exchange.request, context))
      } else if (http.proxies > 0) {
        exchange.address = forwardedAddress(exchange.headers, http.proxies)
      }
    } catch (cause) {
      this.#onError(new Error('clientAddress failed, so a request was refused', { cause }))
      return Promise.resolve(refused(500, RPC_ERROR.internalError, 'Internal server error'))
    }
    return this.#router.serve(exchange, endpoints)
  }

  #start(): Promise<void> {
    if (this.#closing) return this.#closing
    void this.#changes.start()
    this.#parts.skills?.entries().catch(() => {}) // the reason is in the log
    return this.registry.start()
  }

  #handlerParts({ conversations }: Runs): HandlerParts {
    const { auth, observer, resultTtlMs, runs, server, skillFolder, streaming } = this.#options
    const onWarning = this.#observer.warned
    const clock = this.#clock
    return {
      serverInfo: { name: server.name, version: readPackageVersion(import.meta.url) },
      instructions: server.description,
      registry: this.registry,
      calls: this.#calls,
      conversations,
      tasks: this.#tasks,
      resultTtlMs,
      resources: this.#artifacts?.resources,
      skills:
        skillFolder === undefined
          ? undefined
          : new SkillFolder({
              folder: skillFolder,
              clock,
              onWarning,
              onChange: (uris) => {
                const isOfTools = namesAgent(uris, this.registry.plan())
                if (isOfTools) void this.#changes.publish({ type: 'tools' })
                void this.#changes.publish({ type: 'resources' })
              },
            }),
      cursors: new SignedCursors(this.#key),
      states: new RequestStates(this.#key, runs.needsInputTtlMs),
      pageSize: this.#limits.pageSize,
      cacheScope: auth ? 'private' : 'public',
      results: new ResultCache(this.#store.records, {
        isPublic: auth === undefined,
        onWarning: this.#observer.warned,
      }),
      channel: streaming.channel,
      // Without either of them, nothing reads the time and the size of calls.
      observer: observer || this.#metrics ? this.#observer : undefined,
      clock: this.#clock,
      onError: this.#onError,
      onWarning: this.#observer.warned,
    }
  }

  #makeStreams(): OpenStreams {
    const { maxPerPrincipal } = this.#options.sessions
    return new OpenStreams(maxPerPrincipal, this.#limits.streamsPerAddress, this.#clock)
  }

  #makeLegacy(own: Pick<SessionHttpOptions, 'streams'> & Partial<SessionHttpOptions>): SessionHttp {
    return new SessionHttp({
      handlers: this.#handlers,
      store: this.#store,
      changes: this.#changes,
      lease: this.#lease,
      settings: { ...this.#options.sessions, ...this.#limits },
      questionTimeoutMs: this.#limits.questionTimeoutMs,
      observer: this.#observer,
      clock: this.#clock,
      onError: this.#onError,
      ...own,
    })
  }

  /** Makes the session of one client on a pipe: it lasts as long as the pipe. */
  #makePipeSessions(store: GatewayStore): SessionHttp {
    const { sessions } = this.#options
    const endless = { idleTtlMs: MAX_TTL_MS, absoluteTtlMs: MAX_TTL_MS, events: undefined }
    return this.#makeLegacy({
      store,
      settings: { ...sessions, ...this.#limits, ...endless },
      observer: undefined,
      streams: this.#makeStreams(),
    })
  }

  #makeRouter(): Router {
    const { artifacts: files, auth, credentials, http } = this.#options
    const { allowedOrigins: origins, publicUrl } = http
    const endpoint = this.#urls?.endpoint
    const admission = new Admission({
      hosts: hostsOf(this.#options),
      origins,
      auth,
      credentials,
      anonymous: this.#anonymous,
      rates: this.#rates,
      endpoint,
      observer: this.#observer,
    })
    const isDraining = (): boolean => this.#isDraining
    return new Router({
      modern: this.#modern,
      legacy: this.#legacy,
      routes: [
        ...(auth?.paths
          ? [authRoute(auth, auth.paths, { endpoint, observer: this.#observer })]
          : []),
        ...(this.#artifacts
          ? [
              new ArtifactRoutes({
                ...this.#artifacts,
                basePaths: basePaths(publicUrl),
                maxUploadBytes: files.upload ? files.maxBytes : undefined,
                admission,
                isDraining,
                observer: this.#observer,
                clock: this.#clock,
              }),
            ]
          : []),
        ...this.#probes,
      ],
      admission,
      observer: this.#observer,
      auth,
      maxBodyBytes: this.#maxBodyBytes,
      registry: this.registry,
      isDraining,
      onError: this.#onError,
    })
  }

  /** Answers `GET` of health and metrics for orchestrators, which address the gateway by its IP address. */
  #makeProbes(): readonly HttpRoute[] {
    const { auth, http } = this.#options
    const { metricsPath } = http
    const readiness = async (): Promise<Document> => {
      if (this.#isUnready) return healthDocument(['draining'])
      const isReady = await this.#readiness.isReady()
      const isListable = this.registry.isListable
      return healthDocument([...(isReady ? [] : ['store']), ...(isListable ? [] : ['agents'])])
    }
    return [
      documentRoute(HEALTH_PATH, async () => healthDocument([])),
      documentRoute(READY_PATH, readiness),
      ...(this.#metrics && metricsPath !== undefined
        ? [metricsRoute(metricsPath, this.#metrics, auth !== undefined)]
        : []),
    ]
  }

  #makeArtifacts(): GatewayArtifacts | undefined {
    const { artifacts: settings, resultTtlMs } = this.#options
    const { pageSize, readMaxBytes } = this.#limits
    if (settings.quota === 0) return undefined
    const common = { key: this.#key, clock: this.#clock }
    const changes = new ChangeBatches(this.#changes, this.#clock)
    const artifacts = new Artifacts({
      ...settings,
      ...common,
      ttlMs: resultTtlMs,
      readMaxBytes,
      store: this.#store,
      onChange: (change) => changes.add(change),
    })
    const baseUrl = (): string | undefined => {
      const url = this.#urls?.base ?? this.#listeners.origin
      return url === undefined ? undefined : `${url}${ARTIFACTS_PATH}`
    }
    const links = new ArtifactLinks({ ...common, baseUrl })
    const resources = new ArtifactResources({ ...common, artifacts, links, pageSize })
    return { artifacts, changes, links, resources }
  }

  /** Returns NaN if Redis is away: the other metrics are needed most then. */
  async #countQueued(): Promise<number> {
    const counting = this.#engine.countQueued?.() ?? Promise.resolve(0)
    const counted = counting.catch(() => NaN)
    return inTime(counted, { clock: this.#clock, ms: COUNT_MS, late: () => NaN })
  }

  #within(ms: number, waiting: Promise<unknown>): Promise<unknown> {
    return inTime(waiting, { clock: this.#clock, ms, late: () => undefined })
  }

  readonly #onError = (error: Error): void => {
    this.#observer.warned(error.message, error.cause)
  }
}

/** Returns the host names by which requests may address the gateway. */
function hostsOf({ auth, http }: CheckedOptions): readonly string[] | 'any' {
  const { allowedHosts, publicUrl } = http
  const own = publicUrl === undefined ? [] : [new URL(publicUrl).hostname]
  // A page that lies about its host has no credential. Without credentials the host is the only protection.
  if (auth && allowedHosts.length === 0 && own.length === 0) return 'any'
  return [...LOOPBACK_NAMES, ...own, ...allowedHosts]
}

/** `{"status":"ok"}`, or 503 with the reasons for which the gateway takes no calls now. */
function healthDocument(reasons: readonly string[]): Document {
  const isOk = reasons.length === 0
  const text = JSON.stringify(isOk ? { status: 'ok' } : { status: 'unavailable', reasons })
  return { status: isOk ? 200 : 503, mimeType: 'application/json', text }
}

function authRoute(
  auth: Authenticator,
  paths: readonly string[],
  { endpoint, observer }: { endpoint: string | undefined; observer: Required<GatewayObserver> },
): HttpRoute {
  return {
    isOpen: false,
    matches: (path) => paths.some((each) => path === each || path.startsWith(`${each}/`)),
    checksOrigin: (path) => auth.pages?.includes(path) ?? false,
    handle: async ({ request, address }) => {
      const response = await auth.handle?.(request, { address, endpoint })
      // The authenticator may be code of the user.
      if (response && typeof response.status !== 'number') throw new TypeError('Not a response')
      const reason = response && signInRefusal(response)
      if (reason) observer.requestRefused({ reason, status: response.status, address })
      return response && toReply(response)
    },
  }
}
