import { setTimeout as sleep } from 'node:timers/promises'
import type { TransportError } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'

export type StreamEnd =
  /** The server offers no stream here. */
  | { readonly kind: 'refused'; readonly error: TransportError }
  | {
      readonly kind: 'ended'
      /** It brought a message or a new cursor, or lived for long. */
      readonly progressed: boolean
      /** The server had accepted it. */
      readonly wasOpen?: boolean | undefined
      readonly error?: TransportError | undefined
    }

/** Why a stream is not opened again, or only slowly. */
export type StreamTrouble =
  | { readonly kind: 'refused'; readonly error: TransportError }
  | {
      readonly kind: 'exhausted'
      readonly attempts: number
      readonly error?: TransportError | undefined
    }

export type FollowOutcome = { readonly kind: 'stopped' } | StreamTrouble

/** Makes a stream open again slowly, and without end, where others are given up. */
export interface SlowReopening {
  /** Called once in each outage, when the quick attempts have failed. */
  onTrouble(trouble: StreamTrouble): void
  /**
   * Gets the function that ends the present wait early, and `undefined` when the wait is over. To be called
   * when the server has answered something else: it may have a stream again.
   */
  onWaiting(wake: (() => void) | undefined): void
}

export interface FollowOptions {
  /** Opens the stream at the cursor, and resolves when it has ended. */
  readonly open: (attempt: number) => Promise<StreamEnd>
  readonly cursor: StreamCursor
  readonly reconnect: Reconnect
  /** Ends the following, from outside. */
  readonly signal: AbortSignal
  /** The first opening is itself a reconnection: it waits and counts. */
  readonly isBroken: boolean
  /** @default the stream is given up after `reconnect.maxAttempts` */
  readonly slowly?: SlowReopening | undefined
  /** 0 … 1 */
  readonly random?: () => number
  /** Resolves after the delay, or when the signal aborts; never rejects. */
  readonly wait?: (ms: number, signal: AbortSignal, slowly?: SlowReopening) => Promise<void>
}

const RETRY_FLOOR_MS = 100
const RETRY_CEILING_MS = 300_000
/** The part of a slow delay that passes in any case, also when the server answers again. */
const EARLIEST = 0.1

/**
 * Keeps a stream open: opens it again at the cursor whenever it ends, until it is stopped, refused, or was
 * opened `maxAttempts` times in a row without progress. With `slowly`, only a stream that the server never
 * accepted can be refused, and the attempts go on with long delays. All state is that of one stream: its
 * trouble, delay and cursor never touch another stream.
 */
export async function followStream(options: FollowOptions): Promise<FollowOutcome> {
  const { open, reconnect, signal, isBroken, slowly, wait = pause } = options
  let failures = 0
  let attempt = 0
  /** Slow attempts in the present outage. */
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
        // Without credentials, only an answer to another request is a reason to ask again.
        const ms = isForbidden ? Number.POSITIVE_INFINITY : slowDelayMs(slowAttempts++, options)
        await wait(ms, signal, slowly)
      }
      if (signal.aborted) break
    }
    const isFirst = end === undefined && !isBroken
    end = await open(attempt++)
    if (end.kind === 'ended' && end.wasOpen === true) hasBeenOpen = true
    // Reset on progress, not on connect: a server that accepts and drops us would be asked for ever.
    if (end.kind === 'ended' && end.progressed) {
      failures = 0
      slowAttempts = undefined
    } else if (!isFirst) {
      failures++
    }
  }
  return { kind: 'stopped' }
}

/** Why there are no more quick attempts, if that is so. */
function troubleOf(
  end: StreamEnd | undefined,
  failures: number,
  { maxAttempts }: Reconnect,
): StreamTrouble | undefined {
  if (end?.kind === 'refused') return end
  if (failures < maxAttempts) return undefined
  return { kind: 'exhausted', attempts: failures, error: end?.error }
}

/** Spread widely: after an outage of the server, its clients must not come back all at once. */
function slowDelayMs(slowAttempts: number, options: FollowOptions): number {
  const { cursor, reconnect, random = Math.random } = options
  const ceiling = Math.min(reconnect.maxMs * 1.5 ** slowAttempts, RETRY_CEILING_MS)
  const wished = Math.min(cursor.retryMs ?? 0, RETRY_CEILING_MS)
  return Math.max(ceiling * (0.5 + random() / 2), wished, RETRY_FLOOR_MS)
}

/** The server's wish within bounds and without jitter, else our own growing delay with some. */
function delayMs(failures: number, options: FollowOptions): number {
  const { cursor, reconnect, random = Math.random } = options
  if (cursor.retryMs !== undefined) {
    return Math.min(Math.max(cursor.retryMs, RETRY_FLOOR_MS), RETRY_CEILING_MS)
  }
  const ceiling = Math.min(reconnect.firstMs * 1.5 ** failures, reconnect.maxMs)
  return Math.max(ceiling * (0.75 + random() / 4), RETRY_FLOOR_MS)
}

async function pause(ms: number, signal: AbortSignal, slowly?: SlowReopening): Promise<void> {
  if (slowly !== undefined) return slowPause(ms, signal, slowly)
  await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // aborted: the caller looks
}

/** Waits for at most `ms`; or, once it is woken, for a tenth of that or of the longest delay. */
export function slowPause(ms: number, signal: AbortSignal, slowly: SlowReopening): Promise<void> {
  return new Promise((resolve) => {
    const since = performance.now()
    let timer: NodeJS.Timeout | undefined
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      slowly.onWaiting(undefined)
      resolve()
    }
    const endAfter = (leftMs: number): void => {
      clearTimeout(timer)
      timer = setTimeout(end, leftMs).unref()
    }
    if (Number.isFinite(ms)) endAfter(ms)
    signal.addEventListener('abort', end, { once: true })
    slowly.onWaiting(() => {
      slowly.onWaiting(undefined) // once is enough
      endAfter(Math.max(since + Math.min(ms, RETRY_CEILING_MS) * EARLIEST - performance.now(), 0))
    })
  })
}

/** How far a stream was read, and how long the server wants us to wait before we ask again. */
export interface StreamCursor {
  lastEventId?: string | undefined
  retryMs?: number | undefined
}

const MAX_LENGTH = 4096
// oxlint-disable-next-line no-control-regex -- it is about them
const CONTROL = /[\u0000-\u001F\u007F]/

/**
 * An event id as a cursor. An empty one resets the cursor (WHATWG HTML, section 9.2); so does one that
 * no header could carry, because an older one would bring what was read already.
 */
export function parseCursor(eventId: string): string | undefined {
  const isUsable = eventId !== '' && eventId.length <= MAX_LENGTH && !CONTROL.test(eventId)
  return isUsable ? eventId : undefined
}

/** The headers of a request that goes on at the cursor: event ids go over the wire as UTF-8. */
export function cursorHeaders({ lastEventId }: StreamCursor): readonly string[] {
  const cursor = parseCursor(lastEventId ?? '')
  if (cursor === undefined) return []
  return ['last-event-id', Buffer.from(cursor, 'utf8').toString('latin1')]
}
