import type { ToolRunnableConfig } from '@langchain/core/tools'
import { LONGEST_MS } from '@x/internal'
import { McpClientError, type Caller, type ClientHandlers, type Progress } from '@x/mcp-client'
import type { InputRequest } from '@x/mcp-transport'
import type { McpToolError } from '../errors.ts'
import { executionOf } from './langgraph.ts'
import {
  originKey,
  serverTitle,
  type McpToolOrigin,
  type SessionReplaced,
  type StartedCall,
} from '../tool-source.ts'
import { toThreadId } from './call-context.ts'
import type { ElicitationAnswer } from './interrupt-value.ts'
import type { GraphPlace } from './graph-place.ts'

type Elicitation = NonNullable<ClientHandlers['elicitation']>
type ElicitParams = Parameters<Elicitation>[0]
type ElicitResult = Awaited<ReturnType<Elicitation>>

/** The tool and the thread of a call. The client passes it back with each question of the call. */
export class ToolCaller implements Caller {
  readonly origin: McpToolOrigin
  /** Id of the thread, or `''`. A session never serves two principals, so no principal is needed. */
  readonly owner: string
  readonly toolCallId: string | undefined
  readonly #config: ToolRunnableConfig
  /** The open request, if a person can be asked. */
  live: LiveCall | undefined
  /** Set if the server lost the session during the call. */
  replaced: SessionReplaced | undefined
  /** Set if a handler could not answer a question of the call. */
  unanswered: McpToolError | undefined

  constructor(origin: McpToolOrigin, config: ToolRunnableConfig) {
    const { configurable, toolCall } = config
    this.origin = origin
    this.#config = config
    this.owner = toThreadId(configurable?.['thread_id']) ?? ''
    this.toolCallId = toolCall?.id
  }

  /** No field: handlers and listeners get this object, and may log it. */
  get config(): ToolRunnableConfig {
    return this.#config
  }

  /** Namespace of the graph's task. Agents that work at the same time may use one id for their calls. */
  get #task(): string | undefined {
    return executionOf(this.config)?.checkpointNs
  }

  /** Returns true for the same call. A resumed graph makes the same call with another object. */
  isSameAs(other: Caller | undefined): boolean {
    return (
      other instanceof ToolCaller &&
      other.owner === this.owner &&
      originKey(other.origin) === originKey(this.origin) &&
      other.toolCallId === this.toolCallId &&
      other.#task === this.#task
    )
  }
}

/** The questions of a call that waits for a person. */
export interface OpenQuestions {
  readonly requests: Readonly<Record<string, InputRequest>>
}

interface LiveCallLimits {
  /** Time limit of the server, in milliseconds. The clock stops while a person is asked. */
  readonly workMs: number
  /** Limit for the whole call if progress and new requests restart `workMs`. Undefined if they do not. */
  readonly maxMs: number | undefined
  /** Time of the server that earlier requests of the call have used, in milliseconds. */
  readonly usedMs: number
  /** Time limit of a person for one question, in milliseconds. */
  readonly humanMs: number
}

interface OpenQuestion {
  readonly params: ElicitParams
  readonly answer: (answer: ElicitationAnswer) => void
}

/**
 * One open request to a server with sessions, and the questions that the server asks meanwhile. A run may
 * stop waiting for it, and a later run may answer: the request stays open.
 */
export class LiveCall {
  readonly caller: ToolCaller
  /** Receives progress for the run that waits now. */
  onProgress: ((progress: Progress) => void) | undefined
  readonly #limits: LiveCallLimits
  readonly #aborting = new AbortController()
  readonly #questions = new Map<string, OpenQuestion>()
  readonly #ended: Promise<StartedCall>
  #asked = 0
  #isOpen = true
  /** Time of the server until the clock was started last. */
  #usedMs: number
  /** The call ends when the server has used so much time. */
  #endsAtMs = 0
  #workingSince = 0
  #timer: NodeJS.Timeout | undefined
  #wake: (() => void) | undefined

  constructor(
    caller: ToolCaller,
    limits: LiveCallLimits,
    send: (signal: AbortSignal) => Promise<StartedCall>,
  ) {
    this.caller = caller
    this.#limits = limits
    this.#usedMs = limits.usedMs
    this.#restartLimit()
    this.#work()
    this.#ended = send(this.#aborting.signal).finally(() => this.#end())
    this.#ended.catch(() => {}) // `next()` rejects, if a run waits
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Time of the server that this and earlier requests of the call have used. */
  get usedMs(): number {
    return this.#isWorking ? this.#usedMs + performance.now() - this.#workingSince : this.#usedMs
  }

  get #isWorking(): boolean {
    return this.#isOpen && this.#questions.size === 0
  }

  /** The server has reported progress. */
  progressed(progress: Progress): void {
    if (this.#limits.maxMs !== undefined && this.#isWorking) {
      this.#stopWork()
      this.#restartLimit()
      this.#work()
    }
    this.onProgress?.(progress)
  }

  /**
   * Resolves when the call ends or asks. `signal` aborts the call, but only during this wait.
   *
   * @throws the error of the call
   */
  async next(signal: AbortSignal | undefined): Promise<StartedCall | OpenQuestions> {
    const onAbort = (): void => this.abort(signal?.reason)
    if (signal?.aborted === true) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
    try {
      const asked = new Promise<void>((resolve) => {
        this.#wake = resolve
        if (this.#questions.size > 0) resolve()
      })
      return (await Promise.race([this.#ended, asked])) ?? { requests: this.#requests() }
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Handles a question of the server. Resolves to `cancel` if the answer takes too long. */
  ask(params: ElicitParams, signal: AbortSignal): Promise<ElicitResult> {
    if (!this.#isOpen) return Promise.resolve({ action: 'cancel' })
    const key = `question-${++this.#asked}`
    return new Promise((resolve) => {
      const onAbort = (): void => this.answer({ [key]: { action: 'cancel' } })
      signal.addEventListener('abort', onAbort, { once: true })
      this.#questions.set(key, {
        params,
        answer: (answer) => {
          signal.removeEventListener('abort', onAbort)
          resolve(elicitResultFrom(answer))
        },
      })
      this.#wait()
      this.#wake?.()
    })
  }

  /** Passes answers to their questions. Ignores answers to unknown or closed questions. */
  answer(answers: Readonly<Record<string, ElicitationAnswer>>): void {
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

  #requests(): Record<string, InputRequest> {
    return Object.fromEntries(
      Array.from(this.#questions, ([key, { params }]) => [
        key,
        { method: 'elicitation/create', params: { ...params } },
      ]),
    )
  }

  #restartLimit(): void {
    const { workMs, maxMs } = this.#limits
    this.#endsAtMs = maxMs === undefined ? workMs : Math.min(this.#usedMs + workMs, maxMs)
  }

  /** Starts the clock of the server. */
  #work(): void {
    clearTimeout(this.#timer)
    this.#workingSince = performance.now()
    const leftMs = Math.max(this.#endsAtMs - this.#usedMs, 1)
    this.#timer = setTimeout(() => this.#timeOut(), Math.min(leftMs, LONGEST_MS))
  }

  #stopWork(): void {
    this.#usedMs += performance.now() - this.#workingSince
  }

  #timeOut(): void {
    const { origin } = this.caller
    const server = serverTitle(origin.server)
    const ms = Math.round(this.#endsAtMs)
    const message = `MCP server "${server}" gave no answer within ${ms} ms`
    const about = { server, tool: origin.toolName, outcome: 'unknown' } as const
    this.abort(new McpClientError('TIMEOUT', message, about))
  }

  /** Stops the clock of the server, and starts the clock of the person. */
  #wait(): void {
    if (this.#questions.size === 1) this.#stopWork()
    clearTimeout(this.#timer)
    const ms = Math.min(this.#limits.humanMs, LONGEST_MS)
    this.#timer = setTimeout(() => this.#cancelAll(), ms)
    this.#timer.unref() // a question does not keep the process alive; the open connection does
  }

  #cancelAll(): void {
    const keys = [...this.#questions.keys()]
    this.answer(Object.fromEntries(keys.map((key) => [key, { action: 'cancel' as const }])))
  }

  #end(): void {
    if (this.#questions.size === 0) this.#stopWork()
    this.#isOpen = false
    clearTimeout(this.#timer)
    this.#cancelAll()
  }
}

function elicitResultFrom({ action, content }: ElicitationAnswer): ElicitResult {
  if (content === undefined) return { action }
  const fields = Object.entries(content).map(([name, value]) => [
    name,
    typeof value === 'object' ? [...value] : value,
  ])
  return { action, content: Object.fromEntries(fields) }
}

/** More waiting threads in one process are a mistake. */
const MAX_HELD = 1000

/** Requests that wait for a person while no run is active. Only the process that sent them can continue them. */
export class HeldCalls {
  readonly #calls = new Map<string, LiveCall>()

  hold(place: GraphPlace, call: LiveCall): void {
    this.#calls.set(place.key, call)
    const [oldest] = this.#calls.keys()
    if (this.#calls.size <= MAX_HELD || oldest === undefined) return
    this.#calls.get(oldest)?.abort(new Error('Too many calls wait for people'))
    this.#calls.delete(oldest)
  }

  /** Removes and returns a request. A second answer, for example from an old button, finds nothing. */
  take(place: GraphPlace): LiveCall | undefined {
    const call = this.#calls.get(place.key)
    this.#calls.delete(place.key)
    return call
  }
}
