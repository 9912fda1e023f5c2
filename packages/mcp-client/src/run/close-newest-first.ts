import { Deadline } from '../deadline.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'

export type CloseErrorListener = (error: unknown) => void

export interface CloseOptions {
  /** Told of each that failed, or was given up. */
  readonly onError: CloseErrorListener
  /** How long they are closed one after the other; the rest is then closed at once, in the same time again. @default 5500 */
  readonly patienceMs?: number | undefined
}

const PATIENCE_MS = 5500

/**
 * Closes what was opened, newest first, each when the one before it is closed, because what was opened
 * later may need what was opened before. Ends in twice `patienceMs`, however many there are and whatever
 * they do. Never rejects.
 */
export async function closeNewestFirst(
  closers: readonly (() => unknown)[],
  { onError, patienceMs = PATIENCE_MS }: CloseOptions,
): Promise<void> {
  const tell = (error: unknown): void => {
    try {
      onError(error)
    } catch {
      // who is told of failures has failed: there is nobody left to tell
    }
  }
  const closings: Promise<void>[] = []
  using deadline = new Deadline(patienceMs)
  for (const close of closers.toReversed()) {
    const closing = settled(close, tell)
    closings.push(closing)
    await settledOrAborted(closing, deadline.signal).catch(() => {})
  }
  if (!deadline.signal.aborted) return
  using last = new Deadline(patienceMs)
  await settledOrAborted(Promise.all(closings), last.signal).catch(tell)
}

/** For want of anybody else to tell. */
export function warnOfCloseError(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error))
}

async function settled(close: () => unknown, tell: CloseErrorListener): Promise<void> {
  try {
    await close()
  } catch (error) {
    tell(error)
  }
}
