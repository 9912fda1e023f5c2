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

/** Reason why a stream is not reopened, or only slowly. */
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

/** Keeps reopening a stream slowly, without a limit of attempts. */
export interface SlowReopening {
  /** Called once per outage, after the quick attempts have failed. */
  onTrouble(trouble: StreamTrouble): void
  /**
   * Gets the function that ends the current wait early, and `undefined` after the wait. Call that function when
   * the server answers another request, because it may offer the stream again.
   */
  onWaiting(wake: (() => void) | undefined): void
}

export interface FollowOptions {
  /** Opens the stream at the cursor, and resolves when the stream has ended. */
  readonly open: (attempt: number) => Promise<StreamEnd>
  readonly cursor: StreamCursor
  readonly reconnect: Reconnect
  /** Stops following the stream. */
  readonly signal: AbortSignal
  /** The stream broke before: the first opening is already a reconnection. */
  readonly isBroken: boolean
  /** @default the stream fails after `reconnect.maxAttempts` */
  readonly slowly?: SlowReopening | undefined
  /** 0 … 1 */
  readonly random?: () => number
  /** Resolves after the delay, or when the signal aborts; never rejects. */
  readonly wait?: (ms: number, signal: AbortSignal, slowly?: SlowReopening) => Promise<void>
}

/**
 * A stream that was open for this long counts as progress, even without messages: proxies close quiet streams.
 */
const LIVED_MS = 10_000

const RETRY_FLOOR_MS = 100
const RETRY_CEILING_MS = 300_000
/** Share of a slow delay that always passes, even if the server answers again. */
const EARLIEST = 0.1

/**
 * Keeps a stream open: reopens it at the cursor until it is stopped, refused, or was opened `maxAttempts` times
 * in a row without progress. With `slowly`, attempts continue with long delays, and only a stream that the
 * server never accepted can be refused. Streams share no state.
 */
export async function followStream(options: FollowOptions): Promise<FollowOutcome> {
  const { open, reconnect, signal, isBroken, slowly, wait = pause } = options
  let failures = 0
  let attempt = 0
  /** Slow attempts in the current outage. */
  let slowAttempts: number | undefined
  let hasBeenOpen = false
  let end: StreamEnd | undefined
  while (!signal.aborted) {
    if (end !== undefined || isBroken) {
      const trouble = slowAttempts === undefined ? troubleOf(end, failures, reconnect) : undefined
      if (trouble !== undefined) {
        const isKept = trouble.kind === 'exhausted' ? reconnect.maxAttempts > 0 : hasBeenOpen
        if (slowly === undefined || !isKept) return trouble
        slowly.onTrouble(trouble)
        slowAttempts = 0
      }
      if (slowAttempts === undefined) {
        await wait(delayMs(failures, options), signal)
      } else {
        const isForbidden = end?.kind === 'refused' && end.error.code === 'UNAUTHORIZED'
        // Without credentials, try again only after an answer to another request.
        const ms = isForbidden ? Number.POSITIVE_INFINITY : slowDelayMs(slowAttempts++, options)
        await wait(ms, signal, slowly)
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
      slowAttempts = undefined
    } else if (!isFirst) {
      failures++
    }
  }
  return { kind: 'stopped' }
}

/** Returns the reason for no more quick attempts, if there is one. */
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
 * Delay before a quick attempt: the one that the server requested, within limits and without jitter; otherwise a
 * growing delay with jitter.
 */
function delayMs(failures: number, options: FollowOptions): number {
  const { cursor, reconnect, random = Math.random } = options
  if (cursor.retryMs !== undefined) {
    return Math.min(Math.max(cursor.retryMs, RETRY_FLOOR_MS), RETRY_CEILING_MS)
  }
  const ceiling = Math.min(reconnect.firstMs * 1.5 ** failures, reconnect.maxMs)
  return Math.max(ceiling * (0.75 + random() / 4), RETRY_FLOOR_MS)
}

/** These delays have a wide range, so that clients do not return at the same time after an outage. */
function slowDelayMs(slowAttempts: number, options: FollowOptions): number {
  const { cursor, reconnect, random = Math.random } = options
  const ceiling = Math.min(reconnect.maxMs * 1.5 ** slowAttempts, RETRY_CEILING_MS)
  const wished = Math.min(cursor.retryMs ?? 0, RETRY_CEILING_MS)
  return Math.max(ceiling * (0.5 + random() / 2), wished, RETRY_FLOOR_MS)
}

/**
 * Waits for `ms`, or until the signal aborts. When `slowly` wakes it, it waits only until a tenth of `ms` (or of the
 * longest delay) has passed.
 */
export function pause(ms: number, signal: AbortSignal, slowly?: SlowReopening): Promise<void> {
  return new Promise((resolve) => {
    const since = performance.now()
    let timer: NodeJS.Timeout | undefined
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      slowly?.onWaiting(undefined)
      resolve()
    }
    const endAfter = (leftMs: number): void => {
      clearTimeout(timer)
      timer = setTimeout(end, leftMs).unref()
    }
    if (signal.aborted) return end()
    if (Number.isFinite(ms)) endAfter(ms)
    signal.addEventListener('abort', end, { once: true })
    slowly?.onWaiting(() => {
      slowly.onWaiting(undefined) // only the first call counts
      endAfter(Math.max(since + Math.min(ms, RETRY_CEILING_MS) * EARLIEST - performance.now(), 0))
    })
  })
}

/** Position in a stream, and the reconnection delay that the server requested. */
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
