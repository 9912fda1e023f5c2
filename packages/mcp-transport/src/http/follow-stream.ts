import { setTimeout as sleep } from 'node:timers/promises'
import { untilAborted } from '@x/internal'
import { TransportError } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'

export type StreamEnd =
  /** The server offers no stream. */
  | { readonly kind: 'refused'; readonly error: TransportError }
  | {
      readonly kind: 'ended'
      /** The stream delivered a message or a new cursor. */
      readonly progressed: boolean
      /** The server had accepted the stream. */
      readonly wasOpen?: boolean | undefined
      readonly error?: TransportError | undefined
    }

/** Reason why a stream is not open: refused, or not opened again by `maxAttempts` attempts in a row. */
export type StreamTrouble =
  | Extract<StreamEnd, { kind: 'refused' }>
  | {
      readonly kind: 'exhausted'
      readonly attempts: number
      readonly error: TransportError | undefined
    }

/** Converts the reason to an error. `stream` names the stream at the start of a sentence. */
export function toTroubleError(
  trouble: StreamTrouble,
  stream: string,
  url: string,
): TransportError {
  if (trouble.kind === 'refused') return trouble.error
  const { attempts, error: cause } = trouble
  const message = `${stream} broke, and ${attempts} attempts to open it again failed. Changes may be missed until it is open again`
  return new TransportError('UNREACHABLE', message, { url, cause })
}

/** Returns whether a later request may succeed that has this status now. */
export function isTemporary(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}

export type FollowOutcome = { readonly kind: 'stopped' } | StreamTrouble

/** Keeps reopening a stream without a limit of attempts. */
interface EndlessReopening {
  /** Called once per outage: after a refusal, or after `reconnect.maxAttempts`. */
  onTrouble(trouble: StreamTrouble): void
  /** Resolves when the server has answered another request. */
  nextAnswer(): Promise<void>
}

export interface FollowOptions {
  /** Opens the stream at the cursor, and resolves when the stream has ended. */
  readonly open: (attempt: number) => Promise<StreamEnd>
  readonly cursor: StreamCursor
  readonly reconnect: Reconnect
  readonly signal: AbortSignal
  /** The stream broke before: the first opening is already a reconnection. */
  readonly isBroken: boolean
  /** Undefined for a stream that fails after `reconnect.maxAttempts`. */
  readonly endless: EndlessReopening | undefined
  /** 0 … 1 */
  readonly random?: () => number
  /** Resolves after the delay, or when the signal aborts; never rejects. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
}

/**
 * A stream that was open for this long counts as progress, even without messages: proxies close quiet streams.
 */
const LIVED_MS = 10_000

const RETRY_FLOOR_MS = 100
const RETRY_CEILING_MS = 300_000

/**
 * Keeps a stream open: reopens it at the cursor until it is stopped, refused, or was opened `maxAttempts` times
 * in a row without progress. With `endless`, attempts continue, and only a stream that the server never accepted
 * can be refused. Streams share no state.
 */
export async function followStream(options: FollowOptions): Promise<FollowOutcome> {
  const { open, reconnect, signal, isBroken, endless, wait = pause } = options
  let failures = 0
  let attempt = 0
  let hasBeenOpen = false
  let isReported = false
  let end: StreamEnd | undefined
  while (!signal.aborted) {
    if (end !== undefined || isBroken) {
      const trouble = troubleOf(end, failures, reconnect)
      if (trouble !== undefined) {
        const isKept = trouble.kind === 'exhausted' ? reconnect.maxAttempts > 0 : hasBeenOpen
        if (endless === undefined || !isKept) return trouble
        if (!isReported) endless.onTrouble(trouble)
        isReported = true
      }
      await wait(delayMs(failures, options, end?.error), signal)
      const isForbidden = end?.error?.code === 'UNAUTHORIZED'
      if (isForbidden && endless !== undefined) {
        // Without credentials, each attempt would ask the user to sign in, or the provider for a token.
        await untilAborted(endless.nextAnswer(), signal).catch(() => {})
      }
      if (signal.aborted) break
    }
    const isFirst = end === undefined && !isBroken
    const openedAt = performance.now()
    end = await open(attempt++)
    const wasOpen = end.kind === 'ended' && end.wasOpen === true
    hasBeenOpen ||= wasOpen
    const hasLived = wasOpen && performance.now() - openedAt >= LIVED_MS
    // Reset on progress, not on connect: otherwise a server that accepts and drops the stream is asked without end.
    if (hasLived || (end.kind === 'ended' && end.progressed)) {
      failures = 0
      isReported = false
    } else if (!isFirst) {
      failures++
    }
  }
  return { kind: 'stopped' }
}

function troubleOf(
  end: StreamEnd | undefined,
  failures: number,
  { maxAttempts }: Reconnect,
): StreamTrouble | undefined {
  if (end?.kind === 'refused') return end
  if (failures < maxAttempts) return undefined
  return { kind: 'exhausted', attempts: failures, error: end?.error }
}

/**
 * Delay before an attempt: grows by half with each failure, with jitter, so that clients do not return at the same
 * time after an outage. Not shorter than the delay that the server requested, which has limits and no jitter. The
 * `Retry-After` of a refusal is for the next attempt only.
 */
function delayMs(
  failures: number,
  options: FollowOptions,
  error: TransportError | undefined,
): number {
  const { cursor, reconnect, random = Math.random } = options
  const ceiling = Math.min(reconnect.firstMs * 1.5 ** failures, reconnect.maxMs)
  const own = Math.max(ceiling * (0.75 + random() / 4), RETRY_FLOOR_MS)
  const askedMs = error?.retryAfterMs ?? cursor.retryMs
  if (askedMs === undefined) return own
  const requested = Math.min(Math.max(askedMs, RETRY_FLOOR_MS), RETRY_CEILING_MS)
  return failures === 0 ? requested : Math.max(requested, own)
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal, ref: false }).catch(() => {})
}

/** Position in a stream, and the reconnection delay that its events requested (`retry`). */
export interface StreamCursor {
  lastEventId?: string | undefined
  retryMs?: number | undefined
}

const MAX_LENGTH = 4096
// oxlint-disable-next-line no-control-regex -- control characters are what it finds
const CONTROL = /[\u0000-\u001F\u007F]/

/**
 * Returns an event id as a cursor. Undefined for an empty id, which resets the cursor (WHATWG HTML, section
 * 9.2), and for an id that no header can hold: an older cursor would repeat messages.
 */
export function parseCursor(eventId: string): string | undefined {
  const isUsable = eventId !== '' && eventId.length <= MAX_LENGTH && !CONTROL.test(eventId)
  return isUsable ? eventId : undefined
}

/** Headers that resume a stream at the cursor. Event ids are sent as UTF-8. */
export function cursorHeaders({ lastEventId }: StreamCursor): readonly string[] {
  const cursor = parseCursor(lastEventId ?? '')
  if (cursor === undefined) return []
  return ['last-event-id', Buffer.from(cursor, 'utf8').toString('latin1')]
}
