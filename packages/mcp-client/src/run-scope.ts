import { createHash, randomBytes } from 'node:crypto'
import { ReadableStream } from 'node:stream/web'
import { assertOptions, check, fulfilledWithin, isObject, sharedStorage } from '@x/internal'
import type { Checks } from '@x/internal'
import { DeadlineError } from './deadline.ts'

/** Options for the root of a run. `runInSessionScope()` inside a run ignores them. */
export interface SessionRunOptions {
  /**
   * Id of a detached run to continue; `runIdOf(threadId)` is the same in every process. Concurrent runs with one id
   * share their sessions until the last one ends. `run_` and 16 hex digits. @default a new id
   */
  readonly id?: string | undefined
  /**
   * Ends the run when it aborts: calls in flight reject with its reason and are cancelled on the server; later calls
   * reject with the reason as `cause`.
   */
  readonly signal?: AbortSignal | undefined
}

const optionChecks: Checks<SessionRunOptions> = {
  id: check.string,
  signal: { ...check.methods('addEventListener'), takes: 'an AbortSignal' },
}

/** Result of `fn`. Streams carry their run; all other results become promises. */
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
 * Calls `fn`, such as the invocation of an agent, in a run. All code inside shares the sessions that clients
 * with `scope: 'run'` open for it. They are closed at its end, newest first, on success and on failure. Inside an open run, `fn`
 * joins that run, and nothing is closed.
 *
 * A run that stops at an interrupt or a breakpoint of LangGraph is detached: its sessions stay on the servers. Results,
 * errors, and streams of updates, values or events show that. For others, call `currentRun()?.detach()`.
 *
 * A stream that `fn` returns or resolves to keeps the run open until the stream ends, fails or is cancelled. A stream
 * that is neither read to its end nor cancelled keeps it open until `signal` aborts.
 *
 * @throws the error of `fn`, after everything is closed; errors of closing are warnings of the process. TypeError, at
 * once, for an invalid `id` and for an unknown or invalid option
 * @example
 * ```ts
 * import { McpClient, runInSessionScope } from '@x/mcp-client'
 *
 * await using shop = new McpClient('https://shop.example/mcp', { scope: 'run' })
 * await runInSessionScope(async () => {
 *   await shop.callTool('cart_add', { item: 'apple' }) // opens the session of this run
 *   await shop.callTool('cart_add', { item: 'pear' }) // the same session
 * }) // the session ends here
 * ```
 */
export function runInSessionScope<T>(fn: () => T, options?: SessionRunOptions): InSessionScope<T>
export function runInSessionScope(fn: () => unknown, options: SessionRunOptions = {}): unknown {
  assertOptions('runInSessionScope()', options, optionChecks)
  const run = contextRun()
  const stay = run?.isOpen === true ? joinedRun(run) : ownedRun(options)
  try {
    const result = insideRun(stay.run, fn)
    return isAsyncIterable(result) ? scopedStream(result, stay) : settled(result, stay)
  } catch (error) {
    return settled(Promise.reject(error), stay)
  }
}

/** How a run ended. A detached run will be continued, perhaps by another process: its sessions stay on the servers. */
export type RunEnd = 'ended' | 'detached'

/** The run, for the code in it. */
export interface CurrentRun {
  /** `run_` and 16 hex digits; for logs, metrics and keys. */
  readonly id: string
  /** False as soon as the run begins to end: from then on nothing is opened in it. */
  readonly isOpen: boolean
  /** Aborts with the run, with the same reason: for other calls. */
  readonly signal: AbortSignal
  /** Leaves the sessions of the run on their servers when it ends, so that it can be continued. */
  detach(): void
  /**
   * Calls `close` at the end of the run, in reverse order of these calls.
   *
   * @throws TypeError if the run has ended
   */
  defer(close: (end: RunEnd) => unknown): void
}

/**
 * The run that this code belongs to. Undefined outside a run, and in a run that has ended.
 *
 * @example
 * ```ts
 * import { currentRun } from '@x/mcp-client'
 *
 * // Opens a file that is closed with the run of the agent.
 * export function openForRun(open: () => { close(): void }): void {
 *   const file = open()
 *   currentRun()?.defer(() => file.close())
 * }
 * ```
 */
export function currentRun(): CurrentRun | undefined {
  const run = contextRun()
  return run?.isOpen === true ? run : undefined
}

/**
 * Crosses `await`, `Promise.all` and sub-agents; concurrent runs never see each other. All copies of this package share
 * it, so that a client of one copy serves the runs of another.
 */
const storage = sharedStorage<Run | undefined>('mcp-client.run.1')

/** Like `currentRun()`, but also returns a run that has ended: this code was started in it and has outlived it. */
export function contextRun(): Run | undefined {
  return storage.getStore()
}

function insideRun<T>(run: Run, call: () => T): T {
  return storage.run(run, call)
}

/** Calls a function in a run that ends with it. */
export async function inOwnRun<T>(call: () => Promise<T>): Promise<T> {
  const run = new Run()
  try {
    return await insideRun(run, call)
  } finally {
    await run.end()
  }
}

/**
 * Calls a function that starts something that outlives the current call: sockets and timers keep the async context in
 * which they are created, and with it the run.
 */
export function outsideRun<T, Args extends unknown[]>(
  call: (...args: Args) => T,
  ...args: Args
): T {
  if (storage.getStore() === undefined) return call(...args)
  return storage.run(undefined, () => call(...args))
}

const RUN_ID = /^run_[0-9a-f]{16}$/

/**
 * Returns the run id of a LangGraph thread. It is the same in every process: `runInSessionScope(fn, { id })` continues
 * with the sessions of the run that stopped in that thread, and nothing needs to be stored for it.
 *
 * @example
 * ```ts
 * import { runIdOf, runInSessionScope } from '@x/mcp-client'
 *
 * // Calls `invoke` with the sessions of the run that stopped in this thread.
 * export function goOn<T>(threadId: string, invoke: () => Promise<T>) {
 *   return runInSessionScope(invoke, { id: runIdOf(threadId) })
 * }
 * ```
 */
export function runIdOf(threadId: string): string {
  return `run_${createHash('sha256').update(threadId).digest('hex').slice(0, 16)}`
}

/** One invocation of a root agent. Knows how to close what was opened in it. Its creator ends it. */
export class Run implements CurrentRun {
  readonly id: string
  readonly #closers: ((end: RunEnd) => unknown)[] = []
  readonly #aborting = new AbortController()
  #isDetached = false
  #closing: Promise<void> | undefined

  /** @throws TypeError for an invalid id */
  constructor(id: string = `run_${randomBytes(8).toString('hex')}`) {
    if (!RUN_ID.test(id)) throw new TypeError('The id of a run must be "run_" and 16 hex digits')
    this.id = id
    // All code of the run shares this object.
    Object.freeze(this)
  }

  get isOpen(): boolean {
    return this.#closing === undefined
  }

  get signal(): AbortSignal {
    return this.#aborting.signal
  }

  detach(): void {
    this.#isDetached = true
  }

  defer(close: (end: RunEnd) => unknown): void {
    if (!this.isOpen) throw new TypeError(`Run ${this.id} has ended: nothing can be added to it`)
    this.#closers.push(close)
  }

  /** Aborts the calls in flight and ends the run. Never rejects. */
  async abort(reason: unknown): Promise<void> {
    // Before anything is closed, so that calls in flight reject with the reason and are cancelled on the server.
    if (this.isOpen) this.#aborting.abort(reason)
    await this.end()
  }

  /** Idempotent. Resolves when everything is closed, or after a time limit. Never rejects. */
  end(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    const end = this.#isDetached ? 'detached' : 'ended'
    const closers = this.#closers.splice(0).map((close) => () => close(end))
    // A step later, when the run is marked as ended: a closer may use code that refuses to work in an ended run.
    this.#closing = Promise.resolve().then(() => closeNewestFirst(closers))
    return this.#closing
  }
}

/** One call of `runInSessionScope()`: in a new run, which it ends, or in a run that it joins. */
interface Stay {
  readonly run: Run
  /** Called with the result, with each chunk of a stream, and with the error. */
  observe(outcome: unknown): void
  /** Idempotent, never rejects. */
  end(): Promise<void>
}

function joinedRun(run: Run): Stay {
  return { run, observe() {}, async end() {} }
}

function ownedRun(options: SessionRunOptions): Stay {
  const { signal } = options
  const run = new Run(options.id)
  const onAbort = (): void => void outsideRun(() => run.abort(signal?.reason))
  if (signal?.aborted === true) onAbort()
  else outsideRun(() => signal?.addEventListener('abort', onAbort, { once: true }))
  return {
    run,
    observe(outcome) {
      if (isLangGraphInterrupt(outcome)) run.detach()
    },
    async end() {
      signal?.removeEventListener('abort', onAbort)
      // Timers and sockets of the closing must not keep the run.
      await outsideRun(() => run.end())
    },
  }
}

/** Runs one step inside the run. An error ends the stay before it is thrown. */
async function step<T>(stay: Stay, call: () => Promise<T>): Promise<T> {
  try {
    return await insideRun(stay.run, call)
  } catch (error) {
    stay.observe(error)
    await stay.end()
    throw error
  }
}

async function settled(result: unknown, stay: Stay): Promise<unknown> {
  const value = await step(stay, async () => result)
  if (isAsyncIterable(value)) return scopedStream(value, stay)
  stay.observe(value)
  await stay.end()
  return value
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return isObject(value) && Symbol.asyncIterator in value
}

/**
 * Returns the same stream with its run. Generators execute in the context of the code that reads them, so each step
 * enters the run again. The run ends when the stream ends, fails or is left by `break`.
 */
function scopedStream(
  stream: AsyncIterable<unknown>,
  stay: Stay,
): AsyncGenerator | ReadableStream<unknown> {
  return stream instanceof ReadableStream
    ? scopedReadable(stream, stay)
    : scopedIterable(stream, stay)
}

function scopedIterable(source: AsyncIterable<unknown>, stay: Stay): AsyncGenerator {
  let iterator: AsyncIterator<unknown> | undefined
  const take = async (
    call: (iterator: AsyncIterator<unknown>) => PromiseLike<IteratorResult<unknown>>,
  ): Promise<IteratorResult<unknown>> => {
    const result = await step(stay, async () => {
      iterator ??= source[Symbol.asyncIterator]()
      return call(iterator)
    })
    if (result.done === true) await stay.end()
    else stay.observe(result.value)
    return result
  }
  const generator: AsyncGenerator = {
    next: (...sent) => take((inner) => inner.next(...sent)),
    return: (value) =>
      take(async (inner) => (await inner.return?.(value)) ?? { done: true, value: await value }),
    throw: (error: unknown) =>
      take(async (inner) => {
        if (inner.throw !== undefined) return inner.throw(error)
        await inner.return?.()
        throw error
      }),
    [Symbol.asyncIterator]: () => generator,
    [Symbol.asyncDispose]: async () => {
      await generator.return(undefined)
    },
  }
  return generator
}

function scopedReadable(source: ReadableStream<unknown>, stay: Stay): ReadableStream<unknown> {
  const reader = source.getReader()
  return new ReadableStream<unknown>(
    {
      async pull(controller) {
        const { done, value } = await step(stay, () => reader.read())
        if (!done) {
          stay.observe(value)
          return controller.enqueue(value)
        }
        await stay.end()
        controller.close()
      },
      async cancel(reason) {
        try {
          // Not `reader.cancel()`: the `cancel()` of LangGraph's stream aborts the graph.
          await insideRun(stay.run, () => {
            reader.releaseLock()
            return source.cancel(reason)
          })
        } finally {
          await stay.end()
        }
      },
    },
    { highWaterMark: 0 }, // pulls nothing before the first read
  )
}

/**
 * Returns true if a LangGraph graph has stopped at an `interrupt()` or a breakpoint, to be continued later. The graph
 * shows it by `__interrupt__`: in the result of `invoke()`; in a chunk of a stream of updates or values, also in tuples
 * with mode and namespace; in the events of `streamEvents()` that contain such a chunk; or by the error that leaves a
 * node or its sub-graph.
 *
 * A stream that has only messages, custom data or bytes does not show it.
 */
export function isLangGraphInterrupt(outcome: unknown): boolean {
  if (outcome instanceof Error) return INTERRUPTS.has(outcome.name)
  const parts: readonly unknown[] = Array.isArray(outcome) ? outcome : [outcome]
  return parts.some((part) => ENVELOPES.some((path) => isStopped(at(part, path))))
}

const INTERRUPTS = new Set(['GraphInterrupt', 'NodeInterrupt'])

/** Where a chunk is: at the top, in an event of `streamEvents()` v1 and v2, in one of v3. */
const ENVELOPES: readonly (readonly string[])[] = [[], ['data', 'chunk'], ['params', 'data']]

/** At a breakpoint, the list is empty. */
function isStopped(value: unknown): boolean {
  return Array.isArray(at(value, ['__interrupt__']))
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (isObject(inner) ? Reflect.get(inner, key) : undefined),
    value,
  )
}

const PATIENCE_MS = 5500

/**
 * Closes everything, newest first, each after the one before it, because newer parts may need older ones. After 5.5 s
 * the rest is closed at once, within the same time again. Never rejects: errors become warnings of the process.
 */
export async function closeNewestFirst(closers: readonly (() => unknown)[]): Promise<void> {
  const closings: Promise<void>[] = []
  const endsAt = performance.now() + PATIENCE_MS
  for (const close of closers.toReversed()) {
    const closing = closed(close)
    closings.push(closing)
    await fulfilledWithin(closing, Math.max(endsAt - performance.now(), 0))
  }
  const areClosed = await fulfilledWithin(Promise.all(closings), PATIENCE_MS)
  if (!areClosed) process.emitWarning(new DeadlineError(`Not closed within ${2 * PATIENCE_MS} ms`))
}

async function closed(close: () => unknown): Promise<void> {
  try {
    await close()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : String(error))
  }
}
