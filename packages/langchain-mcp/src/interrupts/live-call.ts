import type { ToolRunnableConfig } from '@langchain/core/tools'
import type { Caller, ClientHandlers, Progress } from '@x/mcp-client'
import { originKey, type McpToolOrigin } from '../base/tool-source.ts'
import type { Question } from './call-outcome.ts'
import type { GraphPlace } from './langgraph.ts'

type Elicitation = NonNullable<ClientHandlers['elicitation']>
type ElicitParams = Parameters<Elicitation>[0]
export type ElicitAnswer = Awaited<ReturnType<Elicitation>>

/** The call has ended, or it waits for a person. */
export type LiveCallNews<T> =
  | { readonly kind: 'ended'; readonly value: T }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'asked'; readonly requests: Readonly<Record<string, Question>> }

interface LiveCallOptions {
  /** Gets the questions of the call from the client. */
  readonly caller: ToolCaller
  /** Time that the server may take, in milliseconds; it stands still while a person is asked. */
  readonly workMs: number
  /** Time that a person may take for one question, in milliseconds. */
  readonly humanMs: number
  /** What ends a call whose time is up. */
  readonly timeoutError: (ms: number) => Error
}

interface OpenQuestion {
  readonly params: ElicitParams
  readonly answer: (answer: ElicitAnswer) => void
}

/** The tool and the thread that make a call: the client gives it back with each question of the call. */
export class ToolCaller implements Caller {
  /** The thread, if there is one: a session never serves two principals. */
  readonly owner: string
  readonly toolCallId: string | undefined
  readonly origin: McpToolOrigin
  /** Set where the questions of the call may wait for a person. */
  live: LiveCall<unknown> | undefined
  /** Whether a question was declined that may have belonged to this call. */
  hasMissedQuestion = false

  constructor(origin: McpToolOrigin, { configurable, toolCall }: ToolRunnableConfig) {
    const thread: unknown = configurable?.['thread_id']
    this.owner = typeof thread === 'string' || typeof thread === 'number' ? String(thread) : ''
    this.toolCallId = toolCall?.id
    this.origin = origin
  }

  /** Equal for calls of one tool of one server. */
  get tool(): string {
    return originKey(this.origin)
  }

  /** Whether both make the same call: a graph that goes on makes it by another object. */
  isSameAs(other: Caller | undefined): boolean {
    return (
      other instanceof ToolCaller &&
      other.owner === this.owner &&
      other.tool === this.tool &&
      other.toolCallId === this.toolCallId
    )
  }
}

/**
 * One request on the wire, and the questions that a server with sessions asks while it serves it. Whoever
 * started it may leave, and somebody else may come and answer: the request stays open meanwhile.
 */
export class LiveCall<T> {
  readonly caller: ToolCaller
  /** Whoever waits for the call now is told how far it is. */
  onProgress: ((progress: Progress) => void) | undefined
  readonly #options: LiveCallOptions
  readonly #aborting = new AbortController()
  readonly #questions = new Map<string, OpenQuestion>()
  readonly #ended: Promise<LiveCallNews<T>>
  #asked = 0
  #isOpen = true
  #workLeftMs: number
  #workingSince = 0
  #timer: NodeJS.Timeout | undefined
  #wake: (() => void) | undefined

  constructor(send: (signal: AbortSignal) => Promise<T>, options: LiveCallOptions) {
    this.#options = options
    this.caller = options.caller
    this.#workLeftMs = options.workMs
    this.#work()
    this.#ended = send(this.#aborting.signal)
      .then(
        (value): LiveCallNews<T> => ({ kind: 'ended', value }),
        (error: unknown): LiveCallNews<T> => ({ kind: 'failed', error }),
      )
      .finally(() => this.#end())
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** What happens next. `signal` gives the call up, but only while this is awaited. */
  async next(signal: AbortSignal | undefined): Promise<LiveCallNews<T>> {
    const onAbort = (): void => this.abort(signal?.reason)
    if (signal?.aborted === true) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
    try {
      const asked = new Promise<void>((resolve) => {
        this.#wake = resolve
        if (this.#questions.size > 0) resolve()
      })
      const ended = await Promise.race([this.#ended, asked])
      return ended ?? { kind: 'asked', requests: this.#requests() }
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** The server asks. Nobody in time: `cancel`. */
  ask(params: ElicitParams, signal: AbortSignal): Promise<ElicitAnswer> {
    if (!this.#isOpen) return Promise.resolve({ action: 'cancel' })
    const key = `question-${++this.#asked}`
    return new Promise((resolve) => {
      const onAbort = (): void => this.answer({ [key]: { action: 'cancel' } })
      signal.addEventListener('abort', onAbort, { once: true })
      this.#questions.set(key, {
        params,
        answer: (answer) => {
          signal.removeEventListener('abort', onAbort)
          resolve(answer)
        },
      })
      this.#wait()
      this.#wake?.()
    })
  }

  /** Passes on what fits; what is not asked, or no longer, is dropped. */
  answer(answers: Readonly<Record<string, ElicitAnswer>>): void {
    for (const [key, answer] of Object.entries(answers)) {
      const question = this.#questions.get(key)
      this.#questions.delete(key)
      question?.answer(answer)
    }
    if (this.#isOpen && this.#questions.size === 0) this.#work()
  }

  abort(reason: unknown): void {
    this.#aborting.abort(reason)
  }

  #requests(): Record<string, Question> {
    return Object.fromEntries(
      Array.from(this.#questions, ([key, { params }]) => [
        key,
        { method: 'elicitation/create', params: { ...params } },
      ]),
    )
  }

  /** The server's time goes on. */
  #work(): void {
    clearTimeout(this.#timer)
    this.#workingSince = performance.now()
    const { workMs, timeoutError } = this.#options
    this.#timer = setTimeout(() => this.abort(timeoutError(workMs)), Math.max(this.#workLeftMs, 1))
  }

  /** The person's time goes on, and the server's stands still. */
  #wait(): void {
    if (this.#questions.size === 1) {
      this.#workLeftMs -= performance.now() - this.#workingSince
    }
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#cancelAll(), this.#options.humanMs)
    this.#timer.unref() // an open connection keeps the process, a question does not
  }

  #cancelAll(): void {
    const keys = [...this.#questions.keys()]
    this.answer(Object.fromEntries(keys.map((key) => [key, { action: 'cancel' as const }])))
  }

  #end(): void {
    this.#isOpen = false
    clearTimeout(this.#timer)
    this.#cancelAll()
  }
}

/** More threads than this wait for people in one process only by accident. */
const MAX_HELD = 1000

/** Calls that wait for a person while no run goes on: only the process that made them can continue them. */
export class HeldCalls<T> {
  readonly #calls = new Map<string, LiveCall<T>>()

  hold(place: GraphPlace, call: LiveCall<T>): void {
    this.#calls.set(keyOf(place), call)
    const [oldest] = this.#calls.keys()
    if (this.#calls.size <= MAX_HELD || oldest === undefined) return
    this.#calls.get(oldest)?.abort(new Error('Too many calls wait for people'))
    this.#calls.delete(oldest)
  }

  /** Whoever takes it answers it: a second one, from a stale click, finds nothing. */
  take(place: GraphPlace): LiveCall<T> | undefined {
    const key = keyOf(place)
    const call = this.#calls.get(key)
    this.#calls.delete(key)
    return call
  }
}

function keyOf({ thread, task, toolCallId }: GraphPlace): string {
  return JSON.stringify([thread, task, toolCallId])
}
