import { abortReason, untilAborted } from '@x/internal'
import { AsyncResource } from 'node:async_hooks'
import { EmptyResultSchema, ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import type { LoggingLevel } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { Era, ExchangeEvent, TraceContext } from '@x/mcp-transport'
import type { McpClientOptions } from './options.ts'
import { connect, flushed, storedSessionId } from './connection.ts'
import type { Connection, ConnectionOwner } from './connection.ts'
import { Deadline, LONGEST_MS } from './deadline.ts'
import type { ClientEvents } from './events.ts'
import { getTransportError, isConnectionFailure, McpClientError, toOpeningError } from './errors.ts'
import {
  createGeneration,
  detach,
  isClosed,
  pingFailure,
  send,
  shortIdOf,
  terminateSession,
  whyClosed,
} from './generation.ts'
import type { Attempt, Generation, Operation, SessionTransport } from './generation.ts'
import { forwardNotifications, installHandlers, toCapabilities } from './handlers.ts'
import type { ReceivingSession } from './handlers.ts'
import { HandshakeContext } from './handshake-context.ts'
import { systemTiming } from './retry.ts'
import { outsideRun } from './run-scope.ts'
import type { McpServerConfig } from './server-config.ts'
import { outsideCalls, SessionCalls } from './session-calls.ts'
import { SessionClient } from './session-client.ts'
import type { SessionScope } from './session-scope.ts'
import { nextState, RecoveryGate, RecoveryHistory } from './session-state.ts'
import type { SessionEvent, SessionState, SessionStatus } from './session-state.ts'
import { SingleFlight } from './single-flight.ts'
import { SessionObserver } from './telemetry.ts'
import type { EndpointInfo } from './telemetry.ts'
import { sharedValidator, ToolList } from './tool-list.ts'

/** Values that all sessions of one client share. */
export interface SessionSetup {
  readonly config: McpServerConfig
  readonly options: Omit<McpClientOptions, 'scope' | 'around' | 'idleScopes'>
  /** Name of the server in messages. */
  readonly server: string
  readonly events: ClientEvents
  /** Era of the session that was opened last: sessions of other scopes need not probe for it. */
  knownEra: Era | undefined
}

const SUPERSEDED = 'Another process stored its session first'
const CLIENT_INFO = { name: 'mcp-client', version: '0.1.0' }
const HANDSHAKE_MS = 30_000
const DISPOSE_MS = 5000
/**
 * For so many milliseconds after a connection problem, the client pings the server before each request that must not
 * run twice. After that time, one successful ping ends the checks.
 */
const TROUBLE_MS = 1000
/** Number of sessions of other processes that the client tries instead of a lost one. */
const MAX_TAKEN_OVER = 3
const NO_GENERATIONS: readonly Generation[] = []
const CONNECTION_CLOSED: number = ErrorCode.ConnectionClosed

/**
 * The session with one server in one scope. Connects to the server once (phase 1), initializes an MCP session when
 * one is needed (phase 2), and replaces it when the server has lost it. Concurrent callers share one initialization.
 * Nothing of a session is ever used in another scope.
 */
export class Session implements ConnectionOwner, ReceivingSession {
  readonly scope: SessionScope | undefined
  readonly events: ClientEvents
  readonly tools: ToolList
  /** Attributes messages of the server to calls. Undefined without handlers. */
  readonly calls: SessionCalls | undefined
  readonly observer: SessionObserver
  readonly #setup: SessionSetup
  readonly #isOfOneCall: boolean
  readonly #opening = new SingleFlight<void>()
  readonly #handshake = new HandshakeContext()
  readonly #gate = new RecoveryGate()
  #history = new RecoveryHistory()
  #state: SessionState = { phase: 'created' }
  #lifetime = 0
  #isInitialized = false
  #connection: Connection | undefined
  /** All generations that are open: the current one, and older ones with calls in flight. */
  #generations = NO_GENERATIONS
  /** Older generations that are being closed. */
  #closing: Set<Promise<void>> | undefined
  /** Async context of the call that opened the session. Requests that belong to no call get their credentials from it. */
  #context: AsyncResource | undefined
  #disposing: Promise<void> | undefined
  /** Time of the last connection problem, by `performance.now()`. */
  #troubleAt: number | undefined
  #checking: Promise<void> | undefined
  /** Id of a session of this client that the store replaced with the session of another process. */
  #supersededId: string | undefined
  /** Id of the session that this client opened last. `dispose()` terminates no other session by default. */
  #ownSessionId: string | undefined
  /** Option `terminate` of the current `dispose()`. */
  #terminate: boolean | undefined
  #loggingLevel: LoggingLevel | undefined
  #subscriptions: Set<string> | undefined

  /** `isOfOneCall`: the session ends with the call that it is created for. */
  constructor(setup: SessionSetup, scope: SessionScope | undefined, isOfOneCall: boolean) {
    const { openTelemetry, handlers } = setup.options
    this.#setup = setup
    this.#isOfOneCall = isOfOneCall
    this.scope = scope
    this.events = setup.events.forScope(scope)
    this.tools = new ToolList(this.events)
    this.calls = handlers === undefined ? undefined : new SessionCalls(scope)
    this.observer = new SessionObserver(openTelemetry, () => this.#endpoint())
  }

  /** Name of the server in messages. */
  get server(): string {
    return this.#setup.server
  }

  /** True from the first session until `dispose()`, also while a lost session is replaced. */
  get isInitialized(): boolean {
    return this.#isInitialized
  }

  /** Changes with each `dispose()`. An operation belongs to the lifetime in which it was called. */
  get lifetime(): number {
    return this.#lifetime
  }

  get status(): SessionStatus {
    const generation = this.#current
    const { era, protocolVersion } = generation?.transport ?? {}
    return {
      state: this.#state.phase,
      era,
      protocolVersion,
      epoch: generation?.number,
      sessionId: generation && shortIdOf(generation),
      tools: this.tools.size,
    }
  }

  async getSessionId(): Promise<string | undefined> {
    if (this.#current !== undefined) return this.#current.sessionId
    if (this.#connection === undefined) return undefined
    try {
      return await storedSessionId(this.#connection.sessionInfo)
    } catch (error) {
      this.log('warning', 'the session id could not be read from its store', error)
      return undefined
    }
  }

  // Requests.

  /**
   * Sends one attempt of an operation in the current session. Opens a session if there is none.
   *
   * @throws McpClientError with `outcome: 'not-executed'` if no session could be opened
   */
  async request<T>(operation: Operation<T>, attempt: Attempt): Promise<T> {
    const { signal } = attempt
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
      const mayRunTwice = operation.isSafe || operation.isAllowed === true
      const check = mayRunTwice ? undefined : this.#checkAfterTrouble(generation)
      if (check !== undefined) await untilAborted(check, signal)
      attempt.isSent = true
      const result = await send(operation, attempt, generation)
      if (this.#current === generation) this.#history.addSuccess(generation)
      return result
    } catch (error) {
      throw this.#failed(generation, attempt, error)
    } finally {
      this.#leave(generation)
    }
  }

  /** Sets the log level that a new session is initialized with. */
  set loggingLevel(level: LoggingLevel) {
    this.#loggingLevel = level
  }

  /** Adds a subscription that a new session is initialized with. */
  addSubscription(uri: string): void {
    this.#subscriptions ??= new Set()
    this.#subscriptions.add(uri)
  }

  removeSubscription(uri: string): void {
    this.#subscriptions?.delete(uri)
  }

  get #current(): Generation | undefined {
    return this.#state.phase === 'active' ? this.#state.generation : undefined
  }

  /** The current generation, unless the session is being disposed of. */
  #generationFor({ lifetime }: Attempt): Generation | undefined {
    if (lifetime !== this.#lifetime) {
      throw this.#error('CLOSED', 'was disposed of before the request was sent')
    }
    return this.#disposing === undefined ? this.#current : undefined
  }

  /** Only a session with an id can be lost; child processes and stateless servers have none. */
  #isHeld({ sessionId, inFlight }: Generation): boolean {
    return sessionId !== undefined && this.#gate.holds(inFlight)
  }

  #leave(generation: Generation): void {
    generation.inFlight--
    this.#gate.open()
    if (generation.inFlight > 0) return
    if (this.#current === generation) this.#gate.close()
    else this.#release(generation)
  }

  /** Records a failed attempt. Returns the error for the retry decision. */
  #failed(generation: Generation, { lifetime }: Attempt, error: unknown): unknown {
    const failure = getTransportError(error)
    if (isConnectionFailure(failure)) this.#troubleAt = performance.now()
    if (failure?.code === 'SESSION_LOST') {
      const loss = this.#history.assess(generation, failure)
      // Also without a retry left: a dead session that is kept would fail every later call.
      this.#lost(generation, loss)
      return loss
    }
    // The transport gave the session up, because the server refused this and other requests in it.
    const isGivenUp =
      generation.sessionId !== undefined && generation.transport.sessionId === undefined
    if (isGivenUp && failure !== undefined && failure.code !== 'CLOSED') {
      this.#lost(generation, failure)
    }
    // The SDK's error for a request that was about to be sent when its transport was closed.
    const isClosedLocally = error instanceof McpError && error.code === CONNECTION_CLOSED
    return lifetime !== this.#lifetime && failure === undefined && isClosedLocally
      ? new TransportError('CLOSED', 'The client was disposed of', { cause: error })
      : error
  }

  /**
   * Pings the server after a connection problem, so that a request that must not run twice is not sent into the same
   * problem. Returns undefined if there was none.
   *
   * @throws TransportError `UNREACHABLE` if the server does not answer: the request was not sent
   */
  #checkAfterTrouble(generation: Generation): Promise<void> | undefined {
    if (this.#troubleAt === undefined || this.#endpoint().isChildProcess) return undefined
    return (this.#checking ??= this.#inContext(() => this.#check(generation)).finally(() => {
      this.#checking = undefined
    }))
  }

  async #check(generation: Generation): Promise<void> {
    const failure = await pingFailure(generation)
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

  async #ready(signal: AbortSignal): Promise<void> {
    if (this.#disposing === undefined) await this.#opened(signal)
    else await untilAborted(this.#disposing, signal)
  }

  /** Waits until a session is open. Joins an initialization in progress. */
  async #opened(signal?: AbortSignal): Promise<void> {
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
    this.#context = outsideCalls(() => new AsyncResource('McpClient'))
    this.#dispatch({ type: 'needed' }, 'a call needs a session')
    try {
      const connection = (this.#connection ??= await this.#connect(signal))
      this.#dispatch({ type: 'connected' }, 'server found')
      await this.#backOff(signal)
      const generation = await this.observer.handshake(
        {
          isReplacement: this.#history.hasGeneration,
          describe: (opened) => ({
            ...this.#endpoint(opened),
            isResumed: opened.isResumed,
            era: opened.transport.era,
          }),
        },
        () => this.#handshake.run(() => this.#initialize(connection, signal)),
      )
      if (!generation.isResumed) this.#ownSessionId = generation.sessionId
      // The abort came after the handshake. No call may use this session.
      if (signal.aborted) {
        await this.#discard(generation.transport)
        await generation.client.close()
      }
      signal.throwIfAborted()
      this.#publish(generation)
    } catch (error) {
      // A disposal needs the connection to terminate a session that may exist already.
      if (!this.#isInitialized && this.#disposing === undefined) await this.#disconnect()
      this.#dispatch({ type: 'failed' }, 'no session could be opened')
      throw signal.aborted ? abortReason(signal) : error
    }
  }

  #connect(signal: AbortSignal): Promise<Connection> {
    const { config, options, knownEra } = this.#setup
    const { era = 'auto' } = options
    const setup = {
      config,
      options,
      era: era === 'auto' && knownEra === 'legacy' ? 'legacy-first' : era,
      isOfOneCall: this.#isOfOneCall,
      owner: this,
    } as const
    return this.#handshake.run(() => connect(setup, signal))
  }

  /**
   * Phase 2, within `handshakeMs`: the MCP handshake, then the settings of the session before. After a loss, the store
   * may hold a session of another process. The client uses that session only if the server answers a ping in it: the
   * server may have lost it too.
   *
   * @throws McpClientError with `outcome: 'not-executed'`; the SDK's `McpError` if the server answered with an error;
   * the reason of `signal`
   */
  async #initialize(connection: Connection, signal: AbortSignal): Promise<Generation> {
    using deadline = new Deadline(this.#setup.options.handshakeMs ?? HANDSHAKE_MS, signal)
    for (let takenOver = 0; ; takenOver++) {
      const transport = connection.createTransport()
      try {
        const generation = await this.#tryInitialize(
          transport,
          takenOver < MAX_TAKEN_OVER,
          deadline.signal,
        )
        if (generation !== undefined) return generation
      } catch (error) {
        const { server } = this
        const { evidence } = transport
        throw toOpeningError(error, {
          server,
          signal: deadline.signal,
          loss: this.#history.loss,
          evidence,
        })
      }
    }
  }

  /** Returns undefined if the server has lost the stored session. */
  async #tryInitialize(
    transport: SessionTransport,
    isChecked: boolean,
    signal: AbortSignal,
  ): Promise<Generation | undefined> {
    const generation = await this.#connectClient(transport, signal)
    const { client, isResumed, sessionId } = generation
    const isTakenOver = this.#history.loss !== undefined && isResumed
    if (isChecked && isTakenOver && sessionId !== undefined) {
      const failure = await pingFailure(generation, signal)
      if (failure !== undefined) {
        detach(generation)
        await client.close()
        if (failure.code === 'SESSION_LOST') return undefined
        throw failure
      }
    }
    if (!this.#history.hasSettings(generation)) {
      await this.#restoreSettings(client, signal).catch((error: unknown) => {
        this.log('warning', 'the settings of the old session could not be restored', error)
      })
    }
    if (isClosed(generation)) throw new TransportError('UNREACHABLE', whyClosed(generation))
    return generation
  }

  /** Sends `initialize` and `notifications/initialized`, or nothing if a stored session is resumed. */
  async #connectClient(transport: SessionTransport, signal: AbortSignal): Promise<Generation> {
    const client = this.#createClient()
    try {
      const connecting = outsideCalls(() =>
        client.connect(transport, { signal, timeout: LONGEST_MS }),
      )
      // The SDK can abort `initialize`, but not `notifications/initialized`.
      await untilAborted(connecting, signal)
    } catch (error) {
      detach({ client }) // errors that follow from closing it are not reported
      await this.#discard(transport)
      await client.close()
      await transport.close() // the SDK may have begun to close it without waiting for the end
      throw error
    }
    return createGeneration(client, transport)
  }

  /** A method of its own, because the closures in it live as long as the session, and with them all that they can see. */
  #createClient(): SessionClient {
    const { clientInfo = CLIENT_INFO, handlers = {}, capabilities } = this.#setup.options
    const client = new SessionClient(clientInfo, {
      capabilities: toCapabilities(handlers, capabilities),
      jsonSchemaValidator: sharedValidator,
    })
    client.onerror = (error) => this.log('warning', error.message, error)
    installHandlers(client, handlers, this)
    forwardNotifications(client, this)
    return client
  }

  /** Sends the log level and the subscriptions to a new session. Rejects with the first refusal. */
  async #restoreSettings(client: SessionClient, signal: AbortSignal): Promise<void> {
    const request = (method: string, params: Record<string, unknown>): Promise<unknown> =>
      client.send({ method, params }, EmptyResultSchema, { signal })
    const level = this.#loggingLevel
    await Promise.all([
      ...(level === undefined ? [] : [request('logging/setLevel', { level })]),
      ...[...(this.#subscriptions ?? [])].map((uri) => request('resources/subscribe', { uri })),
    ])
  }

  #publish(generation: Generation): void {
    const replaced = this.#history.addGeneration(generation)
    this.#isInitialized = true
    // Everything that this function can see is kept as long as the generation.
    generation.client.onclose = () => this.#disconnected(generation)
    this.#generations = [...this.#generations, generation]
    // A resumed session has not been tested: the server may no longer know it.
    if (generation.isResumed) this.#gate.close()
    else this.#gate.open()
    this.tools.invalidate()
    this.#setup.knownEra = generation.transport.era
    this.#dispatch(
      { type: 'opened', generation },
      generation.isResumed ? 'session resumed' : 'session opened',
    )
    if (replaced !== undefined) this.#emit(() => this.events.emit('sessionReplaced', replaced))
    // The store may have reported it before the handshake was over.
    if (this.#supersededId !== undefined) this.superseded(this.#supersededId)
  }

  async #backOff(signal: AbortSignal): Promise<void> {
    const { retryTiming = systemTiming } = this.#setup.options
    const ms = this.#history.delayMs(retryTiming)
    if (ms > 0) await retryTiming.wait(ms, signal)
  }

  /** Terminates a session that no call will use, unless this client or the store can find it again. */
  async #discard(transport: SessionTransport): Promise<void> {
    const isKept = this.#isInitialized && this.#disposing === undefined
    if (transport.sessionId === undefined || isKept || !this.#mustTerminate(transport)) return
    await terminateSession(transport, this)
  }

  /** True if the session ends with the client. */
  #mustTerminate({ sessionId, isResumed }: SessionTransport | Generation): boolean {
    const { terminateOnClose } = this.#setup.options
    const terminate = this.#terminate ?? (this.#isOfOneCall ? true : terminateOnClose)
    if (terminate !== undefined) return terminate
    const isOwn = !isResumed || sessionId === this.#ownSessionId
    return isOwn && this.#connection?.sessionInfo.durable !== true
  }

  // Losing a session.

  #lost(generation: Generation, loss: TransportError): void {
    if (this.#current !== generation) return // another call has reported it, or there is a new session already
    detach(generation)
    this.#history.addLoss(loss)
    this.#dispatch({ type: 'ended', generation }, loss.message)
  }

  /** The connection was closed, but not by this side: a child process has ended. */
  #disconnected(generation: Generation): void {
    if (this.#current !== generation) return
    const reason = whyClosed(generation)
    detach(generation)
    this.#history.addDisconnect(reason)
    this.#dispatch({ type: 'ended', generation }, reason)
    this.#release(generation)
  }

  /**
   * Leaves a session of this client, because the store holds the session of another process instead. Calls in flight
   * stay in the old session; later calls use the session in the store. Opens that session at once, so that the client
   * receives its notifications.
   *
   * @param sessionId The session to leave
   */
  superseded(sessionId: string): void {
    this.#supersededId = sessionId
    const generation = this.#current
    if (generation?.sessionId !== sessionId) return
    this.#supersededId = undefined
    if (!generation.isResumed) generation.isAbandoned = true
    detach(generation)
    this.#history.addSwitch(SUPERSEDED)
    this.#dispatch({ type: 'ended', generation }, SUPERSEDED)
    this.#release(generation)
    this.#inContext(() => this.#reopen()).catch((error: unknown) => {
      this.log('debug', 'the session in the store could not be opened yet', error)
    })
  }

  async #reopen(): Promise<void> {
    await this.#opened() // may join an initialization that is about to end
    if (this.#state.phase === 'idle') await this.#opened()
  }

  /** Closes an old generation without calls in flight. */
  #release(generation: Generation): void {
    const isOpen = this.#generations.includes(generation)
    if (!isOpen || this.#current === generation || generation.inFlight > 0) return
    this.#generations = this.#generations.filter((each) => each !== generation)
    const closing = this.#close(generation)
    this.#closing ??= new Set()
    this.#closing.add(closing)
    void closing.then(() => this.#closing?.delete(closing))
  }

  /** Closes a generation; its calls reject. Never rejects. */
  async #close(generation: Generation): Promise<void> {
    const { client, transport, isAbandoned } = generation
    // Only while it is open: a closed transport would look up the session in the store and terminate that one.
    if (isAbandoned && !isClosed(generation)) await terminateSession(transport, this)
    try {
      await client.close()
    } catch (error) {
      this.log('debug', 'a session could not be closed', error)
    }
  }

  // Disposal.

  /** Never takes longer than 5 s. The first of several concurrent calls decides about `terminate`. */
  async dispose(terminate?: boolean): Promise<void> {
    await (this.#disposing ??= this.#startDisposing(terminate))
  }

  #startDisposing(terminate: boolean | undefined): Promise<void> | undefined {
    this.#lifetime++
    this.tools.clear(this.#error('CLOSED', 'was disposed of before the request was sent'))
    this.#loggingLevel = undefined
    this.#subscriptions = undefined
    if (this.#state.phase === 'created' && !this.#opening.isBusy) return undefined
    // A step later, when `#disposing` is set: listeners may make calls, and dispose, too.
    return Promise.resolve()
      .then(() => this.#inContext(() => this.#end(terminate)))
      .finally(() => {
        this.#disposing = undefined
      })
  }

  async #end(shallTerminate: boolean | undefined): Promise<void> {
    using deadline = new Deadline(DISPOSE_MS)
    const inTime = (step: Promise<unknown> | undefined): Promise<unknown> =>
      untilAborted(step ?? Promise.resolve(), deadline.signal).catch((error: unknown) => {
        this.log('warning', `the client was not closed completely within ${DISPOSE_MS} ms`, error)
      })
    this.#terminate = shallTerminate
    const current = this.#current
    this.#dispatch({ type: 'disposing' }, 'dispose()')
    await inTime(this.#opening.abort(this.#error('CLOSED', 'was disposed of during the handshake')))
    const isBusy = current !== undefined && current.inFlight > 0
    const generations = this.#generations
    this.#generations = NO_GENERATIONS
    for (const generation of generations) detach(generation)
    // Calls in older generations need not wait until the current session is terminated.
    const older = generations.filter((generation) => generation !== current)
    const closed = [...older.map((each) => this.#close(each)), ...(this.#closing ?? [])]
    this.#closing = undefined
    const terminate = current !== undefined && this.#mustTerminate(current)
    if (shallTerminate === false && current !== undefined && this.#endpoint().isChildProcess) {
      this.log('warning', 'its process is ended, so nobody can continue the session')
    }
    if (terminate) await inTime(terminateSession(current.transport, this))
    // Now the store may report that it has kept another session. Calls in flight do not wait for that.
    if (!terminate && current?.sessionId !== undefined && this.#connection && !isBusy) {
      await inTime(flushed(this.#connection.sessionInfo))
      if (this.#supersededId === current.sessionId && !current.isResumed) {
        current.isAbandoned = true
      }
    }
    await inTime(Promise.all([...closed, current && this.#close(current)]))
    await inTime(this.#disconnect())
    this.#isInitialized = false
    this.#history = new RecoveryHistory()
    this.#supersededId = undefined
    this.#terminate = undefined
    this.#context = undefined
    this.#dispatch({ type: 'disposed' }, 'everything is closed')
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    await connection?.[Symbol.asyncDispose]()
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

  traceContext(): TraceContext | undefined {
    return this.observer.traceContext()
  }

  /** Listeners run outside of the handshake: they may call the client, because the handshake does not wait for them. */
  #emit(emit: () => void): void {
    this.#handshake.outside(emit)
  }

  #endpoint(generation: Generation | undefined = this.#current): EndpointInfo {
    const { mcpUrl, command } = this.#connection?.server ?? {}
    const url = URL.parse(mcpUrl ?? '') ?? undefined
    return {
      url,
      isChildProcess: url === undefined && command !== undefined,
      protocolVersion: generation?.transport.protocolVersion,
      sessionId: generation && shortIdOf(generation),
    }
  }

  #error(code: McpClientError['code'], what: string): McpClientError {
    const { server } = this
    const outcome = 'not-executed'
    return new McpClientError(code, `MCP server "${server}" ${what}`, { server, outcome })
  }
}
