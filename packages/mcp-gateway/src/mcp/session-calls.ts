import type { RequestId } from '@modelcontextprotocol/server'

import { randomHex } from '../internal/random-hex.ts'
import { EventStream, toEvent, toPrimingEvent } from './event-stream.ts'
import {
  RPC_ERROR,
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

/** In logs: ends a stream without an answer. Not sent to clients. */
const NO_ANSWER: Params = {}

/**
 * Phase of a request: it decides how its messages reach the client.
 *
 * - `held`: nothing was sent. An answer in the turn in which the request came is sent as JSON.
 * - `direct`: the client reads the response of the POST.
 * - `tailed`: the client came back to this process, and reads the log of the call.
 * - `elsewhere`: the client reads the log at another process.
 * - `away`: the client reads nothing. The call is cancelled at the end of the grace period.
 * - `ended`: the request was answered or cancelled.
 */
export type CallPhase = 'held' | 'direct' | 'tailed' | 'elsewhere' | 'away' | 'ended'

/**
 * - `stream`: the turn is over, or there is a message before the answer.
 * - `lost`: the client has left the stream.
 * - `resume`, `elsewhere`: the client came back to this process, or to another one.
 * - `left`: the client has left the stream at the other process.
 * - `break`: an event could not be stored.
 * - `end`: the request was answered or cancelled, or the session has ended.
 */
export type CallEvent = 'stream' | 'lost' | 'resume' | 'elsewhere' | 'left' | 'break' | 'end'

const NEXT: Readonly<Record<CallPhase, Partial<Record<CallEvent, CallPhase>>>> = {
  held: { stream: 'direct', end: 'ended' },
  direct: { lost: 'away', resume: 'tailed', elsewhere: 'elsewhere', end: 'ended' },
  tailed: {
    lost: 'away',
    resume: 'tailed',
    elsewhere: 'elsewhere',
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

interface Place {
  /** Stream in this process. */
  readonly reader: EventStream | undefined
  /** Id of the stream at another process. */
  readonly remote: string | undefined
}

const NOWHERE: Place = { reader: undefined, remote: undefined }

/** A request of a session, from its arrival to its answer. */
export class CallStream implements SessionUse {
  readonly isCall = true
  readonly session: LiveSession
  readonly reply: Promise<Reply>
  readonly requestId: RequestId
  readonly #stop = new AbortController()
  /** Aborts when the request is cancelled, when the client stays away, and when the session ends. */
  readonly signal: AbortSignal = this.#stop.signal
  /** The request has no answer, and was not cancelled. */
  isOpen = true
  readonly #http: SessionRequest
  readonly #sessions: Sessions
  readonly #leave: () => void
  #phase: CallPhase = 'held'
  #place: Place = NOWHERE
  /** Name of the event log. Clients do not see it. Empty while the call is held. */
  log = ''
  /** Stops the timer of the phase: the end of the turn, or the grace period. */
  #stopTimer: (() => void) | undefined
  /** Everything is stored and written in this order. */
  #queue: Promise<void> = Promise.resolve()
  /** All events of the call are in the log. */
  #isResumable: boolean
  #releaseLease: (() => void) | undefined
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
    this.#isResumable = sessions.parts.settings.events !== undefined
    this.reply = new Promise((resolve) => (this.#settle = resolve))
    this.#leave = session.use(this)
    // An answer to `resources/read` may be larger than an event that clients accept.
    if (request.method !== 'resources/read') {
      const endOfTurn = setImmediate(() => this.#stream())
      this.#stopTimer = () => clearImmediate(endOfTurn)
    }
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
    if (this.#phase !== 'held') return void this.#write(answer, text, true)
    this.#endHeld({ status: 200, body: text })
  }

  cancel(): void {
    if (!this.isOpen) return
    this.#abort(new Error('Cancelled by the client'))
    if (this.#phase !== 'held') void this.#write(NO_ANSWER, undefined, true)
    else this.#endHeld(silence())
  }

  /** The client reads the log on this stream from now on. Returns `false` if the call has ended or cannot be resumed. */
  resume(reader: EventStream): boolean {
    return this.#move('resume', { ...NOWHERE, reader })
  }

  /** The client reads the log at another process, on the stream `remote`. */
  readElsewhere(remote: string): void {
    this.#move('elsewhere', { ...NOWHERE, remote })
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

  #move(event: CallEvent, place: Place = NOWHERE): boolean {
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
      const sessions = this.#sessions
      const { disconnectGraceMs } = sessions.parts.settings
      this.#stopTimer = sessions.parts.clock.after(disconnectGraceMs, () => void this.#graceEnded())
    }
    place.reader?.onClose((end) => {
      if (end === 'lost' && this.#place === place) this.#move('lost')
    })
    return true
  }

  #ended(phase: CallPhase): void {
    if (this.isOpen) this.#abort(new Error('The connection was lost'))
    this.#leave()
    this.#releaseLease?.()
    if (phase === 'held') return
    const { clock, settings } = this.#sessions.parts
    const droppedAt = clock.now() + (settings.events?.ttlMs ?? 0)
    const old = this.session.endLog(this.log, { isRead: phase !== 'away', droppedAt })
    for (const log of old) this.#deleteLog(log)
  }

  #abort(reason: Error): void {
    if (this.isOpen) this.#stop.abort(reason)
    this.isOpen = false
  }

  /** Sends the head of the response, and begins the log. */
  #stream(): void {
    if (this.#phase !== 'held') return
    const reader = new EventStream(this.#sessions.newStreamId())
    this.log = `session-events:${this.session.name}:${randomHex(8)}`
    this.#move('stream', { ...NOWHERE, reader })
    this.#settle({ status: 200, body: reader })
    const held = this.#holdLease()
    if (this.#isResumable) void this.#enqueue(() => this.#openLog(held))
  }

  /** Other processes see that the call goes on: its log, and its questions. Resolves to whether they do. */
  async #holdLease(): Promise<boolean> {
    const sessions = this.#sessions
    if (!sessions.parts.store.isShared) return true
    try {
      const release = await sessions.parts.lease.hold()
      if (this.#hasEnded()) release()
      else this.#releaseLease = release
      return true
    } catch (error) {
      sessions.noteStored(error)
      return false
    }
  }

  async #openLog(held: Promise<boolean>): Promise<void> {
    const sessions = this.#sessions
    const { lease, store } = sessions.parts
    const { events, retryMs } = sessions.parts.settings
    if (!events || this.#hasEnded()) return
    const header = { session: this.session.name, owner: lease.id, requestId: this.requestId }
    this.session.logs.set(this.log, { isRead: false, droppedAt: Infinity })
    try {
      const [id, isHeld] = await Promise.all([store.logs.open(this.log, header, events), held])
      if (!isHeld) throw new Error('Other processes cannot see that this one is alive')
      sessions.noteStored()
      // The session may have ended, and deleted its logs, while this one was made.
      if (this.#hasEnded() && this.session.isEnded) this.#deleteLog(this.log)
      else if (this.#isPrimed) this.#writeDirect(toPrimingEvent(id, retryMs))
    } catch (error) {
      this.#break(error)
    }
  }

  /** @param text of the message; `undefined` for a message that is stored only */
  #write(message: unknown, text: string | undefined, isLast: boolean): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#hasEnded()) return
      const sessions = this.#sessions
      const { events } = sessions.parts.settings
      let id: string | undefined
      if (this.#isResumable && events) {
        try {
          const { logs } = sessions.parts.store
          id = await logs.append(this.log, message, { limits: events, isLast })
          sessions.noteStored()
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
    this.#sessions.noteStored(error)
    this.#isResumable = false
    this.#deleteLog(this.log)
    this.#move('break')
  }

  async #graceEnded(): Promise<void> {
    const place = this.#place
    const { remote } = place
    const [process = ''] = remote?.split('.') ?? []
    const { lease } = this.#sessions.parts
    // Without the store, assume that the client still reads at the other process.
    const isRead = process !== '' && (await lease.isAlive(process).catch(() => true))
    if (this.#place !== place) return
    if (isRead) this.#move('elsewhere', { ...NOWHERE, remote })
    else this.#abandon()
  }

  /** Cancels the request, because the client did not come back. If it comes back later, it receives an error. */
  #abandon(): void {
    if (!this.isOpen) return
    this.#abort(new Error('The connection was lost'))
    const error = { code: RPC_ERROR.refused, message: 'Cancelled: the connection was lost' }
    void this.#write({ jsonrpc: '2.0', id: this.requestId, error }, undefined, true)
  }

  /** Logs that cannot be deleted end by themselves. */
  #deleteLog(log: string): void {
    void this.#sessions.parts.store.logs.delete(log).catch(() => undefined)
  }
}

/** A response that ends without a message: an error would say that the request did not begin. */
function silence(): Reply {
  const body = new EventStream('')
  body.end()
  return { status: 200, body }
}
