import type { RequestId } from '@modelcontextprotocol/server'

import { randomHex } from '../internal/random-hex.ts'
import { whenBack, type LogHeader } from '../store/gateway-store.ts'
import { EventStream, toEvent, toPrimingEvent } from './event-stream.ts'
import {
  toErrorResponse,
  type Params,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import type { Reply } from './reply.ts'
import type { SessionRequest } from './session-context.ts'
import type { LiveSession, Sessions, SessionUse } from './sessions.ts'

/** Clients from this revision on understand events that have an id and no data. */
export const PRIMED_SINCE = '2025-11-25'

/** In logs: an event that is not sent to clients. As the last event, it ends a stream without an answer. */
const SILENCE: Params = {}

/** Time for which the answer, and a question, wait for a store that is away. */
const STORE_MS = 30_000
/** Parts of a log that progress may fill. The rest is for questions, the answer and silence. */
const PROGRESS_PART = { all: 0.5, slow: 0.7 }
/** Time between two stored pieces of slow progress: many clients give up after 60 s without any. */
const SLOW_MS = 15_000

/** How the response of a request begins. A request that is answered in its turn gets JSON, and never has a stream. */
interface CallResponse {
  readonly stream: EventStream
  /** Name of the event log. Clients do not see it. */
  readonly log: string
}

/**
 * A request of a session, from its arrival to its answer. The request goes on when its client leaves (specification
 * 2025-11-25, "Sending Messages to the Server"): the client comes back to the log, at any process.
 */
export class CallStream implements SessionUse {
  readonly isCall = true
  readonly session: LiveSession
  readonly reply: Promise<Reply>
  readonly requestId: RequestId
  readonly #stop = new AbortController()
  /** Aborts when the request is cancelled, and when the session ends. */
  readonly signal: AbortSignal = this.#stop.signal
  /** The request has no answer, and was not cancelled. */
  isOpen = true
  readonly #http: SessionRequest
  readonly #sessions: Sessions
  readonly #leave: () => void
  #response: CallResponse | undefined
  #hasEnded = false
  /** Header of the log. `undefined`: the log was not opened, and a client cannot come back. */
  #header: LogHeader | undefined
  /** Number of pieces of progress in the log. */
  #progressCount = 0
  /** Time of the last one. */
  #progressAt = 0
  #undoEndOfTurn: (() => void) | undefined
  #undoKeepLog: (() => void) | undefined
  #releaseLease: (() => void) | undefined
  /** Everything is stored and written in this order. */
  #queue: Promise<void> = Promise.resolve()
  #settle: (reply: Reply) => void = () => undefined

  /** @param request whose id is not in flight */
  constructor(
    session: LiveSession,
    http: SessionRequest,
    { request, sessions }: { readonly request: RpcRequest; readonly sessions: Sessions },
  ) {
    this.session = session
    this.requestId = request.id
    this.#http = http
    this.#sessions = sessions
    this.reply = new Promise((resolve) => (this.#settle = resolve))
    this.#leave = session.use(this)
    // An answer to `resources/read` may be larger than an event that clients accept.
    if (request.method !== 'resources/read') {
      const endOfTurn = setImmediate(() => this.#begin())
      this.#undoEndOfTurn = () => clearImmediate(endOfTurn)
    }
  }

  /** Name of the log that the call writes. `undefined`: its response has not begun. */
  get log(): string | undefined {
    return this.#response?.log
  }

  /** Resolves when the client can take more. */
  writable(): Promise<void> | undefined {
    return this.#response?.stream.writable()
  }

  /**
   * Sends a message before the answer. A client that is away gets it when it comes back.
   *
   * @throws TypeError for a message that JSON cannot express; GatewayError `UNAVAILABLE` if the client is away, and the
   *   message cannot be stored
   */
  async send(message: RpcMessage): Promise<void> {
    const text = JSON.stringify(message)
    const response = this.#begin()
    if (response) await this.#write(response, message, { text })
  }

  /**
   * Sends progress, or a log message, before the answer. A client that was away misses some of it: if all were stored,
   * a long text in pieces would push the place of the client and the answer out of the log.
   *
   * @throws TypeError for a message that JSON cannot express
   */
  async sendProgress(message: RpcMessage): Promise<void> {
    const text = JSON.stringify(message)
    const response = this.#begin()
    if (!response) return
    const { log, stream } = response
    await this.#enqueue(async () => {
      const store = (): Promise<string | undefined> => this.#store(log, message, false)
      const id = this.#takesProgress() ? await store().catch(() => undefined) : undefined
      stream.write(toEvent(text, id))
    })
  }

  /** Answers the request, unless it was cancelled. */
  respond(response: RpcResponse): void {
    if (!this.isOpen) return
    let answer = response
    let text: string
    try {
      text = JSON.stringify(response)
    } catch (error) {
      answer = toErrorResponse(this.requestId, error)
      text = JSON.stringify(answer)
    }
    this.isOpen = false
    if (this.#response) this.#writeLast(this.#response, answer, text)
    else this.#end({ status: 200, body: text })
  }

  cancel(): void {
    if (!this.isOpen) return
    this.#abort(new Error('Cancelled by the client'))
    if (this.#response) this.#writeLast(this.#response, SILENCE)
    else this.#end(silence())
  }

  /** The client has come back, and reads the log on another stream. */
  handOver(): void {
    this.#response?.stream.end()
  }

  /** The session has ended, or the gateway stops. */
  end(reason: Error): void {
    this.#abort(reason)
    const { log, stream } = this.#response ?? {}
    stream?.end()
    this.#end(silence())
    if (log !== undefined && !this.session.keepsLogs) this.#sessions.deleteLog(log)
  }

  get #isPrimed(): boolean {
    const { handshake } = this.session.record
    const version = this.#http.headers.get('mcp-protocol-version') ?? handshake.protocolVersion
    return version >= PRIMED_SINCE
  }

  /** @param reply for a client that has got nothing */
  #end(reply?: Reply): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (reply) this.#settle(reply)
    this.#undoEndOfTurn?.()
    this.#undoKeepLog?.()
    this.#leave()
    this.#releaseLease?.()
  }

  #abort(reason: Error): void {
    if (this.isOpen) this.#stop.abort(reason)
    this.isOpen = false
  }

  /** Sends the head of the response, and begins the log. */
  #begin(): CallResponse | undefined {
    if (this.#hasEnded || this.#response) return this.#response
    this.#undoEndOfTurn?.()
    const stream = new EventStream()
    const log = `session-events:${this.session.name}:${randomHex(8)}`
    const response = { stream, log }
    this.#response = response
    this.#settle({ status: 200, body: stream })
    const held = this.#holdLease()
    void this.#enqueue(() => this.#openLog(response, held))
    return response
  }

  /** Other processes see that the call goes on: its log, and its questions. Resolves to whether they do. */
  async #holdLease(): Promise<boolean> {
    const sessions = this.#sessions
    if (!sessions.parts.store.isShared) return true
    try {
      const release = await sessions.parts.lease.hold()
      if (this.#hasEnded) release()
      else this.#releaseLease = release
      return true
    } catch (error) {
      sessions.noteStored(error)
      return false
    }
  }

  async #openLog({ log, stream }: CallResponse, held: Promise<boolean>): Promise<void> {
    const sessions = this.#sessions
    const { lease, store } = sessions.parts
    const { events, retryMs } = sessions.parts.settings
    if (!events || this.#hasEnded) return
    const header = { session: this.session.name, owner: lease.id, requestId: this.requestId }
    try {
      const [id, isHeld] = await Promise.all([store.logs.open(log, header, events), held])
      if (!isHeld) throw new Error('Other processes cannot see that this one is alive')
      sessions.noteStored()
      this.#header = header
      // The session may have ended, and deleted its logs, while this one was made.
      if (this.#hasEnded) return sessions.deleteLog(log)
      if (this.#isPrimed) stream.write(toPrimingEvent(id, retryMs))
      // If the store is away once, the next time is soon enough.
      this.#keepLogLater(log, events.ttlMs / 3)
    } catch (error) {
      sessions.noteStored(error)
      sessions.deleteLog(log)
      // A client that disconnects could not resume the call, so the call is cancelled.
      stream.onClose((end) => {
        if (end === 'lost') this.cancel()
      })
    }
  }

  /** A log ends some time after its last event, but not before its call. */
  #keepLogLater(log: string, ms: number): void {
    const { clock } = this.#sessions.parts
    this.#undoKeepLog = clock.after(ms, () => {
      this.#keepLogLater(log, ms)
      void this.#enqueue(() => this.#store(log, SILENCE, false)).catch(() => undefined)
    })
  }

  /** Whether a message of progress is stored: at first all of them, later one every 15 s to show that the call runs. */
  #takesProgress(): boolean {
    const { clock, settings } = this.#sessions.parts
    const { maxEvents = 0 } = settings.events ?? {}
    const now = clock.now()
    const takesAll = this.#progressCount < maxEvents * PROGRESS_PART.all
    const takesSlow = this.#progressCount < maxEvents * PROGRESS_PART.slow
    if (!takesAll && !(takesSlow && now - this.#progressAt >= SLOW_MS)) return false
    this.#progressCount++
    this.#progressAt = now
    return true
  }

  /** @param text of the message; `undefined` for a message that is stored only */
  #writeLast(response: CallResponse, message: unknown, text?: string): void {
    void this.#write(response, message, { text, isLast: true })
      .catch(() => this.#sessions.deleteLog(response.log)) // readers wait no longer
      .finally(() => this.#end())
  }

  /** Stores a message, and writes it. A connected client does not wait for a store that is away. */
  #write(
    { log, stream }: CallResponse,
    message: unknown,
    { text, isLast = false }: { readonly text: string | undefined; readonly isLast?: boolean },
  ): Promise<void> {
    let isWritten = false
    const write = (id?: string): void => {
      if (isWritten) return
      isWritten = !stream.isClosed
      if (text !== undefined) stream.write(toEvent(text, id, isLast))
      if (isLast) stream.end()
    }
    const attempt = async (): Promise<void> => {
      try {
        const id = await this.#store(log, message, isLast)
        const isRead = isLast && id !== undefined && !stream.isClosed && !this.#hasEnded
        if (isRead) this.#sessions.noteRead(this.session, log)
        write(id)
      } catch (error) {
        write()
        // Another attempt would hold back what follows, up to the answer.
        if (isWritten && !isLast) return
        throw error
      }
    }
    const { clock } = this.#sessions.parts
    return this.#enqueue(() => whenBack(attempt, { clock, ms: STORE_MS }))
  }

  /** Stores an event. @returns its id; `undefined` if the call cannot be resumed */
  async #store(log: string, message: unknown, isLast: boolean): Promise<string | undefined> {
    const sessions = this.#sessions
    const { settings, store } = sessions.parts
    const { events: limits } = settings
    const header = this.#header
    if (!header || !limits || this.#hasEnded) return undefined
    try {
      const id = await store.logs.append(log, message, { limits, isLast, header })
      sessions.noteStored()
      return id
    } catch (error) {
      sessions.noteStored(error)
      throw error
    }
  }

  #enqueue<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#queue.then(work)
    this.#queue = done.then(
      () => undefined,
      () => undefined,
    )
    return done
  }
}

/** A response that ends without a message: an error would say that the request did not begin. */
function silence(): Reply {
  const body = new EventStream()
  body.end()
  return { status: 200, body }
}
