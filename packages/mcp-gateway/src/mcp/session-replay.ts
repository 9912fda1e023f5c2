import { isRecord } from '@x/internal'

import type { LoggedEvent, LogHeader } from '../store/gateway-store.ts'
import { EventStream, toEvent } from './event-stream.ts'
import { RPC_ERROR } from './json-rpc.ts'
import { refused, type Reply } from './reply.ts'
import { CallStream } from './session-calls.ts'
import type { LiveSession, SessionParts, SessionUse } from './sessions.ts'

export interface Resumption {
  readonly session: LiveSession
  /** Last event that the client has. */
  readonly lastEventId: string
  readonly log: string
  readonly header: LogHeader
}

/** Time between two checks whether the process that writes a log is alive. */
const CHECK_MS = 500

const OWNER_DIED = {
  code: RPC_ERROR.refused,
  message:
    'The process that ran this call has ended. It is not known how far the call came: it was not repeated.',
  data: { reason: 'outcome_unknown' },
}

/**
 * Resumes the stream of a call for a client that comes back with `Last-Event-ID` (specification 2025-11-25, "Resumability
 * and redelivery"). The client may come back to any process: the process reads the log that the owner of the call
 * writes. Earlier streams of the call at this process end.
 *
 * @throws GatewayError `UNAVAILABLE`
 */
export async function resumeStream(parts: SessionParts, resumption: Resumption): Promise<Reply> {
  const { session, lastEventId, log, header } = resumption
  const isOwn = header.owner === parts.lease.id
  const call = session.uses.find((use) => use instanceof CallStream && use.log === log)
  const events = await parts.store.logs.read(log, lastEventId)
  const stream = new EventStream()
  // An answer may have been stored twice: a store that fails does not say whether it has an event.
  const end = events?.findIndex(({ isLast: isEnd }) => isEnd) ?? -1
  if (events && end >= 0) {
    const rest = events.slice(0, end + 1).filter(({ event }) => !isSilent(event))
    for (const { id, event, isLast } of rest) {
      stream.write(toEvent(JSON.stringify(event), id, isLast))
    }
    stream.end()
    return rest.length === 0 ? streamOver() : { status: 200, body: stream }
  }
  // The call may have ended here, and its last events could not be stored.
  if (!events || (isOwn && !call)) return unknownEvent()
  for (const use of session.uses.slice()) {
    if (use instanceof CallStream && use.log === log) use.handOver()
    else if (use instanceof LogReader && use.log === log) use.end()
  }
  try {
    await new LogReader(resumption, stream, parts).start()
  } catch (error) {
    stream.lose()
    throw error
  }
  return { status: 200, body: stream }
}

/** Sends the events of a log to a client until the last one, or until the process that writes it has died. */
class LogReader implements SessionUse {
  readonly isCall = false
  readonly log: string
  readonly #stream: EventStream
  readonly #parts: SessionParts
  readonly #header: LogHeader
  #lastId: string
  #stopTail: (() => void) | undefined
  #stopCheck: (() => void) | undefined

  constructor(resumption: Resumption, stream: EventStream, parts: SessionParts) {
    const { session, log, header, lastEventId } = resumption
    this.log = log
    this.#stream = stream
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
    if (!(await lease.isAlive(this.#header.owner))) return this.#finish()
    const stop = await store.logs.tail(this.log, this.#lastId, {
      onEvent: (event) => this.#send(event),
      onGap: () => this.#stream.end(), // the client comes back, and learns that events are missing
    })
    if (this.#stream.isClosed) return stop()
    this.#stopTail = stop
    this.#checkLater()
  }

  end(): void {
    this.#stream.end()
  }

  #send({ id, event, isLast }: LoggedEvent): void {
    if (this.#stream.isClosed) return
    this.#lastId = id
    if (!isSilent(event)) this.#stream.write(toEvent(JSON.stringify(event), id, isLast))
    if (isLast) this.#stream.end()
  }

  #checkLater(): void {
    const { clock } = this.#parts
    if (!this.#stream.isClosed) this.#stopCheck = clock.after(CHECK_MS, () => void this.#check())
  }

  /** The process of the call may have died, or deleted a log in which events are missing. */
  async #check(): Promise<void> {
    const { lease, store } = this.#parts
    try {
      if (!(await lease.isAlive(this.#header.owner))) await this.#finish()
      else if (!(await store.logs.find(this.#lastId))) this.#stream.end()
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
    this.#stream.write(toEvent(JSON.stringify({ jsonrpc: '2.0', id, error: OWNER_DIED })))
    this.#stream.end()
  }
}

/** Stored for the log itself, and not sent to clients. */
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
