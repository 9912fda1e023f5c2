import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { CannedAnswer } from './canned-answer.ts'
import { sendAnswer } from './canned-answer.ts'
import { cursorFrom } from './event-stream.ts'
import type { LoopbackServer } from './loopback-server.ts'
import { listenOnLoopback } from './loopback-server.ts'
import type { LossFormName } from './loss-forms.ts'
import { lossForms } from './loss-forms.ts'
import type { WaitForOptions } from './recording.ts'
import { Recording } from './recording.ts'
import { header, requestBody } from './request-body.ts'
import type { RpcId, RpcMessage } from './rpc-message.ts'
import { rpcError, rpcMessageFrom, toolNameOf } from './rpc-message.ts'
import { StatefulSession } from './stateful-session.ts'
import type { ToolResult } from './stateful-tools.ts'
import { statefulTools } from './stateful-tools.ts'

const VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26']
const LATEST = '2025-11-25'

/** One request as the server saw it. Ids are in full: this is a test tool. */
export interface ReceivedRequest {
  readonly httpMethod: string
  readonly rpcMethod?: string | undefined
  readonly rpcId?: RpcId | undefined
  /** Tool of a `tools/call`. */
  readonly toolName?: string | undefined
  readonly sessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  readonly lastEventId?: string | undefined
  readonly accept?: string | undefined
  /** All headers, names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The parsed JSON-RPC `params`. */
  readonly params?: Readonly<Record<string, unknown>> | undefined
  /** Number of the TCP connection it came on; the first one is 1. */
  readonly connection: number
}

/** What happens to the next `initialize` requests. */
export interface InitializeFault {
  /** How many of them. @default 1 */
  readonly times?: number | undefined
  /** They are answered only after this has settled. */
  readonly until?: Promise<unknown> | undefined
  /** They are answered with this, and no session is made. @default a normal answer */
  readonly answer?: CannedAnswer | undefined
}

/** How the server behaves. Each one is also a property, and may be changed while it runs. */
export interface StatefulServerBehaviour {
  /** Content type of answers to requests. @default 'json' */
  answerAs: 'json' | 'sse'
  /** Whether it assigns session ids; without, all clients share one state. @default true */
  assignSessions: boolean
  /** How it refuses a session it does not know. @default '404-32001' */
  lossForm: LossFormName | CannedAnswer
  /** What it does with a GET. `one-per-session` refuses a second one with 409. @default 'open' */
  listenStream: 'open' | 'one-per-session' | 'refuse-405' | 'close-at-once'
  /** What it does with a DELETE. @default 'allow' */
  terminate: 'allow' | 'refuse-405'
  /** Status for notifications and responses. @default 202 */
  acceptedStatus: 200 | 202 | 204
  /** Fault of the next `initialize` requests; counts itself down. @default undefined */
  initialize: InitializeFault | undefined
  /** Tools per page of `tools/list`. @default undefined: all on one page */
  pageSize: number | undefined
}

/** Options of {@link startStatefulServer}. */
export type StatefulServerOptions = {
  readonly [Name in keyof StatefulServerBehaviour]?: StatefulServerBehaviour[Name] | undefined
}

/**
 * A session-ful MCP server (2025-03-26 to 2025-11-25) that keeps the state of its tools in the
 * session, tells what it saw, and misbehaves on demand. Written without the SDK, so that nothing
 * keeps it from doing so.
 */
export interface StatefulServer extends StatefulServerBehaviour, AsyncDisposable {
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
  /** Lets every waiting call of `slow` answer; returns how many there were. */
  release(text?: string): number
  /**
   * Sends a notification on the GET streams of all sessions, and keeps it for those that come back
   * with `Last-Event-ID`. Returns on how many open streams it went.
   */
  notify(method: string, params?: Readonly<Record<string, unknown>>): number
  /** Reports progress of the waiting calls of `slow` that asked for it and are answered by SSE. */
  progress(progress: number, total?: number): void
  /** Ends the responses of running SSE answers without an answer; returns how many. They can be resumed. */
  dropAnswerStreams(): number
  /** Ends the open GET streams; the sessions live on. */
  dropListenStreams(): void
  /** All sessions become unknown; their GET streams end, calls that run go on. */
  forgetSessions(): void
  /** A crash: sockets are reset, sessions are gone, the port stays. Ends when it listens again. */
  restart(): Promise<void>
}

/** Starts a {@link StatefulServer} on a free port of 127.0.0.1. */
export async function startStatefulServer(
  options: StatefulServerOptions = {},
): Promise<StatefulServer> {
  const server = new StatefulHttpServer(options)
  await server.start()
  return server
}

/** A call that is being answered. */
interface Call {
  readonly session: StatefulSession
  readonly id: RpcId
  readonly message: RpcMessage
  readonly signal: AbortSignal
  /** Sends a notification on the stream of the answer, if it is one. */
  readonly notify: (method: string, params: Readonly<Record<string, unknown>>) => void
}

interface HeldCall {
  readonly call: Call
  readonly release: (text: string) => void
}

/** A JSON-RPC error answer. */
class RpcFailure extends Error {
  override readonly name = 'RpcFailure'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

class StatefulHttpServer implements StatefulServer {
  answerAs: StatefulServerBehaviour['answerAs']
  assignSessions: boolean
  lossForm: StatefulServerBehaviour['lossForm']
  listenStream: StatefulServerBehaviour['listenStream']
  terminate: StatefulServerBehaviour['terminate']
  acceptedStatus: StatefulServerBehaviour['acceptedStatus']
  initialize: InitializeFault | undefined
  pageSize: number | undefined

  readonly #sessions = new Map<string, StatefulSession>()
  readonly #recording = new Recording<ReceivedRequest>('requests to the stateful server')
  readonly #executions = new Map<string, number>()
  readonly #cancellations = new Map<string, number>()
  readonly #held = new Set<HeldCall>()
  /** How many requests each fault was applied to. */
  readonly #faultsUsed = new WeakMap<InitializeFault, number>()
  #shared = new StatefulSession(undefined, LATEST)
  #http: LoopbackServer | undefined

  constructor(options: StatefulServerOptions) {
    const {
      answerAs = 'json',
      assignSessions = true,
      lossForm = '404-32001',
      listenStream = 'open',
      terminate = 'allow',
      acceptedStatus = 202,
      initialize,
      pageSize,
    } = options
    this.answerAs = answerAs
    this.assignSessions = assignSessions
    this.lossForm = lossForm
    this.listenStream = listenStream
    this.terminate = terminate
    this.acceptedStatus = acceptedStatus
    this.initialize = initialize
    this.pageSize = pageSize
  }

  async start(): Promise<void> {
    this.#http = await listenOnLoopback((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        // The client left in mid-request, or the test closed the server: nobody to tell.
        response.destroy(error instanceof Error ? error : undefined)
      })
    })
  }

  get #server(): LoopbackServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }

  // What the test sees

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
    return this.#held.size
  }

  executions(toolName: string): number {
    return this.#executions.get(toolName) ?? 0
  }

  cancellations(toolName: string): number {
    return this.#cancellations.get(toolName) ?? 0
  }

  count(method: string): number {
    return this.received.filter((one) => one.rpcMethod === method || one.httpMethod === method)
      .length
  }

  waitFor(
    matches: (request: ReceivedRequest) => boolean,
    options?: WaitForOptions,
  ): Promise<ReceivedRequest> {
    return this.#recording.waitFor(matches, options)
  }

  // What the test does

  release(text = 'released'): number {
    const calls = [...this.#held]
    for (const held of calls) held.release(text)
    return calls.length
  }

  notify(method: string, params?: Readonly<Record<string, unknown>>): number {
    const message = { jsonrpc: '2.0', method, params }
    return this.#all().reduce((sum, session) => sum + session.listen.send(message), 0)
  }

  progress(progress: number, total?: number): void {
    for (const { call } of this.#held) {
      const meta = call.message.params?.['_meta']
      const progressToken: unknown = Object(meta).progressToken
      if (progressToken === undefined) continue
      call.notify('notifications/progress', { progressToken, progress, total })
    }
  }

  dropAnswerStreams(): number {
    const streams = this.#all().flatMap((session) => session.answerStreams)
    for (const stream of streams) stream.drop()
    return streams.length
  }

  dropListenStreams(): void {
    for (const session of this.#all()) session.listen.drop()
  }

  forgetSessions(): void {
    const forgotten = this.#all()
    this.#sessions.clear()
    this.#shared = new StatefulSession(undefined, LATEST)
    for (const session of forgotten) session.listen.end()
  }

  async restart(): Promise<void> {
    this.forgetSessions()
    this.#held.clear()
    await this.#server.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#held.clear()
    await this.#server.close()
    this.#recording.close()
  }

  // HTTP

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await requestBody(request)
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    // From here on without a pause: whoever waits for this entry finds it being worked on.
    this.#recording.add({
      httpMethod: request.method ?? '',
      rpcMethod: message?.method,
      rpcId: message?.id,
      toolName: toolNameOf(message),
      sessionId: header(request, 'mcp-session-id'),
      protocolVersion: header(request, 'mcp-protocol-version'),
      lastEventId: header(request, 'last-event-id'),
      accept: header(request, 'accept'),
      headers: request.headers,
      params: message?.params,
      connection: this.#server.connectionOf(request),
    })
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
        sendAnswer(response, { status: 405, headers: { allow: 'GET, POST, DELETE' } })
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
      sendAnswer(response, {
        status: 400,
        body: rpcError(-32700, 'Parse error: one JSON-RPC message'),
      })
      return
    }
    if (message.method === 'initialize' && header(request, 'mcp-session-id') === undefined) {
      return this.#initialize(response, message)
    }
    const session = this.#sessionOf(request, response, message.id)
    if (session === undefined) return
    if (message.method === 'initialize' && session.id !== undefined) {
      sendAnswer(response, lossForms['400-already-initialized'], message.id)
      return
    }
    const { id } = message
    if (message.method === undefined || id === undefined || id === null) {
      if (message.method === 'notifications/cancelled') cancel(session, message)
      sendAnswer(response, { status: this.acceptedStatus })
      return
    }
    const abort = new AbortController()
    session.running.set(id, abort)
    try {
      await this.#answer(response, { session, id, message, signal: abort.signal })
    } finally {
      if (session.running.get(id) === abort) session.running.delete(id)
    }
  }

  /** Runs the request, and answers as `answerAs` says; a cancelled one gets an end without an answer. */
  async #answer(response: ServerResponse, request: Omit<Call, 'notify'>): Promise<void> {
    const { session, id } = request
    const answerFor = async (call: Call): Promise<unknown> => {
      try {
        return { jsonrpc: '2.0', id, result: await this.#result(call) }
      } catch (error) {
        if (call.signal.aborted) return undefined
        const code = error instanceof RpcFailure ? error.code : -32603
        const message = error instanceof Error ? error.message : String(error)
        return { jsonrpc: '2.0', id, error: { code, message } }
      }
    }
    if (this.answerAs === 'json') {
      const answer = await answerFor({ ...request, notify: () => {} })
      sendAnswer(
        response,
        answer === undefined ? { status: 202 } : { status: 200, body: JSON.stringify(answer) },
      )
      return
    }
    const stream = session.openStream()
    stream.attach(response)
    // Clients of older revisions do not expect an event without data.
    if (session.protocolVersion >= '2025-11-25') stream.prime()
    const notify: Call['notify'] = (method, params) => {
      stream.send({ jsonrpc: '2.0', method, params })
    }
    const answer = await answerFor({ ...request, notify })
    if (answer !== undefined) stream.send(answer)
    stream.end()
  }

  #get(request: IncomingMessage, response: ServerResponse): void {
    if (this.listenStream === 'refuse-405') {
      return refuse(response, 405, 'Method not allowed')
    }
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
    const cursor = lastEventId === undefined ? undefined : cursorFrom(lastEventId)
    const stream = cursor === undefined ? session.listen : session.streamOf(cursor.key)
    if (stream === undefined || (lastEventId !== undefined && cursor === undefined)) {
      return refuse(response, 400, 'Bad Request: unknown event id')
    }
    if (this.listenStream === 'one-per-session' && stream === session.listen && stream.open > 0) {
      return refuse(response, 409, 'Conflict: only one SSE stream is allowed per session')
    }
    stream.attach(response, cursor?.n)
  }

  #delete(request: IncomingMessage, response: ServerResponse): void {
    if (this.terminate === 'refuse-405') {
      return refuse(response, 405, 'Method not allowed')
    }
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
  ): StatefulSession | undefined {
    const id = header(request, 'mcp-session-id')
    const session = id === undefined ? undefined : this.#sessions.get(id)
    if (session === undefined && this.assignSessions) {
      const form = typeof this.lossForm === 'string' ? lossForms[this.lossForm] : this.lossForm
      sendAnswer(response, id === undefined ? lossForms['400-header-required'] : form, rpcId)
      return undefined
    }
    const version = header(request, 'mcp-protocol-version')
    if (version !== undefined && !VERSIONS.includes(version)) {
      refuse(response, 400, `Bad Request: Unsupported protocol version ${version}`)
      return undefined
    }
    return session ?? this.#shared
  }

  async #initialize(response: ServerResponse, message: RpcMessage): Promise<void> {
    const fault = this.#nextFault()
    await fault?.until
    if (fault?.answer !== undefined) {
      sendAnswer(response, fault.answer, message.id)
      return
    }
    const asked = message.params?.['protocolVersion']
    const version = typeof asked === 'string' && VERSIONS.includes(asked) ? asked : LATEST
    const session = this.assignSessions ? new StatefulSession(randomUUID(), version) : this.#shared
    if (session.id !== undefined) {
      this.#sessions.set(session.id, session)
      response.setHeader('mcp-session-id', session.id)
    }
    const abort = new AbortController()
    const initialize = { ...message, params: { ...message.params, protocolVersion: version } }
    const id = message.id ?? 0
    await this.#answer(response, { session, id, message: initialize, signal: abort.signal })
  }

  #nextFault(): InitializeFault | undefined {
    const fault = this.initialize
    if (fault === undefined) return undefined
    const used = (this.#faultsUsed.get(fault) ?? 0) + 1
    this.#faultsUsed.set(fault, used)
    if (used >= (fault.times ?? 1)) this.initialize = undefined
    return fault
  }

  #all(): StatefulSession[] {
    return [...this.#sessions.values(), this.#shared]
  }

  // JSON-RPC

  #result(call: Call): unknown {
    const { method, params = {} } = call.message
    switch (method ?? '') {
      case 'initialize':
        return {
          protocolVersion: params['protocolVersion'],
          capabilities: {
            tools: { listChanged: true },
            resources: { subscribe: true },
            logging: {},
          },
          serverInfo: { name: 'stateful-test-server', version: '1.0.0' },
          instructions: 'State is kept in the session.',
        }
      case 'ping':
      case 'logging/setLevel':
        return {}
      case 'tools/list':
        return this.#listTools(params['cursor'])
      case 'tools/call':
        return this.#callTool(call, params)
      case 'resources/list':
        return { resources: [{ uri: 'counter://value', name: 'counter' }] }
      case 'resources/read':
        return { contents: [{ uri: 'counter://value', text: String(call.session.count) }] }
      case 'resources/subscribe':
        call.session.subscriptions.add(String(params['uri']))
        return {}
      case 'resources/unsubscribe':
        call.session.subscriptions.delete(String(params['uri']))
        return {}
      default:
        throw new RpcFailure(-32601, 'Method not found')
    }
  }

  #listTools(cursor: unknown): unknown {
    const start = cursor === undefined ? 0 : Number(cursor)
    if (!Number.isInteger(start) || start < 0 || start >= statefulTools.length) {
      throw new RpcFailure(-32602, 'Invalid cursor')
    }
    const end = start + (this.pageSize ?? statefulTools.length)
    return {
      tools: statefulTools.slice(start, end).map((tool) => tool.definition),
      nextCursor: end < statefulTools.length ? String(end) : undefined,
    }
  }

  #callTool(
    call: Call,
    params: Readonly<Record<string, unknown>>,
  ): Promise<ToolResult> | ToolResult {
    const tool = statefulTools.find(({ definition }) => definition.name === params['name'])
    if (tool === undefined) throw new RpcFailure(-32602, `Unknown tool ${String(params['name'])}`)
    const { name } = tool.definition
    this.#executions.set(name, this.executions(name) + 1)
    call.signal.addEventListener('abort', () => {
      this.#cancellations.set(name, this.cancellations(name) + 1)
    })
    const args = Object(params['arguments']) as Readonly<Record<string, unknown>>
    return tool.run(args, { session: call.session, held: () => this.#hold(call) })
  }

  #hold(call: Call): Promise<string> {
    return new Promise((resolve, reject) => {
      const held: HeldCall = {
        call,
        release: (text) => {
          this.#held.delete(held)
          resolve(text)
        },
      }
      this.#held.add(held)
      call.signal.addEventListener('abort', () => {
        this.#held.delete(held)
        reject(new Error('Cancelled'))
      })
    })
  }
}

function cancel(session: StatefulSession, notification: RpcMessage): void {
  const id = notification.params?.['requestId']
  if (typeof id === 'string' || typeof id === 'number') session.running.get(id)?.abort()
}

function refuse(response: ServerResponse, status: number, message: string): void {
  const headers = status === 405 ? { allow: 'POST' } : {}
  sendAnswer(response, { status, headers, body: rpcError(-32000, message) })
}
