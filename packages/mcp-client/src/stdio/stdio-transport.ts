import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { fulfilledWithin } from '@x/internal'
import { repairResult } from '@x/internal/mcp-answers'
import type { ChildProcess } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { takeInputInstructions, TransportError, withTraceContext } from '@x/mcp-transport'
import type { Era, JsonRpcMessage, LimitOptions, RequestId, TraceContext } from '@x/mcp-transport'
import { StdioError } from '../errors.ts'
import { outsideRun } from '../run-scope.ts'
import type { ServerCommand } from '../server-config.ts'
import { ChildOutput } from './child-output.ts'
import { readRepaired, UnreadableAnswer } from './message-lines.ts'
import { endGroup, endWithProcess, startInGroup } from './process-group.ts'

/** Settings that all processes of one server share. */
export interface StdioSettings {
  readonly server: ServerCommand
  /** `eventBytes` limits one line. @default 16 MiB */
  readonly limits: LimitOptions | undefined
  readonly traceContext: () => TraceContext | undefined
  readonly log: (level: 'info' | 'warning', message: string) => void
  /** Called when a child and all processes that it started have exited. */
  readonly onExited: (transport: StdioTransport) => void
}

type State =
  | { readonly phase: 'new' | 'starting' }
  | { readonly phase: 'open'; readonly inner: StdioClientTransport }
  | { readonly phase: 'closed' }

const LINE_BYTES = 16 * 1024 * 1024
/** Longest chunk that Node reads from a pipe. */
const CHUNK_BYTES = 64 * 1024
/** Time to read the rest of the output of a child that has exited. Its own children may hold the pipes open. */
const DRAIN_MS = 500
const INVALID_PARAMS = -32_602

/**
 * The SDK's `StdioClientTransport` (2025-11-25, transports, stdio) with typed errors, a limit for each line, and
 * the end of all processes that the child started. The child is the session: it starts and ends with the transport.
 *
 * A request in flight when the child ends gets a JSON-RPC error whose `data` is a `StdioError`. Requests are
 * never sent twice, and `send()` does not wait for the child.
 */
export class StdioTransport implements AsyncDisposable {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JsonRpcMessage) => void) | undefined
  /** Always undefined: the child is the session. */
  readonly sessionId: undefined = undefined
  readonly isResumed: boolean = false
  readonly epoch: number
  readonly #settings: StdioSettings
  readonly #output: ChildOutput
  /** Methods of the requests in flight. */
  readonly #pending = new Map<RequestId, string>()
  #state: State = { phase: 'new' }
  #initialize: RequestId | undefined
  #protocolVersion: string | undefined
  #stop: () => Promise<void> = async () => {}
  #endedBy: TransportError | undefined
  #ending: Promise<void> | undefined

  /** @param epoch number of the session */
  constructor(settings: StdioSettings, epoch: number) {
    this.#settings = settings
    this.#output = new ChildOutput(settings.server, settings.log)
    this.epoch = epoch
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

  /** Starts the child. @throws StdioError `UNREACHABLE` with the reason of the operating system */
  async start(): Promise<void> {
    if (this.#state.phase !== 'new')
      throw new TypeError('start() was called twice: create a new transport')
    this.#state = { phase: 'starting' }
    try {
      await this.#start()
    } catch (error) {
      this.#end(closedError())
      throw error
    }
  }

  /**
   * Writes one message to the child. `onmessage` gets the response, or an error instead of it.
   *
   * @throws TransportError `CLOSED` if no child runs
   */
  async send(message: JsonRpcMessage): Promise<void> {
    if (this.#state.phase !== 'open') throw closedError()
    let sent = withTraceContext(message, this.#settings.traceContext())
    if ('method' in sent && 'id' in sent) {
      const { request, instructions } = takeInputInstructions(sent)
      const { id, method } = (sent = request)
      if (instructions.answers !== undefined) {
        const text = `${method} cannot be resumed on stdio: only servers of 2026-07-28 support it`
        this.#deliver({ jsonrpc: '2.0', id, error: { code: INVALID_PARAMS, message: text } })
        return
      }
      this.#pending.set(id, method)
      if (method === 'initialize') this.#initialize = id
    } else if ('method' in sent && sent.method === 'notifications/cancelled') {
      // 2025-11-25, cancellation: a client must not cancel its `initialize`.
      if (this.#initialize === sent.params?.['requestId']) return
    }
    // Not awaited: the SDK waits until the pipe has room, for ever if the child dies. Its exit answers the request.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SDK's type is the same, but mutable
    void this.#state.inner.send(sent as JSONRPCMessage).catch(() => {})
  }

  setProtocolVersion(version: string): void {
    this.#protocolVersion = version
  }

  /** Does nothing: `close()` ends the child, which is the session. */
  async terminateSession(): Promise<void> {}

  /**
   * Answers the requests in flight with `CLOSED` and calls `onclose`, both at once. Then ends the child, and
   * resolves when it and all processes that it started have exited, after about 6 s at most. Idempotent.
   */
  async close(): Promise<void> {
    this.#end(closedError())
    await this.#ending
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
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
    if ('method' in message) return this.#deliver(message)
    const { id } = message
    const method = id === undefined || id === null ? undefined : this.#pending.get(id)
    if (id !== undefined && id !== null && method !== undefined) {
      this.#pending.delete(id)
      if ('result' in message) repairResult(method, message.result)
    }
    // The SDK's client handles notifications one microtask later than responses, and a response removes its
    // progress handler. Without the delay, progress that arrived in the same chunk would be lost.
    queueMicrotask(() => this.#deliver(message))
  }

  #report(error: Error): void {
    if (this.#state.phase !== 'open') return
    if (error instanceof UnreadableAnswer && this.#pending.delete(error.id)) {
      const what = 'it answered with something that is no JSON-RPC message'
      const failure = new StdioError('UNEXPECTED_RESPONSE', what, { cause: error.cause })
      return this.#deliver(errorAnswer(error.id, failure))
    }
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
    for (const id of this.#pending.keys()) this.#deliver(errorAnswer(id, reason))
    this.#pending.clear()
    const { onclose } = this
    this.onclose = undefined
    this.onerror = undefined
    this.onmessage = undefined
    onclose?.()
  }

  /** Catches errors of the callback: the SDK would report them as invalid lines. */
  #deliver(message: JsonRpcMessage): void {
    try {
      this.onmessage?.(message)
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)))
    }
  }
}

function closedError(): TransportError {
  return new TransportError('CLOSED', 'The transport is closed: create a new one')
}

/** The HTTP transport does the same: the client settles the request and removes it. */
function errorAnswer(id: RequestId, error: TransportError): JsonRpcMessage {
  return { jsonrpc: '2.0', id, error: { code: -32_000, message: error.message, data: error } }
}

/**
 * Variables that the SDK does not inherit: the locations of certificate authorities for Node, OpenSSL, Python and
 * curl, and what a program on Windows needs to start others. None of them is a secret.
 */
const INHERITED = [
  'COMSPEC',
  'CURL_CA_BUNDLE',
  'NODE_EXTRA_CA_CERTS',
  'NODE_USE_SYSTEM_CA',
  'PATHEXT',
  'REQUESTS_CA_BUNDLE',
  'SSL_CERT_DIR',
  'SSL_CERT_FILE',
]

/** Returns the variables that the SDK adds to those it inherits. Other tokens of this process do not reach the server. */
function addedVariables(env: Readonly<Record<string, string>>): Record<string, string> {
  const isWindows = process.platform === 'win32'
  const added: Record<string, string> = {}
  for (const name of INHERITED) {
    const value = process.env[name]
    if (value !== undefined) added[name] = value
  }
  // On Windows `Path` is `PATH`, which the SDK inherits under this name.
  for (const [name, value] of Object.entries(env))
    added[isWindows ? name.toUpperCase() : name] = value
  return added
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
