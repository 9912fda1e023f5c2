import { AsyncResource } from 'node:async_hooks'
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { Era } from '@x/mcp-transport'
import type { ClientEvents } from '../client-events.ts'
import type { ScopedOptions } from '../client-options.ts'
import { nextState } from './client-state.ts'
import type { ClientEvent, ClientState } from './client-state.ts'
import { connect, flushed, storedSessionId } from './connection.ts'
import type { Connection, ConnectOptions } from './connection.ts'
import { Deadline } from '../deadline.ts'
import { pingFailure, retireEpoch, shortIdOf, whyClosed } from './epoch.ts'
import type { Epoch } from './epoch.ts'
import { failureFrom, isTrouble } from '../failure.ts'
import { HandshakeContext } from './handshake-context.ts'
import { McpClientError } from '../mcp-client-error.ts'
import { systemTiming } from './retry-timing.ts'
import { OpenEpochs } from './open-epochs.ts'
import { outsideRun } from '../run/run-context.ts'
import type { McpServerConfig } from '../server-config.ts'
import { outsideCalls } from '../session-calls.ts'
import type { SessionCalls } from '../session-calls.ts'
import type { SessionNews } from '../session-news.ts'
import { settledOrAborted, reasonOf } from '../settled-or-aborted.ts'
import { SingleFlight } from '../single-flight.ts'
import type { SessionStatus } from '../telemetry/client-status.ts'
import { SessionObserver } from '../telemetry/session-observer.ts'
import type { Whereabouts } from '../telemetry/span-attributes.ts'
import type { SessionTransport } from './session-transport.ts'
import { shakeHands } from './shake-hands.ts'
import { Succession } from './succession.ts'
import { terminateSession } from './terminate-session.ts'

export interface ClientLifeOptions {
  readonly config: McpServerConfig
  readonly options: ScopedOptions
  /** How messages name the server. */
  readonly server: string
  readonly events: ClientEvents
  /** Told what the server says on its own; that the tools changed also whenever there is a new session. */
  readonly news: SessionNews
  /** Says which call a question of the server belongs to; absent where it has nobody to ask. */
  readonly calls?: SessionCalls | undefined
  /** Told of each session that was opened or resumed. */
  readonly onOpened: (era: Era | undefined) => void
  /** What a session that was opened anew must be told before it is used. */
  readonly restore: (epoch: Epoch, signal: AbortSignal) => Promise<void>
  /** A life ends: nothing of it may be used any more, and nothing that waits may begin. */
  readonly onDisposing: (reason: McpClientError) => void
}

/** From the first operation to `dispose()`. An operation belongs to the one in which it began. */
export interface Life {
  isOver: boolean
}

const SUPERSEDED = 'Another process stored its session first'

const DISPOSE_MS = 5000
/**
 * Time after trouble with the connection in which each request that must not run twice is preceded by a check. After
 * that time, one check that succeeds is enough.
 */
const TROUBLE_MS = 1000

/**
 * Keeps one client connected: makes its connection once per life (phase 1), opens a session whenever one
 * is needed (phase 2), and ends both. Whatever runs concurrently, there is one of each at a time.
 */
export class ClientLife {
  readonly observer: SessionObserver
  readonly #setup: ClientLifeOptions
  readonly #opening = new SingleFlight<void>()
  readonly #handshake = new HandshakeContext()
  readonly #epochs: OpenEpochs
  #state: ClientState = { phase: 'created' }
  #life: Life = { isOver: false }
  #connection: Connection | undefined
  /** The async context of the call that opened the session. Requests of no call take their credentials from it. */
  #owner: AsyncResource | undefined
  #disposing: Promise<void> | undefined
  #isInitialized = false
  /** When the server could not be reached, or a connection broke, by `performance.now()`. */
  #troubleAt: number | undefined
  #checking: Promise<void> | undefined
  #succession = new Succession()
  /** The session opened here whose place in the store has gone to another one. */
  #superseded: string | undefined
  /** The session that this client has opened last: others are not ended unless the caller says so. */
  #ownSessionId: string | undefined
  /** What `dispose()` was told. */
  #shallTerminate: boolean | undefined

  constructor(setup: ClientLifeOptions) {
    this.#setup = setup
    const { openTelemetry } = setup.options
    this.observer = new SessionObserver({ openTelemetry, where: () => this.#where() })
    this.#epochs = new OpenEpochs({
      isCurrent: (epoch) => this.#isCurrent(epoch),
      log: this.#log,
    })
  }

  get isInitialized(): boolean {
    return this.#isInitialized
  }

  async getSessionId(): Promise<string | undefined> {
    if (this.#state.phase === 'active') return this.#state.epoch.sessionId
    if (this.#connection === undefined) return undefined
    try {
      return await storedSessionId(this.#connection.sessionInfo)
    } catch (error) {
      this.#log('warning', 'the session id could not be read from its store', error)
      return undefined
    }
  }

  get status(): SessionStatus {
    const { era, protocolVersion } = this.#epoch?.transport ?? {}
    return {
      state: this.#state.phase,
      era,
      protocolVersion,
      epoch: this.#epoch?.number,
      sessionId: this.#epoch && shortIdOf(this.#epoch),
    }
  }

  /** The present life. A call that arrives while the last one is being ended waits for the next. */
  enter(signal: AbortSignal): Life | Promise<Life> {
    return this.#disposing === undefined ? this.#life : this.#next(signal)
  }

  /**
   * Sends something in the current session, which is opened if there is none.
   *
   * @throws McpClientError with `outcome: 'not-executed'` if it did not come to that
   */
  async use<T>(
    send: (epoch: Epoch) => Promise<T>,
    { life, signal }: { readonly life: Life; readonly signal: AbortSignal },
  ): Promise<T> {
    let epoch = this.#current(life)
    let wasHeld = false
    while (epoch === undefined || (!wasHeld && this.#epochs.holds(epoch))) {
      wasHeld ||= epoch !== undefined
      await (epoch === undefined ? this.#opened(signal) : this.#epochs.whenLetGo(signal))
      // Asked again: while this call was woken up, another one may have found the session lost.
      epoch = this.#current(life)
    }
    this.#epochs.enter(epoch)
    try {
      const result = await send(epoch)
      if (this.#isCurrent(epoch)) this.#succession.succeeded(epoch)
      return result
    } catch (error) {
      const failure = failureFrom(error)
      if (isTrouble(failure)) this.#troubleAt = performance.now()
      if (failure?.code === 'SESSION_LOST') {
        const loss = this.#succession.judged(epoch, failure)
        // Also without a retry left: a dead session that is kept would fail every later call.
        this.#lost(epoch, loss)
        throw loss
      }
      // The transport has given the session up, after this and other requests were refused in it.
      const isGivenUp = epoch.sessionId !== undefined && epoch.transport.sessionId === undefined
      if (isGivenUp && failure !== undefined && failure.code !== 'CLOSED')
        this.#lost(epoch, failure)
      throw life.isOver && failure === undefined && isClosedLocally(error)
        ? new TransportError('CLOSED', 'The client was disposed of', { cause: error })
        : error
    } finally {
      this.#epochs.leave(epoch)
    }
  }

  /**
   * For a request that must not run twice: given after the connection broke, or the server could not be reached.
   * Resolves when the server answers again, so that the request is not sent into the same trouble.
   *
   * @throws TransportError `UNREACHABLE` if it does not: nothing was sent of the request
   */
  checkAfterTrouble(epoch: Epoch): Promise<void> | undefined {
    if (this.#troubleAt === undefined || this.#where().isChildProcess) return undefined
    return (this.#checking ??= this.#asOwner(() => this.#check(epoch)).finally(() => {
      this.#checking = undefined
    }))
  }

  async #check(epoch: Epoch): Promise<void> {
    const failure = await pingFailure(epoch)
    if (failure === undefined) {
      const isOver = performance.now() - (this.#troubleAt ?? 0) > TROUBLE_MS
      if (isOver) this.#troubleAt = undefined
      return
    }
    if (failure.code === 'SESSION_LOST') {
      // Whatever became of the check: the request itself was not sent, and can go to a new session.
      throw failure.with({ certain: true, outcome: 'not-executed', status: undefined })
    }
    const message =
      'The server did not answer a check after trouble with its connection: the request was not sent'
    throw new TransportError('UNREACHABLE', message, { cause: failure, url: failure.url })
  }

  /** Idempotent, and never takes longer than `DISPOSE_MS`. Who comes first decides on `terminate`. */
  async dispose(options: { readonly terminate?: boolean | undefined } = {}): Promise<void> {
    await (this.#disposing ??= this.#startDisposing(options.terminate))
  }

  async #next(signal: AbortSignal): Promise<Life> {
    while (this.#disposing !== undefined) await settledOrAborted(this.#disposing, signal)
    return this.#life
  }

  // Opening.

  #current(life: Life): Epoch | undefined {
    if (life.isOver) throw this.#error('CLOSED', 'was disposed of before the request was sent')
    return this.#state.phase === 'active' ? this.#state.epoch : undefined
  }

  async #opened(signal?: AbortSignal): Promise<void> {
    if (this.#handshake.isInside) {
      throw this.#error(
        'REENTRANT',
        'was called from inside its own handshake, which would wait for itself',
      )
    }
    // What a session listens with goes on in the context of who opened it: in that of a run only if it
    // belongs to the run.
    const isOfRun = this.#setup.options.scope?.run !== undefined
    const open = (shared: AbortSignal): Promise<void> =>
      isOfRun ? this.#open(shared) : outsideRun(() => this.#open(shared))
    await this.#opening.join(open, signal)
  }

  async #open(signal: AbortSignal): Promise<void> {
    this.#owner = outsideCalls(() => new AsyncResource('McpClient'))
    this.#dispatch({ type: 'needed' }, 'a call needs a session')
    try {
      const connection = (this.#connection ??= await this.#connect(signal))
      this.#dispatch({ type: 'connected' }, 'server found')
      await this.#backOff(signal)
      const epoch = await this.observer.handshake(
        {
          isReplacement: this.#succession.hasBegun,
          seen: (opened) => ({
            ...this.#where(opened),
            isResumed: opened.isResumed,
            era: opened.transport.era,
          }),
        },
        () => this.#handshake.run(() => this.#shakeHands(connection, signal)),
      )
      if (!epoch.isResumed) this.#ownSessionId = epoch.sessionId
      // The abort came too late for the handshake. Nobody may see this session.
      if (signal.aborted) {
        await this.#discard(epoch.transport)
        await epoch.client.close()
      }
      signal.throwIfAborted()
      this.#publish(epoch)
    } catch (error) {
      // A disposal needs the connection, to end a session that may exist already.
      if (!this.#isInitialized && this.#disposing === undefined) await this.#disconnect()
      this.#dispatch({ type: 'failed' }, 'no session could be opened')
      throw signal.aborted ? reasonOf(signal) : error
    }
  }

  /** A session that nobody waits for stays only where this client, or the store, can find it again. */
  async #discard(transport: SessionTransport): Promise<void> {
    const isKept = this.#isInitialized && this.#disposing === undefined
    if (transport.sessionId === undefined || isKept || !this.#isToBeEnded(transport)) return
    await terminateSession(transport, this.#log)
  }

  /** Whether the session ends with the client. */
  #isToBeEnded({ sessionId, isResumed }: SessionTransport | Epoch): boolean {
    const told = this.#shallTerminate ?? this.#setup.options.terminateOnClose
    if (told !== undefined) return told
    const isOwn = !isResumed || sessionId === this.#ownSessionId
    return isOwn && this.#connection?.sessionInfo.durable !== true
  }

  #connect(signal: AbortSignal): Promise<Connection> {
    const { config, options } = this.#setup
    return this.#handshake.run(() => connect({ config, options, signal, ...this.#callbacks() }))
  }

  /** In a method of its own: a connection keeps these, and with them all that is known where they are made. */
  #callbacks(): Omit<ConnectOptions, 'config' | 'options' | 'signal'> {
    const { events } = this.#setup
    return {
      onExchange: (event) => this.#tell(() => events.emit('exchange', event)),
      events,
      onCloseError: (error) => this.#log('debug', 'closing failed', error),
      onSuperseded: (sessionId) => this.#onSuperseded(sessionId),
      log: (level, message) => this.#tell(() => events.log(level, message)),
      traceContext: () => this.observer.traceContext(),
    }
  }

  #shakeHands(connection: Connection, signal: AbortSignal): Promise<Epoch> {
    const { options, server, news, calls, restore } = this.#setup
    const succession = this.#succession
    const log = this.#log
    const discard = (transport: SessionTransport): Promise<void> => this.#discard(transport)
    const shared = { connection, options, server, news, calls, restore, succession, signal, log }
    return shakeHands({ ...shared, discard })
  }

  #publish(epoch: Epoch): void {
    const { events, news, onOpened } = this.#setup
    const replaced = this.#succession.continueWith(epoch)
    this.#isInitialized = true
    // It stays with the epoch, and so does all that is known here: nothing of the one before may be.
    epoch.client.onclose = () => this.#gone(epoch)
    this.#epochs.add(epoch)
    news.sessionOpened()
    onOpened(epoch.transport.era)
    this.#dispatch(
      { type: 'opened', epoch },
      epoch.isResumed ? 'session resumed' : 'session opened',
    )
    if (replaced !== undefined) this.#tell(() => events.emit('sessionReplaced', replaced))
    // The store may have said so before the handshake was over.
    if (this.#superseded !== undefined) this.#onSuperseded(this.#superseded)
  }

  async #backOff(signal: AbortSignal): Promise<void> {
    const { retryTiming = systemTiming } = this.#setup.options
    const ms = this.#succession.delayMs(retryTiming)
    if (ms > 0) await retryTiming.wait(ms, signal)
  }

  get #epoch(): Epoch | undefined {
    return this.#state.phase === 'active' ? this.#state.epoch : undefined
  }

  #where(epoch: Epoch | undefined = this.#epoch): Whereabouts {
    const { mcpUrl, command } = this.#connection?.server ?? {}
    const url = URL.parse(mcpUrl ?? '') ?? undefined
    return {
      url,
      isChildProcess: url === undefined && command !== undefined,
      protocolVersion: epoch?.transport.protocolVersion,
      sessionId: epoch && shortIdOf(epoch),
    }
  }

  // Losing.

  #isCurrent(epoch: Epoch): boolean {
    return this.#state.phase === 'active' && this.#state.epoch === epoch
  }

  #lost(epoch: Epoch, loss: TransportError): void {
    if (!this.#isCurrent(epoch)) return // another call has seen it before, or there is a new session already
    retireEpoch(epoch)
    this.#succession.refused(loss)
    this.#dispatch({ type: 'ended', epoch }, loss.message)
  }

  /**
   * Goes over to the session that the store names: calls in flight stay where they are, all later ones go
   * there. At once, because of what the server says there on its own.
   */
  #onSuperseded(sessionId: string): void {
    this.#superseded = sessionId
    const epoch = this.#epoch
    if (epoch?.sessionId !== sessionId) return
    this.#superseded = undefined
    if (!epoch.isResumed) this.#epochs.orphan(epoch)
    retireEpoch(epoch)
    this.#succession.left(SUPERSEDED)
    this.#dispatch({ type: 'ended', epoch }, SUPERSEDED)
    this.#epochs.release(epoch)
    this.#asOwner(() => this.#reopen()).catch((error: unknown) => {
      this.#log('debug', 'the session in the store could not be gone over to yet', error)
    })
  }

  async #reopen(): Promise<void> {
    await this.#opened() // perhaps only the end of the opening that is just under way
    if (this.#state.phase === 'idle') await this.#opened()
  }

  /** Not closed by this side: a child process that has ended, with everything that it knew. */
  #gone(epoch: Epoch): void {
    if (!this.#isCurrent(epoch)) return
    const reason = whyClosed(epoch)
    retireEpoch(epoch)
    this.#succession.broken(reason)
    this.#dispatch({ type: 'ended', epoch }, reason)
    this.#epochs.release(epoch)
  }

  // The end.

  #startDisposing(terminate: boolean | undefined): Promise<void> | undefined {
    this.#life.isOver = true
    this.#life = { isOver: false }
    this.#setup.onDisposing(this.#error('CLOSED', 'was disposed of before the request was sent'))
    if (this.#state.phase === 'created' && !this.#opening.isBusy) return undefined
    // Not before this is known as the disposal in progress: listeners may call, and dispose, too.
    return Promise.resolve()
      .then(() => this.#asOwner(() => this.#end(terminate)))
      .finally(() => {
        this.#disposing = undefined
      })
  }

  async #end(shallTerminate: boolean | undefined): Promise<void> {
    using deadline = new Deadline(DISPOSE_MS)
    const inTime = (step: Promise<unknown> | undefined): Promise<unknown> =>
      settledOrAborted(step ?? Promise.resolve(), deadline.signal).catch((error: unknown) => {
        this.#log('warning', 'the end of the client was not awaited', error)
      })
    this.#shallTerminate = shallTerminate
    const current = this.#state.phase === 'active' ? this.#state.epoch : undefined
    this.#dispatch({ type: 'disposing' }, 'dispose()')
    await inTime(this.#opening.abort(this.#error('CLOSED', 'was disposed of during the handshake')))
    const isBusy = current !== undefined && this.#epochs.isBusy(current)
    const { epochs, closing } = this.#epochs.takeAll()
    for (const epoch of epochs) retireEpoch(epoch)
    // Their calls need not wait until the current session has been ended.
    const older = epochs.filter((epoch) => epoch !== current)
    const closed = [...older.map((epoch) => this.#epochs.close(epoch)), ...closing]
    const terminate = current !== undefined && this.#isToBeEnded(current)
    if (shallTerminate === false && current !== undefined && this.#where().isChildProcess) {
      this.#log('warning', 'its process is ended, and nobody can go on with the session', undefined)
    }
    if (terminate) await inTime(terminateSession(current.transport, this.#log))
    // Only now the store may say that it has kept another one. Calls in flight do not wait for that.
    if (!terminate && current?.sessionId !== undefined && this.#connection && !isBusy) {
      await inTime(flushed(this.#connection.sessionInfo))
      if (this.#superseded === current.sessionId && !current.isResumed) {
        this.#epochs.orphan(current)
      }
    }
    await inTime(Promise.all([...closed, current && this.#epochs.close(current)]))
    await inTime(this.#disconnect())
    this.#isInitialized = false
    this.#succession = new Succession()
    this.#superseded = undefined
    this.#shallTerminate = undefined
    this.#owner = undefined
    this.#dispatch({ type: 'disposed' }, 'everything is closed')
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    await connection?.[Symbol.asyncDispose]()
  }

  #asOwner<T>(run: () => T): T {
    return this.#owner === undefined ? run() : this.#owner.runInAsyncScope(run)
  }

  // Telling.

  #dispatch(event: ClientEvent, reason: string): void {
    const from = this.#state.phase
    this.#state = nextState(this.#state, event)
    const to = this.#state.phase
    if (from !== to) this.#tell(() => this.#setup.events.emit('state', { from, to, reason }))
  }

  readonly #log = (level: 'debug' | 'warning', what: string, cause: unknown): void => {
    this.#tell(() => this.#setup.events.log(level, `${this.#setup.server}: ${what}`, cause))
  }

  #tell(tell: () => void): void {
    this.#handshake.outside(tell)
  }

  #error(code: McpClientError['code'], what: string): McpClientError {
    const { server } = this.#setup
    const options = { server, outcome: 'not-executed' } as const
    return new McpClientError(code, `MCP server "${server}" ${what}`, options)
  }
}

const CONNECTION_CLOSED: number = ErrorCode.ConnectionClosed

/** The SDK's own words for a request that was about to be sent when its transport was closed. */
function isClosedLocally(error: unknown): boolean {
  return error instanceof McpError && error.code === CONNECTION_CLOSED
}
