import { isRecord, within } from '@x/internal'
import type { Call } from '../calls/call.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import { mediaType } from '../headers.ts'
import type { AnswerHandlers, AnswerOutcome } from '../http/answer-reader.ts'
import {
  cursorHeaders,
  followStream,
  isTemporary,
  parseCursor,
  toTroubleError,
} from '../http/follow-stream.ts'
import type { StreamTrouble, StreamEnd, StreamCursor } from '../http/follow-stream.ts'
import type { HttpRequest } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { advertisedChanges, listChangesFor } from '../json-rpc.ts'
import type { JsonRpcMessage, ListChanges } from '../json-rpc.ts'
import type { TransportError, TransportErrorCode } from '../transport-error.ts'
import type { LegacySession } from './legacy-session.ts'
import { toRefusalError } from './session-loss.ts'

const HEAD_MS = 30_000

/** Time that a new session waits for its listening stream. */
const READY_MS = 100

/** For servers whose capabilities are unknown. */
const ALL_LISTS: ListChanges = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
}

/** Capabilities of a client that let the server ask, also without a call. */
const ASKED = ['elicitation', 'sampling', 'roots']

const LISTS: ReadonlySet<string> = new Set(['tools', 'prompts', 'resources'])
/** Capabilities that are empty if the server has none of them. */
const COLLECTIONS: ReadonlySet<string> = new Set(['experimental', 'extensions'])

/**
 * Returns whether a server may send messages without a request: it announces changes or log messages, or the client
 * lets it ask. A server of unknown capabilities may, and so may one with a capability that is not known here.
 */
export function mayHearUnasked(
  server: Readonly<Record<string, unknown>> | undefined,
  client: unknown,
): boolean {
  return mayBeAsked(client) || server === undefined || Object.entries(server).some(isAnnouncing)
}

/** Returns whether a client with these capabilities lets the server ask. */
export function mayBeAsked(client: unknown): boolean {
  return isRecord(client) && ASKED.some((name) => isRecord(client[name]))
}

function isAnnouncing([name, value]: readonly [string, unknown]): boolean {
  if (name === 'completions' || !isRecord(value)) return false
  if (LISTS.has(name)) return Boolean(value['listChanged']) || Boolean(value['subscribe'])
  return !COLLECTIONS.has(name) || Object.keys(value).length > 0
}

/** Returns whether a request asks for messages that a server may send on the listening stream (python-sdk #2001). */
export function asksForMessages({ request: { method }, options }: Call): boolean {
  if (options.onProgress !== undefined) return true
  return method === 'logging/setLevel' || method === 'resources/subscribe'
}

/**
 * Opens the session's listening stream (GET) for messages that the server sends without a request, and keeps it
 * open until `session.endListening()`. Servers need not offer a stream: after a refusal of the first, none is
 * opened.
 *
 * Resolves when the stream is open, so that the client misses no message that its first call causes; or after
 * 100 ms, because some servers accept a stream only with its first event.
 */
export async function listen(
  { http, keeper, reconnect, timeouts, report }: ConnectionParts,
  session: LegacySession,
  onMessage: (message: JsonRpcMessage) => void,
): Promise<void> {
  const signal = session.beginListening()
  if (signal === undefined) return
  const { promise: ready, resolve: onReady } = Promise.withResolvers<void>()
  const cursor: StreamCursor = {}
  const handlers = {
    // A connection emits in the async context of the request that opened it, possibly that of a call.
    message: (message: JsonRpcMessage) => http.asOwner(() => onMessage(message)),
  }
  const onTrouble = (trouble: StreamTrouble): void => {
    const { display: url } = http.url
    const error = toTroubleError(trouble, `The listening stream of ${url}`, url)
    // Servers need not offer a stream. Only missing credentials are reported.
    if (trouble.kind === 'exhausted' || error.code === 'UNAUTHORIZED') report(error)
  }
  const following = followStream({
    cursor,
    reconnect,
    signal,
    isBroken: false,
    endless: {
      onTrouble,
      nextAnswer: () =>
        new Promise((resolve) => {
          session.onSuccess = resolve
        }),
    },
    open: (attempt) =>
      openEventStream(http, session, {
        cursor,
        signal,
        attempt,
        headersMs: HEAD_MS,
        idleMs: timeouts.idleMs,
        isPolled: false,
        handlers,
        onOpen: () => {
          onReady()
          if (attempt === 0) return
          // One notification for each list stands for all changes that were missed without a stream.
          const capabilities = keeper.record?.initializeResult?.capabilities
          const changes = capabilities === undefined ? ALL_LISTS : advertisedChanges(capabilities)
          for (const change of listChangesFor(changes)) handlers.message(change)
        },
      }).finally(onReady),
  })
  const end = async (): Promise<void> => {
    const outcome = await following
    session.endListening()
    if (outcome.kind !== 'stopped') onTrouble(outcome)
  }
  void end()
  await within(ready, READY_MS, () => {})
}

interface EventStreamRequest extends Pick<
  HttpRequest,
  'callHeaders' | 'headersMs' | 'idleMs' | 'attempt'
> {
  /** Moved by the events of the stream. */
  readonly cursor: StreamCursor
  readonly signal: AbortSignal
  /**
   * The stream answers a request. After an event id and `retry`, a server may close it on purpose and expect
   * another GET later (2025-11-25, transports; SEP-1699). That is not a failure.
   */
  readonly isPolled: boolean
  readonly handlers: Pick<AnswerHandlers, 'activity' | 'message' | 'cursor'>
  readonly onOpen: (() => void) | undefined
}

/** A repetition would fail in the same way. */
const FINAL: ReadonlySet<TransportErrorCode> = new Set(['UNEXPECTED_RESPONSE', 'CLOSED'])

/** Sends one GET for server-sent events (2025-11-25, transports, "Listening for Messages from the Server"). */
export async function openEventStream(
  http: HttpClient,
  session: LegacySession,
  request: EventStreamRequest,
): Promise<StreamEnd> {
  const { cursor, signal, isPolled, handlers, onOpen, ...timing } = request
  let progressed = false
  let isStream = false
  const outcome = await new Promise<AnswerOutcome>((resolve) => {
    const get = {
      method: 'GET',
      era: 'legacy',
      sessionId: session.id,
      headers: ['accept', 'text/event-stream', ...session.headers, ...cursorHeaders(cursor)],
      isOfCaller: isPolled,
      signal,
      ...timing,
    } as const
    const read: AnswerHandlers = {
      activity: () => handlers.activity?.(),
      head: (_status, headers) => {
        isStream = mediaType(headers) === 'text/event-stream'
        if (isStream) onOpen?.()
      },
      message: (message) => {
        progressed = true
        // JSON in a 200 response to a GET is not a stream (typescript-sdk #1635), and is ignored.
        if (isStream) handlers.message(message)
      },
      cursor: (lastEventId) => {
        const moved = parseCursor(lastEventId)
        if (moved !== undefined && moved !== cursor.lastEventId) progressed = true
        cursor.lastEventId = moved
        handlers.cursor?.(lastEventId)
      },
      retry: (ms) => {
        cursor.retryMs = ms
      },
      outcome: resolve,
    }
    http.send(get, read)
  })
  if (outcome.kind === 'refused') {
    // Without a session: a GET never proves that a session is lost, but the next POST does.
    const error = toRefusalError(outcome.refusal, http, { sessionId: session.id })
    return refusedOrEnded(error)
  }
  if (outcome.kind === 'ended' && !outcome.isStream) {
    const message = `${http.url.display} answered a GET without a stream`
    return { kind: 'refused', error: http.error('UNEXPECTED_RESPONSE', message) }
  }
  const error = outcome.kind === 'failed' ? outcome.error : undefined
  if (error !== undefined && FINAL.has(error.code)) return { kind: 'refused', error }
  const isAnnounced = cursor.lastEventId !== undefined && cursor.retryMs !== undefined
  const isOnPurpose = isPolled && error === undefined && isAnnounced
  progressed ||= isOnPurpose
  return { kind: 'ended', progressed, wasOpen: isStream, error }
}

/** Temporary failures (conflict, overload, a failing gateway) are retried; others are a refusal. */
function refusedOrEnded(error: TransportError): StreamEnd {
  const { status = 0 } = error
  return status === 409 || (isTemporary(status) && status !== 501)
    ? { kind: 'ended', progressed: false, error }
    : { kind: 'refused', error }
}
