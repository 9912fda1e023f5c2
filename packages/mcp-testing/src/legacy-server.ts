import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { CannedAnswer } from './canned-answer.ts'
import { sendAnswer } from './canned-answer.ts'
import type { EventStream } from './legacy-session.ts'
import { cursorFrom, LegacySession } from './legacy-session.ts'
import type { LossFormName } from './loss-forms.ts'
import { lossForms } from './loss-forms.ts'
import type { HandledRequest, ServerOptions, ToolStart } from './recorded-server.ts'
import { RecordedServer } from './recorded-server.ts'
import type { RpcId } from './rpc-message.ts'
import { rpcError } from './rpc-message.ts'
import type { TestTool } from './tools.ts'
import { definitionOf, legacyTools } from './tools.ts'

/** Revisions the server speaks, latest first. */
const VERSIONS: readonly [string, ...string[]] = ['2025-11-25', '2025-06-18', '2025-03-26']

/** How a legacy server behaves: properties of {@link LegacyServer}, to be set at the start. */
export type LegacyServerOptions = ServerOptions & {
  readonly [
    Name in
      | 'tools'
      | 'answerAs'
      | 'eventIds'
      | 'assignSessions'
      | 'lossForm'
      | 'listenStream'
      | 'terminate'
      | 'pageSize'
  ]?: LegacyServer[Name] | undefined
}

/**
 * Starts a {@link LegacyServer} on a free port of 127.0.0.1.
 *
 * @example
 * ```ts
 * import { startLegacyServer } from '@x/mcp-testing'
 *
 * await using server = await startLegacyServer()
 * // … calls to server.url …
 * server.forgetSessions() // like a server that restarts
 * ```
 */
export async function startLegacyServer(options: LegacyServerOptions = {}): Promise<LegacyServer> {
  const server = new LegacyServer(options)
  await server.start()
  return server
}

/** A JSON-RPC request that is being answered. */
interface RpcCall extends Pick<ToolStart, 'signal' | 'notify' | 'ask'> {
  readonly session: LegacySession
  readonly handled: HandledRequest
  readonly id: RpcId
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

/**
 * An MCP server with sessions (2025-03-26 to 2025-11-25). It keeps the state of its tools in the
 * session, records what it sees, and misbehaves on demand. It is written without the SDK, which would
 * prevent most faults.
 */
export class LegacyServer extends RecordedServer {
  /** The tools; changing them does not notify clients. @default built-in tools such as `cart_add` and `slow` */
  tools: readonly TestTool[] = legacyTools
  /**
   * Content type of answers to requests. `auto`: an event stream for a call that reports progress, logs or asks for
   * input, else JSON. @default 'auto'
   */
  answerAs: 'auto' | 'sse' = 'auto'
  /** Gives ids to the events of SSE answers, so that a client can resume a broken one. @default true */
  eventIds = true
  /** Assigns session ids. Without them all clients share one state. @default true */
  assignSessions = true
  /** How the server refuses a session it does not know. @default '404-32001' */
  lossForm: LossFormName | CannedAnswer = '404-32001'
  /** Answer to a GET. @default 'open' */
  listenStream: 'open' | 'refuse-405' = 'open'
  /** Answer to a DELETE. @default 'allow' */
  terminate: 'allow' | 'refuse-405' = 'allow'
  /** Tools per page of `tools/list`. @default undefined: all on one page */
  pageSize: number | undefined
  readonly #sessions = new Map<string, LegacySession>()
  /** The one state of a server that assigns no sessions. */
  #shared = new LegacySession(undefined, VERSIONS[0])

  constructor({ ledger, ...behaviour }: LegacyServerOptions) {
    super('legacy', { ledger })
    const given = Object.entries(behaviour).filter(([, value]) => value !== undefined)
    Object.assign(this, Object.fromEntries(given))
  }

  /** Ids of the live sessions, oldest first. */
  get sessions(): readonly string[] {
    return [...this.#sessions.keys()]
  }

  /** Number of standalone GET streams that are open. */
  get openStreams(): number {
    return this.#all().reduce((sum, session) => sum + session.listen.open, 0)
  }

  /**
   * Sends a notification on the GET streams of all sessions, and keeps it for clients that resume
   * with `Last-Event-ID`. Returns the number of open streams that it went to.
   */
  notify(method: string, params?: Readonly<Record<string, unknown>>): number {
    const message = { jsonrpc: '2.0', method, params }
    return this.#all().reduce((sum, session) => sum + session.listen.send(message), 0)
  }

  /** Ends the open GET streams; the sessions live on. Returns how many. */
  dropListenStreams(): number {
    return this.#all().reduce((sum, session) => sum + session.listen.drop(), 0)
  }

  /** Ends SSE answers before the answer; with event ids they can be resumed. Returns how many. */
  dropAnswerStreams(): number {
    const streams = this.#all().flatMap((session) => session.answerStreams)
    return streams.reduce((sum, stream) => sum + stream.drop(), 0)
  }

  /** All sessions become unknown. Their GET streams end; running calls go on. */
  forgetSessions(): void {
    const forgotten = this.#all()
    this.#sessions.clear()
    this.#shared = new LegacySession(undefined, VERSIONS[0])
    for (const session of forgotten) session.listen.end()
  }

  /** A crash: connections are reset, sessions and running calls are gone, the port stays. */
  override async restart(): Promise<void> {
    // First the sockets, then the sessions: after a crash, streams have no orderly end.
    const listening = super.restart()
    this.forgetSessions()
    await listening
  }

  protected async answer(handled: HandledRequest): Promise<void> {
    switch (handled.received.httpMethod) {
      case 'POST':
        return this.#post(handled)
      case 'GET':
        return this.#get(handled)
      case 'DELETE':
        return this.#delete(handled)
      default:
        return refuse(handled, 405, 'Method not allowed')
    }
  }

  #all(): LegacySession[] {
    return [...this.#sessions.values(), this.#shared]
  }

  /** Answers a request, which can be cancelled meanwhile. Accepts notifications and responses. */
  async #post(handled: HandledRequest): Promise<void> {
    const { message, received } = handled
    const { headers } = received
    const response = handled.response.raw
    const accept = String(headers['accept'])
    if (!accept.includes('application/json') || !accept.includes('text/event-stream')) {
      return refuse(handled, 406, 'Not Acceptable: accept both JSON and event streams')
    }
    if (!String(headers['content-type']).startsWith('application/json')) {
      return refuse(handled, 415, 'Unsupported Media Type: send JSON')
    }
    if (message === undefined) {
      const body = rpcError(-32700, 'Parse error: one JSON-RPC message')
      return sendAnswer(response, { status: 400, body })
    }
    const { id, method, params = {} } = message
    const opens = method === 'initialize' && received.sessionId === undefined
    const session = opens ? this.#open(handled) : this.#sessionOf(handled)
    if (session === undefined) return
    if (method === 'initialize' && !opens && session.id !== undefined) {
      return sendAnswer(response, lossForms['400-already-initialized'], id)
    }
    if (method === undefined || id === undefined || id === null) {
      if (method === undefined) session.answered(message)
      if (method === 'notifications/cancelled') session.cancel(params['requestId'])
      return sendAnswer(response, { status: 202 })
    }
    const abort = new AbortController()
    session.running.set(id, abort)
    const { signal } = abort
    try {
      await this.#respond(response, { session, handled, id, method, params, signal })
    } finally {
      if (session.running.get(id) === abort) session.running.delete(id)
    }
  }

  /** The session that an `initialize` opens. */
  #open({ received, response }: HandledRequest): LegacySession {
    if (!this.assignSessions) return this.#shared
    const id = randomUUID()
    const asked = received.params?.['protocolVersion']
    const version = VERSIONS.find((one) => one === asked) ?? VERSIONS[0]
    const session = new LegacySession(id, version)
    this.#sessions.set(id, session)
    response.raw.setHeader('mcp-session-id', id)
    return session
  }

  /** Answers as `answerAs` says. A cancelled request gets an end without an answer. */
  async #respond(
    response: ServerResponse,
    request: Omit<RpcCall, 'notify' | 'ask'>,
  ): Promise<void> {
    const { session } = request
    const open = (): EventStream => {
      const opened = session.openStream(this.eventIds)
      opened.attach(response)
      // Clients of older revisions do not expect an event without data.
      if (session.protocolVersion >= '2025-11-25') opened.prime()
      return opened
    }
    let stream = this.answerAs === 'sse' ? open() : undefined
    const notify: RpcCall['notify'] = (method, params) => {
      stream ??= open()
      stream.send({ jsonrpc: '2.0', method, params })
    }
    const ask: RpcCall['ask'] = (requests, signal) => {
      stream ??= open()
      return session.ask(stream, requests, signal)
    }
    const answer = await this.#answerTo({ ...request, notify, ask })
    if (stream === undefined) {
      const body = JSON.stringify(answer)
      return sendAnswer(response, answer === undefined ? { status: 202 } : { status: 200, body })
    }
    if (answer !== undefined) stream.send(answer)
    stream.end()
  }

  async #answerTo(call: RpcCall): Promise<unknown> {
    try {
      return { jsonrpc: '2.0', id: call.id, result: await this.#resultOf(call) }
    } catch (error) {
      if (call.signal.aborted) return undefined
      const code = error instanceof RpcFailure ? error.code : -32603
      const message = error instanceof Error ? error.message : String(error)
      return { jsonrpc: '2.0', id: call.id, error: { code, message } }
    }
  }

  #resultOf({ session, handled, method, params, ...start }: RpcCall): unknown {
    switch (method) {
      case 'initialize':
        return {
          protocolVersion: session.protocolVersion,
          capabilities: {
            tools: { listChanged: true },
            resources: { subscribe: true },
            logging: {},
          },
          serverInfo: { name: 'legacy-test-server', version: '1.0.0' },
          instructions: 'State is kept in the session.',
        }
      case 'ping':
      case 'logging/setLevel':
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return {}
      case 'tools/list':
        return this.#toolsPage(params['cursor'])
      case 'tools/call': {
        const tool = this.tools.find(({ name }) => name === params['name'])
        if (tool === undefined) throw new RpcFailure(-32602, 'Unknown tool')
        return this.runTool(tool, handled, { state: session.state, ...start })
      }
      case 'resources/list':
        return { resources: [{ uri: 'counter://value', name: 'counter' }] }
      case 'resources/read': {
        const count = Number(session.state.get('count') ?? 0)
        return { contents: [{ uri: 'counter://value', text: String(count) }] }
      }
      default:
        throw new RpcFailure(-32601, 'Method not found')
    }
  }

  #toolsPage(cursor: unknown): unknown {
    const { tools, pageSize = tools.length } = this
    const start = cursor === undefined ? 0 : Number(cursor)
    if (!Number.isInteger(start) || start < 0 || start > tools.length) {
      throw new RpcFailure(-32602, 'Invalid cursor')
    }
    const end = start + pageSize
    return {
      tools: tools.slice(start, end).map(definitionOf),
      nextCursor: end < tools.length ? String(end) : undefined,
    }
  }

  #get(handled: HandledRequest): void {
    const { received, response } = handled
    const { lastEventId, headers } = received
    if (this.listenStream === 'refuse-405') return refuse(handled, 405, 'Method not allowed')
    if (!String(headers['accept']).includes('text/event-stream')) {
      return refuse(handled, 406, 'Not Acceptable: accept event streams')
    }
    const session = this.#sessionOf(handled)
    if (session === undefined) return
    const cursor = cursorFrom(lastEventId)
    const stream = session.streamOf(cursor?.key ?? session.listen.key)
    if (stream === undefined || (lastEventId !== undefined && cursor === undefined)) {
      return refuse(handled, 400, 'Bad Request: unknown event id')
    }
    stream.attach(response.raw, cursor?.n)
  }

  #delete(handled: HandledRequest): void {
    if (this.terminate === 'refuse-405') return refuse(handled, 405, 'Method not allowed')
    const session = this.#sessionOf(handled)
    if (session === undefined) return
    if (session.id !== undefined) this.#sessions.delete(session.id)
    session.listen.end()
    sendAnswer(handled.response.raw, { status: 200 })
  }

  /** The session that a request names. Without one, the refusal has been sent. */
  #sessionOf(handled: HandledRequest): LegacySession | undefined {
    const { sessionId: id, protocolVersion, rpcId } = handled.received
    const session = id === undefined ? undefined : this.#sessions.get(id)
    if (session === undefined && this.assignSessions) {
      const { lossForm } = this
      const loss = typeof lossForm === 'string' ? lossForms[lossForm] : lossForm
      const answer = id === undefined ? lossForms['400-header-required'] : loss
      sendAnswer(handled.response.raw, answer, rpcId)
      return undefined
    }
    if (protocolVersion !== undefined && !VERSIONS.includes(protocolVersion)) {
      refuse(handled, 400, `Bad Request: Unsupported protocol version ${protocolVersion}`)
      return undefined
    }
    return session ?? this.#shared
  }
}

/** Becomes the JSON-RPC error of the answer. */
class RpcFailure extends Error {
  override readonly name = 'RpcFailure'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

function refuse({ response }: HandledRequest, status: number, message: string): void {
  const headers = status === 405 ? { allow: 'POST' } : {}
  sendAnswer(response.raw, { status, headers, body: rpcError(-32000, message) })
}
