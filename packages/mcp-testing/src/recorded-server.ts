import type { IncomingMessage, ServerResponse } from 'node:http'
import { isRecord } from '@x/internal'
import { deferred } from '@x/internal/testing'
import type { LedgerEntry } from './call-ledger.ts'
import { CallLedger } from './call-ledger.ts'
import { sendAnswer } from './canned-answer.ts'
import { resetConnection } from './loopback-server.ts'
import type { Mutable, WaitForOptions } from './recording.ts'
import { Recording } from './recording.ts'
import type { ReadRequest, RecordedRequest } from './recording-server.ts'
import { readRequest, RecordingServer } from './recording-server.ts'
import type { TestTool, ToolContext } from './tools.ts'
import { fullResult } from './tools.ts'

/** How a response ended. */
export type ResponseEnd =
  | 'complete' // the whole answer went out
  | 'cut' // the server broke it off
  | 'client-gone' // the client closed its connection

/** One HTTP request to a server, with the end of its answer. */
export interface ReceivedRequest extends RecordedRequest {
  readonly params: Readonly<Record<string, unknown>> | undefined
  /** All headers, names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** How the answer ended. Absent while it goes on. */
  readonly end: ResponseEnd | undefined
}

/** One `subscriptions/listen` stream of a modern client. */
export interface Listener {
  /** `params.notifications` of the request. */
  readonly requested: unknown
  readonly isOpen: boolean
}

/** Options of every server. */
export interface ServerOptions {
  /** Counts the executed calls. Servers may share one. @default a ledger of its own */
  readonly ledger?: CallLedger | undefined
}

/** A request on its way through a server. */
export interface HandledRequest extends Omit<ReadRequest, 'recorded'> {
  readonly request: IncomingMessage
  readonly response: OpenResponse
  readonly received: Mutable<ReceivedRequest>
  /** Entry in the ledger of a `tools/call`. */
  readonly call: LedgerEntry | undefined
}

/** Part of a tool's context that depends on the era. */
export interface ToolStart
  extends
    Pick<ToolContext, 'state' | 'signal'>,
    Partial<Pick<ToolContext, 'inputResponses' | 'requestState' | 'log'>> {
  readonly notify: (
    method: string,
    params: Readonly<Record<string, unknown>>,
  ) => Promise<void> | void
  /** Asks the client for the inputs of an `InputRequiredResult`. Absent: the result goes to the client. */
  readonly ask?: (
    requests: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, unknown>>>
}

/** Base of the MCP servers: executes tools, and records them in a ledger. */
export abstract class RecordedServer extends RecordingServer<ReceivedRequest> {
  /** Calls that reached the server, and what it executed. */
  readonly ledger: CallLedger
  readonly #era: LedgerEntry['era']
  readonly #ownsLedger: boolean
  readonly #open = new Set<OpenResponse>()
  /** Calls that wait in `hold()`, with a function that lets one answer. */
  readonly #held = new Map<ToolContext, (text: string) => void>()
  #crash = new AbortController()

  constructor(era: LedgerEntry['era'], { ledger }: ServerOptions) {
    super(new Recording('requests to the server'))
    this.#era = era
    this.ledger = ledger ?? new CallLedger()
    this.#ownsLedger = ledger === undefined
  }

  /** Every request, in the order of arrival; also those before a restart. */
  get received(): readonly ReceivedRequest[] {
    return this.log.entries
  }

  /** Calls that wait for {@link release}. */
  get held(): number {
    return this.#held.size
  }

  /** Number of calls of a tool that were executed. Short for `ledger.executions(tool)`. */
  executions(tool: string): number {
    return this.ledger.executions(tool)
  }

  /** Number of requests with a JSON-RPC method (`tools/call`) or an HTTP method (`GET`). */
  count(method: string): number {
    return this.received.filter((one) => one.rpcMethod === method || one.httpMethod === method)
      .length
  }

  /** Lets every call that waits in `hold()` answer; returns how many. @default 'released' */
  release(text = 'released'): number {
    const held = [...this.#held.values()]
    this.#held.clear()
    for (const answer of held) answer(text)
    return held.length
  }

  /** Reports progress of the calls that wait in `hold()` and asked for progress. */
  async progress(progress: number, total?: number): Promise<void> {
    await Promise.all([...this.#held.keys()].map((call) => call.progress(progress, total)))
  }

  /** A crash: connections are reset, running calls end, the port stays. Resolves when it listens again. */
  async restart(): Promise<void> {
    for (const response of this.#open) response.reset()
    this.#crash.abort()
    this.#crash = new AbortController()
    await this.server.restart()
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.#crash.abort()
    await super[Symbol.asyncDispose]()
    if (this.#ownsLedger) this.ledger.close()
  }

  protected abstract answer(handled: HandledRequest): Promise<void>

  /** Runs the tool of a `tools/call`, and records it in the ledger. */
  protected runTool(
    tool: TestTool,
    { call, received }: HandledRequest,
    start: ToolStart,
  ): Promise<Record<string, unknown>> {
    if (call === undefined) throw new TypeError('The request is not a tools/call')
    const { state, notify, ask, inputResponses, requestState } = start
    const signal = AbortSignal.any([start.signal, this.#crash.signal])
    const meta = received.params?.['_meta']
    const progressToken = isRecord(meta) ? meta['progressToken'] : undefined
    const context: ToolContext = {
      call,
      principal: call.principal,
      sessionId: call.sessionId,
      state,
      signal,
      headers: received.headers,
      inputResponses,
      requestState,
      async progress(progress, total, message) {
        if (progressToken === undefined) return
        await notify('notifications/progress', { progressToken, progress, total, message })
      },
      log: start.log ?? (async (level, data) => notify('notifications/message', { level, data })),
      hold: () => this.#hold(context),
    }
    return this.ledger.run(call, signal, async () => {
      for (let round = context; ;) {
        const result = fullResult(await tool.run(call.args, round))
        const { inputRequests, requestState: nextState } = result
        if (ask === undefined || !isRecord(inputRequests)) return result
        const answers = await ask(inputRequests, signal)
        round = { ...context, inputResponses: answers, requestState: nextState }
      }
    })
  }

  #hold(context: ToolContext): Promise<string> {
    const { promise, resolve, reject } = deferred<string>()
    this.#held.set(context, resolve)
    context.signal.addEventListener('abort', () => {
      this.#held.delete(context)
      reject(new Error('The call was cancelled'))
    })
    return promise
  }

  protected async handle(request: IncomingMessage, raw: ServerResponse): Promise<void> {
    const read = await readRequest(request, this.server.connectionOf(request))
    if (read === undefined) return
    const { body, message, recorded } = read
    const { headers } = request
    const { params } = message ?? {}
    const received: Mutable<ReceivedRequest> = { ...recorded, params, headers, end: undefined }
    const response = new OpenResponse(raw, (end) => {
      if (raw.headersSent) received.status = raw.statusCode
      received.end = end
      this.#open.delete(response)
      this.log.changed(received)
    })
    this.#open.add(response)
    const { toolName: tool, principal, sessionId } = received
    const { arguments: given, _meta: meta } = params ?? {}
    const args = isRecord(given) ? given : {}
    const caller = { principal, sessionId, era: this.#era }
    const call = tool === undefined ? tool : this.ledger.receive({ tool, args, meta, ...caller })
    // No pause from here to the start of the tool: a test that waits for the request finds it running.
    this.log.add(received)
    const handled = { request, response, body, message, received, call }
    if (new URL(request.url ?? '/', this.url).pathname !== '/mcp') {
      return sendAnswer(raw, { status: 404, body: 'This server answers /mcp' })
    }
    await this.answer(handled)
  }
}

/** Base of the servers of 2026-07-28, which have `subscriptions/listen` streams. */
export abstract class StatelessServer<Stream extends Listener> extends RecordedServer {
  protected readonly streams: Recording<Stream> = new Recording('listen streams')

  constructor(options: ServerOptions) {
    super('modern', options)
  }

  /** Open listen streams. */
  get listeners(): readonly Stream[] {
    return this.streams.entries.filter((stream) => stream.isOpen)
  }

  /** The first listen stream that matches, closed ones included. Looks again when one closes. */
  waitForListener(
    matches: (listener: Stream) => boolean,
    options?: WaitForOptions,
  ): Promise<Stream> {
    return this.streams.waitFor(matches, options)
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]()
    this.streams.close()
  }
}

/** A response that knows who ended it. */
export class OpenResponse {
  readonly raw: ServerResponse
  /** Aborts when the response has ended. */
  readonly signal: AbortSignal
  /** Resolves when the response has ended. */
  readonly over: Promise<void>
  #isCut = false

  constructor(raw: ServerResponse, onEnd: (end: ResponseEnd) => void) {
    const abort = new AbortController()
    this.raw = raw
    this.signal = abort.signal
    this.over = new Promise((resolve) => {
      raw.once('close', () => {
        onEnd(raw.writableFinished ? 'complete' : this.#isCut ? 'cut' : 'client-gone')
        abort.abort()
        resolve()
      })
    })
  }

  /** More can be written: the response is not over, and the client has not left. */
  get isOpen(): boolean {
    return !this.#isCut && !this.signal.aborted && !this.raw.writableEnded
  }

  /** Resets the connection: bytes on their way may be lost. */
  reset(): void {
    this.#isCut = true
    resetConnection(this.raw.socket)
  }

  /** Ends the connection in the middle of the body: written bytes arrive. */
  breakOff(): void {
    this.#isCut = true
    this.raw.socket?.destroySoon()
  }
}
