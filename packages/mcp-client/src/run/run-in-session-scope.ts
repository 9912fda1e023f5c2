import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { ReadableStream } from 'node:stream/web'
import { warnOfCloseError } from './close-newest-first.ts'
import { isLangGraphInterrupt } from './interrupt.ts'
import { Run } from './run.ts'
import { contextRun, insideRun, outsideRun } from './run-context.ts'
import { isAsyncIterable, scopedStream } from './scoped-stream.ts'
import type { RunHold } from './scoped-stream.ts'

/** For the root of a run; where a run is joined, these are not looked at. */
export interface SessionRunOptions {
  /**
   * The id of a run that was detached, to continue it; `runIdOf(threadId)` is the same in every process.
   * Runs of one id that go on at the same time share their sessions, to the end of the last one. `run_` and
   * 16 hex digits. @default a new one
   */
  readonly id?: string | undefined
  /**
   * Ends the run when it aborts: calls in flight reject with its reason, and are cancelled on the server;
   * later ones are refused, with the reason as `cause`.
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Whether the run has stopped, to be continued, and is detached instead of ended. Asked with what `fn`
   * returned or threw, and with each chunk of a stream. Where that does not tell, `currentRun()?.detach()`
   * does the same. @default knows LangGraph's interrupts and breakpoints, in results and in streams of
   * updates, values or events
   */
  readonly isInterrupted?: ((outcome: unknown) => boolean) | undefined
  /** Told what could not be closed at the end. @default a warning of the process */
  readonly onCloseError?: ((error: unknown) => void) | undefined
}

const optionChecks: Checks<SessionRunOptions> = {
  id: check.string,
  signal: { ...check.methods('addEventListener'), takes: 'an AbortSignal' },
  isInterrupted: check.func,
  onCloseError: check.func,
}

/** What `fn` returns, with streams that carry their run; anything that is no stream as a promise. */
export type InSessionScope<T> = 0 extends 1 & T
  ? Promise<T>
  : T extends PromiseLike<infer Value>
    ? Promise<StreamInScope<Value>>
    : T extends AsyncIterable<unknown>
      ? StreamInScope<T>
      : Promise<T>

type StreamInScope<T> = 0 extends 1 & T
  ? T
  : T extends ReadableStream<infer Chunk>
    ? ReadableStream<Chunk>
    : T extends AsyncIterable<infer Chunk>
      ? AsyncGenerator<Chunk>
      : T

/**
 * Runs an agent in a run: sessions that a `SessionPool` opens for it are shared by everything inside, and
 * closed at its end, newest first, however it ends. Inside an open run, that run is joined: nothing is
 * closed then.
 *
 * A stream, returned or resolved to, keeps the run open until it has ended, failed, or was left or
 * cancelled; it is entered for each step. (A stream that is never read to its end, nor left, keeps it
 * open: see `runTtlMs` of `SessionPool`.)
 *
 * @throws what `fn` throws, after everything is closed; never what fails while closing. TypeError, at once,
 * for an `id` that is not one of a run, and for an option that is unknown or cannot be used.
 */
export function runInSessionScope<T>(fn: () => T, options?: SessionRunOptions): InSessionScope<T>
export function runInSessionScope(fn: () => unknown, options: SessionRunOptions = {}): unknown {
  assertOptions('runInSessionScope()', options, optionChecks)
  const run = contextRun()
  const hold = run?.isOpen === true ? joinedRun(run) : ownedRun(options)
  try {
    const result = hold.enter(fn)
    return isAsyncIterable(result) ? scopedStream(result, hold) : settled(result, hold)
  } catch (error) {
    return settled(Promise.reject(error), hold)
  }
}

async function settled(result: unknown, hold: RunHold): Promise<unknown> {
  try {
    const value = await result
    if (isAsyncIterable(value)) return scopedStream(value, hold)
    hold.onOutcome(value)
    await hold.end()
    return value
  } catch (error) {
    hold.onOutcome(error)
    await hold.end()
    throw error
  }
}

function joinedRun(run: Run): RunHold {
  return {
    enter: (call) => insideRun(run, call),
    onOutcome() {},
    async end() {},
  }
}

function ownedRun(options: SessionRunOptions): RunHold {
  const {
    id,
    signal,
    isInterrupted = isLangGraphInterrupt,
    onCloseError = warnOfCloseError,
  } = options
  const run = new Run({ id, onCloseError })
  const onAbort = (): void => void outsideRun(() => run.abort(signal?.reason))
  if (signal?.aborted === true) onAbort()
  else outsideRun(() => signal?.addEventListener('abort', onAbort, { once: true }))
  return {
    enter: (call) => insideRun(run, call),
    onOutcome(outcome) {
      if (isInterrupted(outcome)) run.detach()
    },
    async end() {
      signal?.removeEventListener('abort', onAbort)
      // What is closed has its own waits, which need not know of the run.
      await outsideRun(() => run.end())
    },
  }
}
