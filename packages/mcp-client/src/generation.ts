import { shortSessionId, untilAborted } from '@x/internal'
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { InputAnswers, TransportError } from '@x/mcp-transport'
import { Deadline } from './deadline.ts'
import { getTransportError, isConnectionFailure } from './errors.ts'
import type { TrackedCall } from './session-calls.ts'
import { sendRequest } from './requests.ts'
import type { ResultSchema, SendOptions, ServerConnection } from './requests.ts'
import type { ObservedOperation } from './telemetry.ts'

/** One MCP session on the server, ready for requests. The session that replaces it is the next generation. */
export interface Generation {
  readonly number: number
  readonly sessionId: string | undefined
  /** The session was resumed from a stored record, without a handshake. */
  readonly isResumed: boolean
  /** The session replaced a lost one, and no call has succeeded in it. */
  isUnproven: boolean
  /** Number of calls that were sent in it and have not ended. */
  inFlight: number
}

/** A request of the caller, or all requests for the pages of one list. */
export type Operation<T> = RequestOperation<T> | ListOperation<T>

interface Repeatable extends ObservedOperation {
  /** A second execution has no further effect. */
  readonly isSafe: boolean
}

export interface RequestOperation<T> extends Repeatable {
  readonly params: Readonly<Record<string, unknown>> | undefined
  readonly schema: ResultSchema<T>
}

interface ListOperation<T> extends Repeatable {
  /** Reads all pages of a list. */
  readonly readList: (requestPage: RequestPage) => Promise<T>
}

/** Requests the page at a cursor; without a cursor, the first page. Returns the result unchecked. */
type RequestPage = (cursor: string | undefined) => Promise<Readonly<Record<string, unknown>>>

/** State that all attempts of one operation share. */
export interface Attempt extends Pick<SendOptions, 'timeout' | 'onprogress' | 'headers'> {
  /** `Session.lifetime` when the operation was called. */
  readonly lifetime: number
  /** Limits the whole operation. */
  readonly signal: AbortSignal
  /** A second execution has no further effect, or the caller allows it. */
  readonly mayRunTwice: boolean
  /** Attributes messages of the server to this call. */
  readonly call: TrackedCall | undefined
  /** Questions of the server are returned instead of the result. @default the handlers answer them */
  readonly surface?: boolean | undefined
  /** The round of a call to send, instead of the whole call. */
  resume: InputAnswers | undefined
  /** Called before the request is sent. @throws if it must not be sent in the current session */
  assertSendable?: (() => void | Promise<void>) | undefined
  /** The request of the current attempt was passed to the transport. */
  isSent: boolean
}

/** Limit of one ping, in milliseconds. */
const PING_MS = 2000

/** @throws as `sendRequest()` */
export function sendPing(connection: ServerConnection): Promise<unknown> {
  return sendRequest(
    connection,
    { method: 'ping' },
    { schema: EmptyResultSchema, timeout: PING_MS },
  )
}

/**
 * Sends a `ping`. Returns the reason why the server does not accept requests in this session. Returns undefined if
 * the server answers, even with an error, or is only slow. A ping whose connection fails is repeated once, because
 * after a restart of the server the pool may hold several dead connections.
 */
export async function pingFailure(
  connection: ServerConnection,
): Promise<TransportError | undefined> {
  let failure: TransportError | undefined
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      await sendPing(connection)
      return undefined
    } catch (error) {
      failure = getTransportError(error)
      if (failure?.code !== 'UNREACHABLE' && failure?.code !== 'OUTCOME_UNKNOWN') break
    }
  }
  return isConnectionFailure(failure) || failure?.code === 'SESSION_LOST' ? failure : undefined
}

/** Sends a `ping`. Returns the error if the server does not answer it with a result. */
export async function pingError(connection: ServerConnection): Promise<unknown> {
  try {
    await sendPing(connection)
    return undefined
  } catch (error) {
    return error
  }
}

/** Shortened session id for messages. Undefined if the server has no sessions. */
export function shortIdOf({ sessionId }: Generation): string | undefined {
  return sessionId === undefined ? undefined : shortSessionId(sessionId)
}

/** Shorter than the limit of `dispose()`, so that time remains to close the connections. */
const TERMINATE_MS = 900

interface Logging {
  log(level: 'warning', message: string, cause?: unknown): void
}

/** Terminates the session on the server within 0.9 s. Never rejects. Returns whether the server has answered. */
export async function terminateSession(
  connection: ServerConnection,
  session: Logging,
): Promise<boolean> {
  using deadline = new Deadline(TERMINATE_MS)
  try {
    await untilAborted(connection.terminate(), deadline.signal)
    return true
  } catch (error) {
    session.log('warning', 'the session could not be terminated on the server', error)
    return getTransportError(error)?.status !== undefined
  }
}

/** Number of sessions of one client that are terminated at the same time: a server cannot answer a thousand at once. */
const MAX_TERMINATIONS = 16
/** Longest time that a session waits until it is terminated, in milliseconds. */
const TERMINATIONS_MS = 20_000

/**
 * Terminates the sessions of one client, a few at a time. If the server does not answer, the sessions that wait are left
 * to its own time limit: a client that closes must not wait once for each session.
 */
export class Terminations {
  readonly #waiting: (() => void)[] = []
  #running = 0
  /** Number of terminations without an answer since the last answer. */
  #unanswered = 0

  /** Never rejects. */
  async run(session: Logging, terminate: () => Promise<boolean>): Promise<void> {
    using deadline = new Deadline(TERMINATIONS_MS)
    const onLate = (): void => this.#waiting.splice(0).forEach((next) => next())
    deadline.signal.addEventListener('abort', onLate, { once: true })
    if (this.#running === 0) this.#unanswered = 0
    while (this.#running >= MAX_TERMINATIONS && !deadline.signal.aborted) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      if (!this.#isSilent && !deadline.signal.aborted) continue
      const message = 'the session was not terminated on the server, which does not answer in time'
      return session.log('warning', message)
    }
    this.#running++
    try {
      this.#unanswered = (await terminate()) ? 0 : this.#unanswered + 1
    } finally {
      this.#running--
      if (this.#isSilent) onLate()
      else this.#waiting.shift()?.()
    }
  }

  get #isSilent(): boolean {
    return this.#unanswered >= MAX_TERMINATIONS
  }
}
