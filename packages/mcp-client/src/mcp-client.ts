import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  CallToolResultSchema,
  EmptyResultSchema,
  ListToolsResultSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import { shortSessionId } from '@x/mcp-transport'
import type { TransportError } from '@x/mcp-transport'
import type {
  CallOptions,
  CallToolOptions,
  McpClientEvents,
  McpClientOptions,
} from './client-options.ts'
import { nextState } from './client-state.ts'
import type { ClientEvent, ClientState } from './client-state.ts'
import { connect } from './connection.ts'
import type { Connection } from './connection.ts'
import { Deadline } from './deadline.ts'
import { openEpoch } from './epoch.ts'
import type { Epoch } from './epoch.ts'
import { failureFrom, thrownFrom } from './failure.ts'
import { Listeners } from './listeners.ts'
import { McpClientError } from './mcp-client-error.ts'
import { mayReplay } from './replay.ts'
import { assertServerConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { reasonOf, settledOrAborted, SingleFlight } from './single-flight.ts'
import { allPages, ToolList } from './tool-list.ts'

/** One request to the server, or several that belong together. */
interface Operation<T> {
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

/** The longest a timer can be: the SDK's own one never fires before ours. */
const NO_TIMEOUT = 2 ** 31 - 1
const DISPOSE_MS = 5000
const RECOVERY_FIRST_MS = 100
const RECOVERY_MAX_MS = 5000

/**
 * A client of one MCP server. Opens nothing until the first call; then finds the server (phase 1), opens
 * a session (phase 2) and keeps it for all calls. When the server has forgotten the session, opens a
 * new one on the same connections and repeats what the server provably did not run.
 *
 * @throws McpClientError from every operation that came to no answer; the SDK's `McpError` where the
 * server answered with an error; the reason of the caller's signal where that aborted.
 */
export class McpClient implements AsyncDisposable {
  readonly #config: McpServerConfig
  readonly #options: McpClientOptions
  readonly #label: string
  readonly #tools: ToolList
  readonly #opening = new SingleFlight<Epoch>()
  /** Set while a handshake of this client runs, in whatever it calls. */
  readonly #inside = new AsyncLocalStorage<true>()
  readonly #listeners: {
    readonly [Name in keyof McpClientEvents]: Listeners<McpClientEvents[Name]>
  }
  /** Epochs that still have something open: the current one, and older ones with calls in flight. */
  readonly #epochs = new Map<Epoch, { inFlight: number }>()
  #state: ClientState = { phase: 'created' }
  #connection: Connection | undefined
  #disposing: Promise<void> | undefined
  #lastEpoch: Epoch | undefined
  #lossesInRow = 0
  #isInitialized = false

  /** @throws McpClientError `CONFIG` for a config that names no server, or several. */
  constructor(config: McpServerConfig, options: McpClientOptions = {}) {
    assertServerConfig(config)
    this.#config = config
    this.#options = options
    this.#label = serverLabel(config)
    this.#tools = new ToolList(
      (signal) => this.#listTools(signal),
      (changes) => this.#listeners.toolsChanged.emit(changes),
    )
    const onListenerError = (error: unknown): void => {
      if (this.#listeners.log !== undefined) {
        this.#log('warning', 'A listener of this client threw', error)
      }
    }
    this.#listeners = {
      state: new Listeners(onListenerError),
      sessionReplaced: new Listeners(onListenerError),
      toolsChanged: new Listeners(onListenerError),
      log: new Listeners(() => {}), // there is nowhere left to say it
      exchange: new Listeners(onListenerError),
    }
  }

  /** True from the first session until `dispose()`, also while a lost session is replaced. */
  get isClientInitialized(): boolean {
    return this.#isInitialized
  }

  /** The slug that this client was made with, if it was. */
  get serverSlug(): string | undefined {
    return 'slug' in this.#config ? this.#config.slug : undefined
  }

  /** The current session id. Undefined before the first call, and on servers without sessions. */
  async getSessionId(): Promise<string | undefined> {
    if (this.#state.phase === 'active') return this.#state.epoch.sessionId
    return this.#connection?.sessionInfo.getSessionId()
  }

  /** Returns the undo function. A listener that throws disturbs nobody. */
  on<Name extends keyof McpClientEvents>(
    event: Name,
    listener: (payload: McpClientEvents[Name]) => void,
  ): () => void {
    return this.#listeners[event].add(listener)
  }

  /**
   * Calls a tool. A tool that failed by itself is a result with `isError`, not a rejection.
   *
   * @throws McpClientError `OUTCOME_UNKNOWN` if the tool may or may not have run.
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

  /** All tools of the server: cached until the server says they changed, the session is replaced, or `forceRefresh`. */
  async listTools(
    options: CallOptions & { readonly forceRefresh?: boolean | undefined } = {},
  ): Promise<readonly Tool[]> {
    const { forceRefresh = false, signal, timeoutMs } = options
    using deadline = new Deadline(timeoutMs ?? this.#timeoutMs, signal)
    try {
      return await this.#tools.get({ forceRefresh, signal: deadline.signal })
    } catch (error) {
      throw thrownFrom(error, { label: 'tools/list', server: this.#label, signal: deadline.signal })
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
    await (this.#disposing ??= this.#dispose().finally(() => {
      this.#disposing = undefined
    }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  // An operation: a session, the request, and what to do when it fails.

  async #execute<T>(operation: Operation<T>, { signal, timeoutMs }: CallOptions): Promise<T> {
    using deadline = new Deadline(timeoutMs ?? this.#timeoutMs, signal)
    const { maxRetries = 1 } = this.#options
    for (let retries = 0; ; retries++) {
      try {
        const epoch = await this.#ready(deadline.signal)
        const result = await this.#runIn(epoch, operation, deadline.signal)
        this.#lossesInRow = 0
        return result
      } catch (error) {
        const lost = failureFrom(error)
        const mayRetry =
          retries < maxRetries &&
          !deadline.signal.aborted &&
          lost !== undefined &&
          this.#mayReplay(lost, operation)
        if (!mayRetry)
          throw thrownFrom(error, { ...operation, server: this.#label, signal: deadline.signal })
        this.#log('info', `${this.#label}: ${operation.label} is sent again after ${lost.code}`)
      }
    }
  }

  async #runIn<T>(epoch: Epoch, operation: Operation<T>, signal: AbortSignal): Promise<T> {
    const held = this.#epochs.get(epoch)
    if (held !== undefined) held.inFlight++
    try {
      return await operation.run(epoch, { signal, timeout: NO_TIMEOUT })
    } catch (error) {
      const lost = failureFrom(error)
      // Also without a retry left: a dead session that is kept would fail every later call.
      if (lost?.code === 'SESSION_LOST') this.#end(epoch, lost)
      throw error
    } finally {
      if (held !== undefined && --held.inFlight === 0) this.#release(epoch)
    }
  }

  #mayReplay(error: TransportError, { isSafe, isAllowed, tool }: Operation<unknown>): boolean {
    const annotations = tool === undefined ? undefined : this.#tools.find(tool)?.annotations
    return mayReplay({
      error,
      policy: this.#options.replay ?? 'session-loss',
      isSafe,
      isAllowed: isAllowed ?? false,
      isDeclaredIdempotent:
        annotations?.readOnlyHint === true || annotations?.idempotentHint === true,
    })
  }

  #listTools(signal: AbortSignal): Promise<readonly Tool[]> {
    return this.#execute(
      {
        label: 'tools/list',
        isSafe: true,
        run: ({ client }, request) =>
          allPages(this.#label, (cursor) =>
            client.request(
              { method: 'tools/list', ...(cursor === undefined ? {} : { params: { cursor } }) },
              ListToolsResultSchema,
              request,
            ),
          ),
      },
      { signal },
    )
  }

  // A session: one that stands, or one that all callers open together.

  async #ready(signal: AbortSignal): Promise<Epoch> {
    if (this.#state.phase === 'active') return this.#state.epoch
    if (this.#inside.getStore() === true) {
      throw this.#error(
        'REENTRANT',
        'was called from inside its own handshake, which would wait for itself',
      )
    }
    while (this.#disposing !== undefined) await settledOrAborted(this.#disposing, signal)
    return this.#opening.join((shared) => this.#open(shared), signal)
  }

  async #open(signal: AbortSignal): Promise<Epoch> {
    this.#dispatch({ type: 'needed' }, 'a call needs a session')
    try {
      const connection = (this.#connection ??= await this.#connect(signal))
      this.#dispatch({ type: 'connected' }, 'server found')
      await this.#backOff(signal)
      const epoch = await this.#inside.run(true, () => this.#handshake(connection, signal))
      this.#epochs.set(epoch, { inFlight: 0 })
      this.#isInitialized = true
      this.#dispatch(
        { type: 'opened', epoch },
        epoch.isResumed ? 'session resumed' : 'session opened',
      )
      this.#tellReplaced(epoch)
      return epoch
    } catch (error) {
      this.#dispatch({ type: 'failed' }, 'no session could be opened')
      if (this.#state.phase === 'created') await this.#disconnect()
      throw signal.aborted ? reasonOf(signal) : error
    }
  }

  #connect(signal: AbortSignal): Promise<Connection> {
    return this.#inside.run(true, () =>
      connect({
        config: this.#config,
        options: this.#options,
        signal,
        onExchange: (event) => this.#listeners.exchange.emit(event),
        onCloseError: (error) => this.#log('debug', `${this.#label}: closing failed`, error),
      }),
    )
  }

  async #handshake(connection: Connection, signal: AbortSignal): Promise<Epoch> {
    const { clientInfo = CLIENT_INFO, handshakeMs = 30_000 } = this.#options
    using deadline = new Deadline(handshakeMs, signal)
    const transport = connection.createTransport()
    try {
      const epoch = await openEpoch({
        transport,
        clientInfo,
        request: { signal: deadline.signal, timeout: NO_TIMEOUT },
        onToolsChanged: () => this.#tools.invalidate(),
        onError: (error) => this.#log('warning', `${this.#label}: ${error.message}`, error),
        onClose: () => this.#closed(transport),
      })
      this.#tools.invalidate()
      return epoch
    } catch (error) {
      throw thrownFrom(error, { label: 'initialize', server: this.#label, signal: deadline.signal })
    }
  }

  /** The first recovery is immediate; later ones without a success between them wait. */
  async #backOff(signal: AbortSignal): Promise<void> {
    if (this.#lossesInRow < 2) return
    const ms = Math.min(RECOVERY_FIRST_MS * 2 ** (this.#lossesInRow - 2), RECOVERY_MAX_MS)
    await sleep(ms * (0.5 + Math.random() / 2), undefined, { signal })
  }

  #end(epoch: Epoch, error: TransportError): void {
    const isCurrent = this.#state.phase === 'active' && this.#state.epoch === epoch
    if (!isCurrent) return // another call has seen the loss before, or there is a new session already
    this.#lossesInRow++
    this.#dispatch({ type: 'ended', epoch }, error.message)
    this.#release(epoch)
  }

  /** An epoch that is over is closed when its last call has settled: they wait for their own answers. */
  #release(epoch: Epoch): void {
    const isCurrent = this.#state.phase === 'active' && this.#state.epoch === epoch
    if (isCurrent || this.#epochs.get(epoch)?.inFlight !== 0) return
    this.#epochs.delete(epoch)
    epoch.client.close().catch((error: unknown) => {
      this.#log('debug', `${this.#label}: closing an old session failed`, error)
    })
  }

  #closed(transport: Epoch['transport']): void {
    if (this.#state.phase === 'active' && this.#state.epoch.transport === transport) {
      this.#dispatch({ type: 'ended', epoch: this.#state.epoch }, 'the transport was closed')
    }
  }

  #tellReplaced(epoch: Epoch): void {
    const old = this.#lastEpoch
    this.#lastEpoch = epoch
    if (old === undefined) return
    this.#listeners.sessionReplaced.emit({
      oldEpoch: old.number,
      newEpoch: epoch.number,
      oldSessionId: short(old.sessionId),
      newSessionId: short(epoch.sessionId),
      reason: 'The server no longer knew the session',
    })
  }

  // The end of a life.

  async #dispose(): Promise<void> {
    if (this.#state.phase === 'created') return
    const { epoch } = this.#state.phase === 'active' ? this.#state : { epoch: undefined }
    this.#dispatch({ type: 'disposing' }, 'dispose()')
    const late = new AbortController()
    await Promise.race([
      this.#shutDown(epoch),
      sleep(DISPOSE_MS, undefined, { signal: late.signal, ref: false }).catch(() => {}),
    ])
    late.abort()
    this.#isInitialized = false
    this.#lastEpoch = undefined
    this.#lossesInRow = 0
    this.#tools.clear()
    this.#dispatch({ type: 'disposed' }, 'everything is closed')
  }

  async #shutDown(epoch: Epoch | undefined): Promise<void> {
    await this.#opening.abort(this.#error('CLOSED', 'was disposed of during the handshake'))
    const terminate =
      this.#options.terminateOnClose ?? this.#connection?.sessionInfo.durable !== true
    if (terminate && epoch !== undefined) {
      await epoch.transport.terminateSession().catch((error: unknown) => {
        this.#log('warning', `${this.#label}: the session could not be ended on the server`, error)
      })
    }
    const open = [...this.#epochs.keys()]
    this.#epochs.clear()
    await Promise.allSettled(open.map(({ client }) => client.close()))
    await this.#disconnect()
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    await connection?.[Symbol.asyncDispose]()
  }

  // Telling.

  #dispatch(event: ClientEvent, reason: string): void {
    const from = this.#state
    this.#state = nextState(from, event)
    if (from.phase !== this.#state.phase) {
      this.#listeners.state.emit({ from: from.phase, to: this.#state.phase, reason })
    }
  }

  #log(level: McpClientEvents['log']['level'], message: string, cause?: unknown): void {
    this.#listeners.log.emit({ level, message, ...(cause === undefined ? {} : { cause }) })
  }

  #error(code: McpClientError['code'], what: string): McpClientError {
    return new McpClientError(code, `MCP server "${this.#label}" ${what}`, { server: this.#label })
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? 600_000
  }
}

const CLIENT_INFO = { name: 'mcp-client', version: '0.1.0' }

function short(sessionId: string | undefined): string | undefined {
  return sessionId === undefined ? undefined : shortSessionId(sessionId)
}
