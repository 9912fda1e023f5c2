import { isRecord } from '@x/internal'

import type { LoggedEvent, LogHeader } from '../store/gateway-store.ts'
import { EventStream, toEvent } from './event-stream.ts'
import { RPC_ERROR } from './json-rpc.ts'
import { refused, type Reply } from './reply.ts'
import { CallStream } from './session-calls.ts'
import type { LiveSession, SessionParts, Sessions, SessionSignal, SessionUse } from './sessions.ts'

export interface Resumption {
  readonly session: LiveSession
  /** Last event that the client has. */
  readonly lastEventId: string
  readonly log: string
  readonly header: LogHeader
}

type ReaderSignal = Extract<SessionSignal, { readonly type: 'reading' | 'left' }>

/** Time between two checks whether the process that writes a log is alive. */
const CHECK_MS = 500
/** Time after which a failed signal is sent again. */
const RETRY_MS = 1000

const OWNER_DIED = {
  code: RPC_ERROR.refused,
  message:
    'The process that ran this call has ended. It is not known how far the call came: it was not repeated.',
  data: { reason: 'outcome_unknown' },
}

/**
 * Resumes the stream of a call for a client that comes back with `Last-Event-ID` (specification 2025-11-25, "Resumability
 * and redelivery"). The client may come back to any process, in any order: the process reads the log that the owner of
 * the call writes. Of several readers of a log, the last one gets the events.
 *
 * @throws GatewayError `UNAVAILABLE`
 */
export async function resumeStream(sessions: Sessions, resumption: Resumption): Promise<Reply> {
  const { session, lastEventId, log, header } = resumption
  const { lease, store } = sessions.parts
  const stream = new EventStream(sessions.newStreamId())
  const isOwn = header.owner === lease.id
  if (isOwn && callWithLog(session, log)?.resume(stream)) {
    return follow(sessions, resumption, stream)
  }
  const events = await store.logs.read(log, lastEventId)
  if (!events) return unknownEvent()
  if (events.at(-1)?.isLast) {
    const rest = events.filter(({ event }) => !isSilent(event))
    for (const { id, event, isLast } of rest) {
      stream.write(toEvent(JSON.stringify(event), id, isLast))
    }
    stream.end()
    return rest.length === 0 ? streamOver() : { status: 200, body: stream }
  }
  // The call has ended here, but its last events could not be stored.
  return isOwn ? unknownEvent() : follow(sessions, resumption, stream)
}

/** A client reads a log, or has left it, at some process. */
export function readerChanged(
  session: LiveSession,
  { type, log, by }: ReaderSignal,
  isOwn: boolean,
): void {
  const call = callWithLog(session, log)
  if (type === 'left') return call?.leftElsewhere(by)
  let isLatest = true
  for (const reader of readersOf(session, log)) {
    if (reader.stream.id === by) reader.isAnnounced = true
    // Signals come in one order at all processes: this reader is announced later.
    else if (!reader.isAnnounced) isLatest = false
    else reader.stream.end()
  }
  if (isLatest && !isOwn) call?.readElsewhere(by)
}

async function follow(
  sessions: Sessions,
  resumption: Resumption,
  stream: EventStream,
): Promise<Reply> {
  const { parts } = sessions
  const { session, log, header } = resumption
  for (const earlier of readersOf(session, log)) earlier.stream.end()
  const reader = new LogReader(resumption, stream, parts)
  // The owner of the call waits for the client from then on.
  const announceLeft = async (): Promise<void> => {
    const left = { type: 'left', log, by: stream.id } as const
    if (session.isEnded || (await sessions.signal(session, left))) return
    parts.clock.after(RETRY_MS, () => void announceLeft())
  }
  stream.onClose((end) => {
    if (end === 'lost' && header.owner !== parts.lease.id) void announceLeft()
  })
  try {
    await reader.start()
  } catch (error) {
    stream.lose()
    throw error
  }
  if (!stream.isClosed) void sessions.signal(session, { type: 'reading', log, by: stream.id })
  return { status: 200, body: stream }
}

function callWithLog(session: LiveSession, log: string): CallStream | undefined {
  const calls = session.uses.filter((use) => use instanceof CallStream)
  return calls.find((call) => call.log === log)
}

function readersOf(session: LiveSession, log: string): readonly LogReader[] {
  const readers = session.uses.filter((use) => use instanceof LogReader)
  return readers.filter((reader) => reader.log === log)
}

/** Sends the events of a log to a client until the last one, or until the process that writes it has died. */
class LogReader implements SessionUse {
  readonly isCall = false
  readonly stream: EventStream
  readonly log: string
  /** All processes have received the signal about this reader. */
  isAnnounced = false
  readonly #parts: SessionParts
  readonly #header: LogHeader
  #lastId: string
  #stopTail: (() => void) | undefined
  #stopCheck: (() => void) | undefined

  constructor(resumption: Resumption, stream: EventStream, parts: SessionParts) {
    const { session, log, header, lastEventId } = resumption
    this.stream = stream
    this.log = log
    this.#parts = parts
    this.#header = header
    this.#lastId = lastEventId
    const leave = session.use(this)
    stream.onClose(() => {
      leave()
      this.#stopTail?.()
      this.#stopCheck?.()
    })
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async start(): Promise<void> {
    const { lease, store } = this.#parts
    const isRemote = this.#header.owner !== lease.id
    if (isRemote) {
      const release = await lease.hold() // so that the owner sees that the client is still connected
      this.stream.onClose(release)
      if (!(await lease.isAlive(this.#header.owner))) return this.#finish()
    }
    const stop = await store.logs.tail(this.log, this.#lastId, {
      onEvent: (event) => this.#send(event),
      onGap: () => this.stream.end(), // the client comes back, and learns that events are missing
    })
    if (this.stream.isClosed) return stop()
    this.#stopTail = stop
    if (isRemote) this.#checkLater()
  }

  end(): void {
    this.stream.end()
  }

  #send({ id, event, isLast }: LoggedEvent): void {
    if (this.stream.isClosed) return
    this.#lastId = id
    if (!isSilent(event)) this.stream.write(toEvent(JSON.stringify(event), id, isLast))
    if (isLast) this.stream.end()
  }

  #checkLater(): void {
    const { clock } = this.#parts
    if (!this.stream.isClosed) this.#stopCheck = clock.after(CHECK_MS, () => void this.#check())
  }

  async #check(): Promise<void> {
    try {
      if (!(await this.#parts.lease.isAlive(this.#header.owner))) await this.#finish()
    } catch {
      // Without the store, the owner counts as alive.
    }
    this.#checkLater()
  }

  /** The owner has died: a request without an answer gets an error. Nothing is executed again. */
  async #finish(): Promise<void> {
    const events = await this.#parts.store.logs.read(this.log, this.#lastId)
    this.#stopTail?.()
    for (const event of events ?? []) this.#send(event)
    const { requestId: id } = this.#header
    // An answer was the last event, and ended the stream.
    this.stream.write(toEvent(JSON.stringify({ jsonrpc: '2.0', id, error: OWNER_DIED })))
    this.stream.end()
  }
}

/** Stored to end a stream, and not sent to clients. */
function isSilent(event: unknown): boolean {
  return isRecord(event) && Object.keys(event).length === 0
}

/** Response to a client whose last event is not in the log. */
export function unknownEvent(): Reply {
  const text = 'The event named by Last-Event-ID is unknown, or was dropped'
  return refused(400, RPC_ERROR.refused, text)
}

/** Clients take an empty stream for a lost one, and ask again. At a 405 they stop without an error. */
export function streamOver(): Reply {
  const allow = { allow: 'POST, DELETE' }
  return refused(405, RPC_ERROR.refused, 'The client has the whole stream', allow)
}
