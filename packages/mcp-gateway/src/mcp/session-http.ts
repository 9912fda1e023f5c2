import {
  isInitializeRequest,
  LATEST_PROTOCOL_VERSION,
  ProtocolError,
  SUPPORTED_PROTOCOL_VERSIONS,
  type RequestId,
} from '@modelcontextprotocol/server'

import { GatewayError } from '../errors.ts'
import { ownerOf, type Caller } from '../internal/principal.ts'
import { LISTS, type ChangeFeed } from './change-feed.ts'
import type { McpHandlers, McpResult } from './handlers.ts'
import { EventStream, isEndOfStream, toPrimingEvent } from './event-stream.ts'
import {
  cancelledId,
  isMessage,
  isRequest,
  isRequestId,
  isResponse,
  methodOf,
  RPC_ERROR,
  type Params,
  type RpcMessage,
  toErrorResponse,
  type RpcNotification,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import type { OpenStreams } from './open-streams.ts'
import { refused, tryLater, type Reply } from './reply.ts'
import { resultForRevision } from './revisions.ts'
import { CallStream, PRIMED_SINCE } from './session-calls.ts'
import {
  OpenQuestions,
  parseLevel,
  SessionContext,
  type SessionRequest,
} from './session-context.ts'
import { isListenerId, SessionListener } from './session-listener.ts'
import { resumeStream, streamOver, unknownEvent } from './session-replay.ts'
import { LiveSession, Sessions, type SessionParts } from './sessions.ts'

export interface SessionHttpOptions extends SessionParts {
  readonly handlers: McpHandlers
  /** Changes of lists and resources. Its owner closes it. */
  readonly changes: ChangeFeed
  readonly streams: OpenStreams
}

const MAX_HANDSHAKE_CHARS = 32_768
/** Time after which some stream may have ended. */
const LATER_MS = 60_000

/**
 * Serves the revisions with sessions over HTTP (2025-03-26 to 2025-11-25; specification, "Transports"). A session is a
 * record in the store: every process that shares the store serves every request of it. PROTOCOL.md, "Requests", lists
 * the response to each kind of request.
 */
export class SessionHttp {
  readonly sessions: Sessions
  readonly #options: SessionHttpOptions
  readonly #questions: OpenQuestions

  constructor(options: SessionHttpOptions) {
    const process = options.lease.id
    this.#options = options
    const sessions = new Sessions(options)
    const questions = new OpenQuestions(options)
    this.sessions = sessions
    this.#questions = questions
    sessions.onSignal = (session, signal) => {
      switch (signal.type) {
        case 'changed':
          return listenerOf(session)?.recordChanged()
        case 'cancel':
          return callOf(session, signal.requestId)?.cancel()
        case 'answer':
          if (signal.to === process) questions.answer(session, signal.message)
          return
        case 'progress':
          if (signal.to === process) questions.extend(session, signal.token)
          return
        case 'ended': // by `Sessions`
      }
    }
  }

  async serve(
    { method, headers }: Pick<SessionRequest, 'method' | 'headers'>,
    body: unknown,
    caller: Caller,
  ): Promise<Reply> {
    try {
      return await this.#serve({ method, headers, body, caller })
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      this.#options.onError(
        new Error('A request of a session could not be served', { cause: error }),
      )
      return tryLater(503, 'Sessions cannot be reached at the moment. Try again.', 1000)
    }
  }

  async close(): Promise<void> {
    await this.sessions.close()
    this.#options.streams.close()
  }

  async #serve(http: SessionRequest): Promise<Reply> {
    const { method, headers, caller } = http
    if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') {
      return refused(405, RPC_ERROR.refused, 'Method not allowed.', { allow: 'GET, POST, DELETE' })
    }
    const id = headers.get('mcp-session-id')
    if (id === null) {
      if (method === 'POST' && methodOf(http.body) === 'initialize') {
        return wrongHeaders(http, true) ?? this.#initialize(http.body, caller)
      }
      return refused(400, RPC_ERROR.refused, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = await this.sessions.find(id, caller.principal)
    if (!session || session.isEnded) return noSession()
    const refusal = wrongHeaders(http)
    if (refusal) return refusal
    if (method === 'DELETE') {
      await this.sessions.end(session)
      return { status: 200 }
    }
    const reply = await (method === 'POST' ? this.#post(session, http) : this.#get(session, http))
    if (!(reply.body instanceof EventStream)) return reply
    this.#options.streams.keepOpen(reply.body)
    return { ...reply, headers: { 'mcp-session-id': id } }
  }

  async #initialize(body: unknown, caller: Caller): Promise<Reply> {
    if (JSON.stringify(body).length > MAX_HANDSHAKE_CHARS) {
      const text = `A handshake may have ${MAX_HANDSHAKE_CHARS} characters`
      return refused(413, RPC_ERROR.refused, text)
    }
    if (!isInitializeRequest(body) || !isMessage(body) || !isRequest(body)) {
      return refused(400, RPC_ERROR.invalidRequest, 'Invalid Request: not a valid "initialize"')
    }
    const { protocolVersion: requested, capabilities: ofClient } = body.params
    const protocolVersion = SUPPORTED_PROTOCOL_VERSIONS.includes(requested)
      ? requested
      : LATEST_PROTOCOL_VERSION
    const handshake = { protocolVersion, capabilities: ofClient }
    const session = await this.sessions.open(handshake, caller)
    if (!(session instanceof LiveSession)) return session
    const { handlers } = this.#options
    const { serverInfo, instructions } = handlers
    const capabilities = handlers.capabilities('session')
    const result = { protocolVersion, capabilities, serverInfo, instructions }
    return {
      status: 200,
      headers: { 'mcp-session-id': session.id },
      body: JSON.stringify({ jsonrpc: '2.0', id: body.id, result }),
    }
  }

  async #post(session: LiveSession, http: SessionRequest): Promise<Reply> {
    const { body: message } = http
    if (!isMessage(message)) {
      return refused(400, RPC_ERROR.parseError, 'Parse error: Invalid JSON-RPC message')
    }
    if (!isRequest(message)) return (await this.#receive(session, message)) ?? { status: 202 }
    if (message.method === 'initialize') {
      const text = 'Invalid Request: Server already initialized'
      return refused(400, RPC_ERROR.invalidRequest, text)
    }
    if (callOf(session, message.id)) {
      const text = 'Invalid Request: a request with this id is in flight in the session'
      return refused(400, RPC_ERROR.invalidRequest, text)
    }
    const call = new CallStream(session, http, { request: message, sessions: this.sessions })
    void this.#answer(call, message, http)
    return call.reply
  }

  async #answer(call: CallStream, request: RpcRequest, http: SessionRequest): Promise<void> {
    const { id, method, params = {} } = request
    const { session } = call
    try {
      const handled =
        method === 'ping' || method === 'logging/setLevel'
          ? this.#handleOwn(session, method, params)
          : this.#options.handlers.handle(
              method,
              params,
              new SessionContext(request, http, {
                call,
                questions: this.#questions,
                sessions: this.sessions,
              }),
            )
      const result = handled instanceof Promise ? await handled : handled
      const shown = resultForRevision(result, session.record.handshake.protocolVersion)
      call.respond({ jsonrpc: '2.0', id, result: shown })
    } catch (error) {
      if (!(error instanceof ProtocolError) && call.isOpen) {
        const text = `A request "${method.slice(0, 64)}" could not be served`
        this.#options.onError(new Error(text, { cause: error }))
      }
      call.respond(toErrorResponse(id, error))
    }
  }

  async #handleOwn(session: LiveSession, method: string, params: Params): Promise<McpResult> {
    if (method === 'ping') return {}
    const level = parseLevel(params['level'])
    await this.sessions.update(session, (record) => ({ ...record, level }))
    return {}
  }

  /** Processes a notification or a response. @returns an error if it cannot be delivered */
  async #receive(session: LiveSession, message: RpcMessage): Promise<Reply | undefined> {
    if (isResponse(message)) return this.#receiveAnswer(session, message)
    if (message.method === 'notifications/progress') await this.#receiveProgress(session, message)
    const requestId = cancelledId(message)
    if (requestId === undefined) return undefined
    const call = callOf(session, requestId)
    if (call) {
      call.cancel()
      return undefined
    }
    if (await this.sessions.signal(session, { type: 'cancel', requestId })) return undefined
    return tryLater(503, 'Other processes cannot be reached at the moment. Try again.', 1000)
  }

  async #receiveAnswer(session: LiveSession, message: RpcResponse): Promise<Reply | undefined> {
    const to = processOf(message.id)
    if (to === this.#options.lease.id) this.#questions.answer(session, message)
    if (to === undefined || to === this.#options.lease.id) return undefined
    if (this.#options.store.isShared && (await this.#forward(session, message, to)))
      return undefined
    const text = 'The process that asked for this has ended, and its call with it: call again'
    return refused(400, RPC_ERROR.refused, text)
  }

  /**
   * Hands an answer to the process that asked for it. Resolves to whether that process lives.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async #forward(session: LiveSession, message: RpcResponse, to: string): Promise<boolean> {
    if (!(await this.#options.lease.isAlive(to))) return false
    if (await this.sessions.signal(session, { type: 'answer', to, message: { ...message } })) {
      return true
    }
    throw new GatewayError('UNAVAILABLE', 'Other processes cannot be reached')
  }

  async #receiveProgress(session: LiveSession, { params }: RpcNotification): Promise<void> {
    const token = params?.['progressToken']
    const to = processOf(token)
    if (to === undefined || typeof token !== 'string') return
    if (to === this.#options.lease.id) this.#questions.extend(session, token)
    else await this.sessions.signal(session, { type: 'progress', to, token })
  }

  /** Streams of anonymous callers are counted by address. Other callers have a limited number of sessions. */
  async #get(session: LiveSession, http: SessionRequest): Promise<Reply> {
    if (!http.caller.principal.isAnonymous) return this.#read(session, http)
    const leave = this.#options.streams.enter(http.caller)
    if (!leave)
      return tryLater(
        429,
        'Too many streams are open from this address. Close one, or try again later.',
        LATER_MS,
      )
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

  async #read(session: LiveSession, http: SessionRequest): Promise<Reply> {
    const lastEventId = http.headers.get('last-event-id')
    const { settings, store } = this.#options
    if (lastEventId === null || !settings.events) return this.#listen(session, http, false)
    if (isListenerId(lastEventId)) return this.#listen(session, http, true)
    if (isEndOfStream(lastEventId)) return streamOver()
    const { log, header } = (await store.logs.find(lastEventId)) ?? {}
    if (log === undefined || header?.session !== session.name) return unknownEvent()
    return resumeStream(this.#options, { session, lastEventId, log, header })
  }

  /** @param isBack the client has listened before: it may have lost a stream that is still open here */
  async #listen(session: LiveSession, http: SessionRequest, isBack: boolean): Promise<Reply> {
    const { changes: feed, handlers } = this.#options
    const capabilities = handlers.capabilities('session')
    const before = listenerOf(session)
    if (before && !isBack) {
      const text = 'Conflict: Only one SSE stream is allowed per session'
      return refused(409, RPC_ERROR.refused, text)
    }
    before?.end()
    const { scope, handshake } = session.record
    const { principal } = http.caller
    const stream = new EventStream()
    const listener = new SessionListener({
      session,
      stream,
      sessions: this.sessions,
      feed,
      interest: {
        lists: LISTS.filter((type) => capabilities[type]?.listChanged),
        owner: ownerOf({ principal, scope }),
      },
    })
    try {
      const version = http.headers.get('mcp-protocol-version') ?? handshake.protocolVersion
      const { events, retryMs } = this.#options.settings
      if (events && version >= PRIMED_SINCE) stream.write(toPrimingEvent(listener.id, retryMs))
      if (await listener.begin()) return { status: 200, body: stream }
      stream.end()
      return noSession()
    } catch (error) {
      stream.end()
      throw error
    }
  }
}

/** The call in flight here with this id. */
function callOf(session: LiveSession, id: RequestId): CallStream | undefined {
  for (const use of session.uses) {
    if (use instanceof CallStream && use.isOpen && use.requestId === id) return use
  }
  return undefined
}

function listenerOf(session: LiveSession): SessionListener | undefined {
  const listeners = session.uses.filter((use) => use instanceof SessionListener)
  return listeners.find(({ stream }) => !stream.isClosed)
}

/** Checks `Accept`, and the revision unless the client is still to learn it. */
function wrongHeaders(
  { headers, method }: SessionRequest,
  isInitialize = false,
): Reply | undefined {
  const accepted = headers.get('accept') ?? ''
  const takesJson = method !== 'POST' || accepted.includes('application/json')
  if (method !== 'DELETE' && !(takesJson && accepted.includes('text/event-stream'))) {
    const types = `${method === 'POST' ? 'both application/json and ' : ''}text/event-stream`
    return refused(406, RPC_ERROR.refused, `Not Acceptable: Client must accept ${types}`)
  }
  const version = headers.get('mcp-protocol-version')
  const isKnown = version === null || SUPPORTED_PROTOCOL_VERSIONS.includes(version)
  if (isKnown || isInitialize) return undefined
  const supported = SUPPORTED_PROTOCOL_VERSIONS.join(', ')
  const text = `Bad Request: Unsupported protocol version: ${version.slice(0, 32)}`
  return refused(400, RPC_ERROR.refused, `${text} (supported versions: ${supported})`)
}

/** The process that sent a request with this id, or with this progress token. */
function processOf(id: unknown): string | undefined {
  if (!isRequestId(id) || typeof id !== 'string') return undefined
  const [, process] = /^([^.]+)\.\d{1,15}$/.exec(id) ?? []
  return process
}

function noSession(): Reply {
  return refused(404, RPC_ERROR.sessionNotFound, 'Session not found')
}
