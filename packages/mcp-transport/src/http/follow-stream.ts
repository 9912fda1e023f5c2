import { setTimeout as sleep } from 'node:timers/promises'
import type { TransportError } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import type { StreamCursor } from './stream-cursor.ts'

export type StreamEnd =
  /** There is no stream to be had here. */
  | { readonly kind: 'refused'; readonly error: TransportError }
  | {
      readonly kind: 'ended'
      /** It brought a message or a new cursor, or lived for long. */
      readonly progressed: boolean
      readonly error?: TransportError | undefined
    }

export type FollowOutcome =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'refused'; readonly error: TransportError }
  | {
      readonly kind: 'exhausted'
      readonly attempts: number
      readonly error?: TransportError | undefined
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
  /** 0 … 1 */
  readonly random?: () => number
  /** Resolves after the delay, or when the signal aborts; never rejects. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
}

const RETRY_FLOOR_MS = 100
const RETRY_CEILING_MS = 300_000

/**
 * Keeps a stream open: opens it again at the cursor whenever it ends, until it is stopped, refused, or
 * was opened `maxAttempts` times in a row without progress. All of its state is its own: no stream's
 * trouble, delay or cursor ever touches another stream.
 */
export async function followStream(options: FollowOptions): Promise<FollowOutcome> {
  const { open, reconnect, signal, isBroken, wait = pause } = options
  let fruitless = 0
  let attempt = 0
  let last: TransportError | undefined
  if (!isBroken && !signal.aborted) {
    const end = await open(attempt++)
    if (end.kind === 'refused') return end
    last = end.error
  }
  while (!signal.aborted) {
    if (fruitless >= reconnect.maxAttempts)
      return { kind: 'exhausted', attempts: fruitless, error: last }
    await wait(delayMs(fruitless, options), signal)
    if (signal.aborted) break
    const end = await open(attempt++)
    if (end.kind === 'refused') return end
    last = end.error
    // Reset on progress, not on connect: a server that accepts and drops us would be asked for ever.
    fruitless = end.progressed ? 0 : fruitless + 1
  }
  return { kind: 'stopped' }
}

/** The server's wish within bounds and without jitter, else our own growing delay with some. */
function delayMs(fruitless: number, options: FollowOptions): number {
  const { cursor, reconnect, random = Math.random } = options
  if (cursor.retryMs !== undefined) {
    return Math.min(Math.max(cursor.retryMs, RETRY_FLOOR_MS), RETRY_CEILING_MS)
  }
  const ceiling = Math.min(reconnect.firstMs * 1.5 ** fruitless, reconnect.maxMs)
  return Math.max(ceiling * (0.75 + random() / 4), RETRY_FLOOR_MS)
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // aborted: the caller looks
}
