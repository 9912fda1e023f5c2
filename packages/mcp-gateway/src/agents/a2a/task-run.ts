import type { Message, StreamResponse } from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'

import type { Clock } from '../../internal/clock.ts'
import { GatewayError } from '../../errors.ts'
import type { AgentUpdate, FinalUpdate } from '../agent-update.ts'
import { abortable } from '../../internal/abortable.ts'
import { pause } from './pause.ts'
import { isOver } from './task-end.ts'
import type { TaskReader } from './task-reader.ts'

export interface TaskRunOptions {
  readonly client: Client
  readonly isStreaming: boolean
  readonly reader: TaskReader
  readonly clock: Clock
  readonly random: () => number
  /** At most, between two looks at a task of an agent that does not stream; the first ones come sooner. */
  readonly pollMs: number
  /** How long a look or a cancellation may take. */
  readonly timeoutMs: number
  /** Sent along: the trace of the caller. */
  readonly headers: Readonly<Record<string, string>>
  /** Of the caller. */
  readonly signal: AbortSignal
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** Looks at a task that failed in a row before the run is given up. */
const MAX_FAILURES = 5
const FIRST_BACKOFF_MS = 500
const MAX_BACKOFF_MS = 10_000
const FIRST_LOOK_MS = 10

/** One message to an agent, and all that follows on it. Nothing of it is sent twice. */
export class TaskRun {
  readonly #options: TaskRunOptions
  /** Ends the requests of this run. */
  readonly #requests = new AbortController()
  #isSent = false
  /** The message was answered, or could not be sent. */
  #isOpened = false
  #onOpened: (() => void) | undefined
  #leaving: Promise<void> | undefined
  #hasGap = false
  /** What went wrong with the stream that was opened with the message. */
  #failure: unknown

  constructor(options: TaskRunOptions) {
    this.#options = options
  }

  /**
   * What the agent says, until it ends or waits. Whoever stops before that leaves no task behind: see `settled`.
   * With `looksFirst` the message is sent only if the task still waits.
   *
   * @throws the reason of the signal; GatewayError `UNAVAILABLE`, `LIMIT`; what the client throws
   */
  async *updates(
    message: Message,
    { looksFirst = false }: { readonly looksFirst?: boolean } = {},
  ): AsyncGenerator<AgentUpdate> {
    const { reader, signal } = this.#options
    signal.throwIfAborted()
    const onAbort = (): void => this.#leave()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (looksFirst) yield* this.#look()
      if (!looksFirst || reader.isStillWaiting) yield* this.#read(this.#opened(message))
      if (reader.end === undefined) yield* this.#follow()
      // What a stream left out of an answer is in the task.
      if (this.#hasGap && reader.end?.type === 'done') yield* this.#look()
      signal.throwIfAborted()
      yield* reader.finish()
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
      if (reader.end === undefined || isLeftBehind(reader.end)) this.#leave()
      else if (this.#leaving === undefined) this.#requests.abort()
    }
  }

  /** Resolves when nothing is under way any more. Never rejects. */
  async settled(): Promise<void> {
    await this.#leaving
  }

  /** A stream that is lost before it told of a task has told nothing: then there is nothing to follow. */
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
      throw new GatewayError('UNAVAILABLE', 'The agent ended without an answer')
    }
  }

  /** Until the task ends: subscribed to it again, or by looking at it from time to time. */
  async *#follow(): AsyncGenerator<AgentUpdate> {
    const { reader, clock, signal, pollMs, isStreaming, random } = this.#options
    let failures = 0
    for (let rounds = 0; reader.end === undefined; rounds++) {
      const waitMs = isStreaming
        ? backoffMs(rounds) * (0.5 + random() / 2)
        : failures > 0 // time to recover
          ? pollMs
          : Math.min(pollMs, lookMs(rounds))
      if (waitMs > 0) await pause(waitMs, clock, signal)
      try {
        yield* isStreaming ? this.#resubscribe() : this.#look()
        failures = 0
      } catch (error) {
        signal.throwIfAborted()
        const isRefused = error === this.#failure && reader.isStillWaiting
        if (isRefused || isOurs(error) || ++failures >= MAX_FAILURES) throw error
      }
    }
  }

  /** Subscribed first, looked at then: what happens between the two is not missed (a2a-js #542). */
  async *#resubscribe(): AsyncGenerator<AgentUpdate> {
    const { client, reader } = this.#options
    this.#hasGap = true
    reader.noteGap()
    const events = client.resubscribeTask({ tenant: '', id: this.#taskId() }, this.#request())
    const first = events.next()
    first.catch(() => undefined)
    try {
      yield* this.#look()
      if (reader.end === undefined) yield* this.#read(beginningWith(first, events))
    } finally {
      // Not waited for: a stream without events would not end before the next one.
      void events.return(undefined).catch(() => undefined)
    }
  }

  async *#look(): AsyncGenerator<AgentUpdate> {
    const { client, reader, signal } = this.#options
    const request = { tenant: '', id: this.#taskId(), historyLength: 0 }
    const task = await this.#inTime((options) => client.getTask(request, options), signal)
    yield* reader.take({ payload: { $case: 'task', value: task } })
    // It waits for what was not taken.
    if (reader.isStillWaiting && this.#failure !== undefined) throw this.#failure
  }

  /** The message is sent here, once. The id of its task is noted even when nobody listens any more. */
  async *#opened(message: Message): AsyncGenerator<StreamResponse> {
    try {
      for await (const event of this.#sent(message)) {
        this.#options.reader.note(event)
        this.#noteOpened()
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

  /** Tells the agent to stop, once. A task that is not known yet is waited for: it may be there already. */
  #leave(): void {
    this.#leaving ??= this.#cancel().finally(() => this.#requests.abort())
  }

  async #cancel(): Promise<void> {
    const { client, reader, clock, timeoutMs, onWarning } = this.#options
    if (reader.task === undefined && this.#isSent && !this.#isOpened) {
      await new Promise<void>((resolve) => {
        const undo = clock.after(timeoutMs, resolve)
        this.#onOpened = () => {
          undo()
          resolve()
        }
      })
    }
    const id = reader.task?.taskId
    if (id === undefined) return
    try {
      await this.#inTime((options) => {
        return client.cancelTask({ tenant: '', id, metadata: undefined }, options)
      })
    } catch (error) {
      // It may have ended meanwhile.
      if (!isOver(error)) onWarning('A task could not be cancelled', error)
    }
  }

  #taskId(): string {
    return this.#options.reader.task?.taskId ?? ''
  }

  #request(signal: AbortSignal = this.#requests.signal): Request {
    return { signal, serviceParameters: { ...this.#options.headers } }
  }

  async #inTime<Value>(
    ask: (options: Request) => Promise<Value>,
    outer?: AbortSignal,
  ): Promise<Value> {
    const { clock, timeoutMs } = this.#options
    const late = new AbortController()
    const undo = clock.after(timeoutMs, () => {
      late.abort(new GatewayError('UNAVAILABLE', `No answer within ${timeoutMs} ms`))
    })
    try {
      return await ask(this.#request(AbortSignal.any([late.signal, ...(outer ? [outer] : [])])))
    } finally {
      undo()
    }
  }
}

/** The agent goes on, and whoever signs in begins anew: it would be done twice. */
function isLeftBehind(end: FinalUpdate): boolean {
  return end.type === 'authorization' && end.state === undefined
}

interface Request {
  readonly signal: AbortSignal
  readonly serviceParameters: Record<string, string>
}

/** The first time at once: most streams are cut for no reason that lasts. */
function backoffMs(rounds: number): number {
  return rounds === 0 ? 0 : Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (rounds - 1))
}

/** Twice as long each time, so that an answer is late by no more than it took: many are there at once. */
function lookMs(rounds: number): number {
  return rounds === 0 ? 0 : FIRST_LOOK_MS * 2 ** (rounds - 1)
}

/** Too much, or an address that must not be asked: it would be so the next time, too. */
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
