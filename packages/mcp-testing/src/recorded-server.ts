import type { IncomingMessage, ServerResponse } from 'node:http'
import type { LedgerEntry } from './call-ledger.ts'
import { CallLedger } from './call-ledger.ts'
import { sendAnswer } from './canned-answer.ts'
import type { LoopbackServer } from './loopback-server.ts'
import { listenOnLoopback } from './loopback-server.ts'
import type { Mutable, WaitForOptions } from './recording.ts'
import { Recording } from './recording.ts'
import { header, requestBody } from './request-body.ts'
import type { RpcId, RpcMessage } from './rpc-message.ts'
import { isObject, rpcMessageFrom, toolNameOf } from './rpc-message.ts'
import type { ServerFault } from './server-faults.ts'
import { captureAnswer, sendFaultyAnswer } from './server-faults.ts'
import type { TestTool, ToolContext } from './tools.ts'
import { fullResult } from './tools.ts'

/** How a response ended. */
export type ResponseEnd =
  | 'complete' // the whole answer went out
  | 'cut' // the server broke it off
  | 'client-gone' // the client closed its connection

/** One HTTP request to a server, and what became of it. Session ids and tokens are in full. */
export interface ReceivedRequest {
  readonly httpMethod: string
  readonly rpcMethod?: string | undefined
  readonly rpcId?: RpcId | undefined
  readonly params?: Readonly<Record<string, unknown>> | undefined
  /** Tool of a `tools/call`. */
  readonly toolName?: string | undefined
  readonly sessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  readonly lastEventId?: string | undefined
  readonly accept?: string | undefined
  /** All headers, names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** Number of the TCP connection; the first one is 1. */
  readonly connection: number
  /** Status of the answer. Absent while there is none. */
  readonly status?: number | undefined
  /** How the answer ended. Absent while it goes on. */
  readonly end?: ResponseEnd | undefined
}

/** One `subscriptions/listen` stream of a modern client. */
export interface Listener {
  /** Id of the request, which is the id of the subscription. */
  readonly id: RpcId | undefined
  /** Filter that the client asked for: `params.notifications`. */
  readonly requested: unknown
  /** Filter that the server acknowledged; absent before. */
  readonly acknowledged: unknown
  /** Number of its TCP connection. */
  readonly connection: number
  readonly isOpen: boolean
}

/** Options of every server. */
export interface ServerOptions {
  /** Counts the executed calls. Servers may share one. @default a ledger of its own */
  readonly ledger?: CallLedger | undefined
  /** Faults from the start; see `inject()`. @default none */
  readonly faults?: readonly ServerFault[] | undefined
}

/** A request on its way through a server. */
export interface HandledRequest {
  readonly request: IncomingMessage
  readonly response: OpenResponse
  readonly body: Buffer
  /** Absent when the body is not one JSON-RPC message. */
  readonly message: RpcMessage | undefined
  readonly received: Mutable<ReceivedRequest>
  /** Entry in the ledger of a `tools/call`. */
  readonly call: LedgerEntry | undefined
}

/** What a server knows of a call when its tool starts. */
export interface ToolStart extends Pick<ToolContext, 'state' | 'signal' | 'headers'> {
  readonly call: LedgerEntry
  readonly meta: unknown
  readonly inputResponses?: ToolContext['inputResponses']
  readonly requestState?: unknown
  readonly log?: ToolContext['log'] | undefined
  readonly notify: (
    method: string,
    params: Readonly<Record<string, unknown>>,
  ) => Promise<void> | void
}

interface HeldCall {
  readonly progress: ToolContext['progress']
  readonly release: (text: string) => void
}

/** What the servers of both eras have in common: a port, a record of requests, a ledger, faults. */
export abstract class RecordedServer implements AsyncDisposable {
  /** Calls that reached the server, and what it executed. */
  readonly ledger: CallLedger
  readonly #era: LedgerEntry['era']
  readonly #ownsLedger: boolean
  readonly #requests = new Recording<Mutable<ReceivedRequest>>('requests to the server')
  readonly #faults = new Set<{ readonly fault: ServerFault; left: number }>()
  readonly #open = new Set<OpenResponse>()
  readonly #held = new Set<HeldCall>()
  #crash = new AbortController()
  #http: LoopbackServer | undefined

  constructor(era: LedgerEntry['era'], { ledger, faults = [] }: ServerOptions) {
    this.#era = era
    this.ledger = ledger ?? new CallLedger()
    this.#ownsLedger = ledger === undefined
    for (const fault of faults) this.inject(fault)
  }

  /** Listens. Called once, by the function that starts the server. */
  async start(): Promise<void> {
    this.#http = await listenOnLoopback((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        response.destroy()
        throw error // a callback of the test is wrong: the test must fail
      })
    })
  }

  /** Ends in `/mcp`. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`
  }

  /** Every request, in the order of arrival; also those before a restart. */
  get received(): readonly ReceivedRequest[] {
    return this.#requests.entries
  }

  /** TCP connections accepted so far. */
  get connections(): number {
    return this.#server.connections
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

  /** The first request that matches, past ones included. Looks again when an answer ends. */
  waitFor(
    matches: (request: ReceivedRequest) => boolean,
    options?: WaitForOptions,
  ): Promise<ReceivedRequest> {
    return this.#requests.waitFor(matches, options)
  }

  /** Adds a fault; of those that match, the oldest acts. Returns a function that removes it. */
  inject(fault: ServerFault): () => void {
    const active = { fault, left: fault.times ?? 1 }
    this.#faults.add(active)
    return () => void this.#faults.delete(active)
  }

  /** Lets every call that waits in `hold()` answer; returns how many. @default 'released' */
  release(text = 'released'): number {
    const held = [...this.#held]
    for (const call of held) call.release(text)
    return held.length
  }

  /** Reports progress of the calls that wait in `hold()` and asked for progress. */
  async progress(progress: number, total?: number): Promise<void> {
    await Promise.all([...this.#held].map((call) => call.progress(progress, total)))
  }

  /** A crash: connections are reset, running calls end, the port stays. Resolves when it listens again. */
  async restart(): Promise<void> {
    for (const response of this.#open) response.reset()
    this.#crash.abort()
    this.#crash = new AbortController()
    await this.#server.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#crash.abort()
    await this.#server.close()
    this.#requests.close()
    if (this.#ownsLedger) this.ledger.close()
  }

  /** Answers a request. */
  protected abstract answer(handled: HandledRequest): Promise<void>

  /** Runs a tool, and enters that into the ledger. */
  protected runTool(
    tool: TestTool,
    args: Readonly<Record<string, unknown>>,
    start: ToolStart,
  ): Promise<Record<string, unknown>> {
    const { call, meta, notify } = start
    const signal = AbortSignal.any([start.signal, this.#crash.signal])
    const progressToken = isObject(meta) ? meta['progressToken'] : undefined
    const context: ToolContext = {
      call,
      principal: call.principal,
      sessionId: call.sessionId,
      state: start.state,
      signal,
      headers: start.headers,
      inputResponses: start.inputResponses,
      requestState: start.requestState,
      async progress(progress, total, message) {
        if (progressToken === undefined) return
        await notify('notifications/progress', { progressToken, progress, total, message })
      },
      log: start.log ?? (async (level, data) => notify('notifications/message', { level, data })),
      hold: () => this.#hold(context),
    }
    return this.ledger.run(call, signal, async () => fullResult(await tool.run(args, context)))
  }

  #hold({ signal, progress }: ToolContext): Promise<string> {
    return new Promise((resolve, reject) => {
      const held: HeldCall = {
        progress,
        release: (text) => {
          this.#held.delete(held)
          resolve(text)
        },
      }
      this.#held.add(held)
      signal.addEventListener('abort', () => {
        this.#held.delete(held)
        reject(new Error('The call was cancelled'))
      })
    })
  }

  get #server(): LoopbackServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }

  async #handle(request: IncomingMessage, raw: ServerResponse): Promise<void> {
    const body = await requestBody(request).catch(() => undefined)
    if (body === undefined) return // the client left in the middle of its request
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    const received: Mutable<ReceivedRequest> = {
      httpMethod: request.method ?? '',
      rpcMethod: message?.method,
      rpcId: message?.id,
      params: message?.params,
      toolName: toolNameOf(message),
      sessionId: header(request, 'mcp-session-id'),
      protocolVersion: header(request, 'mcp-protocol-version'),
      lastEventId: header(request, 'last-event-id'),
      accept: header(request, 'accept'),
      headers: request.headers,
      connection: this.#server.connectionOf(request),
    }
    const response = new OpenResponse(raw, (end) => {
      if (raw.headersSent) received.status = raw.statusCode
      received.end = end
      this.#open.delete(response)
      this.#requests.changed(received)
    })
    this.#open.add(response)
    const call = this.#enter(received)
    // No pause from here to the start of the tool: a test that waits for the request finds it running.
    this.#requests.add(received)
    const handled = { request, response, body, message, received, call }
    if (new URL(request.url ?? '/', this.url).pathname !== '/mcp') {
      return sendAnswer(raw, { status: 404, body: 'This server answers /mcp' })
    }
    const fault = this.#faultFor(received)
    await (fault === undefined ? this.answer(handled) : this.#answerWith(fault, handled))
  }

  #enter({ toolName, params = {}, sessionId, headers }: ReceivedRequest): LedgerEntry | undefined {
    if (toolName === undefined) return undefined
    const args = isObject(params['arguments']) ? params['arguments'] : {}
    const [, principal] = /^Bearer (.*)$/i.exec(String(headers['authorization'])) ?? []
    const meta = params['_meta']
    return this.ledger.receive({ tool: toolName, args, meta, principal, sessionId, era: this.#era })
  }

  #faultFor({ rpcMethod, toolName }: ReceivedRequest): ServerFault | undefined {
    for (const active of this.#faults) {
      const { method = 'tools/call', tool = toolName } = active.fault
      if (method !== rpcMethod || tool !== toolName) continue
      if (--active.left <= 0) this.#faults.delete(active)
      return active.fault
    }
    return undefined
  }

  async #answerWith(fault: ServerFault, handled: HandledRequest): Promise<void> {
    const { until, instead, answer: kind } = fault
    const { received, response } = handled
    const { raw } = response
    const rpcId = received.rpcId ?? null
    if (kind !== undefined) {
      const captured = captureAnswer(raw)
      await this.answer(handled)
      const answer = await captured
      await until?.catch(() => {})
      const otherId = kind === 'id-of-another-call' ? await this.#idOfAnother(received) : null
      if (!response.isOpen) return
      if (otherId === undefined) return response.reset()
      if (kind === 'cut' || kind === 'reset') response.markCut()
      return sendFaultyAnswer(raw, answer, { kind, rpcId, otherId })
    }
    await until?.catch(() => {})
    if (!response.isOpen || instead === 'hang') return // the client left, or a restart cut it
    if (instead === 'reset') return response.reset()
    if (instead !== undefined) return sendAnswer(raw, instead, rpcId)
    await this.answer(handled)
  }

  /** Id of another call of the session that waits for its answer. Waits for one, as `waitFor` does. */
  async #idOfAnother({ rpcId, sessionId }: ReceivedRequest): Promise<RpcId | undefined> {
    const isOther = (one: ReceivedRequest): boolean =>
      one.toolName !== undefined &&
      one.end === undefined &&
      one.sessionId === sessionId &&
      one.rpcId !== rpcId
    return this.waitFor(isOther).then(
      (other) => other.rpcId,
      () => undefined,
    )
  }
}

/** A response that knows who ended it. */
export class OpenResponse {
  readonly raw: ServerResponse
  /** Aborts when the response is over, however it ended. */
  readonly signal: AbortSignal
  #isCut = false

  constructor(raw: ServerResponse, onEnd: (end: ResponseEnd) => void) {
    const over = new AbortController()
    this.raw = raw
    this.signal = over.signal
    raw.once('close', () => {
      onEnd(raw.writableFinished ? 'complete' : this.#isCut ? 'cut' : 'client-gone')
      over.abort()
    })
  }

  /** More can be written: the response is not over, and the client has not left. */
  get isOpen(): boolean {
    return !this.#isCut && !this.signal.aborted && !this.raw.writableEnded
  }

  /** The server, not the client, is about to end the connection. */
  markCut(): void {
    this.#isCut = true
  }

  /** Resets the connection: bytes on their way may be lost. */
  reset(): void {
    this.#isCut = true
    this.raw.socket?.resetAndDestroy()
  }

  /** Ends the connection in the middle of the body: written bytes arrive. */
  breakOff(): void {
    this.#isCut = true
    this.raw.socket?.destroySoon()
  }
}
