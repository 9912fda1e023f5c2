import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { takeInputInstructions, TransportError, withTraceContext } from '@x/mcp-transport'
import type { Era, JsonRpcMessage, RequestId, TraceContext } from '@x/mcp-transport'
import { outsideRun } from '../run/run-context.ts'
import type { Secrets } from '../secret-source.ts'
import type { SessionTransport } from '../life/session-transport.ts'
import { ChildEvidence } from './child-evidence.ts'
import { incomingMessages } from './incoming-messages.ts'
import { LineReader } from './line-reader.ts'
import { endTree, endWithProcess } from './process-tree.ts'
import { Redaction } from './redaction.ts'
import { settledWithin } from './settled-within.ts'
import { environmentOf, startChild, startErrorFrom } from './start-child.ts'
import type { ServerCommand } from './start-child.ts'
import { StdioError } from './stdio-error.ts'
import type { StdioOptions } from './stdio-options.ts'

export interface StdioTransportOptions {
  readonly server: ServerCommand
  readonly secrets: () => Promise<Secrets>
  readonly stdio?: StdioOptions | undefined
  /** Where the child runs; asked when it starts. */
  readonly folder: () => Promise<string>
  /** Counts the sessions: each child is one. */
  readonly epoch: number
  /** One line of what the child writes. @default 16 MiB */
  readonly lineBytes?: number | undefined
  /** What each step of ending the child leaves it, in milliseconds. @default 2000 */
  readonly graceMs?: number | undefined
  readonly traceContext?: (() => TraceContext | undefined) | undefined
  readonly log?: ((level: 'info' | 'warning', message: string) => void) | undefined
  /** The child, and all that it has started, is gone; or there never was one. */
  readonly onGone?: (() => void) | undefined
}

type State =
  | { readonly phase: 'new' | 'starting' }
  | { readonly phase: 'open'; readonly child: ChildProcessWithoutNullStreams }
  | { readonly phase: 'closed' }

const LINE_BYTES = 16 * 1024 * 1024
/** For what a child that has exited has left in the pipes: whatever it has started may hold them open. */
const DRAIN_MS = 500
const INVALID_PARAMS = -32_602

/**
 * MCP over the standard input and output of a child process (2025-11-25, transports, stdio). The child is
 * the session: it starts with the transport and ends with it, and so does all that it has started.
 *
 * A request that gets no answer because the child is gone is answered with a JSON-RPC error whose `data`
 * is a `StdioError`. Nothing is sent twice, and `send()` never waits for the child.
 */
export class StdioTransport implements SessionTransport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JsonRpcMessage) => void) | undefined
  /** There is none: the child is the session. */
  readonly sessionId: undefined = undefined
  readonly isResumed: boolean = false
  readonly epoch: number
  readonly #options: StdioTransportOptions
  readonly #pending = new Set<RequestId>()
  #state: State = { phase: 'new' }
  #childEvidence: ChildEvidence | undefined
  #initialize: RequestId | undefined
  #protocolVersion: string | undefined
  #stop: () => Promise<void> = async () => {}
  #endedBy: TransportError | undefined
  #ending: Promise<void> | undefined

  constructor(options: StdioTransportOptions) {
    this.#options = options
    this.epoch = options.epoch
  }

  get era(): Era | undefined {
    return this.#protocolVersion === undefined ? undefined : 'legacy'
  }

  get protocolVersion(): string | undefined {
    return this.#protocolVersion
  }

  /** Why it ended; before that, what a child has shown of itself that gives no answer. */
  get evidence(): TransportError | undefined {
    if (this.#endedBy !== undefined && this.#endedBy.code !== 'CLOSED') return this.#endedBy
    return this.#childEvidence?.silence
  }

  /** Starts the child. @throws StdioError `UNREACHABLE` with the system's reason */
  async start(): Promise<void> {
    if (this.#state.phase !== 'new') throw new TypeError('The transport was started before')
    this.#state = { phase: 'starting' }
    try {
      await this.#start()
    } catch (error) {
      this.#end(closedError())
      throw error
    }
  }

  /**
   * Hands one message to the child. Its answer, or the reason why there is none, comes through `onmessage`.
   *
   * @throws TransportError `CLOSED` if there is no child
   */
  async send(message: JsonRpcMessage | readonly JsonRpcMessage[]): Promise<void> {
    if (isBatch(message)) throw new TypeError('send() takes one message, not an array of them')
    if (this.#state.phase !== 'open') throw closedError()
    let sent = withTraceContext(message, this.#options.traceContext?.())
    if ('method' in sent && 'id' in sent) {
      const { request, instructions } = takeInputInstructions(sent)
      const { id, method } = (sent = request)
      if (instructions.answers !== undefined) {
        const text = `${method} cannot be continued: that needs a server of 2026-07-28`
        this.#deliver({ jsonrpc: '2.0', id, error: { code: INVALID_PARAMS, message: text } })
        return
      }
      this.#pending.add(id)
      if (method === 'initialize') this.#initialize = id
    } else if ('method' in sent && sent.method === 'notifications/cancelled') {
      // 2025-11-25, cancellation: a client must not cancel its `initialize`.
      if (this.#initialize === sent.params?.['requestId']) return
    }
    // A child that is gone is told by its exit, which answers the request.
    this.#state.child.stdin.write(`${JSON.stringify(sent)}\n`)
  }

  setProtocolVersion(version: string): void {
    this.#protocolVersion = version
  }

  /** There is nothing but the child to end, and `close()` does that. */
  async terminateSession(): Promise<void> {}

  /**
   * Requests in flight are answered with `CLOSED` and `onclose` is called, at once; then the child is ended,
   * and resolves when it is gone with all that it has started: at most about 6 s. Idempotent.
   */
  async close(): Promise<void> {
    this.#end(closedError())
    await this.#ending
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #start(): Promise<void> {
    const { server, stdio = {}, folder } = this.#options
    const secrets = await this.#secrets()
    const redaction = new Redaction({ ...server, secrets })
    const evidence = new ChildEvidence({ redaction, log: (...line) => this.#log(...line) })
    this.#childEvidence = evidence
    const log = (message: string): void => this.#log('info', message)
    const prepared = { server, secrets, stdio, cwd: await folder(), log }
    const environment = await environmentOf(prepared)
    if (this.#state.phase !== 'starting') throw closedError()
    // Its pipes outlive the call that happens to need it first.
    const child = outsideRun(() => startChild(prepared, environment))
    if (child.pid === undefined) {
      const [cause] = await once(child, 'error', { signal: AbortSignal.timeout(1000) })
      throw startErrorFrom(cause)
    }
    child.on('error', (error) => this.#log('warning', error.message)) // it could not be signalled
    this.#state = { phase: 'open', child }
    this.#read(child, evidence)
  }

  async #secrets(): Promise<Secrets> {
    try {
      return await this.#options.secrets()
    } catch (cause) {
      throw new StdioError('CONFIG', 'its secrets cannot be had', { cause })
    }
  }

  #read(child: ChildProcessWithoutNullStreams, evidence: ChildEvidence): void {
    const exited = new Promise((resolve) => child.once('exit', resolve))
    const closed = new Promise((resolve) => child.once('close', resolve))
    const unguard = endWithProcess(child)
    const { lineBytes = LINE_BYTES } = this.#options
    const lines = new LineReader({
      maxBytes: lineBytes,
      onLine: (line) => this.#heard(line, evidence),
      onTooLong: () => {
        const what = `its process wrote a line of more than ${lineBytes} bytes: raise the option limits.eventBytes if it may write that much`
        this.#end(evidence.error('LIMIT', what))
      },
    })
    const { stderr } = evidence
    child.stdout.on('data', (chunk: Buffer) => {
      if (this.#state.phase === 'open') lines.push(chunk)
    })
    child.stdout.once('end', () => {
      if (this.#state.phase === 'open') lines.end()
    })
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
    child.stderr.once('end', () => stderr.end())
    const { graceMs } = this.#options
    this.#stop = () => endTree({ child, exited, graceMs }).finally(unguard)
    // One of these is how a child's end shows first; why it came to that is known when all of them have.
    const broken = new Promise<void>((resolve) => {
      for (const stream of child.stdio) stream?.on('error', () => resolve())
      child.stdout.once('close', resolve)
    })
    void Promise.race([exited, broken])
      .then(() => settledWithin(closed, DRAIN_MS))
      .then(() => this.#end(evidence.endOf(child)))
  }

  #heard(line: string, evidence: ChildEvidence): void {
    if (this.#state.phase !== 'open' || line.trim() === '') return
    const messages = incomingMessages(line)
    if (messages === undefined) return evidence.skipped(line)
    for (const message of messages) {
      if ('method' in message) {
        this.#deliver(message)
        continue
      }
      if (message.id !== undefined && message.id !== null) this.#pending.delete(message.id)
      // The SDK's client hears of notifications a turn later than of answers, and with the answer it forgets
      // who wants progress: what came in one piece with it would be lost.
      queueMicrotask(() => this.#deliver(message))
    }
  }

  /** The first reason counts. */
  #end(reason: TransportError): void {
    const { phase } = this.#state
    if (phase === 'closed') return
    this.#state = { phase: 'closed' }
    this.#endedBy = reason
    this.#ending = this.#stop().finally(() => this.#options.onGone?.())
    for (const id of this.#pending) this.#deliver(errorAnswer(id, reason))
    this.#pending.clear()
    const { onclose } = this
    this.onclose = undefined
    this.onerror = undefined
    this.onmessage = undefined
    onclose?.()
  }

  /** A callback that throws must not reach the stream, where it would end this process. */
  #deliver(message: JsonRpcMessage): void {
    try {
      this.onmessage?.(message)
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #log(level: 'info' | 'warning', message: string): void {
    this.#options.log?.(level, message)
  }
}

function closedError(): TransportError {
  return new TransportError('CLOSED', 'The transport is closed')
}

/** As the HTTP transport does it, so that the client settles the request and forgets it. */
function errorAnswer(id: RequestId, error: TransportError): JsonRpcMessage {
  return { jsonrpc: '2.0', id, error: { code: -32_000, message: error.message, data: error } }
}

function isBatch(
  message: JsonRpcMessage | readonly JsonRpcMessage[],
): message is readonly JsonRpcMessage[] {
  return Array.isArray(message)
}
