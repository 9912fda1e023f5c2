import { mediaType } from '../headers.ts'
import type { AnswerHandlers } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import { followStream, parseCursor, cursorHeaders } from '../http/follow-stream.ts'
import type { StreamTrouble, StreamEnd, StreamCursor } from '../http/follow-stream.ts'
import type { HttpClient } from '../http/http-client.ts'
import { advertisedChanges, listChangesFor } from '../json-rpc.ts'
import type { JsonRpcMessage, ListChanges } from '../json-rpc.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { TransportError } from '../transport-error.ts'
import type { TransportErrorCode } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import type { LegacySession } from './legacy-session.ts'
import { toRefusalError } from './session-loss.ts'

export interface ListenOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly session: LegacySession
  readonly reconnect: Reconnect
  /** Time limit without data on the stream, in milliseconds. */
  readonly idleMs: number
  /** 0 … 1 */
  readonly random: () => number
  readonly onMessage: (message: JsonRpcMessage) => void
  /** Called once in each outage. */
  readonly report: (error: TransportError) => void
}

const HEAD_MS = 30_000

/** Time that a new session waits for its listening stream. */
const READY_MS = 100

/** For servers whose capabilities are unknown. */
const ALL_LISTS: ListChanges = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
}

/** Minimum time between two writes of the cursor to the store. */
const CURSOR_MS = 5000

/**
 * Opens the session's listening stream (GET) for messages that the server sends without a request, and keeps it
 * open until `session.endListening()`. Servers need not offer a stream: after a refusal of the first, none is
 * opened.
 *
 * Resolves when the stream is open, so that the client misses no message that its first call causes; or after
 * 100 ms, because some servers accept a stream only with its first event.
 */
export function listen(options: ListenOptions): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, READY_MS).unref()
    void keepListening(options, () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** Calls `onReady` when the stream is open for the first time or cannot be opened; possibly more than once. */
async function keepListening(options: ListenOptions, onReady: () => void): Promise<void> {
  const { http, keeper, session, reconnect, idleMs, random } = options
  const signal = session.beginListening()
  if (signal === undefined) return onReady()
  const cursor = { lastEventId: session.lastEventId }
  // A connection emits in the async context of the request that opened it, possibly that of a call.
  const onMessage = (message: JsonRpcMessage): void =>
    http.asOwner(() => options.onMessage(message))
  let storedAt = Number.NEGATIVE_INFINITY
  const onCursor = (): void => {
    session.lastEventId = cursor.lastEventId
    const now = performance.now()
    if (cursor.lastEventId === undefined || now - storedAt < CURSOR_MS) return
    storedAt = now
    void keeper.moved(session.id, cursor.lastEventId)
  }
  const outcome = await followStream({
    cursor,
    reconnect,
    signal,
    isBroken: false,
    slowly: {
      onTrouble: (trouble) => reportTrouble(trouble, options),
      onWaiting: (wake) => {
        session.wakeListening = wake
      },
    },
    random,
    open: (attempt) =>
      openEventStream({
        http,
        session,
        cursor,
        signal,
        attempt,
        headersMs: HEAD_MS,
        idleMs,
        onOpen: (isStream) => {
          if (isStream && attempt > 0) announceMissedChanges({ ...options, onMessage })
          onReady()
        },
        onMessage,
        onCursor,
      }).finally(onReady),
  })
  session.endListening()
  if (outcome.kind !== 'stopped') reportTrouble(outcome, options)
}

/** One notification for each list stands for all changes that were missed without a stream. */
function announceMissedChanges({ keeper, onMessage }: ListenOptions): void {
  const capabilities = keeper.record?.initializeResult?.capabilities
  const changes = capabilities === undefined ? ALL_LISTS : advertisedChanges(capabilities)
  for (const change of listChangesFor(changes)) onMessage(change)
}

function reportTrouble(trouble: StreamTrouble, { http, report }: ListenOptions): void {
  if (trouble.kind === 'refused') {
    // Servers need not offer a stream. Only missing credentials are reported.
    if (trouble.error.code === 'UNAUTHORIZED') report(trouble.error)
    return
  }
  const { attempts, error: cause } = trouble
  const url = http.url.display
  const message = `The listening stream of ${url} broke, and ${attempts} attempts to open it again failed. Changes may be missed until it is open again`
  report(new TransportError('UNREACHABLE', message, { url, cause }))
}

export interface OpenEventStreamOptions {
  readonly http: HttpClient
  readonly session: LegacySession
  readonly cursor: StreamCursor
  readonly signal: AbortSignal
  readonly attempt: number
  /** Time limit until the response head, in milliseconds. */
  readonly headersMs: number
  /** Time limit without data, in milliseconds. */
  readonly idleMs: number
  /**
   * The stream answers a request. After an event id and `retry`, a server may close it on purpose and expect
   * another GET later (2025-11-25, transports; SEP-1699). That is not a failure.
   */
  readonly isPolled?: boolean | undefined
  /** Called for each piece of the response. */
  readonly onActivity?: (() => void) | undefined
  /** Called when the server has responded, with a stream or otherwise. */
  readonly onOpen?: ((isStream: boolean) => void) | undefined
  readonly onMessage: (message: JsonRpcMessage) => void
  readonly onCursor?: ((lastEventId: string) => void) | undefined
}

/**
 * A stream that was open for this long counts as progress, even without messages: proxies close quiet streams.
 */
const LIVED_MS = 10_000

/** A repetition would fail in the same way. */
const FINAL: ReadonlySet<TransportErrorCode> = new Set(['UNEXPECTED_RESPONSE', 'CLOSED'])

/** Sends one GET for server-sent events (2025-11-25, transports, "Listening for Messages from the Server"). */
export async function openEventStream(options: OpenEventStreamOptions): Promise<StreamEnd> {
  const { http, session, cursor, signal, attempt, headersMs, idleMs, onMessage, onCursor } = options
  const { isPolled = false } = options
  const startedAt = performance.now()
  let progressed = false
  let isStream = false
  let exchange: Exchange | undefined
  const stop = (): void => exchange?.abort(new TransportError('CLOSED', 'The stream was closed'))
  const onStart = (starting: Exchange): boolean => {
    exchange = starting
    return !signal.aborted
  }
  const ended = new Promise<StreamEnd>((resolve, reject) => {
    const handlers: AnswerHandlers = {
      activity: () => options.onActivity?.(),
      head: (_status, headers) => {
        isStream = mediaType(headers) === 'text/event-stream'
        options.onOpen?.(isStream)
      },
      message: (message) => {
        progressed = true
        // JSON in a 200 response to a GET is not a stream (typescript-sdk #1635), and is ignored.
        if (isStream) onMessage(message)
      },
      cursor: (lastEventId) => {
        const moved = parseCursor(lastEventId)
        if (moved !== undefined && moved !== cursor.lastEventId) progressed = true
        cursor.lastEventId = moved
        onCursor?.(lastEventId)
      },
      retry: (ms) => {
        cursor.retryMs = ms
      },
      outcome: (outcome) => {
        const lived = isStream && performance.now() - startedAt >= LIVED_MS
        if (outcome.kind === 'refused') {
          resolve(refusedOrEnded(toRefusalError(outcome.refusal, contextOf(http, session.id))))
        } else if (outcome.kind === 'ended' && !outcome.isStream) {
          resolve({ kind: 'refused', error: noStream(http.url.display) })
        } else {
          const error = outcome.kind === 'failed' ? outcome.error : undefined
          if (error !== undefined && FINAL.has(error.code))
            return resolve({ kind: 'refused', error })
          const { lastEventId, retryMs } = cursor
          const isAnnounced = lastEventId !== undefined && retryMs !== undefined
          const isOnPurpose = isPolled && error === undefined && isAnnounced
          resolve({
            kind: 'ended',
            progressed: progressed || lived || isOnPurpose,
            wasOpen: isStream,
            error,
          })
        }
      },
    }
    const headers = ['accept', 'text/event-stream', ...session.headers, ...cursorHeaders(cursor)]
    const request = { method: 'GET', era: 'legacy', sessionId: session.id, headers } as const
    const sent = http.send(
      { ...request, isOfCaller: isPolled, headersMs, idleMs, attempt, onStart },
      handlers,
    )
    sent.catch((error: unknown) => {
      if (TransportError.is(error)) resolve({ kind: 'ended', progressed: false, error })
      else reject(error)
    })
  })
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await ended
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Temporary failures (conflict, overload, a failing gateway) are retried; others are a refusal. */
function refusedOrEnded(error: TransportError): StreamEnd {
  const status = error.status ?? 0
  const passing = status === 408 || status === 409 || status === 425 || status === 429
  if (passing || (status >= 500 && status !== 501))
    return { kind: 'ended', progressed: false, error }
  return { kind: 'refused', error }
}

/** Without a session: a GET never proves that a session is lost, but the next POST does. */
function contextOf(
  http: HttpClient,
  sessionId: string | undefined,
): Parameters<typeof toRefusalError>[1] {
  return {
    url: http.url.display,
    session: undefined,
    sessionId,
    errorTextBytes: http.limits.errorTextBytes,
  }
}

function noStream(url: string): TransportError {
  return new TransportError('UNEXPECTED_RESPONSE', `${url} answered a GET without a stream`, {
    url,
  })
}
