import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { CannedAnswer } from './canned-answer.ts'
import { sendAnswer } from './canned-answer.ts'
import { cursorFrom } from './event-stream.ts'
import type { LoopbackServer } from './loopback-server.ts'
import { listenOnLoopback } from './loopback-server.ts'
import { lossForms } from './loss-forms.ts'
import type { ReceivedRequest } from './received-request.ts'
import { countOfMethod, receivedRequestFrom } from './received-request.ts'
import type { WaitForOptions } from './recording.ts'
import { Recording } from './recording.ts'
import { header, requestBody } from './request-body.ts'
import type { RpcCall } from './rpc-call.ts'
import { RpcFailure } from './rpc-call.ts'
import type { RpcId, RpcMessage } from './rpc-message.ts'
import { rpcError, rpcMessageFrom } from './rpc-message.ts'
import type {
  InitializeFault,
  LegacyServerBehaviour,
  LegacyServerOptions,
} from './legacy-behaviour.ts'
import { resultOf, legacyVersions } from './legacy-methods.ts'
import { LegacySession } from './legacy-session.ts'
import { ToolRuns } from './tool-runs.ts'

/**
 * A session-ful MCP server (2025-03-26 to 2025-11-25) that keeps the state of its tools in the
 * session, tells what it saw, and misbehaves on demand. Written without the SDK, so that nothing
 * keeps it from doing so.
 */
export interface LegacyServer extends LegacyServerBehaviour, AsyncDisposable {
  /** Ends in `/mcp`. */
  readonly url: string
  /** Ids of the live sessions, oldest first. */
  readonly sessions: readonly string[]
  /** Every request, in the order of arrival; also those of before a restart. */
  readonly received: readonly ReceivedRequest[]
  /** TCP connections accepted so far. */
  readonly connections: number
  /** Standalone GET streams that are open now. */
  readonly openStreams: number
  /** Calls of `slow` that wait for {@link release}. */
  readonly held: number
  /** How often a tool really ran, over all sessions. */
  executions(toolName: string): number
  /** How often a client cancelled a call of this tool while it ran. */
  cancellations(toolName: string): number
  /** Requests of a JSON-RPC method (`tools/call`) or an HTTP method (`GET`). */
  count(method: string): number
  /** The first request that matches, past ones included, as soon as there is one. */
  waitFor(
    matches: (request: ReceivedRequest) => boolean,
    options?: WaitForOptions,
  ): Promise<ReceivedRequest>
  /** Lets every waiting call of `slow` answer; returns how many there were. @default 'released' */
  release(text?: string): number
  /** Reports progress of the waiting calls of `slow` that asked for it and are answered by SSE. */
  progress(progress: number, total?: number): void
  /**
   * Sends a notification on the GET streams of all sessions, and keeps it for those that come back
   * with `Last-Event-ID`. Returns on how many open streams it went.
   */
  notify(method: string, params?: Readonly<Record<string, unknown>>): number
  /** Ends the open GET streams; the sessions live on. Returns how many. */
  dropListenStreams(): number
  /** Ends SSE answers before the answer; the calls go on, and with ids can be resumed. Returns how many. */
  dropAnswerStreams(): number
  /** All sessions become unknown; their GET streams end, calls that run go on. */
  forgetSessions(): void
  /** A crash: sockets are reset, sessions are gone, the port stays. Ends when it listens again. */
  restart(): Promise<void>
}

/** Starts a {@link LegacyServer} on a free port of 127.0.0.1. */
export async function startLegacyServer(options: LegacyServerOptions = {}): Promise<LegacyServer> {
  const server = new StatefulHttpServer(options)
  await server.start()
  return server
}

class StatefulHttpServer implements LegacyServer {
  answerAs: LegacyServerBehaviour['answerAs']
  eventIds: boolean
  assignSessions: boolean
  lossForm: LegacyServerBehaviour['lossForm']
  listenStream: LegacyServerBehaviour['listenStream']
  terminate: LegacyServerBehaviour['terminate']
  acceptedStatus: LegacyServerBehaviour['acceptedStatus']
  callAnswer: CannedAnswer | undefined
  initialize: InitializeFault | undefined
  pageSize: number | undefined

  readonly #sessions = new Map<string, LegacySession>()
  readonly #recording = new Recording<ReceivedRequest>('requests to the stateful server')
  readonly #runs = new ToolRuns()
  /** How many requests each fault was applied to. */
  readonly #faultsUsed = new WeakMap<InitializeFault, number>()
  /** The one state of a server that assigns no sessions. */
  #shared = new LegacySession(undefined, legacyVersions[0])
  #http: LoopbackServer | undefined

  constructor(options: LegacyServerOptions) {
    const {
      answerAs = 'json',
      eventIds = true,
      assignSessions = true,
      lossForm = '404-32001',
      listenStream = 'open',
      terminate = 'allow',
      acceptedStatus = 202,
      callAnswer,
      initialize,
      pageSize,
    } = options
    this.answerAs = answerAs
    this.eventIds = eventIds
    this.assignSessions = assignSessions
    this.lossForm = lossForm
    this.listenStream = listenStream
    this.terminate = terminate
    this.acceptedStatus = acceptedStatus
    this.callAnswer = callAnswer
    this.initialize = initialize
    this.pageSize = pageSize
  }

  async start(): Promise<void> {
    this.#http = await listenOnLoopback((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        response.destroy()
        throw error // a hook of the test is wrong: it shall fail
      })
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`
  }

  get sessions(): readonly string[] {
    return [...this.#sessions.keys()]
  }

  get received(): readonly ReceivedRequest[] {
    return this.#recording.entries
  }

  get connections(): number {
    return this.#server.connections
  }

  get openStreams(): number {
    return this.#all().reduce((sum, session) => sum + session.listen.open, 0)
  }

  get held(): number {
    return this.#runs.held
  }

  executions(toolName: string): number {
    return this.#runs.executions(toolName)
  }

  cancellations(toolName: string): number {
    return this.#runs.cancellations(toolName)
  }

  count(method: string): number {
    return countOfMethod(this.received, method)
  }

  waitFor(
    matches: (request: ReceivedRequest) => boolean,
    options?: WaitForOptions,
  ): Promise<ReceivedRequest> {
    return this.#recording.waitFor(matches, options)
  }

  release(text = 'released'): number {
    return this.#runs.release(text)
  }

  progress(progress: number, total?: number): void {
    this.#runs.progress(progress, total)
  }

  notify(method: string, params?: Readonly<Record<string, unknown>>): number {
    const message = { jsonrpc: '2.0', method, params }
    return this.#all().reduce((sum, session) => sum + session.listen.send(message), 0)
  }

  dropListenStreams(): number {
    return this.#all().reduce((sum, session) => sum + session.listen.drop(), 0)
  }

  dropAnswerStreams(): number {
    const streams = this.#all().flatMap((session) => session.answerStreams)
    return streams.reduce((sum, stream) => sum + stream.drop(), 0)
  }

  forgetSessions(): void {
    const forgotten = this.#all()
    this.#sessions.clear()
    this.#shared = new LegacySession(undefined, legacyVersions[0])
    for (const session of forgotten) session.listen.end()
  }

  async restart(): Promise<void> {
    this.#runs.drop()
    // First the sockets, then the sessions: a crash says no farewell to its streams.
    const listening = this.#server.restart()
    this.forgetSessions()
    await listening
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#runs.drop()
    await this.#server.close()
    this.#recording.close()
  }

  get #server(): LoopbackServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }

  #all(): LegacySession[] {
    return [...this.#sessions.values(), this.#shared]
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await requestBody(request).catch(() => undefined)
    if (body === undefined) return // the client left in the middle of its request
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    // From here on without a pause: whoever waits for this entry finds its tool running.
    const connection = this.#server.connectionOf(request)
    this.#recording.add(receivedRequestFrom(request, message, connection))
    if (new URL(request.url ?? '/', this.url).pathname !== '/mcp') {
      sendAnswer(response, { status: 404, body: 'This server answers /mcp' })
      return
    }
    switch (request.method ?? '') {
      case 'POST':
        return this.#post(request, response, message)
      case 'GET':
        return this.#get(request, response)
      case 'DELETE':
        return this.#delete(request, response)
      default:
        return refuse(response, 405, 'Method not allowed')
    }
  }

  async #post(
    request: IncomingMessage,
    response: ServerResponse,
    message: RpcMessage | undefined,
  ): Promise<void> {
    const accept = header(request, 'accept') ?? ''
    if (!accept.includes('application/json') || !accept.includes('text/event-stream')) {
      return refuse(response, 406, 'Not Acceptable: accept both JSON and event streams')
    }
    if (!(header(request, 'content-type') ?? '').startsWith('application/json')) {
      return refuse(response, 415, 'Unsupported Media Type: send JSON')
    }
    if (message === undefined) {
      const body = rpcError(-32700, 'Parse error: one JSON-RPC message')
      return sendAnswer(response, { status: 400, body })
    }
    if (message.method === 'initialize' && header(request, 'mcp-session-id') === undefined) {
      return this.#initialize(response, message)
    }
    const session = this.#sessionOf(request, response, message.id)
    if (session === undefined) return
    if (message.method === 'initialize' && session.id !== undefined) {
      return sendAnswer(response, lossForms['400-already-initialized'], message.id)
    }
    await this.#inSession(session, response, message)
  }

  /** Runs a request, where it can be cancelled; accepts what is none. */
  async #inSession(
    session: LegacySession,
    response: ServerResponse,
    message: RpcMessage,
  ): Promise<void> {
    const { id, method, params = {} } = message
    if (method === undefined || id === undefined || id === null) {
      if (method === 'notifications/cancelled') session.cancel(params['requestId'])
      return sendAnswer(response, { status: this.acceptedStatus })
    }
    const abort = new AbortController()
    session.running.set(id, abort)
    try {
      await this.#answer(response, { session, id, method, params, signal: abort.signal })
    } finally {
      if (session.running.get(id) === abort) session.running.delete(id)
    }
  }

  /** Answers as `answerAs` says. A cancelled request gets an end without an answer. */
  async #answer(response: ServerResponse, request: Omit<RpcCall, 'notify'>): Promise<void> {
    if (request.method === 'tools/call' && this.callAnswer !== undefined) {
      await this.#answerTo({ ...request, notify: () => {} })
      return sendAnswer(response, this.callAnswer, request.id)
    }
    if (this.answerAs === 'json') {
      const answer = await this.#answerTo({ ...request, notify: () => {} })
      if (answer === undefined) sendAnswer(response, { status: 202 })
      else sendAnswer(response, { status: 200, body: JSON.stringify(answer) })
      return
    }
    const stream = request.session.openStream(this.eventIds)
    stream.attach(response)
    // Clients of older revisions do not expect an event without data.
    if (request.session.protocolVersion >= '2025-11-25') stream.prime()
    const notify: RpcCall['notify'] = (method, params) => {
      stream.send({ jsonrpc: '2.0', method, params })
    }
    const answer = await this.#answerTo({ ...request, notify })
    if (answer !== undefined) stream.send(answer)
    stream.end()
  }

  async #answerTo(call: RpcCall): Promise<unknown> {
    try {
      const result = await resultOf(call, { runs: this.#runs, pageSize: this.pageSize })
      return { jsonrpc: '2.0', id: call.id, result }
    } catch (error) {
      if (call.signal.aborted) return undefined
      const code = error instanceof RpcFailure ? error.code : -32603
      const message = error instanceof Error ? error.message : String(error)
      return { jsonrpc: '2.0', id: call.id, error: { code, message } }
    }
  }

  #get(request: IncomingMessage, response: ServerResponse): void {
    if (this.listenStream === 'refuse-405') return refuse(response, 405, 'Method not allowed')
    if (!(header(request, 'accept') ?? '').includes('text/event-stream')) {
      return refuse(response, 406, 'Not Acceptable: accept event streams')
    }
    const session = this.#sessionOf(request, response, undefined)
    if (session === undefined) return
    if (this.listenStream === 'close-at-once') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end()
      return
    }
    const lastEventId = header(request, 'last-event-id')
    const cursor = cursorFrom(lastEventId)
    const stream = session.streamOf(cursor?.key ?? session.listen.key)
    if (stream === undefined || (lastEventId !== undefined && cursor === undefined)) {
      return refuse(response, 400, 'Bad Request: unknown event id')
    }
    if (this.listenStream === 'one-per-session' && stream === session.listen && stream.open > 0) {
      return refuse(response, 409, 'Conflict: only one SSE stream is allowed per session')
    }
    stream.attach(response, cursor?.n)
  }

  #delete(request: IncomingMessage, response: ServerResponse): void {
    if (this.terminate === 'refuse-405') return refuse(response, 405, 'Method not allowed')
    const session = this.#sessionOf(request, response, undefined)
    if (session === undefined) return
    if (session.id !== undefined) this.#sessions.delete(session.id)
    session.listen.end()
    sendAnswer(response, { status: 200 })
  }

  /** The session a request names; when there is none, the refusal has been sent. */
  #sessionOf(
    request: IncomingMessage,
    response: ServerResponse,
    rpcId: RpcId | undefined,
  ): LegacySession | undefined {
    const id = header(request, 'mcp-session-id')
    const session = id === undefined ? undefined : this.#sessions.get(id)
    if (session === undefined && this.assignSessions) {
      sendAnswer(
        response,
        id === undefined ? lossForms['400-header-required'] : this.#loss(),
        rpcId,
      )
      return undefined
    }
    const version = header(request, 'mcp-protocol-version')
    if (version !== undefined && !legacyVersions.includes(version)) {
      refuse(response, 400, `Bad Request: Unsupported protocol version ${version}`)
      return undefined
    }
    return session ?? this.#shared
  }

  #loss(): CannedAnswer {
    return typeof this.lossForm === 'string' ? lossForms[this.lossForm] : this.lossForm
  }

  async #initialize(response: ServerResponse, message: RpcMessage): Promise<void> {
    const fault = this.#nextFault()
    await fault?.until?.catch(() => {})
    if (response.destroyed) return // the client left, or a crash took it: no session for nobody
    if (fault?.answer !== undefined) return sendAnswer(response, fault.answer, message.id)

    const { id = null, params = {} } = message
    const asked = params['protocolVersion']
    const version = legacyVersions.find((one) => one === asked) ?? legacyVersions[0]
    const session = this.assignSessions ? new LegacySession(randomUUID(), version) : this.#shared
    if (session.id !== undefined) {
      this.#sessions.set(session.id, session)
      response.setHeader('mcp-session-id', session.id)
    }
    const { signal } = new AbortController() // an initialize is never cancelled
    await this.#answer(response, { session, id, method: 'initialize', params, signal })
  }

  #nextFault(): InitializeFault | undefined {
    const fault = this.initialize
    if (fault === undefined) return undefined
    const used = (this.#faultsUsed.get(fault) ?? 0) + 1
    this.#faultsUsed.set(fault, used)
    if (used >= (fault.times ?? 1)) this.initialize = undefined
    return fault
  }
}

function refuse(response: ServerResponse, status: number, message: string): void {
  const headers = status === 405 ? { allow: 'POST' } : {}
  sendAnswer(response, { status, headers, body: rpcError(-32000, message) })
}
