import { abortReason, untilAborted } from '@x/internal'
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { Era, ExchangeEvent, SessionInfo } from '@x/mcp-transport'
import { DEFAULT_HANDSHAKE_MS } from './options.ts'
import type { McpClientOptions } from './options.ts'
import { createEndpoint, isChildServer, locateServer, storedSessionId } from './endpoint.ts'
import type { Endpoint } from './endpoint.ts'
import { Deadline } from './deadline.ts'
import type { ClientEvents } from './events.ts'
import {
  getFailure,
  getTransportError,
  isConnectionFailure,
  notExecuted,
  toOpeningError,
} from './errors.ts'
import type { McpClientError } from './errors.ts'
import { messageHandlers, toCapabilities } from './handlers.ts'
import type { ClientHandlers } from './handlers.ts'
import { HandshakeContext } from './handshake-context.ts'
import { HeaderFunction } from './header-function.ts'
import { retentionOf } from './idempotency.ts'
import { McpSession, shakeHands } from './mcp-session.ts'
import { systemTiming } from './retry.ts'
import { outsideRun } from './run-scope.ts'
import type { Run } from './run-scope.ts'
import type { McpServer } from './directory/server-directory.ts'
import type { McpServerConfig } from './server-config.ts'
import type { ServerConnection } from './requests.ts'
import { SessionCalls } from './session-calls.ts'
import type { SessionScope } from './session-scope.ts'
import { nextState, ServerHealth } from './session-state.ts'
import type {
  DeclinedQuestion,
  EndedSession,
  SessionStatus,
  SlotEvent,
  SlotState,
} from './session-state.ts'
import { SingleFlight } from './single-flight.ts'
import type { StoredToolList, StoredToolLists } from './stored-tool-lists.ts'
import { SessionObserver } from './telemetry.ts'
import type { EndpointInfo } from './telemetry.ts'
import { terminateSession } from './terminations.ts'
import type { Terminations } from './terminations.ts'
import { ToolList } from './tool-list.ts'
import type { PrincipalLists } from './tool-list.ts'

/** Values that all slots of one client share. */
export interface ClientSetup {
  readonly config: McpServerConfig
  readonly options: McpClientOptions
  /** Name of the server in messages. */
  readonly server: string
  readonly events: ClientEvents
  readonly terminations: Terminations
  /** Lists of tools for the next process. */
  readonly storedTools: StoredToolLists
  /** Undefined: each session has its own list. */
  readonly principalLists: PrincipalLists | undefined
  /** Era of the session that was opened last: sessions of other scopes need not probe for it. */
  knownEra: Era | undefined
  /** Time for which that session honours idempotency keys. */
  knownRetentionMs: number | undefined
  lastDeclined: DeclinedQuestion | undefined
}

interface SlotOptions {
  /** `scopeKey()` of the scope. */
  readonly key: string
  readonly scope: SessionScope | undefined
  readonly runs: Set<Run> | undefined
  /** Store of a detached session, to continue with. */
  readonly kept: SessionInfo | undefined
  /** End of the slot before this one. */
  readonly after: Promise<void> | undefined
}

const DISPOSE_MS = 5000
/**
 * For so many milliseconds after a connection problem, the client pings the server before each request that must not
 * run twice. After that time, one successful ping ends the checks.
 */
const TROUBLE_MS = 1000

/**
 * The state of one scope: the connection to the server (phase 1), and the session in it (phase 2), which is replaced when the
 * server has lost it. Concurrent callers share one initialization. Nothing of a slot is ever used in another scope.
 *
 * Used once, until `dispose()`: then the scope gets another slot.
 */
export class ScopeSlot {
  readonly key: string
  readonly scope: SessionScope | undefined
  /** The runs that share the session, which ends with the last of them. Undefined if it belongs to no run. */
  runs: Set<Run> | undefined
  readonly events: ClientEvents
  /** Attributes messages of the server to calls. Undefined without handlers. */
  readonly calls: SessionCalls | undefined
  readonly observer: SessionObserver
  readonly headerFunction: HeaderFunction | undefined
  /** Number of operations that use the slot now. */
  inUse = 0
  /** Closes the slot if it stays unused. */
  idleTimer: NodeJS.Timeout | undefined
  /** Store of a detached session, to continue with. */
  readonly kept: SessionInfo | undefined
  /** Number of tasks whose result a caller awaits. */
  waitingTasks = 0
  readonly #setup: ClientSetup
  readonly #tools: ToolList
  readonly #opening = new SingleFlight<void>()
  readonly #handshake = new HandshakeContext()
  readonly #health = new ServerHealth()
  #after: Promise<void> | undefined
  #state: SlotState = { phase: 'created' }
  /** The server, until the endpoint is there. */
  #located: McpServer | undefined
  #locating: Promise<McpServer> | undefined
  #endpoint: Endpoint | undefined
  /** At a URL, one connection serves all sessions; each child process has its own. */
  #connection: ServerConnection | undefined
  /** Set while connections of ended handshakes are closed. No caller waits for that. */
  #leaving: Promise<void> | undefined
  #closing: AbortController | undefined
  #disposing: Promise<void> | undefined
  /** Option `terminate` of `dispose()`. */
  #terminate: boolean | undefined

  constructor(setup: ClientSetup, { key, scope, runs, kept, after }: SlotOptions) {
    const { openTelemetry, handlers } = setup.options
    this.#setup = setup
    this.key = key
    this.scope = scope
    this.runs = runs
    this.kept = kept
    this.#after = after
    this.events = setup.events.forScope(scope)
    this.#tools = new ToolList(this.events)
    this.calls = handlers === undefined ? undefined : new SessionCalls()
    this.observer = new SessionObserver(openTelemetry, () => this.#endpointInfo())
    const headers = 'headers' in setup.config ? setup.config.headers : undefined
    this.headerFunction =
      typeof headers === 'function' ? new HeaderFunction(headers, scope) : undefined
  }

  /** Name of the server in messages. */
  get server(): string {
    return this.#setup.server
  }

  /** True from the first session until `dispose()`, also while a lost session is replaced. */
  get isInitialized(): boolean {
    const state = this.#state
    if (state.phase === 'handshaking') return state.before !== undefined
    return state.phase === 'active' || state.phase === 'idle'
  }

  get isDisposed(): boolean {
    return this.#disposing !== undefined
  }

  /** True while the server can report changes in the session. A lost session is replaced only by the next request. */
  get isWatching(): boolean {
    return !this.isDisposed && this.session !== undefined
  }

  /** True until a call has seen the end of the slot before this one. */
  get isWaiting(): boolean {
    return this.#after !== undefined
  }

  /** Aborts at `dispose()`, with the error for operations that wait between two requests. */
  get closing(): AbortSignal {
    this.#closing ??= new AbortController()
    if (this.isDisposed) this.#closing.abort(this.#closedError(''))
    return this.#closing.signal
  }

  /** The session in which requests are sent now. */
  get session(): McpSession | undefined {
    return this.#state.phase === 'active' ? this.#state.session : undefined
  }

  /** Connection of the current session. Its parts for tasks are missing for a child process. */
  get connection(): ServerConnection | undefined {
    return this.#connection
  }

  get status(): SessionStatus {
    const { session } = this
    return {
      state: this.#state.phase,
      era: session?.connection.era,
      protocolVersion: session?.connection.protocolVersion,
      epoch: session?.epoch,
      sessionId: session?.shortId,
      tools: this.tools.size,
      leftOutTools: this.tools.leftOut.length === 0 ? undefined : this.tools.leftOut,
    }
  }

  async getSessionId(): Promise<string | undefined> {
    if (this.session !== undefined) return this.session.id
    if (this.#endpoint === undefined) return undefined
    try {
      return await storedSessionId(this.#endpoint.sessionInfo)
    } catch (error) {
      this.log('warning', 'the session id could not be read from its store', error)
      return undefined
    }
  }

  // The list of tools.

  /** The list of this session, or of all sessions of its principal. */
  get tools(): ToolList {
    return this.#setup.principalLists?.of(this.scope?.principal) ?? this.#tools
  }

  /**
   * Returns the list of tools that is stored for the next process. Sends no request to the server.
   *
   * @throws as `locateServer()`
   */
  async readStoredTools(signal?: AbortSignal): Promise<StoredToolList | undefined> {
    const { storedTools } = this.#setup
    if (!storedTools.isUsed) return undefined
    const server = (): Promise<McpServer> => this.#locate(signal)
    return storedTools.read({ server, principal: this.scope?.principal })
  }

  /** Stores the current list of tools for the next process. Never rejects. */
  async storeTools(): Promise<void> {
    const { tools } = this
    const { server } = this.#endpoint ?? {}
    if (tools.current === undefined || server === undefined) return
    const owner = { server: () => server, principal: this.scope?.principal }
    await this.#setup.storedTools.write(owner, tools, this.#connection?.era ?? 'legacy')
  }

  /** The server may have another list now. */
  invalidateTools(): void {
    const { storedTools, principalLists = this.#tools } = this.#setup
    principalLists.invalidate()
    storedTools.remove(this.scope?.principal, this.#connection?.era ?? 'legacy')
  }

  // Requests.

  /**
   * Returns the session for a request. Opens one if there is none, and waits while the session holds further calls.
   *
   * @throws McpClientError with `outcome: 'not-executed'` if no session could be opened, or the slot was disposed of
   */
  async ready(signal: AbortSignal): Promise<McpSession> {
    for (let wasHeld = false; ;) {
      const { session } = this
      if (this.isDisposed) throw this.#closedError()
      if (session === undefined) await this.#open(signal)
      else if (wasHeld || !session.isHolding) return session
      else {
        wasHeld = true
        await session.released(signal)
      }
    }
  }

  /**
   * Pings the server after a connection problem, so that a request that must not run twice is not sent into the same
   * problem. Returns undefined if there was none.
   *
   * @throws TransportError `UNREACHABLE` if the server does not answer: the request was not sent
   */
  checkAfterTrouble(session: McpSession): Promise<void> | undefined {
    const isHealthy = this.#health.troubleAt === undefined
    return isHealthy || this.#endpointInfo().isChildProcess ? undefined : this.#check(session)
  }

  async #check(session: McpSession): Promise<void> {
    await session.check()
    const isOver = performance.now() - (this.#health.troubleAt ?? 0) > TROUBLE_MS
    if (isOver) this.#health.troubleAt = undefined
  }

  /** @throws McpClientError `CONFIG` for a child process, before it is started */
  async assertTakesHeaders(signal: AbortSignal): Promise<void> {
    if (!isChildServer(await this.#locate(signal))) return
    throw this.#error(
      'CONFIG',
      'runs as a child process, which takes no HTTP headers: call it without the option headers',
    )
  }

  /** Records the result of a request. */
  succeeded(session: McpSession): void {
    if (this.#health.lossesInRow > 0 && this.session === session) {
      this.#health.lossesInRow = 0
      session.isUnproven = false
    }
    this.#health.end()
  }

  /** Records a failed attempt. Returns the error for the retry decision. */
  failed(session: McpSession, error: unknown, signal: AbortSignal): unknown {
    const failure = getTransportError(error)
    if (isConnectionFailure(failure)) this.#health.troubleAt = performance.now()
    if (failure?.code === 'SESSION_LOST') {
      const { epoch = session.epoch } = failure
      if (epoch !== session.epoch) return failure // the loss of an earlier session
      const loss = session.assess(failure)
      // Also without a retry left: a dead session that is kept would fail every later call.
      this.#lost(session, loss)
      return loss
    }
    // For the transport the session is lost, because the server refused this and other requests in it.
    const isLost = session.id !== undefined && this.#connection?.sessionId === undefined
    // The reason of an aborted request says nothing about the session.
    if (isLost && failure !== undefined && failure.code !== 'CLOSED' && !signal.aborted) {
      this.#lost(session, failure)
    } else if (!this.isDisposed && isByServer(error, failure)) {
      this.#health.failed(error)
      if (this.#health.isTooLong) this.#suspect(session)
    }
    return error
  }

  /** Ends the session here, so that the next request detects the era of the server again. */
  redetectEra(): void {
    const { session } = this
    if (session?.connection.replaceSession === undefined) return
    const reason = 'A task shows that the server has spoken another revision'
    this.#dispatch({ type: 'ended', session, reason, isOfOtherEra: true }, reason)
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

  /** Handlers of the user for requests of the server. */
  get handlers(): ClientHandlers {
    return this.#setup.options.handlers ?? NO_HANDLERS
  }

  /** Capabilities that the client declares. */
  get capabilities(): ClientCapabilities {
    return toCapabilities(this.handlers, this.#setup.options.capabilities)
  }

  /** Time for which the server honours idempotency keys, in milliseconds. Undefined if it does not, or is not known. */
  get keyRetentionMs(): number | undefined {
    return this.#connection === undefined
      ? this.#setup.knownRetentionMs
      : retentionOf(this.#connection)
  }

  // Opening a session.

  /** Waits until a session is open. Joins an initialization in progress. */
  async #open(signal: AbortSignal): Promise<void> {
    this.#assertOutside()
    if (this.#after !== undefined) {
      await untilAborted(this.#after, signal)
      this.#after = undefined
      if (this.isDisposed) return
    }
    // The listening stream keeps the async context of the call that opens it. That context may be a run only if the
    // session belongs to the run.
    const open = (shared: AbortSignal): Promise<void> =>
      this.scope?.run === undefined
        ? outsideRun(() => this.#openSession(shared))
        : this.#openSession(shared)
    await this.#opening.join(open, signal, (error) => this.isOfOtherHeaders(error))
  }

  /** Returns whether an error of another caller is none of this one: a function gave that caller other headers, or none. */
  async isOfOtherHeaders(error: unknown): Promise<boolean> {
    const { code } = getFailure(error) ?? {}
    const isOfHeaders = code === 'UNAUTHORIZED' || code === 'CONFIG'
    return isOfHeaders && (await this.headerFunction?.hasOthers()) === true
  }

  async #openSession(signal: AbortSignal): Promise<void> {
    if (this.isDisposed) throw this.#closedError() // while a caller waited for another one
    this.#dispatch({ type: 'needed' }, 'a call needs a session')
    try {
      const endpoint = (this.#endpoint ??= await this.#findEndpoint(signal))
      this.#dispatch({ type: 'connected' }, 'server found')
      const { retryTiming = systemTiming } = this.#setup.options
      const delayMs = this.#health.delayMs(retryTiming)
      if (delayMs > 0) await retryTiming.wait(delayMs, signal)
      const before = this.#before
      const session = await this.observer.handshake(
        before !== undefined,
        () => this.#handshake.run(() => this.#initialize(endpoint, signal)),
        (opened) => ({
          ...this.#endpointInfo(opened),
          isResumed: opened.isResumed,
          era: opened.connection.era,
        }),
      )
      signal.throwIfAborted()
      this.#publish(session, before)
    } catch (error) {
      this.#setup.knownEra = undefined // the server may have changed it
      if (!signal.aborted) this.#health.add()
      // A disposal needs the connection to terminate a session that may exist already.
      if (!this.isInitialized && !this.isDisposed) {
        if (this.#connection !== undefined) await this.#discard(this.#connection)
        await this.#closeConnection()
        if (this.#leaving === undefined) await this.#disconnect()
        else this.#leave(this.#disconnect())
      }
      this.#dispatch({ type: 'failed' }, 'no session could be opened')
      throw signal.aborted ? abortReason(signal) : error
    }
  }

  /** The session that ended before the one that is opened now. */
  get #before(): EndedSession | undefined {
    return this.#state.phase === 'handshaking' ? this.#state.before : undefined
  }

  /** Finds the server, and opens nothing. @throws as `locateServer()` */
  async #locate(signal: AbortSignal = this.closing): Promise<McpServer> {
    const known = this.#endpoint?.server ?? this.#located
    if (known !== undefined) return known
    this.#assertOutside()
    const { config, options } = this.#setup
    const about = { config, options, owner: this }
    this.#locating ??= this.#handshake
      .run(() => locateServer(about, this.closing))
      .finally(() => (this.#locating = undefined))
    return (this.#located = await untilAborted(this.#locating, signal))
  }

  /** @throws McpClientError `REENTRANT` in code that the handshake waits for */
  #assertOutside(): void {
    if (!this.#handshake.isInside) return
    const what = 'was called from inside its own handshake, which would wait for itself'
    throw this.#error('REENTRANT', what)
  }

  async #findEndpoint(signal: AbortSignal): Promise<Endpoint> {
    const { config, options, knownEra } = this.#setup
    const { era = 'auto' } = options
    const setup = {
      config,
      options,
      era: era === 'auto' && knownEra === 'legacy' ? 'legacy-first' : era,
      kept: this.kept,
      owner: this,
    } as const
    const server = await this.#locate(signal)
    try {
      return await this.#handshake.run(() => createEndpoint(server, setup, signal))
    } finally {
      this.#located = undefined // each attempt to open the first session asks the directory
    }
  }

  /**
   * Phase 2, within `handshakeMs`: the MCP handshake, in which the connection also restores the settings of the session
   * before. After a loss, the store may hold a session of another process. The client uses that session only if the server
   * answers a ping in it: the server may have lost it too.
   *
   * @throws McpClientError with `outcome: 'not-executed'`; the SDK's `McpError` if the server answered with an error;
   * the reason of `signal`
   */
  async #initialize(endpoint: Endpoint, signal: AbortSignal): Promise<McpSession> {
    using deadline = new Deadline(this.#setup.options.handshakeMs ?? DEFAULT_HANDSHAKE_MS, signal)
    const before = this.#before
    const known = this.#connection
    const connection = known ?? this.#connectTo(endpoint)
    try {
      if (before?.isSuspect === true && (connection.epoch ?? 0) === before.session.epoch) {
        if (await this.#isProven(before.session)) return before.session
      }
      const isFresh = this.#health.isTooLong || before?.isOfOtherEra === true
      if (known === undefined) await this.#openFirst(connection, deadline.signal)
      // After an aborted handshake, the connection may have a session that no call has used.
      else await connection.replaceSession?.(before?.session.epoch, deadline.signal, isFresh)
      if (isFresh) this.#health.end()
      if (this.#connection !== connection) {
        throw new TransportError('UNREACHABLE', whyClosed(connection))
      }
    } catch (error) {
      const { server } = this
      const { evidence } = connection
      const context = { server, signal: deadline.signal, loss: before?.loss, evidence }
      throw toOpeningError(error, context)
    }
    return new McpSession(connection)
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
        this.log('warning', error.message, error)
      },
      onClosed: () => this.#disconnected(connection),
    })
    return connection
  }

  /** Sends `initialize` and `notifications/initialized`, or nothing if a stored session is resumed. */
  async #openFirst(connection: ServerConnection, signal: AbortSignal): Promise<void> {
    try {
      const { capabilities } = this
      const { clientInfo } = this.#setup.options
      const opened = shakeHands(connection, { capabilities, clientInfo }, signal)
      await untilAborted(opened, signal)
      this.#connection = connection
    } catch (error) {
      await this.#discard(connection)
      const closed = connection.close()
      // After the time limit, the server may still answer `initialize`, and the connection waits for that.
      if (signal.aborted) this.#leave(closed)
      else await closed
      throw error
    }
  }

  #publish(session: McpSession, before: EndedSession | undefined): void {
    const isReplacement = before !== undefined && session !== before.session
    if (isReplacement) {
      const { loss, isSuspect = false } = before
      if (isSuspect) this.#health.lossesInRow++
      session.isUnproven = loss !== undefined || isSuspect
    }
    this.#setup.knownEra = session.connection.era
    this.#setup.knownRetentionMs = this.keyRetentionMs
    this.#dispatch(
      { type: 'opened', session },
      session.isResumed ? 'session resumed' : 'session opened',
    )
    if (!isReplacement) return
    this.invalidateTools()
    const replaced = {
      oldEpoch: before.session.epoch,
      newEpoch: session.epoch,
      oldSessionId: before.session.shortId,
      newSessionId: session.shortId,
      reason: before.reason,
    }
    this.#emit(() => this.events.emit('sessionReplaced', replaced))
  }

  /** Terminates a session that no call will use, unless this client or the store can find it again. */
  async #discard(connection: ServerConnection): Promise<void> {
    const isKept = this.isInitialized && !this.isDisposed
    if (connection.sessionId === undefined || isKept || !this.#mustTerminate(connection)) return
    await terminateSession(connection, this)
  }

  /** True if the session ends with the client. */
  #mustTerminate({ isResumed }: ServerConnection): boolean {
    const { terminateOnClose } = this.#setup.options
    const terminate = this.#terminate ?? terminateOnClose
    // The session of a run that is over cannot be continued, even from a durable store.
    if (terminate !== undefined || this.runs !== undefined) return terminate ?? true
    // By default, a session ends with the client that has opened it.
    return !isResumed && this.#endpoint?.sessionInfo.durable !== true
  }

  // Losing a session.

  #lost(session: McpSession, loss: TransportError): void {
    if (this.session !== session) return // another call has reported it, or there is a new session already
    this.#health.lossesInRow++
    this.#health.add()
    this.#dispatch({ type: 'ended', session, reason: LOST, loss }, loss.message)
  }

  /** No request has succeeded for a while. The next one tests the session, and replaces it if the test fails. */
  #suspect(session: McpSession): void {
    if (this.session !== session || session.connection.replaceSession === undefined) return
    const why = 'several requests in a row have failed'
    this.#dispatch({ type: 'ended', session, reason: LOST, isSuspect: true }, why)
  }

  /**
   * Returns true if the server answers a ping in a suspect session, which is then used again.
   *
   * @throws the error of a server that cannot be reached: it may still have the session
   */
  async #isProven(session: McpSession): Promise<boolean> {
    try {
      await session.ping()
      this.#health.end()
      return true
    } catch (error) {
      if (getTransportError(error)?.code === 'UNREACHABLE') throw error
      return false
    }
  }

  /** The connection was closed, but not by this side: a child process has ended. */
  #disconnected(connection: ServerConnection): void {
    if (this.#connection !== connection || this.isDisposed) return
    this.#connection = undefined
    const { session } = this
    if (session === undefined) return
    const reason = whyClosed(connection)
    this.#health.lossesInRow++
    this.#dispatch({ type: 'ended', session, reason }, reason)
  }

  // Disposal.

  /** The store of the session, to continue the session with it. Undefined if it outlives this process. */
  get keptInfo(): SessionInfo | undefined {
    const info = this.#endpoint?.sessionInfo ?? this.kept
    return info?.durable === true ? undefined : info
  }

  /** Terminates the kept session on the server, without opening it here. Never rejects. */
  async endKept(): Promise<void> {
    await this.#after
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

  /** Takes at most 5 s, and more only while other sessions are terminated. The first call decides about `terminate`. */
  dispose(terminate?: boolean): Promise<void> {
    return (this.#disposing ??= this.#end(terminate))
  }

  async #end(terminate: boolean | undefined): Promise<void> {
    // A step later, when `#disposing` is set: listeners may make calls, and dispose, too.
    await Promise.resolve()
    this.#closing?.abort(this.#closedError(''))
    if (this.#state.phase === 'created' && !this.#opening.isBusy) await this.#leaving
    else await this.#endSession(terminate)
    await this.#after
  }

  async #endSession(terminate: boolean | undefined): Promise<void> {
    using deadline = new Deadline(DISPOSE_MS)
    const inTime = (step: Promise<unknown>, { signal }: Deadline): Promise<unknown> =>
      untilAborted(step, signal).catch((error: unknown) => {
        this.log('warning', `the client was not closed completely within ${DISPOSE_MS} ms`, error)
      })
    this.#terminate = terminate
    const { session } = this
    this.#dispatch({ type: 'disposing' }, 'dispose()')
    const closed = this.#closedError(' during the handshake')
    await inTime(this.#opening.abort(closed), deadline)
    const connection = this.#connection
    if (terminate === false && session !== undefined && this.#endpointInfo().isChildProcess) {
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
    this.#dispatch({ type: 'disposed' }, 'everything is closed')
  }

  /** Closes the connection; calls in flight reject. Never rejects. */
  async #closeConnection(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    if (connection === undefined) return
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

  // Events.

  #dispatch(event: SlotEvent, reason: string): void {
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

  #endpointInfo(session: McpSession | undefined = this.session): EndpointInfo {
    const { server = {} } = this.#endpoint ?? {}
    return {
      url: URL.parse(server.mcpUrl ?? '') ?? undefined,
      isChildProcess: isChildServer(server),
      protocolVersion: session?.connection.protocolVersion,
      sessionId: session?.shortId,
    }
  }

  #error(code: McpClientError['code'], what: string): McpClientError {
    const { server } = this
    return notExecuted(code, `MCP server "${server}" ${what}`, { server })
  }

  #closedError(when = ' before the request was sent'): McpClientError {
    return this.#error('CLOSED', `was disposed of${when}`)
  }
}

function ignore(): void {}

const NO_HANDLERS: ClientHandlers = {}

/** Reason in the event `sessionReplaced`. */
const LOST = 'The server no longer knew the session'

/** Returns whether a request failed at the server or on the way to it, and not on this side. */
function isByServer(error: unknown, failure: TransportError | undefined): boolean {
  if (failure === undefined) return error instanceof McpError
  const { code, status } = failure
  // Without a status, the provider had no token, and nothing was sent.
  return code !== 'CLOSED' && code !== 'CONFIG' && (code !== 'UNAUTHORIZED' || status !== undefined)
}

function whyClosed({ evidence }: ServerConnection): string {
  return evidence?.message ?? 'the connection was closed'
}
