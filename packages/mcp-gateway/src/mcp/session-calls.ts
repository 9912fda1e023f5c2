import { ProtocolError, type RequestId, type Result } from '@modelcontextprotocol/server'

import { randomHex } from '../internal/random-hex.ts'
import { EventStream, toEvent, toPrimingEvent } from './event-stream.ts'
import type { McpResult } from './handlers.ts'
import {
  RPC_ERROR,
  toErrorResponse,
  type Params,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import type { Reply } from './reply.ts'
import { resultForRevision } from './revisions.ts'
import {
  parseLevel,
  SessionContext,
  type OpenQuestions,
  type SessionRequest,
} from './session-context.ts'
import type { LiveSession, SessionParts, Sessions, SessionUse } from './sessions.ts'

/** Clients from this revision on understand events that have an id and no data. */
export const PRIMED_SINCE = '2025-11-25'

/** In logs: ends a stream without an answer. Not sent to clients. */
const NO_ANSWER: Params = {}

/** The requests of sessions that are in flight in this process. */
export class SessionCalls {
  readonly parts: SessionParts
  readonly sessions: Sessions
  readonly #questions: OpenQuestions
  #streams = 0
  /** Events can be stored. Reported once each time that this changes. */
  #isStoring = true

  constructor(parts: SessionParts, sessions: Sessions, questions: OpenQuestions) {
    this.parts = parts
    this.sessions = sessions
    this.#questions = questions
  }

  /** Serves the requests of one POST. None of their ids may be in flight. */
  begin(
    session: LiveSession,
    http: SessionRequest,
    requests: readonly RpcRequest[],
  ): Promise<Reply> {
    const call = new CallStream(session, http, { requests, calls: this })
    for (const request of requests) void this.#serve(call, request, http)
    return call.reply
  }

  /** Returns whether a request with one of these ids is in flight in the session, or an id occurs twice. */
  hasOneOf(session: LiveSession, requests: readonly RpcRequest[]): boolean {
    return requests.some(
      ({ id }, at) => requests.findIndex((each) => each.id === id) < at || this.has(session, id),
    )
  }

  /** Returns whether a request with this id is in flight in this process. */
  has(session: LiveSession, id: RequestId): boolean {
    return this.#callsOf(session).some((call) => call.isOpen(id))
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
    return `${this.parts.lease.id}.${++this.#streams}`
  }

  /** Reports that events cannot be stored, once for each outage. */
  noteStored(error?: unknown): void {
    if (error !== undefined && this.#isStoring) {
      const text = 'Events of sessions cannot be stored: their streams cannot be resumed'
      this.parts.onError(new Error(text, { cause: error }))
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
        this.parts.onError(new Error(text, { cause: error }))
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
    const open = { call, questions: this.#questions, sessions: this.sessions }
    return this.parts.handlers.handle(method, params, new SessionContext(request, http, open))
  }

  async #setLevel(session: LiveSession, params: Params): Promise<Result> {
    const level = parseLevel(params['level'])
    if (session.isStored) await this.sessions.update(session, (record) => ({ ...record, level }))
    return {}
  }
}

/**
 * Phase of a POST with requests: it decides how its messages reach the client.
 *
 * - `held`: nothing was sent. An answer in the turn in which the request came is sent as JSON.
 * - `direct`: the client reads the response of the POST.
 * - `tailed`: the client came back to this process, and reads the log of the call.
 * - `elsewhere`: the client reads the log at another process.
 * - `away`: the client reads nothing. The call is cancelled at the end of the grace period.
 * - `ended`: every request was answered or cancelled.
 */
export type CallPhase = 'held' | 'direct' | 'tailed' | 'elsewhere' | 'away' | 'ended'

/**
 * - `stream`: the turn is over, or there is a message before the answer.
 * - `lost`: the client has left the stream.
 * - `resume`, `elsewhere`: the client came back to this process, or to another one.
 * - `left`: the client has left the stream at the other process.
 * - `close`: the handler ends the stream, and the client shall come back.
 * - `break`: an event could not be stored.
 * - `end`: the last request was answered or cancelled, or the session has ended.
 */
export type CallEvent =
  | 'stream'
  | 'lost'
  | 'resume'
  | 'elsewhere'
  | 'left'
  | 'close'
  | 'break'
  | 'end'

const NEXT: Readonly<Record<CallPhase, Partial<Record<CallEvent, CallPhase>>>> = {
  held: { stream: 'direct', end: 'ended' },
  direct: { lost: 'away', resume: 'tailed', elsewhere: 'elsewhere', close: 'away', end: 'ended' },
  tailed: {
    lost: 'away',
    resume: 'tailed',
    elsewhere: 'elsewhere',
    close: 'away',
    break: 'ended',
    end: 'ended',
  },
  elsewhere: {
    resume: 'tailed',
    elsewhere: 'elsewhere',
    left: 'away',
    break: 'ended',
    end: 'ended',
  },
  away: { resume: 'tailed', elsewhere: 'elsewhere', break: 'ended', end: 'ended' },
  ended: {},
}

/**
 * Returns the phase after an event. `undefined`: the event has no effect.
 *
 * @param isResumable whether all events of the call are in its log
 */
export function nextPhase(
  phase: CallPhase,
  event: CallEvent,
  isResumable: boolean,
): CallPhase | undefined {
  const next = NEXT[phase][event]
  const needsLog = next === 'tailed' || next === 'elsewhere' || next === 'away'
  if (isResumable || !needsLog) return next
  return event === 'lost' ? 'ended' : undefined
}

/** The stream that the client reads. */
interface Place {
  /** Stream in this process. */
  readonly reader?: EventStream
  /** Id of the stream at another process. */
  readonly remote?: string | undefined
}

interface CallParts {
  readonly requests: readonly RpcRequest[]
  readonly calls: SessionCalls
}

/** The requests of one POST, from their arrival to the last answer. */
export class CallStream implements SessionUse {
  readonly isCall = true
  readonly session: LiveSession
  readonly reply: Promise<Reply>
  readonly #http: SessionRequest
  readonly #parts: CallParts
  /** Requests without an answer. */
  readonly #open = new Map<RequestId, AbortController>()
  readonly #leave: () => void
  #phase: CallPhase = 'held'
  #place: Place = {}
  #log = ''
  /** Stops the timer of the phase: the end of the turn, or the grace period. */
  #stopTimer: (() => void) | undefined
  /** Everything is stored and written in this order. */
  #queue: Promise<void> = Promise.resolve()
  /** All events of the call are in the log. */
  #isResumable: boolean
  #releaseLease: (() => void) | undefined
  #settle: (reply: Reply) => void = () => undefined

  constructor(session: LiveSession, http: SessionRequest, parts: CallParts) {
    const { calls, requests } = parts
    this.session = session
    this.#http = http
    this.#parts = parts
    this.#isResumable = calls.sessions.settings.events !== undefined
    this.reply = new Promise((resolve) => (this.#settle = resolve))
    for (const { id } of requests) this.#open.set(id, new AbortController())
    this.#leave = session.use(this)
    if (requests.length > 1) this.#stream()
    // An answer to `resources/read` may be larger than an event that clients accept.
    else if (requests[0]?.method !== 'resources/read') {
      const endOfTurn = setImmediate(() => this.#stream())
      this.#stopTimer = () => clearImmediate(endOfTurn)
    }
  }

  /** Name of the event log. Clients do not see it. Empty while the call is held. */
  get log(): string {
    return this.#log
  }

  /** Returns whether this request waits for its answer. */
  isOpen(id: RequestId): boolean {
    return this.#open.has(id)
  }

  signalOf(id: RequestId): AbortSignal {
    return this.#open.get(id)?.signal ?? AbortSignal.abort()
  }

  /** Resolves when the client can take more. */
  writable(): Promise<void> | undefined {
    return this.#place.reader?.writable()
  }

  /** Sends a message before the answer. @throws TypeError for a message that JSON cannot express */
  async send(message: RpcMessage): Promise<void> {
    const text = JSON.stringify(message)
    this.#stream()
    await this.#write(message, text, false)
  }

  /** Answers a request, unless it was cancelled. */
  respond(response: RpcResponse): void {
    const { id } = response
    if (!this.#open.has(id)) return
    let answer = response
    let text: string
    try {
      text = JSON.stringify(response)
    } catch (error) {
      answer = toErrorResponse(id, error)
      text = JSON.stringify(answer)
    }
    this.#open.delete(id)
    if (this.#phase !== 'held') return void this.#write(answer, text, this.#open.size === 0)
    this.#endHeld({ status: 200, body: text })
  }

  /** The client does not want an answer to this request. Returns whether it was in flight. */
  cancel(id: RequestId): boolean {
    const request = this.#open.get(id)
    if (!request) return false
    this.#open.delete(id)
    request.abort(new Error('Cancelled by the client'))
    if (this.#open.size > 0) return true
    if (this.#phase !== 'held') void this.#write(NO_ANSWER, undefined, true)
    else this.#endHeld(silence())
    return true
  }

  /** Ends the response. The client comes back for the rest, if it can. */
  closeStream(): void {
    this.#stream()
    void this.#enqueue(async () => {
      if (this.#isPrimed) this.#move('close')
    })
  }

  /** The client reads the log on this stream from now on. Returns `false` if the call has ended or cannot be resumed. */
  resume(reader: EventStream): boolean {
    return this.#move('resume', { reader })
  }

  /** The client reads the log at another process, on the stream `remote`. */
  readElsewhere(remote: string): void {
    this.#move('elsewhere', { remote })
  }

  /** The client has left the stream `remote` of another process. */
  leftElsewhere(remote: string): void {
    if (this.#place.remote === remote) this.#move('left')
  }

  /** The session has ended, or the gateway stops. */
  end(reason: Error): void {
    this.#abort(reason)
    if (this.#phase === 'held') this.#endHeld(silence())
    else this.#move('end')
  }

  get #isPrimed(): boolean {
    const { handshake } = this.session.record
    const version = this.#http.headers.get('mcp-protocol-version') ?? handshake.protocolVersion
    return version >= PRIMED_SINCE
  }

  #endHeld(reply: Reply): void {
    this.#settle(reply)
    this.#move('end')
  }

  /** @returns whether the event had an effect */
  #move(event: CallEvent, place: Place = {}): boolean {
    const phase = this.#phase
    const { reader: before } = this.#place
    const next = nextPhase(phase, event, this.#isResumable)
    if (next === undefined) return false
    this.#stopTimer?.()
    this.#stopTimer = undefined
    this.#phase = next
    this.#place = place
    // Readers that tail the log end with its last event.
    if (phase !== 'tailed' || event !== 'end' || this.session.isEnded) before?.end()
    if (next === 'ended') this.#ended(phase)
    if (next === 'away' || next === 'elsewhere') {
      const { parts, sessions } = this.#parts.calls
      const { disconnectGraceMs } = sessions.settings
      this.#stopTimer = parts.clock.after(disconnectGraceMs, () => void this.#graceEnded())
    }
    place.reader?.onClose((end) => {
      if (end === 'lost' && this.#place === place) this.#move('lost')
    })
    return true
  }

  #ended(phase: CallPhase): void {
    if (this.#open.size > 0) this.#abort(new Error('The connection was lost'))
    this.#leave()
    this.#releaseLease?.()
    if (phase === 'held') return
    const { ttlMs = 0 } = this.#parts.calls.sessions.settings.events ?? {}
    const old = this.session.endLog(this.#log, { ttlMs, isRead: phase !== 'away' })
    for (const log of old) this.#deleteLog(log)
  }

  /** Aborts all requests. They get no answer. */
  #abort(reason: Error): void {
    for (const request of this.#open.values()) request.abort(reason)
    this.#open.clear()
  }

  /** Sends the head of the response, and begins the log. */
  #stream(): void {
    if (this.#phase !== 'held') return
    const { calls } = this.#parts
    const reader = new EventStream(calls.newStreamId())
    this.#log = `session-events:${this.session.name}:${randomHex(8)}`
    this.#move('stream', { reader })
    this.#settle({ status: 200, body: reader })
    const held = this.#holdLease()
    if (this.#isResumable) void this.#enqueue(() => this.#openLog(held))
  }

  /** Other processes see that the call goes on: its log, and its questions. Resolves to whether they do. */
  async #holdLease(): Promise<boolean> {
    const { calls } = this.#parts
    if (!calls.parts.store.isShared) return true
    try {
      const release = await calls.parts.lease.hold()
      if (this.#hasEnded()) release()
      else this.#releaseLease = release
      return true
    } catch (error) {
      calls.noteStored(error)
      return false
    }
  }

  async #openLog(held: Promise<boolean>): Promise<void> {
    const { calls, requests } = this.#parts
    const { lease, store } = calls.parts
    const { events, retryMs } = calls.sessions.settings
    if (!events || this.#hasEnded()) return
    const ids = requests.map(({ id }) => id)
    const header = { session: this.session.name, owner: lease.id, requestIds: ids }
    this.session.addLog(this.#log)
    try {
      const [id, isHeld] = await Promise.all([store.logs.open(this.#log, header, events), held])
      if (!isHeld) throw new Error('Other processes cannot see that this one is alive')
      calls.noteStored()
      // The session may have ended, and deleted its logs, while this one was made.
      if (this.#hasEnded() && this.session.isEnded) this.#deleteLog(this.#log)
      else if (this.#isPrimed) this.#writeDirect(toPrimingEvent(id, retryMs))
    } catch (error) {
      this.#break(error)
    }
  }

  /** @param text of the message; `undefined` for a message that is stored only */
  #write(message: unknown, text: string | undefined, isLast: boolean): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#hasEnded()) return
      const { calls } = this.#parts
      const { events } = calls.sessions.settings
      let id: string | undefined
      if (this.#isResumable && events) {
        try {
          const { logs } = calls.parts.store
          id = await logs.append(this.#log, message, { limits: events, isLast })
          calls.noteStored()
        } catch (error) {
          this.#break(error)
        }
      }
      if (text !== undefined) this.#writeDirect(toEvent(text, id, isLast))
      if (isLast) this.#move('end')
    })
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#queue = this.#queue.then(work)
    return this.#queue
  }

  #writeDirect(event: string): void {
    if (this.#phase === 'direct') this.#place.reader?.write(event)
  }

  #hasEnded(): boolean {
    return this.#phase === 'ended'
  }

  /** An event could not be stored: the stream cannot be resumed. A connected client still gets its answers. */
  #break(error: unknown): void {
    this.#parts.calls.noteStored(error)
    this.#isResumable = false
    this.#deleteLog(this.#log)
    this.#move('break')
  }

  async #graceEnded(): Promise<void> {
    const place = this.#place
    const { remote } = place
    const [process = ''] = remote?.split('.') ?? []
    const { lease } = this.#parts.calls.parts
    // Without the store, assume that the client still reads at the other process.
    const isRead = process !== '' && (await lease.isAlive(process).catch(() => true))
    if (this.#place !== place) return
    if (isRead) this.#move('elsewhere', { remote })
    else this.#abandon()
  }

  /** Cancels all requests, because the client did not come back. If it comes back later, it receives an error for each. */
  #abandon(): void {
    const ids = [...this.#open.keys()]
    this.#abort(new Error('The connection was lost'))
    const error = { code: RPC_ERROR.refused, message: 'Cancelled: the connection was lost' }
    for (const [at, id] of ids.entries()) {
      void this.#write({ jsonrpc: '2.0', id, error }, undefined, at === ids.length - 1)
    }
  }

  /** Logs that cannot be deleted end by themselves. */
  #deleteLog(log: string): void {
    void this.#parts.calls.parts.store.logs.delete(log).catch(() => undefined)
  }
}

/** A response that ends without a message: an error would say that the request did not begin. */
function silence(): Reply {
  const body = new EventStream('')
  body.end()
  return { status: 200, body }
}
