import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { TransportError } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import { openEventStream } from './event-stream.ts'
import { followStream } from '../http/follow-stream.ts'
import type { LegacySession } from './legacy-session.ts'

export interface ListenOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly session: LegacySession
  readonly reconnect: Reconnect
  /** Limit for silence on the stream, in milliseconds. */
  readonly idleMs: number
  /** 0 … 1 */
  readonly random: () => number
  readonly onMessage: (message: JsonRpcMessage) => void
  /** Told once, when the stream is given up. */
  readonly report: (error: TransportError) => void
}

const HEAD_MS = 30_000

/** How long a new session waits for its listening stream. */
const READY_MS = 100

/** How often the cursor is stored while it moves. */
const CURSOR_MS = 5000

/**
 * Opens the session's listening stream (GET), for what the server sends on its own, and keeps it open until
 * `session.endListening()`, or where there is none to be had: servers need not offer one.
 *
 * Resolves when it stands, so that nothing that a call makes the server say there is said to nobody; or
 * after 100 ms, because some servers accept a stream with its first event.
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

/** `onReady`: the stream stands for the first time, or there is none to be had; may be called again. */
async function keepListening(options: ListenOptions, onReady: () => void): Promise<void> {
  const { http, keeper, session, reconnect, idleMs, random, onMessage, report } = options
  const signal = session.beginListening()
  if (signal === undefined) return onReady()
  const cursor = { lastEventId: session.lastEventId }
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
        onOpen: onReady,
        onMessage,
        onCursor,
      }).finally(onReady),
  })
  session.endListening()
  if (outcome.kind === 'stopped') return
  if (outcome.kind === 'refused') {
    // Servers need not offer a stream; only a question of credentials is worth a word.
    if (outcome.error.code === 'UNAUTHORIZED') report(outcome.error)
    return
  }
  const { attempts, error: cause } = outcome
  const message = `The listening stream of ${http.url.display} is given up after ${attempts} fruitless reconnections`
  report(new TransportError('UNREACHABLE', message, { url: http.url.display, cause }))
}
