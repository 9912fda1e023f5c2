import {
  isSpecType,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  type InputRequest,
  type InputResponse,
  type LoggingLevel,
  type RequestId,
  type Result,
} from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

import type { Principal } from '../internal/principal.ts'
import type { Clock } from '../internal/clock.ts'
import type { TraceCarrier } from '../internal/observer.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { EventLogs } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import { EventStream, toEvent, toPrimingEvent } from './event-stream.ts'
import type { McpHandlers } from './handlers.ts'
import {
  isRequestId,
  metaOf,
  RPC_ERROR,
  toErrorResponse,
  type Params,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import {
  QuestionTimeout,
  readTrace,
  type ClientInfo,
  type Continuation,
  type ProgressPiece,
  type RequestContext,
  type SessionHandle,
} from './request-context.ts'
import { questionForSession, resultForRevision } from './revisions.ts'
import type { LiveSession, Sessions, SessionUse } from './sessions.ts'

/** One HTTP request of a client, whose credential was checked. */
export interface SessionRequest {
  readonly method: string
  readonly headers: Pick<Headers, 'get'>
  /** Parsed body of a POST. */
  readonly body?: unknown
  readonly principal: Principal
  /** IP address of the client, where it is known. */
  readonly address?: string | undefined
  /** Resolves when the client can take more of the response. @default at once */
  readonly writable?: (() => Promise<void> | undefined) | undefined
  /** Whether there is memory for a large answer to this caller. @default always */
  readonly hasRoom?: (() => boolean) | undefined
}

/** The HTTP response to it: JSON text or a stream of events. */
export interface SessionReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: string | EventStream | undefined
}

export interface SessionCallsOptions {
  readonly handlers: Pick<McpHandlers, 'handle'>
  readonly sessions: Sessions
  readonly logs: EventLogs
  readonly lease: ProcessLease
  /** Time in which a client has to answer a question. Progress of the client extends it. */
  readonly questionTimeoutMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** Clients from this revision on understand events that have an id and no data. */
export const PRIMED_SINCE = '2025-11-25'

/** In logs: ends a stream without an answer. Not sent to clients. */
const NO_ANSWER: Params = {}

const LEVELS: readonly LoggingLevel[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]

/** The requests of sessions that are in flight in this process. */
export class SessionCalls {
  readonly #options: SessionCallsOptions
  /** Questions that clients were asked, by the id of their request. */
  readonly #questions = new Map<RequestId, Question>()
  #streams = 0
  #asked = 0
  /** Events can be stored. Reported once each time that this changes. */
  #isStoring = true

  constructor(options: SessionCallsOptions) {
    this.#options = options
  }

  /** Serves the requests of one POST. None of their ids may be in flight. */
  begin(
    session: LiveSession,
    http: SessionRequest,
    requests: readonly RpcRequest[],
  ): Promise<SessionReply> {
    const call = new CallStream(session, http, { requests, calls: this, options: this.#options })
    for (const request of requests) void this.#serve(call, request, http)
    return call.reply
  }

  /** Whether one of these ids is in flight in the session, or is there twice. */
  hasOneOf(session: LiveSession, requests: readonly RpcRequest[]): boolean {
    return requests.some(
      ({ id }, at) =>
        requests.findIndex((each) => each.id === id) < at ||
        this.#callsOf(session).some((call) => call.isOpen(id)),
    )
  }

  /** Cancels a request, as its client asked for. Returns whether it is in flight in this process. */
  cancel(session: LiveSession, id: RequestId): boolean {
    return this.#callsOf(session).some((call) => call.cancel(id))
  }

  /** The call in flight that writes this log. */
  withLog(session: LiveSession, log: string): CallStream | undefined {
    return this.#callsOf(session).find((call) => call.log === log)
  }

  /** Settles a question with the response of its client. Other clients cannot answer it. */
  answer(session: LiveSession, { id, result, error }: Partial<RpcResponse>): void {
    const question = id === undefined ? undefined : this.#questions.get(id)
    if (question?.session !== session) return
    if (error) question.reject(new ProtocolError(error.code, error.message, error.data))
    else if (isAnswerTo(question.method, result)) question.resolve(result)
    else question.reject(malformedAnswer(question.method))
  }

  /** The client works on a question: it gets more time. */
  extend(session: LiveSession, token: RequestId): void {
    const question = this.#questions.get(token)
    if (question?.session === session) question.extend()
  }

  /** Makes the id of a stream of events. */
  newStreamId(): string {
    return `${this.#options.lease.id}.${++this.#streams}`
  }

  /** Asks a client on the stream of a call. Rejects when `signal` aborts. */
  ask(call: CallStream, request: InputRequest, signal: AbortSignal): Promise<InputResponse> {
    const { method, params } = questionForSession(request)
    const { clock, lease, questionTimeoutMs } = this.#options
    const id = `${lease.id}.${++this.#asked}`
    const { session } = call
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#questions.delete(id)
        stopTimer()
        signal.removeEventListener('abort', onAbort)
      }
      const withdraw = (reason: unknown): void => {
        settle()
        const text = reason instanceof Error ? reason.message : 'The request has ended'
        const cancelled = { requestId: id, reason: text }
        void call.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled })
        reject(reason)
      }
      const onAbort = (): void => withdraw(signal.reason)
      const startTimer = (): (() => void) =>
        clock.after(questionTimeoutMs, () => withdraw(new QuestionTimeout(questionTimeoutMs)))
      let stopTimer = startTimer()
      if (signal.aborted) return onAbort()
      signal.addEventListener('abort', onAbort)
      this.#questions.set(id, {
        session,
        method,
        resolve: (answer) => (settle(), resolve(answer)),
        reject: (error) => (settle(), reject(error)),
        extend: () => {
          stopTimer()
          stopTimer = startTimer()
        },
      })
      const { _meta: meta } = params ?? {}
      const named = { ...(isRecord(meta) && meta), progressToken: id }
      const message = { jsonrpc: '2.0' as const, id, method, params: { ...params, _meta: named } }
      call.send(message).catch(withdraw)
    })
  }

  /** Reports that events cannot be stored, once for each outage. */
  noteStored(error?: unknown): void {
    if (error !== undefined && this.#isStoring) {
      const text = 'Events of sessions cannot be stored: their streams cannot be resumed'
      this.#options.onError(new Error(text, { cause: error }))
    }
    this.#isStoring = error === undefined
  }

  #callsOf(session: LiveSession): readonly CallStream[] {
    return [...session.uses].filter((use) => use instanceof CallStream)
  }

  async #serve(call: CallStream, request: RpcRequest, http: SessionRequest): Promise<void> {
    const { id } = request
    try {
      const handled = this.#handle(call, request, http)
      const result = handled instanceof Promise ? await handled : handled
      const { protocolVersion } = call.session.record.handshake
      call.respond({ jsonrpc: '2.0', id, result: resultForRevision(result, protocolVersion) })
    } catch (error) {
      if (!(error instanceof ProtocolError) && call.isOpen(id)) {
        const text = `A request "${request.method.slice(0, 64)}" could not be served`
        this.#options.onError(new Error(text, { cause: error }))
      }
      call.respond(toErrorResponse(id, error))
    }
  }

  #handle(call: CallStream, request: RpcRequest, http: SessionRequest) {
    const { method, params = {} } = request
    if (method === 'ping') return {}
    if (method === 'logging/setLevel') return this.#setLevel(call.session, params)
    const context = new SessionContext(request, http, { call, calls: this, options: this.#options })
    return this.#options.handlers.handle(method, params, context)
  }

  async #setLevel(session: LiveSession, { level }: Params): Promise<Result> {
    if (!isLevel(level)) {
      throw new ProtocolError(
        RPC_ERROR.invalidParams,
        `"level" must be one of ${LEVELS.join(', ')}`,
      )
    }
    await this.#options.sessions.update(session, (record) => ({ ...record, level }))
    return {}
  }
}

interface Question {
  readonly session: LiveSession
  readonly method: InputRequest['method']
  readonly resolve: (answer: InputResponse) => void
  readonly reject: (error: Error) => void
  readonly extend: () => void
}

/**
 * Where the answers of a POST go.
 *
 * - `held`: nothing was sent. An answer in the turn in which the request came is sent as JSON.
 * - `streaming`: a client reads a stream of events.
 * - `away`: nobody reads here. The call is cancelled at the end of the grace period, unless a client has come back.
 * - `ended`: every request was answered or cancelled.
 */
type CallState =
  | { readonly type: 'held'; readonly endOfTurn: NodeJS.Immediate | undefined }
  /** `isDirect`: the call writes to the reader. Other readers tail the log. */
  | { readonly type: 'streaming'; readonly reader: EventStream; readonly isDirect: boolean }
  /** `remote`: stream of another process on which the client reads the log. */
  | { readonly type: 'away'; readonly stopGrace: () => void; readonly remote: string | undefined }
  | { readonly type: 'ended' }

interface CallParts {
  readonly requests: readonly RpcRequest[]
  readonly calls: SessionCalls
  readonly options: SessionCallsOptions
}

/** The requests of one POST, from their arrival to the last answer. */
export class CallStream implements SessionUse {
  readonly isCall = true
  readonly session: LiveSession
  /** Name of its event log. Clients do not see it. */
  readonly log: string
  readonly reply: Promise<SessionReply>
  readonly #http: SessionRequest
  readonly #parts: CallParts
  /** Requests without an answer. */
  readonly #open = new Map<RequestId, AbortController>()
  readonly #leave: () => void
  #state: CallState
  /** Everything is stored and written in this order. */
  #queue: Promise<void> = Promise.resolve()
  /** Whether all of its events are in the log. */
  #isResumable: boolean
  #releaseLease: (() => void) | undefined
  #settle: (reply: SessionReply) => void = () => undefined

  constructor(session: LiveSession, http: SessionRequest, parts: CallParts) {
    const { requests, options } = parts
    this.session = session
    this.#http = http
    this.#parts = parts
    this.log = `session-events:${session.name}:${randomHex(8)}`
    this.#isResumable = options.sessions.settings.events !== undefined
    this.reply = new Promise((resolve) => (this.#settle = resolve))
    for (const { id } of requests) this.#open.set(id, new AbortController())
    this.#leave = session.use(this, () => options.clock.now())
    // An answer to `resources/read` may be larger than an event that clients accept.
    const waits = requests.length === 1 && requests[0]?.method === 'resources/read'
    const endOfTurn = waits ? undefined : setImmediate(() => this.#stream())
    this.#state = { type: 'held', endOfTurn }
    if (requests.length > 1) this.#stream()
  }

  /** Whether this request has no answer yet. */
  isOpen(id: RequestId): boolean {
    return this.#open.has(id)
  }

  signalOf(id: RequestId): AbortSignal {
    return this.#open.get(id)?.signal ?? AbortSignal.abort()
  }

  /** Whether the client reads what the call writes to the response of its POST. */
  get isReadDirectly(): boolean {
    return this.#state.type === 'streaming' && this.#state.isDirect
  }

  /** Resolves when the client can take more. */
  writable(): Promise<void> | undefined {
    return this.#state.type === 'streaming' ? this.#state.reader.writable?.() : undefined
  }

  /** Sends a message before the answer. @throws TypeError for what JSON cannot express */
  async send(message: RpcMessage): Promise<void> {
    const text = JSON.stringify(message)
    if (this.#state.type === 'held') this.#stream()
    await this.#write(message, text, false)
  }

  /** Answers a request, unless it was cancelled. */
  respond(response: RpcResponse): void {
    const { id } = response
    const request = this.#open.get(id)
    if (!request) return
    let answer = response
    let text: string
    try {
      text = JSON.stringify(response)
    } catch (error) {
      answer = toErrorResponse(id, error)
      text = JSON.stringify(answer)
    }
    this.#open.delete(id)
    if (this.#state.type === 'held') {
      this.#finish({ status: 200, body: text })
    } else {
      void this.#write(answer, text, this.#open.size === 0)
    }
  }

  /** The client does not want an answer to this request. Returns whether it was in flight. */
  cancel(id: RequestId): boolean {
    const request = this.#open.get(id)
    if (!request) return false
    this.#open.delete(id)
    request.abort(new Error('Cancelled by the client'))
    if (this.#open.size > 0) return true
    if (this.#state.type === 'held') this.#finish(this.#silence())
    else void this.#write(NO_ANSWER, undefined, true)
    return true
  }

  /** Ends the response. The client comes back for the rest, if it can. */
  closeStream(): void {
    if (this.#state.type === 'held') this.#stream()
    void this.#enqueue(async () => {
      const state = this.#state
      if (state.type !== 'streaming' || !this.#isResumable || !this.#isPrimed) return
      state.reader.end()
      this.#wait(undefined)
    })
  }

  /** The client reads the log on this stream from now on. Returns `false` if the call has ended or cannot be resumed. */
  resume(reader: EventStream): boolean {
    if (this.#state.type === 'ended' || this.#state.type === 'held' || !this.#isResumable)
      return false
    this.#leaveReader()
    this.#attach(reader, false)
    return true
  }

  /** The client reads the log at another process, on the stream `remote`. */
  readElsewhere(remote: string): void {
    if (this.#state.type !== 'streaming' && this.#state.type !== 'away') return
    this.#leaveReader()
    this.#wait(remote)
  }

  /** The client has left the stream `remote` of another process. */
  leftElsewhere(remote: string): void {
    if (this.#state.type !== 'away' || this.#state.remote !== remote) return
    this.#leaveReader()
    this.#wait(undefined)
  }

  /** The session has ended, or the gateway stops. */
  end(reason: Error): void {
    for (const request of this.#open.values()) request.abort(reason)
    this.#open.clear()
    if (this.#state.type === 'held') this.#finish(this.#silence())
    else this.#finish()
  }

  get #isPrimed(): boolean {
    const { handshake } = this.session.record
    const version = this.#http.headers.get('mcp-protocol-version') ?? handshake.protocolVersion
    return version >= PRIMED_SINCE
  }

  /** A response that ends without a message: an error would say that the request did not begin. */
  #silence(): SessionReply {
    const body = new EventStream('')
    body.end()
    return { status: 200, body }
  }

  /** Sends the head of the response, and begins the log. */
  #stream(): void {
    if (this.#state.type !== 'held') return
    clearImmediate(this.#state.endOfTurn)
    const reader = new EventStream(this.#parts.calls.newStreamId(), this.#http.writable)
    this.#attach(reader, true)
    this.#settle({ status: 200, body: reader })
    const held = this.#holdLease()
    if (this.#isResumable) void this.#enqueue(() => this.#openLog(held))
  }

  /** Other processes see that the call goes on: its log, and its questions. Resolves to whether they do. */
  async #holdLease(): Promise<boolean> {
    const { lease, sessions } = this.#parts.options
    if (!sessions.isShared) return true
    try {
      const release = await lease.hold()
      if (this.#hasEnded()) release()
      else this.#releaseLease = release
      return true
    } catch (error) {
      this.#parts.calls.noteStored(error)
      return false
    }
  }

  #attach(reader: EventStream, isDirect: boolean): void {
    this.#state = { type: 'streaming', reader, isDirect }
    reader.onClose((end) => {
      if (end === 'lost') this.#lost(reader)
    })
  }

  async #openLog(held: Promise<boolean>): Promise<void> {
    const { options, requests } = this.#parts
    const { logs, lease, sessions } = options
    const { events, retryMs } = sessions.settings
    if (!events || this.#hasEnded()) return
    const ids = requests.map(({ id }) => id)
    const header = { session: this.session.name, owner: lease.id, requestIds: ids }
    this.session.addLog(this.log)
    try {
      const [id, isHeld] = await Promise.all([logs.open(this.log, header, events), held])
      if (!isHeld) throw new Error('Other processes cannot see that this one is alive')
      this.#parts.calls.noteStored()
      if (this.#hasEnded()) return this.#forget()
      if (this.#isPrimed) this.#writeDirect(toPrimingEvent(id, retryMs))
    } catch (error) {
      this.#break(error)
    }
  }

  /** @param text of the message; `undefined` for what clients are not sent */
  #write(message: unknown, text: string | undefined, isLast: boolean): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#hasEnded()) return
      const { logs, sessions } = this.#parts.options
      const { events } = sessions.settings
      let id: string | undefined
      if (this.#isResumable && events) {
        try {
          id = await logs.append(this.log, message, { limits: events, isLast })
          this.#parts.calls.noteStored()
        } catch (error) {
          this.#break(error)
        }
      }
      if (this.#hasEnded()) return
      if (text !== undefined) this.#writeDirect(toEvent(text, id, isLast))
      if (isLast) this.#finish()
    })
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#queue = this.#queue.then(work)
    return this.#queue
  }

  #writeDirect(event: string): void {
    const state = this.#state
    if (state.type === 'streaming' && state.isDirect) state.reader.write(event)
  }

  #hasEnded(): boolean {
    return this.#state.type === 'ended'
  }

  /** An event is not in the log: nobody can resume the stream. A client that is connected gets its answers. */
  #break(error: unknown): void {
    this.#parts.calls.noteStored(error)
    this.#isResumable = false
    const state = this.#state
    this.#deleteLog(this.log)
    if (state.type === 'streaming' && state.isDirect) return
    if (state.type === 'streaming') state.reader.end()
    this.end(new Error('The connection was lost, and the stream cannot be resumed'))
  }

  /** The client has left. */
  #lost(reader: EventStream): void {
    const state = this.#state
    if (state.type !== 'streaming' || state.reader !== reader) return
    if (this.#isResumable) this.#wait(undefined)
    else this.#abandon()
  }

  /** Nobody reads here. */
  #wait(remote: string | undefined): void {
    const { clock, sessions } = this.#parts.options
    const stopGrace = clock.after(
      sessions.settings.disconnectGraceMs,
      () => void this.#graceEnded(),
    )
    this.#state = { type: 'away', stopGrace, remote }
  }

  async #graceEnded(): Promise<void> {
    const state = this.#state
    if (state.type !== 'away') return
    const [process = ''] = state.remote?.split('.') ?? []
    // Where the store is away, nobody knows whether the client reads elsewhere.
    const isRead =
      process !== '' && (await this.#parts.options.lease.isAlive(process).catch(() => true))
    if (this.#state !== state) return
    if (isRead) this.#wait(state.remote)
    else this.#abandon()
  }

  /** Nobody waits for the answers. A client that comes back later learns that its requests were cancelled. */
  #abandon(): void {
    const ids = [...this.#open.keys()]
    const requests = [...this.#open.values()]
    this.#open.clear()
    for (const request of requests) request.abort(new Error('The connection was lost'))
    const error = { code: RPC_ERROR.refused, message: 'Cancelled: the connection was lost' }
    for (const [at, id] of ids.entries()) {
      void this.#write({ jsonrpc: '2.0', id, error }, undefined, at === ids.length - 1)
    }
  }

  #leaveReader(): void {
    if (this.#state.type === 'away') this.#state.stopGrace()
    if (this.#state.type === 'streaming') this.#state.reader.end()
  }

  #finish(reply?: SessionReply): void {
    const state = this.#state
    if (state.type === 'ended') return
    this.#state = { type: 'ended' }
    if (state.type === 'held') clearImmediate(state.endOfTurn)
    if (reply) this.#settle(reply)
    if (state.type === 'away') state.stopGrace()
    // Readers that tail the log end with its last event.
    if (state.type === 'streaming' && (state.isDirect || this.session.isEnded)) state.reader.end()
    this.#leave()
    this.#releaseLease?.()
    if (state.type === 'held') return
    const { clock, sessions } = this.#parts.options
    const { ttlMs = 0 } = sessions.settings.events ?? {}
    const isRead = state.type === 'streaming' || state.remote !== undefined
    const old = this.session.endLog(this.log, { now: clock.now(), ttlMs, isRead })
    for (const log of old) this.#deleteLog(log)
  }

  /** The call ended while its log was made. */
  #forget(): void {
    if (this.session.isEnded) this.#deleteLog(this.log)
  }

  /** Logs that cannot be deleted end by themselves. */
  #deleteLog(log: string): void {
    void this.#parts.options.logs.delete(log).catch(() => undefined)
  }
}

interface ContextParts {
  readonly call: CallStream
  readonly calls: SessionCalls
  readonly options: SessionCallsOptions
}

/** What handlers learn about a request of a session. */
class SessionContext implements RequestContext {
  readonly requestId: RequestId
  readonly principal: Principal
  readonly signal: AbortSignal
  readonly meta: Params
  readonly progress: RequestContext['progress']
  readonly continuation: Continuation | undefined = undefined
  readonly #http: SessionRequest
  readonly #parts: ContextParts

  constructor(request: RpcRequest, http: SessionRequest, parts: ContextParts) {
    this.requestId = request.id
    this.principal = http.principal
    this.signal = parts.call.signalOf(request.id)
    this.meta = metaOf(request)
    this.#http = http
    this.#parts = parts
    const { progressToken: token } = this.meta
    this.progress = isRequestId(token) ? (piece) => this.#progress(token, piece) : undefined
  }

  get client(): ClientInfo {
    const { clientInfo, capabilities, protocolVersion } = this.#parts.call.session.record.handshake
    const { name } = clientInfo
    return { name: typeof name === 'string' ? name : undefined, capabilities, protocolVersion }
  }

  get session(): SessionHandle {
    return new Subscriptions(this.#parts.call.session, this.#parts.options.sessions)
  }

  get namespace(): string | undefined {
    return this.#parts.call.session.record.scope
  }

  get address(): string | undefined {
    return this.#http.address
  }

  get bodyBytes(): number | undefined {
    const length = this.#http.headers.get('content-length')
    return length === null ? undefined : Number(length)
  }

  get trace(): TraceCarrier | undefined {
    return readTrace(this.meta, this.#http.headers)
  }

  hasRoom(): boolean {
    return this.#http.hasRoom?.() ?? true
  }

  async log(level: LoggingLevel, text: string): Promise<void> {
    const { call } = this.#parts
    const { level: least } = call.session.record
    if (isLevel(least) && LEVELS.indexOf(level) < LEVELS.indexOf(least)) return
    await this.#send('notifications/message', { level, data: text })
  }

  async ask(
    requests: Readonly<Record<string, InputRequest>>,
  ): Promise<Readonly<Record<string, InputResponse>>> {
    const { call, calls } = this.#parts
    const failed = new AbortController()
    const signal = AbortSignal.any([this.signal, failed.signal])
    try {
      const answers = await Promise.all(
        Object.entries(requests).map(
          async ([key, request]) => [key, await calls.ask(call, request, signal)] as const,
        ),
      )
      return Object.fromEntries(answers)
    } catch (error) {
      failed.abort(error)
      throw error
    }
  }

  closeStream(): void {
    this.#parts.call.closeStream()
  }

  #progress(progressToken: RequestId, piece: ProgressPiece): Promise<void> {
    return this.#send('notifications/progress', { progressToken, ...piece })
  }

  async #send(method: string, params: Params): Promise<void> {
    const { call } = this.#parts
    if (!call.isOpen(this.requestId)) return
    await call.send({ jsonrpc: '2.0', method, params })
    await call.writable()
  }
}

const MAX_FOLLOWED = 256

/** Resources that the client of a session subscribed to. */
class Subscriptions implements SessionHandle {
  readonly #session: LiveSession
  readonly #sessions: Sessions

  constructor(session: LiveSession, sessions: Sessions) {
    this.#session = session
    this.#sessions = sessions
  }

  async subscribe(uri: string): Promise<boolean> {
    let hasRoom = true
    await this.#sessions.update(this.#session, (record) => {
      const { followed } = record
      if (followed.includes(uri)) return record
      hasRoom = followed.length < MAX_FOLLOWED
      return hasRoom ? { ...record, followed: [...followed, uri] } : record
    })
    return hasRoom
  }

  async unsubscribe(uri: string): Promise<void> {
    if (!this.#session.record.followed.includes(uri)) return
    await this.#sessions.update(this.#session, (record) => {
      return { ...record, followed: record.followed.filter((each) => each !== uri) }
    })
  }
}

function isAnswerTo(method: InputRequest['method'], result: unknown): result is InputResponse {
  switch (method) {
    case 'elicitation/create':
      return isSpecType.ElicitResult(result)
    case 'sampling/createMessage':
      return (
        isSpecType.CreateMessageResult(result) || isSpecType.CreateMessageResultWithTools(result)
      )
    case 'roots/list':
      return isSpecType.ListRootsResult(result)
  }
}

/** Shorter than what a validator says about each form that an answer could have. */
function malformedAnswer(method: InputRequest['method']): SdkError {
  const text =
    method === 'elicitation/create'
      ? 'The answer to an elicitation is malformed: "action" must be accept, decline or cancel, and "content" an object of plain values.'
      : `The answer to "${method}" is malformed: it must have the form that the specification requires.`
  return new SdkError(SdkErrorCode.InvalidResult, text)
}

function isLevel(value: unknown): value is LoggingLevel {
  return LEVELS.some((level) => level === value)
}
