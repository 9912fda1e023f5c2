import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { fulfilledWithin, isRecord, withTraceContext } from '@x/internal'
import type { TraceContext } from '@x/internal'
import { repairResult } from '@x/internal/mcp-answers'
import type { ChildProcess } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { Call, TransportError } from '@x/mcp-transport'
import type {
  Answer,
  ConnectionOwner,
  Era,
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
  SessionSettings,
  StreamableHttpTransportOptions,
} from '@x/mcp-transport'
import { StdioError } from '../errors.ts'
import type { ServerConnection } from '../requests.ts'
import { outsideRun } from '../run-scope.ts'
import type { ServerCommand } from '../server-config.ts'
import { addedVariables } from './child-environment.ts'
import { ChildOutput } from './child-output.ts'
import { readRepaired, UnreadableAnswer } from './message-lines.ts'
import { endGroup, endWithProcess, startInGroup } from './process-group.ts'

/** Settings that all processes of one server share. */
export interface StdioSettings {
  readonly server: ServerCommand
  /** `eventBytes` limits one line. @default 16 MiB */
  readonly limits: StreamableHttpTransportOptions['limits']
  readonly traceContext: () => TraceContext | undefined
  readonly log: (level: 'info' | 'warning', message: string) => void
  /** The log level and the subscriptions of the client, which each child gets. */
  readonly session: SessionSettings
  /** Called when a child and all processes that it started have exited. */
  readonly onExited: (connection: ChildConnection) => void
}

/** Takes what belongs to no call. */
export interface ChildOwner extends Omit<ConnectionOwner, 'sessionInfo'> {
  /** Called when the session has ended, for whatever reason. */
  readonly onClosed: () => void
}

type State =
  | { readonly phase: 'new' | 'starting' }
  | { readonly phase: 'open'; readonly inner: StdioClientTransport }
  | { readonly phase: 'closed' }

const LINE_BYTES = 16 * 1024 * 1024
/** Longest chunk that Node reads from a pipe. */
const CHUNK_BYTES = 64 * 1024
const LINE_END = Buffer.from('\n')
/** Time to read the rest of the output of a child that has exited. Its own children may hold the pipes open. */
const DRAIN_MS = 500
const INVALID_PARAMS = -32_602

/**
 * A connection to a child process, over the SDK's `StdioClientTransport` (2025-11-25, transports, stdio), with typed
 * errors, a limit for each line, and the end of all processes that the child started. The child is the session: it
 * starts with `open()`, and ends with the connection.
 *
 * A call in flight when the child ends fails with a `StdioError`. Requests are never sent twice, and `send()` does not
 * wait for the child.
 */
export class ChildConnection implements ServerConnection {
  /** Always undefined: the child is the session. */
  readonly sessionId: undefined = undefined
  readonly isResumed: boolean = false
  readonly epoch: number
  readonly #settings: StdioSettings
  readonly #owner: ChildOwner
  readonly #output: ChildOutput
  readonly #calls = new Map<RequestId, Call>()
  /** Requests of the child without an answer. */
  readonly #questions = new Map<RequestId, AbortController>()
  #state: State = { phase: 'new' }
  /** 0 is the id of `initialize`. */
  #nextId = 0
  #protocolVersion: string | undefined
  /** Capabilities of the server, from its answer to `initialize`. */
  serverCapabilities: Readonly<Record<string, unknown>> | undefined
  #stop: () => Promise<void> = async () => {}
  #endedBy: TransportError | undefined
  #ending: Promise<void> | undefined

  /** @param epoch number of the session */
  constructor(settings: StdioSettings, epoch: number, owner: ChildOwner) {
    this.#settings = settings
    this.#output = new ChildOutput(settings.server, settings.log)
    this.epoch = epoch
    this.#owner = owner
  }

  get era(): Era | undefined {
    return this.#protocolVersion === undefined ? undefined : 'legacy'
  }

  get protocolVersion(): string | undefined {
    return this.#protocolVersion
  }

  /** Why the session ended, or why a child that still runs may not answer. */
  get evidence(): TransportError | undefined {
    if (this.#endedBy !== undefined && this.#endedBy.code !== 'CLOSED') return this.#endedBy
    return this.#output.silence
  }

  /**
   * Starts the child, and sends `initialize`. Undefined if `signal` aborted: a client must not cancel its `initialize`
   * (2025-11-25, cancellation), so the caller closes the connection then.
   *
   * @throws StdioError `UNREACHABLE` with the reason of the operating system
   */
  async open(
    params: JsonRpcRequest['params'],
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Answer | undefined> {
    if (this.#state.phase !== 'new')
      throw new TypeError('open() was called twice: create a new connection')
    this.#state = { phase: 'starting' }
    try {
      await this.#start()
    } catch (error) {
      this.#end(closedError())
      throw error
    }
    const answer = await new Promise<Answer | TransportError | undefined>((resolve) => {
      signal?.addEventListener('abort', () => resolve(undefined), { once: true })
      void this.send(this.createCall({ method: 'initialize', params }, {}, resolve))
      if (signal?.aborted === true) resolve(undefined)
    })
    if (TransportError.is(answer)) throw answer
    if (answer !== undefined && 'result' in answer) {
      const { protocolVersion, capabilities } = answer.result
      if (typeof protocolVersion === 'string') this.#protocolVersion = protocolVersion
      if (isRecord(capabilities)) this.serverCapabilities = capabilities
    }
    return answer
  }

  createCall(...[request, options, onSettled]: Parameters<ServerConnection['createCall']>): Call {
    return this.#newCall(request, options, this.#settings.session.watch(request, onSettled))
  }

  #newCall(...[request, options, onSettled]: Parameters<ServerConnection['createCall']>): Call {
    const traced = withTraceContext(request, this.#settings.traceContext)
    const call = new Call({ id: this.#nextId++, request: traced, options, onSettled })
    this.#calls.set(call.id, call)
    return call
  }

  /** Writes a request to the child. */
  async send(call: Call): Promise<void> {
    const { id, request, options } = call
    const { method, params } = request
    if (this.#state.phase !== 'open') return this.#settle(id, closedError())
    if (options.inputs?.answers !== undefined) {
      const message = `${method} cannot be resumed on stdio: only servers of 2026-07-28 support it`
      return this.#settle(id, { error: { code: INVALID_PARAMS, message } })
    }
    const { onProgress } = options
    const meta = isRecord(params?.['_meta']) ? params['_meta'] : {}
    const sent =
      onProgress === undefined ? params : { ...params, _meta: { ...meta, progressToken: id } }
    this.#write({ jsonrpc: '2.0', id, method, ...(sent === undefined ? {} : { params: sent }) })
  }

  /** False: the child gets each request at once. */
  withdraw(): boolean {
    return false
  }

  async cancel(call: Call, params: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const { id: requestId } = call
    if (!this.#calls.delete(requestId)) return
    await this.notify({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { ...params, requestId },
    })
  }

  /** @throws TransportError `CLOSED` if no child runs */
  async notify(notification: JsonRpcNotification): Promise<void> {
    if (this.#state.phase !== 'open') throw closedError()
    this.#write(withTraceContext(notification, this.#settings.traceContext))
    if (notification.method === 'notifications/initialized') void this.#restoreSettings()
  }

  /** Not awaited: the child reads them before any call. */
  async #restoreSettings(): Promise<void> {
    const failure = await this.#settings.session.restore(
      (request) => new Promise((resolve) => void this.send(this.#newCall(request, {}, resolve))),
    )
    if (failure !== undefined && this.#state.phase === 'open')
      this.#settings.log('warning', failure.message)
  }

  /** Does nothing: `close()` ends the child, which is the session. */
  async terminate(): Promise<void> {}

  /**
   * Fails the calls in flight with `CLOSED`, at once. Then ends the child, and resolves when it and all processes that it
   * started have exited, after about 6 s at most. Idempotent.
   */
  async close(): Promise<void> {
    this.#end(closedError())
    await this.#ending
  }

  #write(message: JsonRpcMessage): void {
    if (this.#state.phase !== 'open') return
    // Not awaited: the SDK waits until the pipe has room, for ever if the child dies. Its exit ends the call.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SDK's type is the same, but mutable
    void this.#state.inner.send(message as JSONRPCMessage).catch(() => {})
  }

  async #start(): Promise<void> {
    const { server, limits } = this.#settings
    const { command, args, cwd } = server
    const { eventBytes = LINE_BYTES } = limits ?? {}
    // Node reports a missing folder as a missing command.
    if (cwd !== undefined) {
      await stat(`${cwd}/.`).catch((cause: unknown) => {
        throw new StdioError('UNREACHABLE', `its cwd ${cwd} is not a folder`, { cause })
      })
    }
    // Loaded here: its `cross-spawn` needs `require()`, which a bundle of ES modules lacks.
    const sdk = await import('@modelcontextprotocol/sdk/client/stdio.js')
    if (this.#state.phase !== 'starting') throw closedError()
    const inner = new sdk.StdioClientTransport({
      command,
      args: [...args],
      env: addedVariables(server.env),
      stderr: 'pipe',
      ...(cwd === undefined ? {} : { cwd }),
      maxBufferSize: eventBytes + CHUNK_BYTES, // `#watch()` reports longer lines first
    })
    readRepaired(inner, eventBytes + CHUNK_BYTES)
    inner.onmessage = (message) => this.#receive(message)
    inner.onerror = (error) => this.#report(error)
    inner.stderr?.on('data', (chunk: Buffer) => this.#output.pushStderr(chunk))
    inner.stderr?.once('end', () => this.#output.endStderr())
    const closed = new Promise<void>((resolve) => {
      inner.onclose = resolve
    })
    // The pipes outlive the call that starts the child.
    const { result: started, child } = outsideRun(() => startInGroup(() => inner.start()))
    const close = (): Promise<void> => inner.close()
    // A child without an id could not be started.
    this.#stop = child?.pid === undefined ? close : () => endGroup(child, close)
    try {
      await started
    } catch (cause) {
      throw toStartError(cause)
    }
    if (this.#state.phase !== 'starting') throw closedError()
    this.#state = { phase: 'open', inner }
    if (child === undefined) void closed.then(() => this.#end(this.#output.endOf(child)))
    else this.#watch(child, closed, eventBytes)
  }

  #watch(child: ChildProcess, closed: Promise<void>, eventBytes: number): void {
    const unguard = endWithProcess(child)
    const stop = this.#stop
    this.#stop = () => stop().finally(unguard)
    let lineBytes = 0
    child.stdout?.on('data', (chunk: Buffer) => {
      const first = chunk.indexOf('\n')
      lineBytes += first === -1 ? chunk.length : first
      if (lineBytes > eventBytes) {
        const what = `its process wrote a line of more than ${eventBytes} bytes: raise the option limits.eventBytes to allow it`
        this.#end(this.#output.error('LIMIT', what))
      }
      if (first !== -1) lineBytes = chunk.length - 1 - chunk.lastIndexOf('\n')
    })
    // A process may exit without a line break after its last message.
    child.stdout?.once('end', () => lineBytes > 0 && child.stdout?.emit('data', LINE_END))
    // Any of these events may come first. The reason is known when the pipes have been read to their end.
    const broken = new Promise<void>((resolve) => {
      child.once('exit', () => resolve())
      child.stdin?.on('error', () => resolve())
      child.stdout?.once('close', resolve)
    })
    void Promise.race([broken, closed])
      .then(() => fulfilledWithin(closed, DRAIN_MS))
      .then(() => this.#end(this.#output.endOf(child)))
  }

  #receive(message: JsonRpcMessage): void {
    if (this.#state.phase !== 'open') return
    if (!('method' in message)) return this.#answered(message)
    if ('id' in message) return this.#asked(message)
    const { method, params } = message
    if (method === 'notifications/progress') {
      const call = this.#calls.get(Number(params?.['progressToken']))
      return this.#guard(() => call?.options.onProgress?.(params ?? {}))
    }
    if (method === 'notifications/cancelled') {
      const id = params?.['requestId']
      const question =
        typeof id === 'string' || typeof id === 'number' ? this.#questions.get(id) : undefined
      return question?.abort(params?.['reason'])
    }
    this.#guard(() => this.#owner.onNotification(message))
  }

  #answered(message: JsonRpcResponse): void {
    const id = Number(message.id ?? Number.NaN) // 0 is the id of a request
    const call = this.#calls.get(id)
    if (call === undefined) return
    if ('result' in message) repairResult(call.request.method, message.result)
    this.#settle(id, message)
  }

  #settle(id: RequestId, outcome: Answer | TransportError): void {
    const call = this.#calls.get(id)
    this.#calls.delete(id)
    if (call !== undefined) this.#guard(() => call.onSettled(outcome))
  }

  /** The only pipe carries the messages of all calls, so a request of the child belongs to none for certain. */
  #asked({ id, method, params }: JsonRpcRequest): void {
    const controller = new AbortController()
    this.#questions.set(id, controller)
    const { signal } = controller
    const respond = async (answer: Answer): Promise<void> => {
      if (this.#questions.get(id) !== controller) return
      this.#questions.delete(id)
      this.#write({ jsonrpc: '2.0', id, ...answer })
    }
    this.#guard(() => this.#owner.onServerRequest({ id, method, params, signal, respond }))
  }

  #report(error: Error): void {
    if (this.#state.phase !== 'open') return
    if (error instanceof UnreadableAnswer && this.#calls.has(Number(error.id))) {
      const what = 'it answered with something that is no JSON-RPC message'
      const failure = new StdioError('UNEXPECTED_RESPONSE', what, { cause: error.cause })
      return this.#settle(Number(error.id), failure)
    }
    // On Windows a shell starts the command. Its exit says that the command is missing.
    if ('code' in error && error.code === 'ENOENT') return this.#end(toStartError(error))
    // The line is not JSON, or not a JSON-RPC message.
    if (error instanceof SyntaxError || error.name === 'ZodError')
      this.#output.addInvalidLine(error)
    else this.#settings.log('warning', error.message)
  }

  /** Ends the session. Only the first reason counts. */
  #end(reason: TransportError): void {
    if (this.#state.phase === 'closed') return
    this.#state = { phase: 'closed' }
    this.#endedBy = reason
    this.#ending = this.#stop().finally(() => this.#settings.onExited(this))
    for (const id of this.#calls.keys()) this.#settle(id, reason)
    for (const question of this.#questions.values()) question.abort('The session has ended')
    this.#questions.clear()
    this.#guard(() => this.#owner.onClosed())
  }

  /** Catches errors of callbacks: the SDK would report them as invalid lines. */
  #guard(call: () => void): void {
    try {
      call()
    } catch (error) {
      this.#owner.onError(error instanceof Error ? error : new Error(String(error)))
    }
  }
}

function closedError(): TransportError {
  return new TransportError('CLOSED', 'The connection is closed')
}

/** Explains why a child could not be started, with the code of the operating system. */
function toStartError(cause: unknown): StdioError {
  // Node adds all arguments, which may be secrets.
  if (cause instanceof Error) Reflect.deleteProperty(cause, 'spawnargs')
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
  const why = code ?? (cause instanceof Error ? cause.message : String(cause))
  const message =
    code === 'ENOENT'
      ? 'its command was not found (ENOENT): install it, or give its full path'
      : code === 'EACCES'
        ? 'its command cannot be executed (EACCES): check the permissions of the file'
        : `it could not be started (${why})`
  return new StdioError('UNREACHABLE', message, { cause })
}
