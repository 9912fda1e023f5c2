import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { removeFrom } from '@x/internal'
import { RunFailure } from '../agents/run-failure.ts'
import type { RunTool } from '../agents/run-tool.ts'
import { GatewayError } from '../errors.ts'
import type { ResultFiles, RunFiles } from '../files/result-files.ts'
import { slotOwnerOf } from '../internal/principal.ts'
import type { RunEvent } from '../internal/run-event.ts'
import type { GatewaySettings, RunSettings, StreamingSettings } from '../options.ts'
import { Conversations, type Turn } from './conversations.ts'
import { IdempotentCalls } from './idempotency.ts'
import { PausedRuns } from './paused-runs.ts'
import { ProgressFeed } from './progress-feed.ts'
import { failureResult, runAgent } from './result.ts'
import { ActiveRun } from './run.ts'
import {
  newRunId,
  type RunEnding,
  type RunOrder,
  type RunRequest,
  type RunStorage,
  type ToolOutcome,
} from './run-request.ts'
import { RunSlots } from './slots.ts'

export interface RunsOptions extends RunStorage {
  /** `undefined`: files are not stored. The result names them. */
  readonly files: ResultFiles | undefined
  readonly streaming: StreamingSettings
  /** Must not throw. */
  readonly onEvent: (event: RunEvent) => void
}

type Outcome = Extract<RunEvent, { type: 'ended' }>['outcome']

/** All runs of a gateway. */
export class Runs {
  readonly #options: RunsOptions
  readonly #slots: RunSlots
  readonly #paused: PausedRuns
  readonly #conversations: Conversations | undefined
  readonly #idempotent: IdempotentCalls
  /** An array, because it changes with every run: see `removeFrom`. */
  readonly #active: ActiveRun[] = []
  #settings: RunSettings
  #streaming: StreamingSettings
  #isClosed = false
  #onIdle: (() => void) | undefined

  constructor(options: RunsOptions) {
    this.#options = options
    this.#settings = options
    this.#streaming = options.streaming
    const maxRunMs = (tool: RunTool): number => this.#timeoutOf(tool)
    this.#slots = new RunSlots(options.clock, options)
    this.#idempotent = new IdempotentCalls(options, maxRunMs)
    this.#conversations =
      options.mode === 'thread' ? new Conversations(options, maxRunMs) : undefined
    this.#paused = new PausedRuns(options, maxRunMs, (order) => this.#execute(order))
  }

  /** Number of runs that have not ended, with those that wait for a slot. */
  get size(): number {
    return this.#active.length
  }

  /** Changes the settings of later runs, and the limits of calls that wait for a slot. */
  update({ runs, streaming }: Pick<GatewaySettings, 'runs' | 'streaming'>): void {
    this.#settings = runs
    this.#slots.limit(runs)
    this.#streaming = streaming
  }

  /**
   * Runs the agent of a tool, or continues a paused run. Errors of the agent become results.
   *
   * @throws ProtocolError -32603 with the `runId`, for an error of the gateway
   */
  call(tool: RunTool, request: RunRequest): Promise<ToolOutcome> {
    const order = { tool, request, runId: newRunId() }
    if (request.resume !== undefined) return this.#paused.resume(order, request.resume)
    if (request.idempotencyKey === undefined) return this.#paused.begin(order)
    return this.#callOnce(order)
  }

  /** Stops all runs after `graceMs`. Paused runs stay in the store. */
  async close(graceMs = 0): Promise<void> {
    this.#isClosed = true
    this.#paused.close()
    this.#conversations?.close()
    if (this.#active.length === 0) return
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
    const stopAll = (): void => {
      for (const run of this.#active) run.stop(stopping())
    }
    const undo = graceMs > 0 ? this.#options.clock.after(graceMs, stopAll) : stopAll()
    await idle
    undo?.()
  }

  async #callOnce(order: RunOrder): Promise<ToolOutcome> {
    const { tool, request, runId } = order
    try {
      return await this.#idempotent.run(tool, request, (signal) =>
        this.#paused.begin({ ...order, request: { ...request, signal } }),
      )
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      const text =
        'It cannot be known now whether this call was made before. Call again in a moment.'
      const failure =
        error instanceof RunFailure ? error : new RunFailure('unavailable', text, { cause: error })
      return { type: 'result', result: failureResult(failure, runId) }
    }
  }

  async #execute(order: RunOrder): Promise<RunEnding> {
    const { tool, request, runId } = order
    const { clock, agents } = this.#options
    // The feed exists before the run has a slot: clients give up after a minute of silence.
    const run = new ActiveRun(order, clock, this.#feedOf(order))
    const { feed } = run
    this.#active.push(run)
    const startedAt = clock.now()
    const owner = slotOwnerOf(request)
    let turn: Turn | undefined
    let hasSlot = false
    let isStarted = false
    let outcome: Outcome = 'agent_failed'
    try {
      if (this.#isClosed) throw stopping()
      if (this.#conversations) turn = await this.#conversations.enter(order, run.signal)
      await this.#slots.take(owner, run.signal)
      hasSlot = true
      const source = agents.sourceOf(tool.agent.id, owner)
      if (source === undefined) throw new RunFailure('agent_gone', 'It is gone.')
      this.#emit({ type: 'started', ...run.names })
      const limits = {
        timeoutMs: this.#timeoutOf(tool),
        idleTimeoutMs: tool.idleTimeoutMs ?? this.#settings.idleTimeoutMs,
      }
      run.begin(limits, this.#filesOf(run))
      feed?.line(`Accepted by ${tool.agent.name}`)
      isStarted = true
      const ending = await run.untilEnd(
        runAgent(run, source, turn?.thread),
        this.#settings.stopGraceMs,
        () => this.#reportAbandoned(run),
      )
      feed?.stop({ flush: true })
      outcome = ending.type === 'ended' ? 'done' : 'asked'
      if (ending.type === 'ended') return ending
      return { ...ending, progress: feed?.count ?? order.progress ?? 0 }
    } catch (error) {
      feed?.stop({ flush: false })
      const failure = this.#toFailure(error, run)
      outcome = failure.reason
      const result = failureResult(withAgent(failure, tool.agent.name), runId)
      return { type: 'ended', result, isStarted }
    } finally {
      run.close()
      if (hasSlot) this.#slots.release(owner)
      if (turn) await turn.leave(outcome === 'asked')
      removeFrom(this.#active, run)
      const durationMs = clock.now() - startedAt
      this.#emit({ type: 'ended', ...run.names, outcome, durationMs })
      if (this.#active.length === 0) this.#onIdle?.()
    }
  }

  #filesOf({ order, signal }: ActiveRun): RunFiles | undefined {
    const { runId, tool, request, files: earlier } = order
    const { principal, scope, sessionScope, address, clientName } = request
    const caller = { principal, scope, sessionScope, address, clientName }
    return this.#options.files?.open({ ...caller, runId, agentId: tool.agent.id, earlier, signal })
  }

  #timeoutOf(tool: RunTool): number {
    return tool.timeoutMs ?? this.#settings.timeoutMs
  }

  #feedOf({ request: { progress }, progress: from = 0 }: RunOrder): ProgressFeed | undefined {
    const { enabled, coalesceMs, heartbeatMs } = this.#streaming
    if (progress === undefined || !enabled) return undefined
    return new ProgressFeed(progress, this.#options.clock, { coalesceMs, heartbeatMs, from })
  }

  /** Reports an agent that did not stop. */
  #reportAbandoned({ names }: ActiveRun): void {
    this.#emit({ type: 'orphaned', ...names })
    this.#options.agents.degrade(names.agentId, 'It did not stop when it was told to')
  }

  /**
   * Returns the error for the caller. Its details go to the log only.
   *
   * @throws ProtocolError for an error of the gateway
   */
  #toFailure(error: unknown, { names, order }: ActiveRun): RunFailure {
    if (error instanceof RunFailure && error.cause === undefined) return error
    const cause = error instanceof RunFailure ? error.cause : error
    const traceId = traceIdOf(order.request)
    this.#emit({ type: 'failed', ...names, error: cause, ...(traceId && { traceId }) })
    if (error instanceof RunFailure) return error
    if (GatewayError.is(error)) return new RunFailure('unavailable', UNAVAILABLE)
    const { runId } = names
    throw new ProtocolError(ProtocolErrorCode.InternalError, `Internal error in ${runId}`, {
      runId,
    })
  }

  #emit(event: RunEvent): void {
    this.#options.onEvent(event)
  }
}

/** Does not name the part of the gateway, nor its address. */
const UNAVAILABLE = 'The data of the gateway for it cannot be reached now. Call again in a moment.'

function withAgent(failure: RunFailure, agent: string): RunFailure {
  const { reason, message, retryAfterMs } = failure
  if (reason === 'busy' || reason === 'cancelled') return failure
  return new RunFailure(reason, `Agent "${agent}": ${message}`, { cause: failure, retryAfterMs })
}

/** The second part of `traceparent` (W3C Trace Context, 3.2). */
function traceIdOf({ trace }: RunRequest): string | undefined {
  return /^[\da-f]{2}-([\da-f]{32})-/.exec(trace?.['traceparent'] ?? '')?.[1]
}

function stopping(): RunFailure {
  return new RunFailure('cancelled', 'The gateway is stopping. Call again in a moment.', {
    retryAfterMs: 5000,
  })
}
