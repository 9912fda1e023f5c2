import { TransportError, worstOutcome } from '@x/mcp-transport'
import type { RequestOutcome } from '@x/mcp-transport'
import type { ClientEvents } from '../client-events.ts'
import type { ClientLife, Life } from '../life/client-life.ts'
import type { CallOptions, Progress, ScopedOptions, TimeoutExtension } from '../client-options.ts'
import { Deadline, LONGEST_MS } from '../deadline.ts'
import type { Epoch } from '../life/epoch.ts'
import { failureFrom, outcomeOf, thrownFrom } from '../failure.ts'
import { McpClientError } from '../mcp-client-error.ts'
import { mayReplay, overloadDelay } from './replay.ts'
import type { InputResume } from './input-required.ts'
import type { FailedAttempt } from './replay.ts'
import { systemTiming } from '../life/retry-timing.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'

/** One request to the server, or several that belong together. */
export interface Operation<T> {
  /** For messages. */
  readonly label: string
  readonly tool?: string | undefined
  /** The name of the prompt that is asked for. */
  readonly prompt?: string | undefined
  /** The URI of the resource that it is about. */
  readonly resource?: string | undefined
  /** Changes nothing on the server: may always be repeated. */
  readonly isSafe: boolean
  /** It continues a call of which earlier rounds have been executed. */
  readonly isContinued?: boolean | undefined
  /** The caller allows this one to run twice. */
  readonly isAllowed?: boolean | undefined
  /** The server says that this one may run twice. Asked when that matters. */
  readonly isDeclaredIdempotent?: (() => boolean) | undefined
  /** How far progress extends the time limit. @default the client's `timeout`, for tool calls */
  readonly timeout?: TimeoutExtension | undefined
  /** Told of the progress that the server reports. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  run(epoch: Epoch, request: RequestOptions): Promise<T>
}

export interface RequestOptions {
  /** Repeats this round of a call, in place of the whole call. */
  readonly resume?: InputResume | undefined
  readonly signal: AbortSignal
  readonly timeout: number
  readonly onprogress?: (progress: Progress) => void
}

export interface OperationRunnerOptions {
  readonly life: ClientLife
  readonly events: ClientEvents
  readonly options: ScopedOptions
  /** How messages name the server. */
  readonly server: string
}

const TIMEOUT_MS = 600_000

/**
 * Runs operations to their end: within one limit of time, in whatever session there is, again where that
 * can do no harm. The one place that decides whether something is sent a second time.
 */
export class OperationRunner {
  readonly #setup: OperationRunnerOptions

  constructor(setup: OperationRunnerOptions) {
    this.#setup = setup
  }

  get timeoutMs(): number {
    return this.#setup.options.timeoutMs ?? TIMEOUT_MS
  }

  async run<T>(operation: Operation<T>, { signal: caller, timeoutMs }: CallOptions): Promise<T> {
    const { timeout = this.#setup.options.timeout, onProgress } = operation
    const isExtended = operation.tool !== undefined && timeout?.resetOnProgress === true
    // Not `using`, which takes V8 longer than the rest of this method.
    const deadline = new Deadline(
      timeoutMs ?? this.timeoutMs,
      caller,
      isExtended ? timeout.maxMs : undefined,
    )
    try {
      const onprogress = isExtended
        ? (progress: Progress) => {
            deadline.extend()
            onProgress?.(progress)
          }
        : onProgress
      const { life } = this.#setup
      // At once: an operation belongs to the life in which it was asked for.
      const entered = life.enter(deadline.signal)
      if (entered instanceof Promise) entered.catch(() => {}) // it is awaited, but perhaps later
      return await life.observer.operation(operation, () =>
        this.#run(operation, { deadline, entered, onprogress }),
      )
    } finally {
      deadline[Symbol.dispose]()
    }
  }

  async #run<T>(
    operation: Operation<T>,
    {
      deadline,
      entered,
      onprogress,
    }: {
      readonly deadline: Deadline
      readonly entered: Life | Promise<Life>
      readonly onprogress: Operation<T>['onProgress']
    },
  ): Promise<T> {
    const { signal } = deadline
    const { life: client, events, options, server } = this.#setup
    const { maxRetries = 1, retryTiming = systemTiming } = options
    let outcome: RequestOutcome = operation.isContinued === true ? 'unknown' : 'not-executed'
    let resume: InputResume | undefined
    try {
      const life = entered instanceof Promise ? await entered : entered
      for (let retries = 0; ; retries++) {
        let isSent = false
        try {
          return await client.use(
            (epoch) => {
              const send = (): Promise<T> => {
                isSent = true
                return operation.run(epoch, {
                  signal,
                  timeout: LONGEST_MS,
                  ...(onprogress !== undefined && { onprogress }),
                  ...(resume !== undefined && { resume }),
                })
              }
              const mayRunTwice = operation.isSafe || operation.isAllowed === true
              const check = mayRunTwice ? undefined : client.checkAfterTrouble(epoch)
              return check === undefined ? send() : settledOrAborted(check, signal).then(send)
            },
            { life, signal },
          )
        } catch (error) {
          if (isSent) outcome = worstOutcome(outcome, outcomeOf(error))
          resume = failureFrom(error)?.resume ?? resume
          const mayRetry = retries < maxRetries && !signal.aborted
          const delayMs = mayRetry ? this.#delayOf(error, operation, deadline.leftMs) : undefined
          if (delayMs === undefined) throw error
          events.log('info', `${server}: ${operation.label} is sent again`, error)
          if (delayMs > 0) await retryTiming.wait(delayMs, signal)
        }
      }
    } catch (error) {
      throw thrownFrom(error, { ...operation, server, signal, outcome })
    }
  }

  /** How long to wait before the operation is sent again; `undefined` where it must not be. */
  #delayOf(error: unknown, operation: Operation<unknown>, leftMs: number): number | undefined {
    const failed = attemptIn(error)
    if (failed === undefined) return undefined
    const question = {
      error: failed,
      policy: this.#setup.options.replay ?? 'session-loss',
      isSafe: operation.isSafe,
      isAllowed: operation.isAllowed ?? false,
      isDeclaredIdempotent: operation.isDeclaredIdempotent?.() ?? false,
    } as const
    const delayMs = overloadDelay(question)
    // A delay that outlives the caller's patience is the caller's to know.
    if (delayMs !== undefined) return delayMs < leftMs ? delayMs : undefined
    return mayReplay(question) ? 0 : undefined
  }
}

/** What a retry would repeat: of a call with several rounds, the round that failed. */
function attemptIn(error: unknown): FailedAttempt | undefined {
  const failure = failureFrom(error)
  if (failure === undefined) return unopened(error)
  const { resume, cause } = failure
  return resume !== undefined && TransportError.is(cause) ? cause : failure
}

/** No session could be opened: whatever it was that failed, nothing was sent in it. */
function unopened(error: unknown): FailedAttempt | undefined {
  if (!McpClientError.is(error)) return undefined
  const { code, outcome, retryAfterMs } = error
  return { code, certain: outcome === 'not-executed', retryAfterMs }
}
