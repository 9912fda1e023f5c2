import type { Message, StreamResponse } from '@a2a-js/sdk'
import type { Client, RequestOptions } from '@a2a-js/sdk/client'

import { GatewayError, type AgentUpdate, type FinalUpdate, type RemoteRun } from '@x/mcp-gateway'
import { abortable, pause } from '@x/mcp-gateway/adapter'
import { isOver } from './messages.ts'
import type { Settings } from './source.ts'
import type { TaskReader } from './task-reader.ts'

interface TaskRunOptions {
  readonly client: Client
  readonly isStreaming: boolean
  readonly reader: TaskReader
  readonly settings: Settings
  /** Trace context of the caller. */
  readonly headers: Readonly<Record<string, string>>
  /** Aborts when the caller cancels. */
  readonly signal: AbortSignal
  /** As `AgentCall.remote`. */
  readonly remote: RemoteRun | undefined
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** After so many failed reads in a row the run fails. */
const MAX_FAILURES = 5
const FIRST_BACKOFF_MS = 500
const MAX_BACKOFF_MS = 10_000
const FIRST_POLL_MS = 10

/** Sends one message to an agent, and follows its task to the end. Never sends the message twice. */
export class TaskRun {
  readonly #options: TaskRunOptions
  /** Ends the requests of this run. */
  readonly #requests = new AbortController()
  #isSent = false
  /** `true` after the first event, and after a failed request. */
  #isOpened = false
  #onOpened: (() => void) | undefined
  #leaving: Promise<void> | undefined
  /** Error of the stream that the message opened. */
  #failure: unknown

  constructor(options: TaskRunOptions) {
    this.#options = options
  }

  /**
   * Yields what the agent sends until the task ends or waits. A reader that stops before cancels the task; see `settled`.
   *
   * @param readsFirst true to read the task first, and to send the message only if the task still waits
   * @throws the reason of the signal; GatewayError `UNAVAILABLE`, `LIMIT`; what the client throws
   */
  async *updates(message: Message, readsFirst: boolean): AsyncGenerator<AgentUpdate> {
    const { reader, remote, signal } = this.#options
    signal.throwIfAborted()
    const onAbort = (): void => this.#leave()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (readsFirst) yield* this.#reread()
      // Before the answer is sent: another process reads the task, and sends it again only if the task still waits.
      else if (reader.task) await remote?.store(reader.task)
      if (!readsFirst || reader.isStillWaiting) yield* this.#read(this.#opened(message))
      if (reader.end === undefined) yield* this.#follow()
      // The task has the parts of the answer that were lost with a stream.
      if (reader.artifacts.isGapped && reader.end?.type === 'done') yield* this.#poll()
      signal.throwIfAborted()
      yield* reader.finish()
    } catch (error) {
      signal.throwIfAborted()
      if (!isForgotten(error)) throw error
      yield { type: 'failed', reason: FORGOTTEN, isUnknown: true }
    } finally {
      signal.removeEventListener('abort', onAbort)
      if (reader.end === undefined || isLeftBehind(reader.end)) this.#leave()
      else if (this.#leaving === undefined) this.#requests.abort()
    }
  }

  /** Resolves after a cancellation that is in flight. Never rejects. */
  async settled(): Promise<void> {
    await this.#leaving
  }

  /** Reads a stream. @throws GatewayError `UNAVAILABLE` if it ends before the id of the task is known: no task can be followed */
  async *#read(events: AsyncIterable<StreamResponse>): AsyncGenerator<AgentUpdate> {
    const { reader, signal } = this.#options
    try {
      for await (const event of abortable(events, signal)) {
        yield* reader.take(event)
        if (reader.end !== undefined) return
      }
    } catch (error) {
      signal.throwIfAborted()
      if (reader.task === undefined || isOurs(error)) throw error
      this.#failure ??= error
    }
    if (reader.task === undefined) {
      throw new GatewayError('UNAVAILABLE', 'The agent ended the response without an answer')
    }
  }

  /** Follows the task to its end: subscribes again, or polls agents that do not stream. */
  async *#follow(): AsyncGenerator<AgentUpdate> {
    const { reader, signal, isStreaming } = this.#options
    const { clock, pollMs, random } = this.#options.settings
    let failures = 0
    for (let rounds = 0; reader.end === undefined; rounds++) {
      const waitMs = isStreaming
        ? delayMs(rounds) * (0.5 + random() / 2)
        : failures > 0 // time to recover
          ? pollMs
          : delayMs(rounds, FIRST_POLL_MS, pollMs)
      if (waitMs > 0) await pause(waitMs, clock, signal)
      try {
        yield* isStreaming ? this.#resubscribe() : this.#poll()
        failures = 0
      } catch (error) {
        signal.throwIfAborted()
        const isRefused = error === this.#failure && reader.isStillWaiting
        if (isRefused || isForgotten(error) || isOurs(error) || ++failures >= MAX_FAILURES)
          throw error
      }
    }
  }

  /** Reads the task, also again after a failure. */
  async *#reread(): AsyncGenerator<AgentUpdate> {
    const { signal } = this.#options
    const { clock } = this.#options.settings
    for (let failures = 0; ;) {
      try {
        yield* this.#poll()
        return
      } catch (error) {
        signal.throwIfAborted()
        if (isForgotten(error) || isOurs(error) || ++failures >= MAX_FAILURES) throw error
      }
      await pause(delayMs(failures), clock, signal)
    }
  }

  /** Subscribes before it reads the task, so that no event between the two is missed (a2a-js #542). */
  async *#resubscribe(): AsyncGenerator<AgentUpdate> {
    const { client, reader } = this.#options
    reader.artifacts.isGapped = true
    const events = client.resubscribeTask({ tenant: '', id: this.#taskId() }, this.#request())
    const first = events.next()
    first.catch(() => undefined)
    try {
      yield* this.#poll()
      if (reader.end === undefined) yield* this.#read(beginningWith(first, events))
    } finally {
      // Not awaited: a generator that waits for an event ends only after that event.
      void events.return(undefined).catch(() => undefined)
    }
  }

  async *#poll(): AsyncGenerator<AgentUpdate> {
    const { client, reader, settings, signal } = this.#options
    const request = { tenant: '', id: this.#taskId(), historyLength: 0 }
    const task = await inTime(settings, (late) => {
      return client.getTask(request, this.#request(AbortSignal.any([late, signal])))
    })
    yield* reader.take({ payload: { $case: 'task', value: task } })
    // The task still waits, so the agent did not accept the answer.
    if (reader.isStillWaiting && this.#failure !== undefined) throw this.#failure
  }

  /** Sends the message, once. Notes the id of its task even after the reader has left. */
  async *#opened(message: Message): AsyncGenerator<StreamResponse> {
    const { reader, remote } = this.#options
    const isNew = reader.task === undefined
    let isStored = false
    try {
      for await (const event of this.#sent(message)) {
        reader.note(event)
        this.#noteOpened()
        if (isNew && !isStored && reader.task) {
          isStored = true
          await remote?.store(reader.task)
        }
        yield event
      }
    } finally {
      this.#noteOpened()
    }
  }

  async *#sent(message: Message): AsyncGenerator<StreamResponse> {
    const { client, isStreaming } = this.#options
    this.#isSent = true
    const configuration = {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      returnImmediately: !isStreaming,
    }
    const request = { tenant: '', message, configuration, metadata: undefined }
    if (isStreaming) {
      yield* client.sendMessageStream(request, this.#request())
      return
    }
    const answer = await client.sendMessage(request, this.#request())
    yield 'messageId' in answer
      ? { payload: { $case: 'message', value: answer } }
      : { payload: { $case: 'task', value: answer } }
  }

  #noteOpened(): void {
    this.#isOpened = true
    this.#onOpened?.()
  }

  /** Cancels the task, once, unless another process joins it. If its id is not known yet, waits for it: the agent may have created the task already. */
  #leave(): void {
    const { remote, signal } = this.#options
    const isLeft = signal.aborted && remote?.isLeft() === true
    this.#leaving ??= (isLeft ? Promise.resolve() : this.#cancel()).finally(() => {
      this.#requests.abort()
    })
  }

  async #cancel(): Promise<void> {
    const { client, reader, onWarning, settings } = this.#options
    if (reader.task === undefined && this.#isSent && !this.#isOpened) {
      await new Promise<void>((resolve) => {
        const undo = settings.clock.after(settings.timeoutMs, resolve)
        this.#onOpened = () => {
          undo()
          resolve()
        }
      })
    }
    const id = reader.task?.taskId
    if (id === undefined) return
    try {
      const request = { tenant: '', id, metadata: undefined }
      await inTime(settings, (late) => client.cancelTask(request, this.#request(late)))
    } catch (error) {
      if (!isOver(error) && !isForgotten(error)) onWarning('A task could not be cancelled', error)
    }
  }

  #taskId(): string {
    return this.#options.reader.task?.taskId ?? ''
  }

  #request(signal: AbortSignal = this.#requests.signal): RequestOptions {
    return { signal, serviceParameters: { ...this.#options.headers } }
  }
}

/** Asks an agent within the time limit. @throws GatewayError `UNAVAILABLE`; what `ask` throws */
export async function inTime<Value>(
  { clock, timeoutMs }: Settings,
  ask: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const late = new AbortController()
  const undo = clock.after(timeoutMs, () => {
    late.abort(new GatewayError('UNAVAILABLE', `The agent did not answer within ${timeoutMs} ms`))
  })
  try {
    return await ask(late.signal)
  } finally {
    undo()
  }
}

/** The agent goes on working, and the caller calls again after the sign-in: the task would be executed twice. */
function isLeftBehind(end: FinalUpdate): boolean {
  return end.type === 'authorization' && end.state === undefined
}

/** Returns whether the agent does not know the task (any more). */
function isForgotten(error: unknown): boolean {
  return error instanceof Error && error.name.includes('TaskNotFound')
}

const FORGOTTEN =
  'The agent does not know the task of this call any more. It may have worked on it, so the message is not sent again. Check what it did before you call again.'

/**
 * Returns the wait before an attempt. None before the first one: most streams break for a short time only. Then it doubles
 * each time, so that a poll never waits longer than the task has taken so far.
 */
function delayMs(rounds: number, firstMs = FIRST_BACKOFF_MS, maxMs = MAX_BACKOFF_MS): number {
  return rounds === 0 ? 0 : Math.min(maxMs, firstMs * 2 ** (rounds - 1))
}

/** Returns whether the gateway refused, for a limit or a forbidden address. Another attempt would fail too. */
function isOurs(error: unknown): boolean {
  return GatewayError.is(error) && error.code !== 'UNAVAILABLE'
}

async function* beginningWith<Value>(
  first: Promise<IteratorResult<Value, void>>,
  rest: AsyncGenerator<Value, void>,
): AsyncGenerator<Value> {
  const { done, value } = await first
  if (done !== true) yield value
  if (done !== true) yield* rest
}
