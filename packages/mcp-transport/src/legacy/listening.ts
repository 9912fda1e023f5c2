import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { TransportError } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import { openEventStream } from './event-stream.ts'
import { followStream } from '../http/follow-stream.ts'
import type { StreamTrouble } from '../http/follow-stream.ts'
import { advertisedChanges, listChangesFor } from '../list-changes.ts'
import type { ListChanges } from '../list-changes.ts'
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
  /** Told once in each outage. */
  readonly report: (error: TransportError) => void
}

const HEAD_MS = 30_000

/** How long a new session waits for its listening stream. */
const READY_MS = 100

/** Of a server whose capabilities are not known. */
const ALL_LISTS: ListChanges = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
}

/** How often the cursor is stored while it moves. */
const CURSOR_MS = 5000

/**
 * Opens the session's listening stream (GET), for what the server sends on its own, and keeps it open until
 * `session.endListening()`. Servers need not offer a stream: one that refuses the first is not asked again.
 *
 * Resolves when the stream stands, so that the client misses nothing that its first call makes the server
 * send there; or after 100 ms, because some servers accept a stream only with its first event.
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
  const { http, keeper, session, reconnect, idleMs, random } = options
  const signal = session.beginListening()
  if (signal === undefined) return onReady()
  const cursor = { lastEventId: session.lastEventId }
  // A connection delivers in the context of the request that opened it, which may be that of a call.
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
      onTrouble: (trouble) => tellOfTrouble(trouble, options),
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
          if (isStream && attempt > 0) tellOfTheGap({ ...options, onMessage })
          onReady()
        },
        onMessage,
        onCursor,
      }).finally(onReady),
  })
  session.endListening()
  if (outcome.kind !== 'stopped') tellOfTrouble(outcome, options)
}

/** Changes while no stream stood are gone: one notification for each list stands for all of them. */
function tellOfTheGap({ keeper, onMessage }: ListenOptions): void {
  const capabilities = keeper.record?.initializeResult?.capabilities
  const changes = capabilities === undefined ? ALL_LISTS : advertisedChanges(capabilities)
  for (const change of listChangesFor(changes)) onMessage(change)
}

function tellOfTrouble(trouble: StreamTrouble, { http, report }: ListenOptions): void {
  if (trouble.kind === 'refused') {
    // Servers need not offer a stream; only missing credentials are worth a word.
    if (trouble.error.code === 'UNAUTHORIZED') report(trouble.error)
    return
  }
  const { attempts, error: cause } = trouble
  const url = http.url.display
  const message = `The listening stream of ${url} broke, and ${attempts} attempts to open it again failed. Changes may be missed until it stands again`
  report(new TransportError('UNREACHABLE', message, { url, cause }))
}
