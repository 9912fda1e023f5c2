import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, posix, win32 } from 'node:path'
import { fulfilledWithin } from '@x/internal'
import {
  messageFrom,
  takeInputInstructions,
  TransportError,
  withTraceContext,
} from '@x/mcp-transport'
import type { Era, JsonRpcMessage, LimitOptions, RequestId, TraceContext } from '@x/mcp-transport'
import { StdioError } from '../errors.ts'
import { outsideRun } from '../run-scope.ts'
import { commandLabel } from '../server-config.ts'
import type { ServerCommand } from '../server-config.ts'
import { ChildOutput, LineReader, Redaction } from './child-output.ts'
import {
  createEnvironment,
  createSpawnPlan,
  endTree,
  endWithProcess,
  getVariable,
  startChild,
  toStartError,
} from './child-process.ts'
import type { StdioOptions } from './child-process.ts'

/** Settings that all processes of one server share. */
export interface StdioSettings {
  readonly server: ServerCommand
  readonly stdio: StdioOptions | undefined
  /** `eventBytes` limits one line. @default 16 MiB */
  readonly limits: LimitOptions | undefined
  readonly traceContext: () => TraceContext | undefined
  readonly log: (level: 'info' | 'warning', message: string) => void
}

/** Starts the processes of one server, one for each session. Disposing of it waits until they have exited. */
export class StdioConnection implements AsyncDisposable {
  readonly #settings: StdioSettings
  readonly #transports = new Set<StdioTransport>()
  #epoch = 0
  #folder: Promise<WorkingFolder> | undefined

  constructor(settings: StdioSettings) {
    this.#settings = settings
  }

  createTransport(): StdioTransport {
    const transport = new StdioTransport(this.#settings, this, ++this.#epoch)
    this.#transports.add(transport)
    return transport
  }

  /** Called when a child and all processes that it started have exited. */
  exited(transport: StdioTransport): void {
    this.#transports.delete(transport)
  }

  /** Returns the folder in which the children run. */
  async getFolder(): Promise<string> {
    const folder = (this.#folder ??= createWorkingFolder(this.#settings))
    try {
      return (await folder).path
    } catch (error) {
      if (this.#folder === folder) this.#folder = undefined
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#transports, (transport) => transport.close()))
    const folder = await this.#folder?.catch(() => undefined)
    await folder?.[Symbol.asyncDispose]()
  }
}

type State =
  | { readonly phase: 'new' | 'starting' }
  | { readonly phase: 'open'; readonly child: ChildProcessWithoutNullStreams }
  | { readonly phase: 'closed' }

const LINE_BYTES = 16 * 1024 * 1024
/** Time to read the rest of the output of a child that has exited. Its own children may hold the pipes open. */
const DRAIN_MS = 500
const INVALID_PARAMS = -32_602

/**
 * MCP over the standard input and output of a child process (2025-11-25, transports, stdio). The child is the
 * session: it starts and ends with the transport, and so do all processes that it started.
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
  readonly #connection: StdioConnection
  readonly #pending = new Set<RequestId>()
  #state: State = { phase: 'new' }
  #output: ChildOutput | undefined
  #initialize: RequestId | undefined
  #protocolVersion: string | undefined
  #stop: () => Promise<void> = async () => {}
  #endedBy: TransportError | undefined
  #ending: Promise<void> | undefined

  /** @param epoch number of the session */
  constructor(settings: StdioSettings, connection: StdioConnection, epoch: number) {
    this.#settings = settings
    this.#connection = connection
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
    return this.#output?.silence
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
      this.#pending.add(id)
      if (method === 'initialize') this.#initialize = id
    } else if ('method' in sent && sent.method === 'notifications/cancelled') {
      // 2025-11-25, cancellation: a client must not cancel its `initialize`.
      if (this.#initialize === sent.params?.['requestId']) return
    }
    // If the child has ended, its exit event answers the request.
    this.#state.child.stdin.write(`${JSON.stringify(sent)}\n`)
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
    const { server, stdio = {}, log } = this.#settings
    const output = new ChildOutput(new Redaction(server), log)
    this.#output = output
    const cwd = await this.#connection.getFolder()
    const launch = { server, stdio, cwd, log: (text: string) => log('info', text) }
    const environment = await createEnvironment(launch)
    if (this.#state.phase !== 'starting') throw closedError()
    const plan = createSpawnPlan(launch, environment)
    // The pipes outlive the call that starts the child.
    const child = outsideRun(() => startChild(plan))
    if (child.pid === undefined) {
      const [cause] = await once(child, 'error', { signal: AbortSignal.timeout(1000) })
      throw toStartError(cause)
    }
    child.on('error', (error) => log('warning', error.message)) // the child could not be signalled
    this.#state = { phase: 'open', child }
    this.#read(child, output)
  }

  #read(child: ChildProcessWithoutNullStreams, output: ChildOutput): void {
    const exited = new Promise((resolve) => child.once('exit', resolve))
    const closed = new Promise((resolve) => child.once('close', resolve))
    const unguard = endWithProcess(child)
    const { eventBytes = LINE_BYTES } = this.#settings.limits ?? {}
    const lines = new LineReader({
      maxBytes: eventBytes,
      onLine: (line) => this.#receive(line, output),
      onTooLong: () => {
        const what = `its process wrote a line of more than ${eventBytes} bytes: raise the option limits.eventBytes to allow it`
        this.#end(output.error('LIMIT', what))
      },
    })
    child.stdout.on('data', (chunk: Buffer) => {
      if (this.#state.phase === 'open') lines.push(chunk)
    })
    child.stdout.once('end', () => {
      if (this.#state.phase === 'open') lines.end()
    })
    child.stderr.on('data', (chunk: Buffer) => output.pushStderr(chunk))
    child.stderr.once('end', () => output.endStderr())
    this.#stop = () => endTree(child, exited).finally(unguard)
    // Any of these events may come first. The reason is known when the pipes have been read to their end.
    const broken = new Promise<void>((resolve) => {
      for (const stream of child.stdio) stream?.on('error', () => resolve())
      child.stdout.once('close', resolve)
    })
    void Promise.race([exited, broken])
      .then(() => fulfilledWithin(closed, DRAIN_MS))
      .then(() => this.#end(output.endOf(child)))
  }

  #receive(line: string, output: ChildOutput): void {
    if (this.#state.phase !== 'open' || line.trim() === '') return
    const messages = parseMessages(line)
    if (messages === undefined) return output.addInvalidLine(line)
    for (const message of messages) {
      if ('method' in message) {
        this.#deliver(message)
        continue
      }
      if (message.id !== undefined && message.id !== null) this.#pending.delete(message.id)
      // The SDK's client handles notifications one microtask later than responses, and a response removes its
      // progress handler. Without the delay, progress that arrived in the same chunk would be lost.
      queueMicrotask(() => this.#deliver(message))
    }
  }

  /** Ends the session. Only the first reason counts. */
  #end(reason: TransportError): void {
    const { phase } = this.#state
    if (phase === 'closed') return
    this.#state = { phase: 'closed' }
    this.#endedBy = reason
    this.#ending = this.#stop().finally(() => this.#connection.exited(this))
    for (const id of this.#pending) this.#deliver(errorAnswer(id, reason))
    this.#pending.clear()
    const { onclose } = this
    this.onclose = undefined
    this.onerror = undefined
    this.onmessage = undefined
    onclose?.()
  }

  /** Catches errors of the callback: thrown inside a stream event, they would end this process. */
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

/** Returns the messages in a line: one, or a batch as 2025-03-26 allowed. Undefined if the line is invalid. */
export function parseMessages(line: string): readonly JsonRpcMessage[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  const all: readonly unknown[] = Array.isArray(value) ? value : [value]
  const messages = all.map(messageFrom).filter((message) => message !== undefined)
  return messages.length > 0 && messages.length === all.length ? messages : undefined
}

export interface WorkingFolder extends AsyncDisposable {
  readonly path: string
}

/**
 * Returns the folder in which a child runs: its `cwd`, or a private folder that is created for it. Never the
 * current folder of this process.
 *
 * @throws StdioError for a `cwd` that is not a folder
 */
export async function createWorkingFolder(
  settings: Pick<StdioSettings, 'server' | 'stdio'>,
): Promise<WorkingFolder> {
  const { server, stdio } = settings
  if (server.cwd !== undefined) {
    await assertFolder(server.cwd)
    return { path: server.cwd, [Symbol.asyncDispose]: keep }
  }
  const { cacheFolder = userCacheFolder(process.platform) } = stdio ?? {}
  const name = commandLabel(server.command)
    .replaceAll(/[^\w.-]/g, '_')
    .replace(/^\.+/, '_')
  const path = join(cacheFolder, name)
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
    return { path, [Symbol.asyncDispose]: keep }
  } catch {
    // In containers, the home folder is often read-only. A temporary folder is removed at the end.
    const temporary = await mkdtemp(join(tmpdir(), 'mcp-client-'))
    return {
      path: temporary,
      [Symbol.asyncDispose]: () => rm(temporary, { recursive: true, force: true }),
    }
  }
}

/** Cache folder of the user, as each platform defines it. */
export function userCacheFolder(
  platform: NodeJS.Platform,
  environment: NodeJS.ProcessEnv = process.env,
  home: string = homedir(),
): string {
  const paths = platform === 'win32' ? win32 : posix
  const name = platform === 'win32' ? 'LOCALAPPDATA' : 'XDG_CACHE_HOME'
  const given = platform === 'darwin' ? undefined : getVariable(environment, name, platform)
  if (given !== undefined && paths.isAbsolute(given)) return paths.join(given, 'mcp-client')
  if (platform === 'win32') return paths.join(home, 'AppData', 'Local', 'mcp-client')
  return paths.join(home, platform === 'darwin' ? 'Library/Caches' : '.cache', 'mcp-client')
}

async function keep(): Promise<void> {}

/** Checks `cwd`, because Node reports a missing folder as a missing command. */
async function assertFolder(path: string): Promise<void> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new StdioError('UNREACHABLE', `its cwd ${path} cannot be used: create the folder`, {
      cause,
    })
  })
  if (!found.isDirectory()) {
    throw new StdioError('UNREACHABLE', `its cwd ${path} is not a folder: give the path of one`)
  }
}
