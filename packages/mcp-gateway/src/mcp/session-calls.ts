import { ProtocolError, type RequestId, type Result } from '@modelcontextprotocol/server'

import type { Clock } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { EventLogs } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import { EventStream, toEvent, toPrimingEvent } from './event-stream.ts'
import type { McpHandlers, McpResult } from './handlers.ts'
import {
  RPC_ERROR,
  toErrorResponse,
  type Params,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import { resultForRevision } from './revisions.ts'
import {
  parseLevel,
  SessionContext,
  type OpenCall,
  type Questions,
  type SessionRequest,
} from './session-context.ts'
import type { LiveSession, Sessions, SessionUse } from './sessions.ts'

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
  readonly questions: Questions
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** Clients from this revision on understand events that have an id and no data. */
export const PRIMED_SINCE = '2025-11-25'

/** In logs: ends a stream without an answer. Not sent to clients. */
const NO_ANSWER: Params = {}

/** The requests of sessions that are in flight in this process. */
export class SessionCalls {
  readonly #options: SessionCallsOptions
  #streams = 0
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

  /** Returns whether a request with one of these ids is in flight in the session, or an id occurs twice. */
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

  /** Makes the id of a stream of events. */
  newStreamId(): string {
    return `${this.#options.lease.id}.${++this.#streams}`
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
    return session.uses.filter((use) => use instanceof CallStream)
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

  #handle(
    call: CallStream,
    request: RpcRequest,
    http: SessionRequest,
  ): McpResult | Promise<McpResult> {
    const { method, params = {} } = request
    if (method === 'ping') return {}
    if (method === 'logging/setLevel') return this.#setLevel(call.session, params)
    const { handlers, questions, sessions } = this.#options
    const context = new SessionContext(request, http, { call, questions, sessions })
    return handlers.handle(method, params, context)
  }

  async #setLevel(session: LiveSession, params: Params): Promise<Result> {
    const level = parseLevel(params['level'])
    await this.#options.sessions.update(session, (record) => ({ ...record, level }))
    return {}
  }
}

/**
 * Where the answers of a POST go.
 *
 * - `held`: nothing was sent. An answer in the turn in which the request came is sent as JSON.
 * - `streaming`: a client reads a stream of events.
 * - `away`: no client is connected here. The call is cancelled at the end of the grace period, unless the client reconnects.
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
export class CallStream implements SessionUse, OpenCall {
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
  /** All events of the call are in the log. */
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

  isOpen(id: RequestId): boolean {
    return this.#open.has(id)
  }

  signalOf(id: RequestId): AbortSignal {
    return this.#open.get(id)?.signal ?? AbortSignal.abort()
  }

  writable(): Promise<void> | undefined {
    return this.#state.type === 'streaming' ? this.#state.reader.writable?.() : undefined
  }

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

  /** An event could not be stored: the stream cannot be resumed. A connected client still gets its answers. */
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

  /** Begins a grace period: no client is connected here. */
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
    // Without the store, assume that the client still reads at the other process.
    const isRead =
      process !== '' && (await this.#parts.options.lease.isAlive(process).catch(() => true))
    if (this.#state !== state) return
    if (isRead) this.#wait(state.remote)
    else this.#abandon()
  }

  /** Cancels all requests, because the client did not reconnect. If it reconnects later, it receives an error for each. */
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
