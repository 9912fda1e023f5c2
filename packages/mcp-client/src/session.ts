import { abortReason, FailureStreak, isRecord, readPackageVersion, untilAborted } from '@x/internal'
import { AsyncResource } from 'node:async_hooks'
import {
  EmptyResultSchema,
  ErrorCode,
  InitializeResultSchema,
  LATEST_PROTOCOL_VERSION,
  McpError,
  ResultSchema as AnyResultSchema,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { Era, ExchangeEvent, SessionInfo, TransportErrorCode } from '@x/mcp-transport'
import { DEFAULT_HANDSHAKE_MS } from './options.ts'
import type { McpClientOptions } from './options.ts'
import { findEndpoint, locateServer, storedSessionId } from './endpoint.ts'
import type { Endpoint } from './endpoint.ts'
import { Deadline } from './deadline.ts'
import type { ClientEvents } from './events.ts'
import { getTransportError, isConnectionFailure, notExecuted, toOpeningError } from './errors.ts'
import type { McpClientError } from './errors.ts'
import { pingError, pingFailure, sendPing, shortIdOf, terminateSession } from './generation.ts'
import type {
  Attempt,
  Generation,
  Operation,
  RequestOperation,
  Terminations,
} from './generation.ts'
import { messageHandlers, toCapabilities } from './handlers.ts'
import type { ClientHandlers } from './handlers.ts'
import { HandshakeContext } from './handshake-context.ts'
import { IDEMPOTENCY, isAway, systemTiming } from './retry.ts'
import { outsideRun } from './run-scope.ts'
import type { McpServer } from './directory/server-directory.ts'
import { isCommandConfig } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { resultOf, sendRequest } from './requests.ts'
import type { ServerConnection } from './requests.ts'
import { SessionCalls } from './session-calls.ts'
import type { SessionScope } from './session-scope.ts'
import { nextState, RecoveryGate, RecoveryHistory } from './session-state.ts'
import type {
  DeclinedQuestion,
  SessionEvent,
  SessionState,
  SessionStatus,
} from './session-state.ts'
import { SingleFlight } from './single-flight.ts'
import { SessionObserver } from './telemetry.ts'
import type { EndpointInfo } from './telemetry.ts'
import type { StoredToolList, StoredToolLists } from './stored-tools.ts'
import { ToolList } from './tool-list.ts'

/** Values that all sessions of one client share. */
export interface SessionSetup {
  readonly config: McpServerConfig
  readonly options: McpClientOptions
  /** Name of the server in messages. */
  readonly server: string
  readonly events: ClientEvents
  /** Era of the session that was opened last: sessions of other scopes need not probe for it. */
  knownEra: Era | undefined
  /** `keyRetentionMs` of that session. */
  knownRetentionMs: number | undefined
  lastDeclined: DeclinedQuestion | undefined
  readonly terminations: Terminations
  /** Lists of tools for the next process. */
  readonly storedTools: StoredToolLists
}

/** A request that changes the state of a session. */
type Setting = Pick<RequestOperation<unknown>, 'method' | 'params'>

const CLIENT_INFO = { name: 'mcp-client', version: readPackageVersion(import.meta.url) }
const DISPOSE_MS = 5000
/** A session that is lost while its settings are restored is replaced. After so many, the next one gets no settings. */
const MAX_SETTINGS_LOSSES = 2
/**
 * For so many milliseconds after a connection problem, the client pings the server before each request that must not
 * run twice. After that time, one successful ping ends the checks.
 */
const TROUBLE_MS = 1000

/**
 * The session with one server in one scope. Connects to the server once (phase 1), initializes an MCP session when
 * one is needed (phase 2), and replaces it when the server has lost it. Concurrent callers share one initialization.
 * Nothing of a session is ever used in another scope.
 */
export class Session {
  readonly scope: SessionScope | undefined
  readonly events: ClientEvents
  readonly tools: ToolList
  /** Attributes messages of the server to calls. Undefined without handlers. */
  readonly calls: SessionCalls | undefined
  readonly observer: SessionObserver
  readonly #setup: SessionSetup
  /** A durable store does not keep the session after its run. */
  readonly #endsWithRun: boolean
  readonly #opening = new SingleFlight<void>()
  readonly #handshake = new HandshakeContext()
  readonly #gate = new RecoveryGate()
  #history = new RecoveryHistory()
  readonly #streak = new FailureStreak()
  /** Session that is tested before the next request, because several requests in a row have failed in it. */
  #suspect: Generation | undefined
  #state: SessionState = { phase: 'created' }
  #lifetime = 0
  #closing: AbortController | undefined
  #isInitialized = false
  #endpoint: Endpoint | undefined
  /** Connections that this side closes. Their errors follow from that. */
  readonly #silenced = new WeakSet<ServerConnection>()
  /** At a URL, one connection serves all sessions; each child process has its own. */
  #connection: ServerConnection | undefined
  /** Set while connections of ended handshakes are closed. No caller waits for that. */
  #leaving: Promise<void> | undefined
  /** Async context of the call that opened the session. Requests that belong to no call get their credentials from it. */
  #context: AsyncResource | undefined
  #disposing: Promise<void> | undefined
  /** Time of the last connection problem, by `performance.now()`. */
  #troubleAt: number | undefined
  #checking: { readonly generation: Generation; readonly done: Promise<void> } | undefined
  /** Id of the session that this client opened last. `dispose()` terminates no other session by default. */
  #ownSessionId: string | undefined
  /** Option `terminate` of the current `dispose()`. */
  #terminate: boolean | undefined
  /** Requests that are repeated in each new session: the log level, and subscriptions by URI. */
  #settings: Map<string, Setting> | undefined
  #waitingTasks = 0
  /** Store of a detached session, to continue with. */
  #kept: SessionInfo | undefined

  constructor(
    setup: SessionSetup,
    scope: SessionScope | undefined,
    {
      endsWithRun,
      kept,
    }: { readonly endsWithRun: boolean; readonly kept: SessionInfo | undefined },
  ) {
    const { openTelemetry, handlers } = setup.options
    this.#setup = setup
    this.scope = scope
    this.#endsWithRun = endsWithRun
    this.#kept = kept
    this.events = setup.events.forScope(scope)
    this.tools = new ToolList(this.events)
    this.calls = handlers === undefined ? undefined : new SessionCalls()
    this.observer = new SessionObserver(openTelemetry, () => this.#endpointInfo())
  }

  /** Name of the server in messages. */
  get server(): string {
    return this.#setup.server
  }

  /** True from the first session until `dispose()`, also while a lost session is replaced. */
  get isInitialized(): boolean {
    return this.#isInitialized
  }

  /** Aborts at the next `dispose()`, with the error for operations that wait between two requests. */
  get closing(): AbortSignal {
    this.#closing ??= new AbortController()
    return this.#closing.signal
  }

  /** Changes with each `dispose()`. An operation belongs to the lifetime in which it was called. */
  get lifetime(): number {
    return this.#lifetime
  }

  /** The session in which requests are sent now. */
  get generation(): Generation | undefined {
    return this.#state.phase === 'active' ? this.#state.generation : undefined
  }

  get status(): SessionStatus {
    const { generation } = this
    const { era, protocolVersion } = (generation && this.#connection) ?? {}
    return {
      state: this.#state.phase,
      era,
      protocolVersion,
      epoch: generation?.number,
      sessionId: generation && shortIdOf(generation),
      tools: this.tools.size,
      leftOutTools: this.tools.leftOut.length === 0 ? undefined : this.tools.leftOut,
    }
  }

  async getSessionId(): Promise<string | undefined> {
    if (this.generation !== undefined) return this.generation.sessionId
    if (this.#endpoint === undefined) return undefined
    try {
      return await storedSessionId(this.#endpoint.sessionInfo)
    } catch (error) {
      this.log('warning', 'the session id could not be read from its store', error)
      return undefined
    }
  }

  // The list of tools.

  /**
   * Returns the list of tools that is stored for the next process. Sends no request to the server.
   *
   * @throws as `connect()`, if the server must be found
   */
  async readStoredTools(signal: AbortSignal | undefined): Promise<StoredToolList | undefined> {
    const { config, options, storedTools } = this.#setup
    if (!storedTools.isUsed) return undefined
    const locate = (): Promise<McpServer> =>
      locateServer({ config, options, owner: this }, signal ?? new AbortController().signal)
    const server = this.#endpoint?.server ?? (await this.#handshake.run(locate))
    return storedTools.read({ server, principal: this.scope?.principal })
  }

  /** Stores the current list of tools for the next process. Never rejects. */
  async storeTools(): Promise<void> {
    const { currentRead } = this.tools
    const { server } = this.#endpoint ?? {}
    if (currentRead === undefined || server === undefined) return
    const owner = { server, principal: this.scope?.principal }
    await this.#setup.storedTools.write(owner, currentRead, this.#connection?.era ?? 'legacy')
  }

  /** The server may have another list now. */
  invalidateTools(): void {
    this.tools.invalidate()
    const { storedTools } = this.#setup
    storedTools.remove(this.scope?.principal, this.#connection?.era ?? 'legacy')
  }

  // Requests.

  /**
   * Sends one attempt of an operation in the current session. Opens a session if there is none.
   *
   * @throws McpClientError with `outcome: 'not-executed'` if no session could be opened
   */
  async request<T>(operation: Operation<T>, attempt: Attempt): Promise<T> {
    const { signal } = attempt
    for (;;) {
      let generation = this.#generationFor(attempt)
      let wasHeld = false
      while (generation === undefined || (!wasHeld && this.#isHeld(generation))) {
        wasHeld ||= generation !== undefined
        await (generation === undefined ? this.#ready(signal) : this.#gate.opened(signal))
        // While this call waited, another call may have found that the session is lost.
        generation = this.#generationFor(attempt)
      }
      generation.inFlight++
      try {
        const check = attempt.mayRunTwice ? undefined : this.#checkAfterTrouble(generation)
        if (check !== undefined) {
          await untilAborted(check, signal)
          // During the check, another session may have replaced this one.
          if (this.#generationFor(attempt) !== generation) continue
        }
        const asserted = attempt.assertSendable?.()
        if (asserted !== undefined) {
          await untilAborted(asserted, signal)
          if (this.#generationFor(attempt) !== generation) continue
        }
        attempt.isSent = true
        const result = await this.#send(operation, attempt, generation)
        if (this.generation === generation) this.#history.addSuccess(generation)
        this.#streak.end()
        return result
      } catch (error) {
        throw this.#failed(generation, attempt, error)
      } finally {
        generation.inFlight--
        this.#gate.open()
        if (generation.inFlight === 0 && this.generation === generation) this.#gate.close()
      }
    }
  }

  /** Sends the request of an operation, or the requests for all pages of a list. */
  #send<T>(operation: Operation<T>, attempt: Attempt, generation: Generation): Promise<T> {
    const { method } = operation
    const { call, resume: answers, surface, signal, timeout, onprogress, headers } = attempt
    if (call !== undefined) this.calls?.sent(call, generation)
    const inputs = answers === undefined && surface !== true ? undefined : { answers, surface }
    const handlers = call === undefined ? undefined : messageHandlers(this, call)
    const onCancelFailed = (error: unknown): void =>
      this.log('warning', `the cancellation of ${method} was not sent`, error)
    const options = { signal, timeout, onprogress, inputs, headers, handlers, onCancelFailed }
    if ('readList' in operation) {
      return operation.readList((cursor) => {
        const page = cursor === undefined ? { method } : { method, params: { cursor } }
        const connection = this.#connectionOf(generation)
        return sendRequest(connection, page, { ...options, schema: AnyResultSchema })
      })
    }
    const { params, schema } = operation
    return sendRequest(this.#connectionOf(generation), { method, params }, { ...options, schema })
  }

  /**
   * Returns the connection of a generation. A cursor of one session has no meaning in another, so that a list must not
   * continue in the next session.
   *
   * @throws TransportError `SESSION_LOST` if the session has ended
   */
  #connectionOf(generation: Generation): ServerConnection {
    if (this.#connection !== undefined && this.generation === generation) return this.#connection
    const message = 'The session ended before the request; nothing was sent'
    throw new TransportError('SESSION_LOST', message, { certain: true, epoch: generation.number })
  }

  /** Connection of the current session. Its parts for tasks are missing for a child process. */
  get connection(): ServerConnection | undefined {
    return this.#connection
  }

  /**
   * Time for which the server honours idempotency keys, in milliseconds. Undefined if it does not, and before any session
   * of the client was open.
   */
  get keyRetentionMs(): number | undefined {
    if (this.#connection === undefined) return this.#setup.knownRetentionMs
    const { extensions, experimental } = this.#connection.serverCapabilities ?? {}
    const advertised = [extensions, experimental].map((all) =>
      isRecord(all) ? all[IDEMPOTENCY] : undefined,
    )
    const { retentionMs } = advertised.find(isRecord) ?? {}
    return typeof retentionMs === 'number' && retentionMs > 0 ? retentionMs : undefined
  }

  /**
   * Asks the server whether it honours keys now: another server may have taken over without a new session.
   *
   * @throws TransportError `UNREACHABLE` if the server is away, and the code of its refusal if it does not say
   */
  async refreshCapabilities(): Promise<void> {
    const { generation } = this
    if (generation === undefined) return
    try {
      const connection = this.#connectionOf(generation)
      await this.#inContext(() => sendPing(connection))
    } catch (cause) {
      const failure = getTransportError(cause)
      if (failure?.code === 'SESSION_LOST') throw failure.with({ outcome: 'not-executed' })
      const message = 'The server did not say whether it still honours idempotency keys'
      const { url, status, retryAfterMs } = failure ?? {}
      const about = { cause, url, status, retryAfterMs, outcome: 'not-executed' } as const
      throw new TransportError(refusalCode(cause, failure), message, about)
    }
  }

  /** Number of tasks whose result a caller awaits. */
  get waitingTasks(): number {
    return this.#waitingTasks
  }

  /** Counts a task while a caller awaits its result. Returns the function that ends this. */
  countTask(): () => void {
    this.#waitingTasks++
    return () => void this.#waitingTasks--
  }

  /** Records and logs a refused request of the server. Returns the error for the server. */
  decline(method: string, why: string): McpError {
    this.#setup.lastDeclined = { method, scope: this.scope, why, at: new Date().toISOString() }
    const message = `${method} was declined: ${why}`
    const advice = 'send it on the response stream of its call, or give each caller a session'
    this.log('warning', `${message}: ${advice}`)
    return new McpError(
      ErrorCode.InvalidRequest,
      `${message}. Call the tool again, and no other with it`,
    )
  }

  /** Sets the request that is repeated under this key in each new session, or removes it. */
  setSetting(key: string, request: Setting | undefined): void {
    this.#settings ??= new Map()
    if (request === undefined) this.#settings.delete(key)
    else this.#settings.set(key, request)
  }

  /**
   * The current generation, unless the session is being disposed of.
   *
   * @throws McpClientError for an attempt that must not be sent
   */
  #generationFor({ lifetime, headers }: Attempt): Generation | undefined {
    if (headers !== undefined && this.#isChildProcess) {
      throw this.#error(
        'CONFIG',
        'runs as a child process, which takes no HTTP headers: call it without the option headers',
      )
    }
    if (lifetime !== this.#lifetime) {
      throw this.#error('CLOSED', 'was disposed of before the request was sent')
    }
    return this.#disposing === undefined ? this.generation : undefined
  }

  /** Only a session with an id can be lost; child processes and stateless servers have none. */
  #isHeld({ sessionId, inFlight }: Generation): boolean {
    return sessionId !== undefined && this.#gate.holds(inFlight)
  }

  /** Records a failed attempt. Returns the error for the retry decision. */
  #failed(generation: Generation, { lifetime, signal }: Attempt, error: unknown): unknown {
    const failure = getTransportError(error)
    if (isConnectionFailure(failure)) this.#troubleAt = performance.now()
    if (failure?.code === 'SESSION_LOST') {
      const { epoch = generation.number } = failure
      if (epoch !== generation.number) return failure // the loss of an earlier session
      const loss = this.#history.assess(generation, failure)
      // Also without a retry left: a dead session that is kept would fail every later call.
      this.#lost(generation, loss)
      return loss
    }
    // For the transport the session is lost, because the server refused this and other requests in it.
    const isLost = generation.sessionId !== undefined && this.#connection?.sessionId === undefined
    // The reason of an aborted request says nothing about the session.
    if (isLost && failure !== undefined && failure.code !== 'CLOSED' && !signal.aborted) {
      this.#lost(generation, failure)
    } else if (lifetime === this.#lifetime && isByServer(error, failure)) {
      this.#streak.add()
      if (this.#streak.isTooLong) this.#suspectSession(generation)
    }
    return error
  }

  /**
   * Pings the server after a connection problem, so that a request that must not run twice is not sent into the same
   * problem. Returns undefined if there was none.
   *
   * @throws TransportError `UNREACHABLE` if the server does not answer: the request was not sent
   */
  #checkAfterTrouble(generation: Generation): Promise<void> | undefined {
    if (this.#troubleAt === undefined || this.#endpointInfo().isChildProcess) return undefined
    if (this.#checking?.generation === generation) return this.#checking.done
    const done = this.#inContext(() => this.#check(generation)).finally(() => {
      if (this.#checking?.done === done) this.#checking = undefined
    })
    this.#checking = { generation, done }
    return done
  }

  async #check(generation: Generation): Promise<void> {
    const failure = await pingFailure(this.#connectionOf(generation))
    if (failure === undefined) {
      const isOver = performance.now() - (this.#troubleAt ?? 0) > TROUBLE_MS
      if (isOver) this.#troubleAt = undefined
      return
    }
    if (failure.code === 'SESSION_LOST') {
      // The request itself was not sent, so it can go to a new session.
      throw failure.with({ certain: true, outcome: 'not-executed', status: undefined })
    }
    const message =
      'The server did not answer a ping after a connection problem: the request was not sent'
    throw new TransportError('UNREACHABLE', message, { cause: failure, url: failure.url })
  }

  // Opening a session.

  /** Waits until a session is open, or the disposal has ended. Joins an initialization in progress. */
  async #ready(signal: AbortSignal): Promise<void> {
    if (this.#disposing !== undefined) return untilAborted(this.#disposing, signal)
    if (this.#handshake.isInside) {
      throw this.#error(
        'REENTRANT',
        'was called from inside its own handshake, which would wait for itself',
      )
    }
    // The listening stream keeps the async context of the call that opens it. That context may be a run only if the
    // session belongs to the run.
    const open = (shared: AbortSignal): Promise<void> =>
      this.scope?.run === undefined ? outsideRun(() => this.#open(shared)) : this.#open(shared)
    await this.#opening.join(open, signal)
  }

  async #open(signal: AbortSignal): Promise<void> {
    this.#context = new AsyncResource('McpClient')
    this.#dispatch({ type: 'needed' }, 'a call needs a session')
    try {
      const endpoint = (this.#endpoint ??= await this.#findEndpoint(signal))
      this.#dispatch({ type: 'connected' }, 'server found')
      await this.#backOff(signal)
      const generation = await this.observer.handshake(
        this.#history.last !== undefined,
        () => this.#handshake.run(() => this.#initialize(endpoint, signal)),
        (opened) => ({
          ...this.#endpointInfo(opened),
          isResumed: opened.isResumed,
          era: this.#connection?.era,
        }),
      )
      if (!generation.isResumed) this.#ownSessionId = generation.sessionId
      signal.throwIfAborted()
      this.#publish(generation)
    } catch (error) {
      this.#setup.knownEra = undefined // the server may have changed it
      if (!signal.aborted) this.#streak.add()
      // A disposal needs the connection to terminate a session that may exist already.
      if (!this.#isInitialized && this.#disposing === undefined) {
        if (this.#connection !== undefined) await this.#discard(this.#connection)
        await this.#closeConnection()
        if (this.#leaving === undefined) await this.#disconnect()
        else this.#leave(this.#disconnect())
      }
      this.#dispatch({ type: 'failed' }, 'no session could be opened')
      throw signal.aborted ? abortReason(signal) : error
    }
  }

  #findEndpoint(signal: AbortSignal): Promise<Endpoint> {
    const { config, options, knownEra } = this.#setup
    const { era = 'auto' } = options
    const setup = {
      config,
      options,
      era: era === 'auto' && knownEra === 'legacy' ? 'legacy-first' : era,
      kept: this.#kept,
      owner: this,
    } as const
    return this.#handshake.run(() => findEndpoint(setup, signal))
  }

  /**
   * Phase 2, within `handshakeMs`: the MCP handshake, then the settings of the session before. After a loss, the store
   * may hold a session of another process. The client uses that session only if the server answers a ping in it: the
   * server may have lost it too.
   *
   * @throws McpClientError with `outcome: 'not-executed'`; the SDK's `McpError` if the server answered with an error;
   * the reason of `signal`
   */
  async #initialize(endpoint: Endpoint, signal: AbortSignal): Promise<Generation> {
    using deadline = new Deadline(this.#setup.options.handshakeMs ?? DEFAULT_HANDSHAKE_MS, signal)
    const known = this.#connection
    const connection = known ?? this.#connectTo(endpoint)
    try {
      const proven = known === undefined ? undefined : await this.#testSuspect(known)
      if (proven !== undefined) return proven
      const last = this.#history.last?.number
      const isFresh = this.#streak.isTooLong
      if (known === undefined) await this.#openFirst(connection, deadline.signal)
      // After an aborted handshake, the connection may have a session that no call has used.
      else await connection.replaceSession?.(last, deadline.signal, isFresh)
      if (this.#suspect !== undefined) this.#history.addLoss(suspected())
      this.#suspect = undefined
      if (isFresh) this.#streak.end()
      for (let losses = 1; losses <= MAX_SETTINGS_LOSSES; losses++) {
        const failure = await this.#restoreSettings(connection, deadline.signal)
        const isLost = isSessionLoss(failure)
        if (failure !== undefined && (!isLost || losses === MAX_SETTINGS_LOSSES)) {
          this.log('warning', 'the settings of the old session could not be restored', failure)
        }
        if (!isLost) break
        await connection.replaceSession?.(connection.epoch, deadline.signal)
      }
      if (this.#connection !== connection) {
        throw new TransportError('UNREACHABLE', whyClosed(connection.evidence))
      }
    } catch (error) {
      const { server } = this
      const { evidence } = connection
      const { loss } = this.#history
      throw toOpeningError(error, { server, signal: deadline.signal, loss, evidence })
    }
    const { epoch: number = 0, sessionId, isResumed } = connection
    return { number, sessionId, isResumed, isUnproven: false, inFlight: 0 }
  }

  /** A method of its own, because the closures in it live as long as the session, and with them all that they can see. */
  #connectTo(endpoint: Endpoint): ServerConnection {
    const { onServerRequest = ignore, onNotification = ignore } = messageHandlers(this)
    const connection: ServerConnection = endpoint.connect({
      onServerRequest,
      onNotification,
      onError: (error) => {
        // `listTools()` finds the tool in the list, and reports it once.
        if (TransportError.is(error) && error.code === 'TOOL_LEFT_OUT') return
        if (!this.#silenced.has(connection)) this.log('warning', error.message, error)
      },
      onClosed: () => this.#disconnected(connection),
    })
    return connection
  }

  /** Sends `initialize` and `notifications/initialized`, or nothing if a stored session is resumed. */
  async #openFirst(connection: ServerConnection, signal: AbortSignal): Promise<void> {
    try {
      await untilAborted(this.#handshakeWith(connection, signal), signal)
      this.#connection = connection
    } catch (error) {
      this.#silenced.add(connection) // errors that follow from closing it are not reported
      await this.#discard(connection)
      const closed = connection.close()
      // After the time limit, the server may still answer `initialize`, and the connection waits for that.
      if (signal.aborted) this.#leave(closed)
      else await closed
      throw error
    }
  }

  async #handshakeWith(connection: ServerConnection, signal: AbortSignal): Promise<void> {
    const { clientInfo = CLIENT_INFO } = this.#setup.options
    const { capabilities } = this
    const params = { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities, clientInfo }
    const answer = await connection.open(params, { signal })
    if (answer === undefined) throw abortReason(signal)
    const { protocolVersion } = InitializeResultSchema.parse(resultOf(answer))
    if (!SUPPORTED_PROTOCOL_VERSIONS.includes(protocolVersion)) {
      throw new Error(`Server's protocol version is not supported: ${protocolVersion}`)
    }
    await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
  }

  /** Handlers of the user for requests of the server. */
  get handlers(): ClientHandlers {
    return this.#setup.options.handlers ?? NO_HANDLERS
  }

  /** Capabilities that the client declares. */
  get capabilities(): ClientCapabilities {
    return toCapabilities(this.handlers, this.#setup.options.capabilities)
  }

  /** Sends the log level and the subscriptions to a new session. Returns the loss of that session, or a refusal. */
  async #restoreSettings(connection: ServerConnection, signal: AbortSignal): Promise<unknown> {
    const settings = [...(this.#settings?.values() ?? [])]
    const results = await Promise.allSettled(
      settings.map(({ method, params }) =>
        sendRequest(connection, { method, params }, { schema: EmptyResultSchema, signal }),
      ),
    )
    const failures: unknown[] = results.flatMap((one) =>
      one.status === 'rejected' ? [one.reason] : [],
    )
    return failures.find(isSessionLoss) ?? failures[0]
  }

  #publish(generation: Generation): void {
    const isSame = generation === this.#history.last
    const replaced = isSame ? undefined : this.#history.addGeneration(generation)
    this.#isInitialized = true
    // A resumed session has not been tested: the server may no longer know it.
    if (generation.isResumed) this.#gate.close()
    else this.#gate.open()
    this.tools.invalidate()
    this.#setup.knownEra = this.#connection?.era
    this.#setup.knownRetentionMs = this.keyRetentionMs
    this.#dispatch(
      { type: 'opened', generation },
      generation.isResumed ? 'session resumed' : 'session opened',
    )
    if (replaced === undefined) return
    this.invalidateTools()
    this.#emit(() => this.events.emit('sessionReplaced', replaced))
  }

  async #backOff(signal: AbortSignal): Promise<void> {
    const { retryTiming = systemTiming } = this.#setup.options
    const ms = this.#history.delayMs(retryTiming)
    if (ms > 0) await retryTiming.wait(ms, signal)
  }

  /** Terminates a session that no call will use, unless this client or the store can find it again. */
  async #discard(connection: ServerConnection): Promise<void> {
    const isKept = this.#isInitialized && this.#disposing === undefined
    if (connection.sessionId === undefined || isKept || !this.#mustTerminate(connection)) return
    await terminateSession(connection, this)
  }

  /** True if the session ends with the client. */
  #mustTerminate({ sessionId, isResumed }: ServerConnection): boolean {
    const { terminateOnClose } = this.#setup.options
    const terminate = this.#terminate ?? terminateOnClose
    // The session of a run that is over cannot be continued, even from a durable store.
    if (terminate !== undefined || this.#endsWithRun) return terminate ?? true
    const isOwn = !isResumed || sessionId === this.#ownSessionId
    return isOwn && this.#endpoint?.sessionInfo.durable !== true
  }

  // Losing a session.

  /** No request has succeeded for a while. The next one tests the session, and replaces it if the test fails. */
  #suspectSession(generation: Generation): void {
    if (this.generation !== generation || this.#connection?.replaceSession === undefined) return
    this.#suspect = generation
    this.#dispatch({ type: 'ended', generation }, 'several requests in a row have failed')
  }

  /**
   * Tests the suspect session. Returns it if the server answers a ping in it.
   *
   * @throws the error of a server that cannot be reached: it may still have the session
   */
  async #testSuspect(connection: ServerConnection): Promise<Generation | undefined> {
    const suspect = this.#suspect
    if (suspect === undefined) return undefined
    const error = await pingError(connection)
    if (getTransportError(error)?.code === 'UNREACHABLE') throw error
    if (error !== undefined) return undefined
    this.#suspect = undefined
    this.#streak.end()
    return suspect
  }

  #lost(generation: Generation, loss: TransportError): void {
    if (this.generation !== generation) return // another call has reported it, or there is a new session already
    this.#history.addLoss(loss)
    this.#streak.add()
    this.#dispatch({ type: 'ended', generation }, loss.message)
  }

  /** The connection was closed, but not by this side: a child process has ended. */
  #disconnected(connection: ServerConnection): void {
    if (this.#connection !== connection || this.#disposing !== undefined) return
    this.#connection = undefined
    const { generation } = this
    if (generation === undefined) return
    const reason = whyClosed(connection.evidence)
    this.#history.addDisconnect(reason)
    this.#dispatch({ type: 'ended', generation }, reason)
  }

  // Disposal.

  /** Returns the store of the session, to continue the session with it. Undefined if it outlives this process. */
  keepInfo(): SessionInfo | undefined {
    const info = this.#endpoint?.sessionInfo ?? this.#kept
    this.#kept = info?.durable === true ? undefined : info
    return this.#kept
  }

  /** Terminates the kept session on the server, without opening it here. Never rejects. */
  async endKept(): Promise<void> {
    await this.#setup.terminations.run(this, async () => {
      using deadline = new Deadline(DISPOSE_MS)
      try {
        await using endpoint = await this.#findEndpoint(deadline.signal)
        const connection = this.#connectTo(endpoint)
        const isAnswered = await terminateSession(connection, this)
        await connection.close()
        return isAnswered
      } catch (error) {
        this.log('warning', 'a detached session could not be terminated on the server', error)
        return false
      }
    })
  }

  /** Takes at most 5 s, and more only while other sessions are terminated. The first of several concurrent calls decides about `terminate`. */
  async dispose(terminate?: boolean): Promise<void> {
    await (this.#disposing ??= this.#startDisposing(terminate))
  }

  #startDisposing(terminate: boolean | undefined): Promise<void> | undefined {
    this.#lifetime++
    this.#closing?.abort(this.#error('CLOSED', 'was disposed of'))
    this.#closing = undefined
    this.tools.clear(this.#error('CLOSED', 'was disposed of before the request was sent'))
    this.#settings = undefined
    const isUnused = this.#state.phase === 'created' && !this.#opening.isBusy
    if (isUnused && this.#leaving === undefined) return undefined
    // A step later, when `#disposing` is set: listeners may make calls, and dispose, too.
    return Promise.resolve()
      .then(() => (isUnused ? this.#leaving : this.#inContext(() => this.#end(terminate))))
      .finally(() => {
        this.#disposing = undefined
      })
  }

  async #end(shallTerminate: boolean | undefined): Promise<void> {
    using deadline = new Deadline(DISPOSE_MS)
    const inTime = (step: Promise<unknown>, { signal }: Deadline): Promise<unknown> =>
      untilAborted(step, signal).catch((error: unknown) => {
        this.log('warning', `the client was not closed completely within ${DISPOSE_MS} ms`, error)
      })
    this.#terminate = shallTerminate
    const { generation: current } = this
    this.#dispatch({ type: 'disposing' }, 'dispose()')
    const closed = this.#error('CLOSED', 'was disposed of during the handshake')
    await inTime(this.#opening.abort(closed), deadline)
    const connection = this.#connection
    if (shallTerminate === false && current !== undefined && this.#endpointInfo().isChildProcess) {
      this.log('warning', 'its process is ended, so nobody can continue the session')
    }
    if (connection !== undefined && this.#mustTerminate(connection)) {
      const { terminations } = this.#setup
      await terminations.run(this, () => terminateSession(connection, this))
    }
    // Time that this session has waited for others does not count.
    using rest = new Deadline(DISPOSE_MS)
    await inTime(this.#closeConnection(), rest)
    await inTime(this.#disconnect(), rest)
    if (this.#leaving !== undefined) await inTime(this.#leaving, rest)
    this.#isInitialized = false
    this.#history = new RecoveryHistory()
    this.#streak.end()
    this.#suspect = undefined
    this.#terminate = undefined
    this.#context = undefined
    this.#dispatch({ type: 'disposed' }, 'everything is closed')
  }

  /** Closes the connection; calls in flight reject. Never rejects. */
  async #closeConnection(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    if (connection === undefined) return
    this.#silenced.add(connection)
    try {
      await connection.close()
    } catch (error) {
      this.log('debug', 'a session could not be closed', error)
    }
  }

  async #disconnect(): Promise<void> {
    const endpoint = this.#endpoint
    this.#endpoint = undefined
    await this.#leaving
    await endpoint?.[Symbol.asyncDispose]()
  }

  /** Lets a connection close in the background. */
  #leave(closing: Promise<void>): void {
    const before = this.#leaving
    const leaving = closing
      .catch((error: unknown) => this.log('debug', 'a session could not be closed', error))
      .then(() => before)
      .finally(() => {
        if (this.#leaving === leaving) this.#leaving = undefined
      })
    this.#leaving = leaving
  }

  #inContext<T>(run: () => T): T {
    return this.#context === undefined ? run() : this.#context.runInAsyncScope(run)
  }

  // Events.

  #dispatch(event: SessionEvent, reason: string): void {
    const from = this.#state.phase
    this.#state = nextState(this.#state, event)
    const to = this.#state.phase
    if (from !== to) this.#emit(() => this.events.emit('state', { from, to, reason }))
  }

  log(level: 'debug' | 'info' | 'warning', message: string, cause?: unknown): void {
    this.#emit(() => this.events.log(level, `${this.server}: ${message}`, cause))
  }

  emitExchange(event: ExchangeEvent): void {
    this.#emit(() => this.events.emit('exchange', event))
  }

  /** Listeners run outside of the handshake: they may call the client, because the handshake does not wait for them. */
  #emit(emit: () => void): void {
    this.#handshake.outside(emit)
  }

  #endpointInfo(generation: Generation | undefined = this.generation): EndpointInfo {
    const { mcpUrl, command } = this.#endpoint?.server ?? {}
    const url = URL.parse(mcpUrl ?? '') ?? undefined
    return {
      url,
      isChildProcess: url === undefined && command !== undefined,
      protocolVersion: generation && this.#connection?.protocolVersion,
      sessionId: generation && shortIdOf(generation),
    }
  }

  /** Known before the first session, unless a directory names the server. */
  get #isChildProcess(): boolean {
    return isCommandConfig(this.#setup.config) || this.#endpointInfo().isChildProcess
  }

  #error(code: McpClientError['code'], what: string): McpClientError {
    const { server } = this
    return notExecuted(code, `MCP server "${server}" ${what}`, { server })
  }
}

function ignore(): void {}

const NO_HANDLERS: ClientHandlers = {}

/** Returns whether a request failed at the server or on the way to it, and not on this side. */
function isByServer(error: unknown, failure: TransportError | undefined): boolean {
  if (failure === undefined) return error instanceof McpError
  return failure.code !== 'CLOSED' && failure.code !== 'CONFIG'
}

function suspected(): TransportError {
  const message = 'No request had succeeded in the session for a while, and a ping failed too'
  return new TransportError('SESSION_LOST', message, { certain: false })
}

/** Returns the code for a ping without a result. `UNREACHABLE`: the same ping may succeed later. */
function refusalCode(error: unknown, failure: TransportError | undefined): TransportErrorCode {
  if (failure === undefined)
    return error instanceof McpError ? 'UNEXPECTED_RESPONSE' : 'UNREACHABLE'
  // A ping that could not be sent in time was withdrawn, which is `CLOSED`.
  return isAway(failure) || failure.code === 'CLOSED' ? 'UNREACHABLE' : failure.code
}

function isSessionLoss(error: unknown): boolean {
  return getTransportError(error)?.code === 'SESSION_LOST'
}

function whyClosed(evidence: TransportError | undefined): string {
  return evidence?.message ?? 'the connection was closed'
}
