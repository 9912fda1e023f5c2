import {
  LATEST_PROTOCOL_VERSION,
  isInitializeRequest,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'

import { removeFrom } from '@x/internal'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { Principal } from '../internal/principal.ts'
import type { ProcessLease } from '../store/lease.ts'
import { CHANGES, SessionListener, type ChangeFeed } from './change-feed.ts'
import type { McpHandlers } from './handlers.ts'
import { EventStream, isEndOfStream, toPrimingEvent } from './event-stream.ts'
import {
  cancelledId,
  isRequest,
  isRequestId,
  isResponse,
  parseMessages,
  RPC_ERROR,
  type Params,
  type RpcMessage,
  type RpcNotification,
  type RpcResponse,
} from './json-rpc.ts'
import { PRIMED_SINCE, SessionCalls, type SessionReply } from './session-calls.ts'
import { Questions, type SessionRequest } from './session-context.ts'
import { SessionReplays } from './session-replay.ts'
import {
  parseHandshake,
  SessionRefused,
  Sessions,
  type LiveSession,
  type SessionLimits,
  type SessionStore,
} from './sessions.ts'

export interface SessionHttpOptions {
  readonly handlers: Pick<McpHandlers, 'serverInfo' | 'instructions' | 'capabilities' | 'handle'>
  readonly store: SessionStore
  /** Changes of lists and resources. Its owner closes it. */
  readonly changes: ChangeFeed
  readonly lease: ProcessLease
  readonly settings: SessionLimits
  /** Time in which a client has to answer a question. */
  readonly questionTimeoutMs: number
  /** Time between two comments that keep a silent stream open. */
  readonly keepAliveMs: number
  /** Returns the owner of the resources that a caller may list. `undefined`: the caller has no list. */
  readonly ownerOf: (principal: Principal, namespace: string | undefined) => string | undefined
  /**
   * Counts streams of callers without a name. Returns the end of it, or `undefined` if the caller has too many.
   *
   * @default there is no limit
   */
  readonly enterStream?: ((http: SessionRequest) => (() => void) | undefined) | undefined
  readonly observer?: Pick<Required<GatewayObserver>, 'sessionOpened' | 'sessionClosed'> | undefined
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

const MAX_BATCH = 100
const MAX_HANDSHAKE_CHARS = 32_768
/** Time between two checks whether a process takes an answer, and how many there are. */
const CHECK_MS = 500
const MAX_CHECKS = 20
/** Time after which some stream may have ended. */
const LATER_MS = 60_000

/**
 * Serves the revisions with sessions over HTTP (2025-03-26 to 2025-11-25; specification, "Transports"). A session is a
 * record in the store: every process that shares the store serves every request of it.
 *
 * | request | answer |
 * | --- | --- |
 * | no `Mcp-Session-Id`, not `initialize` | 400 `-32000` |
 * | id unknown, ended, or of another principal | 404 `-32001`: clients open a new session only after this one |
 * | `initialize` in a batch, or in a session | 400 `-32600` |
 * | `initialize` too long / too often / beyond the limits | 413 / 429 / 503 or 429, with `Retry-After` |
 * | `Accept` without both types (POST), without `text/event-stream` (GET) | 406 `-32000` |
 * | `MCP-Protocol-Version` that is not supported | 400 `-32000` |
 * | not JSON-RPC / more than 100 messages | 400 `-32700` / 400 `-32600` |
 * | an id that is in flight in the session | 400 `-32600` |
 * | only notifications and responses | 202 |
 * | response to a question whose process has ended | 400 `-32000` |
 * | requests | 200, JSON if the one request is answered in its turn, else `text/event-stream` |
 * | GET: the first / the second at a time in this process | 200 / 409 |
 * | GET with `Last-Event-ID`: unknown or of another session / all is read | 400 / 405 |
 * | DELETE | 200 |
 * | other methods | 405 |
 * | the store is away: unknown session / known session | 503 / served |
 */
export class SessionHttp {
  readonly sessions: Sessions
  readonly changes: ChangeFeed
  readonly #options: SessionHttpOptions
  readonly #calls: SessionCalls
  readonly #questions: Questions
  readonly #replays: SessionReplays
  /** Answers that another process has not confirmed yet. */
  readonly #forwarded = new Set<Forwarded>()
  readonly #open: EventStream[] = []
  #stopKeepAlive: (() => void) | undefined

  constructor(options: SessionHttpOptions) {
    const { handlers, store, lease, settings, observer, clock, onError } = options
    const { logs } = store
    const process = lease.id
    this.#options = options
    const questions = new Questions({ process, timeoutMs: options.questionTimeoutMs, clock })
    const sessions = new Sessions({ store, process, settings, observer, clock, onError })
    const calls = new SessionCalls({
      handlers,
      sessions,
      logs,
      lease,
      questions,
      clock,
      onError,
    })
    this.sessions = sessions
    this.#calls = calls
    this.#questions = questions
    this.#replays = new SessionReplays({ sessions, calls, logs, lease, clock })
    this.changes = options.changes
    sessions.onSignal = (session, signal, from) => {
      switch (signal.type) {
        case 'changed':
          return listenerOf(session)?.recordChanged()
        case 'cancel':
          return void calls.cancel(session, signal.requestId)
        case 'answer':
          if (signal.to === process) this.#takeAnswer(session, signal.message, from)
          return
        case 'taken':
          for (const each of this.#forwarded) {
            if (each.id !== signal.id) continue
            each.isTaken = true
            each.wake()
          }
          return
        case 'progress':
          if (signal.to === process) questions.extend(session, signal.token)
          return
        case 'reading':
        case 'left':
          return this.#replays.onSignal(session, signal, from)
        case 'ended': // by `Sessions`
      }
    }
  }

  async serve(http: SessionRequest): Promise<SessionReply> {
    try {
      const reply = await this.#serve(http)
      return reply.body instanceof EventStream ? this.#stream(http, reply.body, reply) : reply
    } catch (error) {
      if (error instanceof SessionRefused) {
        return tryLater(error.status, error.message, error.retryAfterMs)
      }
      if (!GatewayError.is(error)) throw error
      this.#options.onError(
        new Error('A request of a session could not be served', { cause: error }),
      )
      return tryLater(503, 'Sessions cannot be reached at the moment. Try again.', 1000)
    }
  }

  /** Ends what is in flight. */
  async close(): Promise<void> {
    await this.sessions.close()
    for (const stream of this.#open.slice()) stream.end() // each removes itself
    this.#stopKeepAlive?.()
  }

  async #serve(http: SessionRequest): Promise<SessionReply> {
    const { method, headers, principal } = http
    if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') {
      return refused(405, RPC_ERROR.refused, 'Method not allowed.', { allow: 'GET, POST, DELETE' })
    }
    const id = headers.get('mcp-session-id')
    if (id === null) return this.#initialize(http)
    const session = await this.sessions.find(id, principal)
    if (!session || session.isEnded) return noSession()
    const version = headers.get('mcp-protocol-version')
    const accepted = headers.get('accept') ?? ''
    if (method !== 'DELETE' && !accepts(accepted, method)) return notAcceptable(method)
    if (version !== null && !SUPPORTED_PROTOCOL_VERSIONS.includes(version)) {
      return refused(400, RPC_ERROR.refused, unsupportedVersion(version))
    }
    if (method === 'POST') return this.#post(session, http)
    if (method === 'GET') return this.#get(session, http)
    await this.sessions.end(session)
    return { status: 200 }
  }

  async #initialize(http: SessionRequest): Promise<SessionReply> {
    const { body, headers, method, principal, address } = http
    if (method !== 'POST' || !hasInitialize(body)) {
      return refused(400, RPC_ERROR.refused, 'Bad Request: Mcp-Session-Id header is required')
    }
    if (!accepts(headers.get('accept') ?? '', method)) return notAcceptable(method)
    if (Array.isArray(body)) {
      const text = 'Invalid Request: Only one initialization request is allowed'
      return refused(400, RPC_ERROR.invalidRequest, text)
    }
    if (JSON.stringify(body).length > MAX_HANDSHAKE_CHARS) {
      const text = `A handshake may have ${MAX_HANDSHAKE_CHARS} characters`
      return refused(413, RPC_ERROR.refused, text)
    }
    const handshake = isInitializeRequest(body) ? parseHandshake(body.params) : undefined
    const [message] = parseMessages(body) ?? []
    if (!handshake || !message || !isRequest(message)) {
      return refused(400, RPC_ERROR.invalidRequest, 'Invalid Request: not a valid "initialize"')
    }
    const { protocolVersion: requested } = handshake
    const protocolVersion = SUPPORTED_PROTOCOL_VERSIONS.includes(requested)
      ? requested
      : LATEST_PROTOCOL_VERSION
    const session = await this.sessions.open({ ...handshake, protocolVersion }, principal, address)
    const { handlers } = this.#options
    const { serverInfo, instructions } = handlers
    const capabilities = handlers.capabilities('session')
    const result = { protocolVersion, capabilities, serverInfo, instructions }
    return {
      status: 200,
      headers: { 'mcp-session-id': session.id },
      body: JSON.stringify({ jsonrpc: '2.0', id: message.id, result }),
    }
  }

  async #post(session: LiveSession, http: SessionRequest): Promise<SessionReply> {
    const { body } = http
    if (Array.isArray(body) && body.length > MAX_BATCH) {
      const text = `Invalid Request: Batch must not exceed ${MAX_BATCH} messages`
      return refused(400, RPC_ERROR.invalidRequest, text)
    }
    const messages = parseMessages(body)
    if (!messages) {
      return refused(400, RPC_ERROR.parseError, 'Parse error: Invalid JSON-RPC message')
    }
    const requests = messages.filter(isRequest)
    if (requests.some(({ method }) => method === 'initialize')) {
      const text = 'Invalid Request: Server already initialized'
      return refused(400, RPC_ERROR.invalidRequest, text)
    }
    if (this.#calls.hasOneOf(session, requests)) {
      const text = 'Invalid Request: a request with this id is in flight in the session'
      return refused(400, RPC_ERROR.invalidRequest, text)
    }
    // Before the others, so that a batch can cancel its own requests.
    const reply = requests.length > 0 ? this.#calls.begin(session, http, requests) : undefined
    for (const message of messages) {
      if (isRequest(message)) continue
      const refusal = await this.#receive(session, message)
      if (refusal && messages.length === 1) return refusal
    }
    return reply ?? { status: 202 }
  }

  /** Takes a notification or a response. @returns an answer where it cannot be delivered */
  async #receive(session: LiveSession, message: RpcMessage): Promise<SessionReply | undefined> {
    if (isResponse(message)) return this.#receiveAnswer(session, message)
    const requestId = cancelledId(message)
    if (requestId !== undefined && !this.#calls.cancel(session, requestId)) {
      if (!(await this.sessions.signal(session, { type: 'cancel', requestId })))
        return undelivered()
    }
    if (message.method === 'notifications/progress') return this.#receiveProgress(session, message)
    return undefined
  }

  async #receiveAnswer(
    session: LiveSession,
    message: RpcResponse,
  ): Promise<SessionReply | undefined> {
    const to = processOf(message.id)
    if (to === this.#options.lease.id) this.#questions.answer(session, message)
    if (to === undefined || to === this.#options.lease.id) return undefined
    if (this.sessions.isShared && (await this.#forward(session, message, to))) return undefined
    const text = 'The process that asked for this has ended, and its call with it: call again'
    return refused(400, RPC_ERROR.refused, text)
  }

  /**
   * Hands an answer to the process that asked for it. Resolves to whether that process lives.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async #forward(session: LiveSession, message: RpcResponse, to: string): Promise<boolean> {
    const { clock, lease } = this.#options
    const forwarded: Forwarded = { id: String(message.id), isTaken: false, wake: () => undefined }
    this.#forwarded.add(forwarded)
    try {
      const signal = { type: 'answer' as const, to, message: { ...message } }
      for (let checks = 0; checks < MAX_CHECKS; checks++) {
        if (!(await lease.isAlive(to))) return false
        if (checks === 0 && !(await this.sessions.signal(session, signal))) {
          throw new GatewayError('UNAVAILABLE', 'Other processes cannot be reached')
        }
        if (forwarded.isTaken) return true
        await new Promise<void>((resolve) => {
          const stop = clock.after(CHECK_MS, resolve)
          forwarded.wake = () => {
            stop()
            resolve()
          }
        })
      }
      return true
    } finally {
      this.#forwarded.delete(forwarded)
    }
  }

  /** Takes an answer that came in at another process. */
  #takeAnswer(session: LiveSession, message: Params, from: string): void {
    this.#questions.answer(session, message)
    void this.sessions.signal(session, { type: 'taken', to: from, id: String(message['id']) })
  }

  async #receiveProgress(
    session: LiveSession,
    { params }: RpcNotification,
  ): Promise<SessionReply | undefined> {
    const token = params?.['progressToken']
    const to = processOf(token)
    if (to === undefined || typeof token !== 'string') return undefined
    if (to === this.#options.lease.id) this.#questions.extend(session, token)
    else await this.sessions.signal(session, { type: 'progress', to, token })
    return undefined
  }

  async #get(session: LiveSession, http: SessionRequest): Promise<SessionReply> {
    const { enterStream } = this.#options
    if (!http.principal.isAnonymous || !enterStream) return this.#read(session, http)
    const leave = enterStream(http)
    if (!leave) return tryLater(429, 'Too many streams are open from this address', LATER_MS)
    try {
      const reply = await this.#read(session, http)
      if (reply.body instanceof EventStream) reply.body.onClose(leave)
      else leave()
      return reply
    } catch (error) {
      leave()
      throw error
    }
  }

  async #read(session: LiveSession, http: SessionRequest): Promise<SessionReply> {
    const lastEventId = http.headers.get('last-event-id')
    if (lastEventId === null || !this.sessions.settings.events) return this.#listen(session, http)
    if (isEndOfStream(lastEventId)) return streamOver()
    const found = await this.#options.store.logs.find(lastEventId)
    const isChange = found ? found.log === CHANGES : await this.changes.isPlace(lastEventId)
    if (isChange) return this.#listen(session, http, lastEventId)
    const { log, header } = found ?? {}
    if (log === undefined || header?.session !== session.name) return unknownEvent()
    const reply = await this.#replays.resume({ session, http, lastEventId, log, header })
    if (reply === 'unknown') return unknownEvent()
    return reply === 'over' ? streamOver() : reply
  }

  async #listen(
    session: LiveSession,
    http: SessionRequest,
    lastEventId?: string,
  ): Promise<SessionReply> {
    const { clock, handlers, ownerOf } = this.#options
    const before = listenerOf(session)
    if (before && lastEventId === undefined) {
      const text = 'Conflict: Only one SSE stream is allowed per session'
      return refused(409, RPC_ERROR.refused, text)
    }
    before?.end()
    const { scope, handshake } = session.record
    const stream = new EventStream(this.#calls.newStreamId(), http.writable)
    const listener = new SessionListener({
      session,
      stream,
      sessions: this.sessions,
      feed: this.changes,
      owner: ownerOf(http.principal, scope),
      lists: handlers.capabilities('session').prompts ? ['tools', 'prompts'] : ['tools'],
      clock,
    })
    try {
      const version = http.headers.get('mcp-protocol-version') ?? handshake.protocolVersion
      const { events, retryMs } = this.sessions.settings
      if (events && version >= PRIMED_SINCE) {
        const place = lastEventId ?? (await this.changes.place())
        if (place !== undefined) stream.write(toPrimingEvent(place, retryMs))
      }
      if (await listener.begin(lastEventId)) return { status: 200, body: stream }
      stream.end()
      return noSession()
    } catch (error) {
      stream.end()
      throw error
    }
  }

  /** Adds the headers of event streams, and keeps the stream open while it is silent. */
  #stream(http: SessionRequest, stream: EventStream, { status }: SessionReply): SessionReply {
    this.#open.push(stream)
    stream.onClose(() => void removeFrom(this.#open, stream))
    this.#stopKeepAlive ??= this.#keepAliveLater()
    return {
      status,
      headers: {
        'content-type': 'text/event-stream',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
        'mcp-session-id': http.headers.get('mcp-session-id') ?? '',
      },
      body: stream,
    }
  }

  /** One timer for all streams. */
  #keepAliveLater(): () => void {
    const { clock, keepAliveMs } = this.#options
    return clock.after(keepAliveMs, () => {
      for (const stream of this.#open) stream.write(': keepalive\n\n')
      this.#stopKeepAlive = this.#open.length > 0 ? this.#keepAliveLater() : undefined
    })
  }
}

interface Forwarded {
  /** Id of the question. */
  readonly id: string
  isTaken: boolean
  wake: () => void
}

/** Returns the `Response` of a reply, for servers that speak the web's `fetch`. */
export function toResponse({ status, headers = {}, body }: SessionReply): Response {
  if (body === undefined) return new Response(null, { status, headers })
  if (typeof body === 'string') {
    return new Response(body, {
      status,
      headers: { 'content-type': 'application/json', ...headers },
    })
  }
  const encoder = new TextEncoder()
  const bytes = new ReadableStream<Uint8Array>({
    start: (controller) =>
      body.connect({
        write: (text) => controller.enqueue(encoder.encode(text)),
        end: () => controller.close(),
      }),
    cancel: () => body.lose(),
  })
  return new Response(bytes, { status, headers })
}

function listenerOf(session: LiveSession): SessionListener | undefined {
  return session.uses.find((use) => use instanceof SessionListener)
}

function hasInitialize(body: unknown): boolean {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body]
  return messages.some(
    (each) =>
      typeof each === 'object' && each !== null && 'method' in each && each.method === 'initialize',
  )
}

function accepts(accept: string, method: 'POST' | 'GET'): boolean {
  return (
    accept.includes('text/event-stream') &&
    (method === 'GET' || accept.includes('application/json'))
  )
}

function notAcceptable(method: 'POST' | 'GET'): SessionReply {
  const types =
    method === 'POST' ? 'both application/json and text/event-stream' : 'text/event-stream'
  return refused(406, RPC_ERROR.refused, `Not Acceptable: Client must accept ${types}`)
}

function unsupportedVersion(version: string): string {
  const supported = SUPPORTED_PROTOCOL_VERSIONS.join(', ')
  const text = `Bad Request: Unsupported protocol version: ${version.slice(0, 32)}`
  return `${text} (supported versions: ${supported})`
}

/** The process that sent a request with this id, or with this progress token. */
function processOf(id: unknown): string | undefined {
  if (!isRequestId(id) || typeof id !== 'string') return undefined
  const [, process] = /^([^.]+)\.\d{1,15}$/.exec(id) ?? []
  return process
}

function noSession(): SessionReply {
  return refused(404, RPC_ERROR.sessionNotFound, 'Session not found')
}

function unknownEvent(): SessionReply {
  const text = 'The event named by Last-Event-ID is unknown, or was dropped'
  return refused(400, RPC_ERROR.refused, text)
}

/** Clients take an empty stream for a lost one, and ask again. At a 405 they stop without an error. */
function streamOver(): SessionReply {
  const allow = { allow: 'POST, DELETE' }
  return refused(405, RPC_ERROR.refused, 'The client has the whole stream', allow)
}

function undelivered(): SessionReply {
  return tryLater(503, 'Other processes cannot be reached at the moment. Try again.', 1000)
}

function tryLater(status: number, message: string, waitMs: number): SessionReply {
  const headers = { 'retry-after': String(Math.ceil(waitMs / 1000)) }
  return refused(status, RPC_ERROR.refused, message, headers)
}

function refused(
  status: number,
  code: number,
  ...[message, headers]: [message: string, headers?: Readonly<Record<string, string>>]
): SessionReply {
  const body = JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null })
  return { status, headers, body }
}
