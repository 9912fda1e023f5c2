import { abortReason, isRecord, Listeners, LONGEST_MS, untilAborted } from '@x/internal'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { InputRequest } from '@x/mcp-transport'
import { Deadline } from './deadline.ts'
import { getFailure, McpClientError } from './errors.ts'
import type { InputRequired, InputResume, TaskReference } from './input-required.ts'
import { headersOf, sendUntilSettled } from './operation.ts'
import type { Attempt, Operations } from './operation.ts'
import type { CallOptions, CallToolOptions } from './options.ts'
import type { ScopeSlot } from './scope-slot.ts'
import type { TrackedCall } from './session-calls.ts'
import { messageHandlers } from './handlers.ts'
import { checkedResult } from './output-check.ts'
import { expiryOf, isFinal, parseTask } from './task-data.ts'
import type { Task, TaskStatus } from './task-data.ts'
import {
  endError,
  expiredError,
  isAbort,
  isTemporary,
  noInputError,
  retryAfterOf,
  taskError,
  taskMessage,
  toTaskError,
} from './task-errors.ts'
import type { FailedTask } from './task-errors.ts'

/** A change of a task: its status, or its reference after a question was answered. */
export interface TaskChange {
  readonly status: TaskStatus
  /** The reference to store from now on. */
  readonly reference: TaskReference
}

/** Options of `task.result()`. As for `callTool()`. */
export type TaskResultOptions = Pick<
  CallToolOptions,
  | 'signal'
  | 'timeoutMs'
  | 'timeout'
  | 'onProgress'
  | 'inputRequired'
  | 'caller'
  | 'scope'
  | 'headers'
> & {
  /** Answers to questions that an earlier `result()` returned. */
  readonly inputResponses?: InputResume['inputResponses']
}

/** The operation of a caller that sends requests about a task. */
interface Asker {
  readonly slot: ScopeSlot
  /** Who is asked the questions of the task. Undefined for an operation that asks none. */
  readonly call?: TrackedCall | undefined
  readonly headers: CallOptions['headers']
  /** Limits the operation. */
  readonly deadline: Deadline
}

const DEFAULT_POLL_MS = 1000
const MIN_POLL_MS = 100
const MAX_POLL_MS = 60_000
/** Each task of a session adds so much to the time between two polls: at most 250 a second, which take 4 % of a core. */
const POLL_SHARE_MS = 4
/** Polls start at multiples of this time, so that those of many tasks wake the process together. */
const TICK_MS = 100
/** Factor of the time between two polls after a poll that showed no change. */
const GROWTH = 1.2
/**
 * The time between two polls does not grow beyond this, in milliseconds, unless the server asks for more. So the result
 * comes soon after a server that was away is back.
 */
const SLOW_POLL_MS = 5000
/** A poll is later than the interval by up to this share of it, so that tasks that started together spread. */
const JITTER = 0.25
/** Limit of one request about a task, in milliseconds. The server need not wait for anything. */
const REQUEST_MS = 30_000
/** Questions of one task that handlers answer at the same time. */
const MAX_ASKING = 8
/** Time that an aborted call waits until the server has received the cancellation, in milliseconds. */
const CANCEL_MS = 1000

/**
 * A call of a tool that the server continues after its answer. The server finishes it also if this process ends: store
 * `reference` and continue with `resumeTask()`. Disposing of the client does not cancel it.
 */
export class McpTask {
  readonly #operations: Operations
  /** Scope and headers of the call that the task comes from. They stay in memory. */
  readonly #origin: Pick<CallOptions, 'scope' | 'headers'>
  readonly #listeners = new Listeners<TaskChange>(() => {})
  /** Questions that a handler answers now. */
  readonly #asking = new Map<string, AbortController>()
  /** End the pauses before the next polls. */
  readonly #waiting = new Set<() => void>()
  #reference: TaskReference
  #task: Task | undefined
  /** Number of polls in a row that showed no change. */
  #unchanged = 0
  /** The poll in flight. There is never a second one. */
  #polling: Promise<Task> | undefined
  /** Why a question cannot be answered. */
  #inputFailure: unknown
  #hasRedetected = false

  /** @internal */
  constructor(
    operations: Operations,
    {
      reference,
      origin: { scope, headers },
      task,
    }: {
      readonly reference: TaskReference
      readonly origin: Pick<CallOptions, 'scope' | 'headers'>
      readonly task?: Task | undefined
    },
  ) {
    this.#operations = operations
    this.#origin = { scope, headers: headersOf({ headers }, operations.server) }
    this.#reference = reference
    // The answer that creates a task has no result.
    this.#task = isFinal(task) ? undefined : task
  }

  /** Plain data to continue the task in any process. Changes when a question is answered: see `on()`. */
  get reference(): TaskReference {
    return this.#reference
  }

  /** Adds a listener for changes that `status()` or `result()` observes. Returns a function that removes it. */
  on(_event: 'change', listener: (change: TaskChange) => void): () => void {
    return this.#listeners.add(listener)
  }

  /** Asks the server for the status. */
  status(options: CallOptions = {}): Promise<TaskStatus> {
    return this.#within(options, async (asker, signal) => {
      if (!isFinal(this.#task)) await this.#poll(asker, signal)
      return this.#status
    })
  }

  /**
   * Waits for the result of the tool. With `inputRequired: 'surface'`, questions of the server are returned in its
   * place. Aborting `signal` cancels the task.
   *
   * @throws McpClientError with the `task` to continue with; `TIMEOUT` if the task goes on after `timeoutMs`
   */
  result(
    options: TaskResultOptions & { readonly inputRequired: 'surface' },
  ): Promise<CallToolResult | InputRequired>
  result(
    options?: TaskResultOptions & { readonly inputRequired?: 'answer' | undefined },
  ): Promise<CallToolResult>
  result(options: TaskResultOptions): Promise<CallToolResult | InputRequired>
  result(options: TaskResultOptions = {}): Promise<CallToolResult | InputRequired> {
    return this.#use(options, (slot, given, call) => this.finish(slot, given, call))
  }

  /** Sends answers to questions that `status()` or `result()` returned, by their keys. Some may be answered first. */
  async answer(
    inputResponses: Readonly<Record<string, unknown>>,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#within(options, (asker, signal) => this.#answer(asker, inputResponses, signal))
  }

  /** Asks the server to cancel the task. The task may still complete. */
  async cancel(options: CallOptions = {}): Promise<void> {
    await this.#within(options, (asker, signal) => this.#send(asker, 'cancel', { signal }))
  }

  /** `result()` in a known slot of a scope. @internal */
  async finish(
    slot: ScopeSlot,
    options: TaskResultOptions,
    call: TrackedCall | undefined,
  ): Promise<CallToolResult | InputRequired> {
    const { timeoutMs = LONGEST_MS, timeout, inputRequired, inputResponses, headers } = options
    const isExtended = timeout?.resetOnProgress === true
    using deadline = new Deadline(timeoutMs, options.signal, isExtended ? timeout.maxMs : undefined)
    const asker = { slot, call, headers, deadline }
    const { closing } = slot
    const signal = AbortSignal.any([deadline.signal, closing])
    const ended = new AbortController()
    const asked = AbortSignal.any([signal, ended.signal])
    slot.waitingTasks++
    let progress = 0
    let reported: string | undefined
    const report = ({ statusMessage: message }: TaskStatus): void => {
      if (isExtended) deadline.extend()
      if (message === undefined || message === reported) return
      reported = message
      options.onProgress?.({ progress: ++progress, message })
    }
    const stopReporting = this.#listeners.add(({ status }) => report(status))
    this.#inputFailure = undefined
    try {
      if (this.#task !== undefined) report(this.#task)
      if (inputResponses !== undefined) await this.#answer(asker, inputResponses, signal)
      // A task that another process started is polled at once.
      let isDue = this.#task?.status !== 'working'
      for (;;) {
        const known = this.#task
        const task =
          known === undefined || (isDue && !isFinal(known))
            ? await this.#poll(asker, signal)
            : known
        if (isFinal(task)) return this.#resultOf(task, slot)
        const open = this.#openRequests(task)
        if (inputRequired === 'surface' && open !== undefined) {
          const asking = { inputRequests: open, requestState: undefined, task: this.#reference }
          return { type: 'input_required', ...asking }
        }
        if (this.#inputFailure !== undefined) {
          // The task may have ended meanwhile: that says more than the failure.
          const last = await this.#poll(asker, signal)
          if (isFinal(last)) return this.#resultOf(last, slot)
          throw noInputError(this.#about, this.#inputFailure)
        }
        if (open !== undefined) this.#ask(asker, open, asked)
        isDue = await this.#pause(this.#intervalMs(slot), signal)
      }
    } catch (error) {
      if (isAbort(signal)) {
        const cancelled = this.#cancelled(asker)
        // The caller need not wait for a server that is away.
        if (!isTemporary(error)) await cancelled
      }
      throw toTaskError(this.#about, error, signal)
    } finally {
      ended.abort()
      stopReporting()
      slot.waitingTasks--
    }
  }

  get #status(): TaskStatus {
    const { status = 'working', ttlMs = null } = this.#task ?? {}
    const { statusMessage, inputRequests, pollIntervalMs } = this.#task ?? {}
    return { status, statusMessage, inputRequests, ttlMs, pollIntervalMs }
  }

  get #isExpired(): boolean {
    const { expiresAt } = this.#reference
    return expiresAt !== null && Date.now() >= Date.parse(expiresAt)
  }

  /** Calls a function with the slot of the scope of the task. @throws McpClientError `TASK_REFERENCE` */
  #use<T>(
    options: TaskResultOptions,
    run: (slot: ScopeSlot, options: TaskResultOptions, call: TrackedCall | undefined) => Promise<T>,
  ): Promise<T> {
    const { tool, principal } = this.#reference
    const call = { method: 'tools/call', tool, caller: options.caller }
    const { scope = this.#origin.scope } = options
    const headers = headersOf(options, this.#operations.server) ?? this.#origin.headers
    const own = { ...options, scope, headers }
    return this.#operations.use(call, own, async (lease) => {
      if ((lease.slot.scope?.principal ?? null) !== principal) {
        const { server } = this.#operations
        const text = 'belongs to another principal: resume it in the scope in which it was started'
        const message = taskMessage(this.#about, text)
        const outcome = 'unknown'
        throw new McpClientError('TASK_REFERENCE', message, { server, tool, outcome })
      }
      return run(lease.slot, { ...own, signal: lease.options.signal }, lease.call)
    })
  }

  /** Calls a function within the limit of one operation. */
  #within<T>(
    options: CallOptions,
    run: (asker: Asker, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#use(options, async (slot, given) => {
      const { signal, timeoutMs, headers } = given
      using deadline = new Deadline(timeoutMs ?? this.#operations.timeoutMs, signal)
      const either = AbortSignal.any([deadline.signal, slot.closing])
      try {
        return await run({ slot, headers, deadline }, either)
      } catch (error) {
        throw toTaskError(this.#about, error, either)
      }
    })
  }

  // Requests.

  /** Asks for the status, or waits for the answer that another caller has asked for. */
  async #poll(asker: Asker, signal: AbortSignal): Promise<Task> {
    while (this.#polling !== undefined) {
      // The other caller may abort its poll. Then this one polls.
      const task = await untilAborted(this.#polling, signal).catch(() => undefined)
      signal.throwIfAborted()
      if (task !== undefined) return task
    }
    return (this.#polling = this.#pollOnce(asker, signal))
  }

  async #pollOnce(asker: Asker, signal: AbortSignal): Promise<Task> {
    try {
      const problem = this.#received(await this.#send(asker, 'get', { signal }))
      if (problem === undefined && this.#task !== undefined) return this.#task
      throw taskError(this.#about, {
        code: 'UNEXPECTED_RESPONSE',
        text: problem ?? 'has no status',
      })
    } finally {
      this.#polling = undefined
    }
  }

  /**
   * Sends a request about the task. Repeats it after temporary failures, as long as the server keeps the task: a second
   * request has no further effect.
   */
  async #send(
    { slot, headers, deadline }: Asker,
    what: 'get' | 'update' | 'cancel',
    { signal, ...added }: { readonly signal: AbortSignal; readonly inputResponses?: unknown },
  ): Promise<unknown> {
    const { taskId } = this.#reference
    const params = { taskId, ...added }
    const operation = { method: `tasks/${what}`, params, schema: UNCHECKED, isSafe: true }
    const attempt: Attempt = {
      signal,
      timeout: Math.min(this.#operations.timeoutMs, REQUEST_MS),
      mayRunTwice: true,
      headers,
      assertSendable: () => this.#assertServer(slot),
    }
    let failure: unknown
    let failures = 0
    return sendUntilSettled(slot, { operation, attempt }, async (failed) => {
      // An aborted attempt says nothing about the server. The last failure does.
      if (signal.aborted) throw failure ?? abortReason(signal)
      if (!isTemporary(failed)) throw failed
      if (this.#isExpired) throw expiredError(this.#about, failed)
      const askedMs = retryAfterOf(failed)
      const isHttp = getFailure(failed) !== undefined
      if (isHttp && askedMs >= deadline.leftMs) throw failed
      slot.log('debug', `tasks/${what} is sent again`, failed)
      failure = failed
      const intervalMs = this.#intervalMs(slot)
      const mostMs = SLOW_POLL_MS * (1 + this.#operations.timing.random() * JITTER)
      const grownMs = Math.min(intervalMs * 2 ** ++failures, mostMs)
      const delayMs = Math.max(intervalMs, grownMs, askedMs)
      await this.#pause(delayMs, signal).catch(() => {
        throw failed
      })
    })
  }

  /**
   * Has the revision of a server with sessions detected once more. The server has started a task, so it has spoken the
   * stateless revision; one that is slow to answer the probe is taken for a server with sessions.
   *
   * @throws McpClientError before a request about this task reaches another server, or one without tasks
   */
  #assertServer(slot: ScopeSlot): void | Promise<void> {
    const { connection } = slot
    if (connection?.endpoint !== this.#reference.server) {
      throw taskError(this.#about, {
        code: 'TASK_REFERENCE',
        text: `belongs to ${shownUrl(this.#reference.server)}, and this client uses ${shownUrl(connection?.endpoint)}: resume it with a client of its server`,
      })
    }
    if (connection.era === 'modern') return
    if (!this.#hasRedetected) {
      this.#hasRedetected = true
      slot.redetectEra()
    }
    if (slot.session === undefined) return Promise.resolve() // another request of this task may have ended it
    const version = connection.protocolVersion ?? 'another revision'
    throw taskError(this.#about, {
      code: 'TASK_UNKNOWN',
      text: `was created with ${this.#reference.protocolVersion}, and the server speaks ${version} now, which has no such tasks. If it speaks both, set era: 'modern', and continue with resumeTask(). Otherwise check whether the tool has run before you call it again`,
    })
  }

  /** Takes the status from an answer. Returns what is wrong with it. */
  #received(value: unknown): string | undefined {
    const task = parseTask(value)
    if (task === undefined)
      return 'got an answer that is not a task: report it to the authors of the server'
    if (task.taskId !== this.#reference.taskId) {
      return 'got the status of another task, which was ignored: report it to the authors of the server'
    }
    if (isRecord(value) && value['inputRequests'] !== undefined && !task.inputRequests) {
      return 'asks a question that cannot be read: report it to the authors of the server'
    }
    const before = this.#task
    this.#task = task
    const { ttlMs } = task
    const { createdAt } = this.#reference
    if (before?.ttlMs !== ttlMs) {
      this.#reference = { ...this.#reference, expiresAt: expiryOf(createdAt, ttlMs) }
    }
    const isNew = before?.status !== task.status || before.statusMessage !== task.statusMessage
    this.#unchanged = isNew ? 0 : this.#unchanged + 1
    if (isNew) this.#changed()
    // Questions that are no longer open need no answer.
    for (const [key, asking] of this.#asking) {
      if (isFinal(task) || task.inputRequests?.[key] === undefined) asking.abort()
    }
    this.#wake()
    return undefined
  }

  #changed(): void {
    this.#listeners.emit({ status: this.#status, reference: this.#reference })
  }

  /** Time until the next poll. Grows while the task does not change, so that the result comes at most a fifth later. */
  #intervalMs({ waitingTasks }: ScopeSlot): number {
    const { pollIntervalMs = DEFAULT_POLL_MS } = this.#task ?? {}
    const leastMs = Math.max(MIN_POLL_MS, waitingTasks * POLL_SHARE_MS)
    const askedMs = Math.min(Math.max(pollIntervalMs, leastMs), MAX_POLL_MS)
    const grownMs = Math.min(askedMs * GROWTH ** this.#unchanged, SLOW_POLL_MS)
    const now = performance.now()
    const spread = 1 + this.#operations.timing.random() * JITTER
    const dueAt = now + Math.max(askedMs, grownMs) * spread
    return Math.ceil(dueAt / TICK_MS) * TICK_MS - now
  }

  /** Waits until it is time to poll, at most until the task expires. Returns false if the task has changed before. */
  async #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    const { expiresAt } = this.#reference
    // A server may keep a task for longer than it has said.
    const leftMs =
      expiresAt === null || this.#isExpired
        ? ms
        : Math.max(Date.parse(expiresAt) - Date.now(), MIN_POLL_MS)
    const stop = new AbortController()
    const end = (): void => stop.abort()
    this.#waiting.add(end)
    signal.addEventListener('abort', end, { once: true })
    try {
      signal.throwIfAborted()
      await this.#operations.timing.wait(Math.min(ms, leftMs), stop.signal)
      return true
    } catch (error) {
      if (signal.aborted || !stop.signal.aborted) throw error
      return false
    } finally {
      this.#waiting.delete(end)
      signal.removeEventListener('abort', end)
    }
  }

  #wake(): void {
    for (const end of this.#waiting) end()
  }

  // Questions.

  /** Returns the questions without an answer. Undefined if there are none. */
  #openRequests({ status, inputRequests = {} }: Task): TaskStatus['inputRequests'] {
    if (status !== 'input_required') return undefined
    const { answeredKeys } = this.#reference
    const open = Object.entries(inputRequests).filter(([key]) => !answeredKeys.includes(key))
    return open.length === 0 ? undefined : Object.fromEntries(open)
  }

  /** Calls the handlers for questions that are new. Each answer is sent alone, so that none waits for another person. */
  #ask(asker: Asker, requests: Readonly<Record<string, InputRequest>>, signal: AbortSignal): void {
    for (const [key, request] of Object.entries(requests)) {
      // The end of a handler wakes the loop, which asks the next question.
      if (this.#asking.size >= MAX_ASKING) return
      if (this.#asking.has(key)) continue
      const asking = new AbortController()
      this.#asking.set(key, asking)
      this.#askOne(asker, { [key]: request }, AbortSignal.any([signal, asking.signal]))
        .catch((error: unknown) => {
          if (!signal.aborted && !asking.signal.aborted) this.#inputFailure = error
        })
        .finally(() => {
          this.#asking.delete(key)
          this.#wake()
        })
    }
  }

  async #askOne(
    asker: Asker,
    request: Readonly<Record<string, InputRequest>>,
    signal: AbortSignal,
  ): Promise<void> {
    const { slot, call } = asker
    const { connection } = slot
    if (connection?.answersTo === undefined) throw new Error('The connection was closed')
    const { onServerRequest } = messageHandlers(slot, call)
    const answers = await connection.answersTo(request, { signal, onServerRequest })
    await this.#answer(asker, answers, signal)
  }

  async #answer(
    asker: Asker,
    inputResponses: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#send(asker, 'update', { signal, inputResponses })
    const { answeredKeys } = this.#reference
    const keys = new Set([...answeredKeys, ...Object.keys(inputResponses)])
    this.#reference = { ...this.#reference, answeredKeys: [...keys] }
    if (this.#task !== undefined) this.#changed()
  }

  // The end.

  #resultOf(task: Task, slot: ScopeSlot): CallToolResult {
    const { tool } = this.#reference
    if (task.status !== 'completed') throw endError(this.#about, task)
    const { resultType = 'complete', ...given } = isRecord(task.result) ? task.result : {}
    const result = slot.connection?.toToolResult?.(tool, given) ?? given
    const parsed = CallToolResultSchema.safeParse(result)
    if (resultType === 'complete' && parsed.success && isRecord(task.result)) {
      return checkedResult(parsed.data, tool, slot)
    }
    const message = 'has completed, with an invalid result: report it to the authors of the server'
    const { server } = this.#operations
    throw new McpClientError('UNEXPECTED_RESPONSE', taskMessage(this.#about, message), {
      server,
      tool,
      outcome: 'executed',
      cause: parsed.error,
    })
  }

  /** Sends `tasks/cancel`. Waits at most 1 s, because the caller has aborted. Never rejects. */
  async #cancelled(asker: Asker): Promise<void> {
    using deadline = new Deadline(CANCEL_MS)
    const { signal } = deadline
    try {
      await untilAborted(this.#send({ ...asker, deadline }, 'cancel', { signal }), signal)
    } catch (error) {
      asker.slot.log('warning', taskMessage(this.#about, 'could not be cancelled'), error)
    }
  }

  /** This task in errors, as it is now. */
  get #about(): FailedTask {
    const { server } = this.#operations
    return { server, reference: this.#reference, isKnown: this.#task !== undefined }
  }
}

const UNCHECKED = { parse: (result: unknown): unknown => result }

function shownUrl(endpoint = 'no URL'): string {
  return endpoint.split('?')[0] ?? endpoint
}
