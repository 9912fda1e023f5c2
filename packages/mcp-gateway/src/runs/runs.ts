import type { GatewaySettings, RunSettings, StreamingSettings } from '../options.ts'
import type { RunnableAgents } from '../agents/agent-source.ts'
import type { Values } from '../store/gateway-store.ts'
import type { ResultFiles } from '../files/result-files.ts'
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import type { Clock } from '../internal/clock.ts'
import { GatewayError } from '../errors.ts'
import { ActiveRun } from './active-run.ts'
import type { AgentInput } from '../agents/agent-call.ts'
import { endingOf } from './agent-ending.ts'
import { IdempotentCalls } from './idempotent-calls.ts'
import { Conversations, type Turn } from './conversations.ts'
import { Asking } from './interrupts/asking.ts'
import { ProgressFeed } from './progress-feed.ts'
import { RunCollector } from './run-collector.ts'
import type { RunEnding, RunOrder } from './run-ending.ts'
import type { RunEvent, RunNames } from '../internal/run-event.ts'
import { RunFailure } from '../agents/run-failure.ts'
import { newRunId } from './run-id.ts'
import { RunLimits } from './run-limits.ts'
import type { RunRequest } from './run-request.ts'
import { failureResult } from './run-result.ts'
import { RunSlots, slotOwnerOf } from './run-slots.ts'
import type { RunTool } from '../agents/run-tool.ts'
import type { ToolOutcome } from './tool-outcome.ts'

export interface RunsOptions extends RunSettings {
  readonly agents: RunnableAgents
  /** Keeps runs that wait for answers, conversations, and results of calls with an idempotency key. */
  readonly values: Values
  /** `undefined`: files are named in the result, and lost. */
  readonly files: ResultFiles | undefined
  readonly streaming: StreamingSettings
  /** Called with what happens. Does not throw. */
  readonly onEvent: (event: RunEvent) => void
  readonly clock: Clock
}

/** All runs of this gateway. */
export class Runs {
  readonly #options: RunsOptions
  readonly #clock: Clock
  readonly #slots: RunSlots
  #settings: RunSettings
  #streaming: StreamingSettings
  readonly #asking: Asking
  readonly #conversations: Conversations | undefined
  readonly #idempotent: IdempotentCalls
  readonly #active = new Set<ActiveRun>()
  #isClosed = false
  #whenIdle: (() => void) | undefined

  constructor(options: RunsOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#slots = new RunSlots(this.#clock, options)
    this.#settings = options
    this.#streaming = options.streaming
    this.#conversations = this.#conversationsOf(options)
    this.#idempotent = new IdempotentCalls({
      values: options.values,
      clock: this.#clock,
      maxRunMs: (tool) => this.#timeoutOf(tool),
      repeatTtlMs: options.repeatTtlMs,
    })
    this.#asking = new Asking({
      needsInputTtlMs: options.needsInputTtlMs,
      repeatTtlMs: options.repeatTtlMs,
      sweepMs: options.sweepMs,
      values: options.values,
      clock: this.#clock,
      maxRunMsOf: ({ tool }) => this.#timeoutOf(tool),
      execute: (order) => this.#execute(order),
      sourceOf: (agentId) => options.agents.sourceOf(agentId),
    })
  }

  #conversationsOf({
    mode,
    values,
    agents,
    threadTtlMs,
    sweepMs,
  }: RunsOptions): Conversations | undefined {
    if (mode !== 'thread') return undefined
    return new Conversations({
      values,
      clock: this.#clock,
      sourceOf: (agentId) => agents.sourceOf(agentId),
      maxRunMsOf: ({ tool }) => this.#timeoutOf(tool),
      threadTtlMs,
      sweepMs,
    })
  }

  /** Runs that have not ended, also those that wait for a slot. */
  get size(): number {
    return this.#active.size
  }

  /** Changes settings for runs that begin, and for calls that wait for a slot. */
  update({ runs, streaming }: Pick<GatewaySettings, 'runs' | 'streaming'>): void {
    this.#settings = runs
    this.#slots.limit(runs)
    this.#streaming = streaming
  }

  /**
   * Runs the agent behind a tool, or goes on with a run that asked. Never throws for what the agent does.
   *
   * @throws ProtocolError -32603 with the `runId`, for a fault of the gateway
   */
  call(tool: RunTool, request: RunRequest): Promise<ToolOutcome> {
    const order = { tool, request, runId: newRunId() }
    if (request.resume !== undefined) return this.#asking.resume(order, request.resume)
    if (request.idempotencyKey === undefined) return this.#asking.begin(order)
    return this.#callOnce(order)
  }

  async #callOnce(order: RunOrder): Promise<ToolOutcome> {
    const { tool, request, runId } = order
    try {
      return await this.#idempotent.run(tool, request, (signal) =>
        this.#asking.begin({ ...order, request: { ...request, signal } }),
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

  /** Ends all runs, after as long as they may take to end by themselves. Runs that wait for a person go on waiting. */
  async close(graceMs = 0): Promise<void> {
    this.#isClosed = true
    this.#asking.close()
    this.#conversations?.close()
    if (this.#active.size === 0) return
    const idle = new Promise<void>((resolve) => {
      this.#whenIdle = resolve
    })
    const stopAll = (): void => {
      for (const run of this.#active) run.stop(stopping())
    }
    const undo = graceMs > 0 ? this.#clock.after(graceMs, stopAll) : stopAll()
    await idle
    undo?.()
  }

  async #execute(order: RunOrder): Promise<RunEnding> {
    const { tool, request, runId, resume, files: earlier } = order
    const { agent, skill } = tool
    const run = new ActiveRun(namesOf(tool, request, runId), this.#clock)
    this.#active.add(run)
    const undoSignal = run.stopWith(request.signal, () => {
      return new RunFailure('cancelled', 'The call was cancelled.')
    })
    const startedAt = this.#clock.now()
    let turn: Turn | undefined
    let leaveSlot: (() => void) | undefined
    let limits: RunLimits | undefined
    // Who waits in a queue hears that it does: clients give up after a minute of silence.
    const feed = this.#feedOf(order)
    let collector: RunCollector | undefined
    let isStarted = false
    let outcome: Extract<RunEvent, { type: 'ended' }>['outcome'] = 'agent_failed'
    try {
      if (this.#isClosed) throw stopping()
      turn = await this.#conversations?.enter(order, run.signal)
      const owner = slotOwnerOf(request)
      leaveSlot = await this.#slots.take(owner, run.signal)
      const source = this.#options.agents.sourceOf(agent.id, owner)
      if (source === undefined) throw new RunFailure('agent_gone', 'It is gone.')
      this.#tell({ type: 'started', ...run.names })
      limits = this.#limitsOf(tool, run)
      feed?.line(`Accepted by ${agent.name}`)
      const files = this.#options.files?.open({
        runId,
        agentId: agent.id,
        principal: request.principal,
        scope: request.scope,
        sessionScope: request.sessionScope,
        address: request.address,
        clientName: request.clientName,
        earlier,
        signal: run.signal,
      })
      collector = new RunCollector({ runId, files, feed })
      const call = {
        runId,
        agentId: agent.id,
        skillId: skill.id,
        input: request.input ?? NO_INPUT,
        principal: request.principal,
        thread: turn?.thread,
        signal: run.signal,
        trace: request.trace,
        artifacts: collector.artifacts,
        resume,
      }
      isStarted = true
      const ending = await run.untilEnd(
        endingOf({ source, call, collector, limits, files, tool, canVisit: request.canVisit }),
        this.#settings.stopGraceMs,
        () => this.#orphan(run),
      )
      feed?.stop({ flush: true })
      outcome = ending.type === 'ended' ? 'done' : 'asked'
      if (ending.type === 'ended') return ending
      return { ...ending, progress: feed?.count ?? order.progress ?? 0 }
    } catch (error) {
      feed?.stop({ flush: false })
      const failure = this.#failureFrom(error, run, traceIdOf(request))
      outcome = failure.reason
      const result = failureResult(inWordsOf(failure, agent.name), runId)
      return { type: 'ended', result, isStarted }
    } finally {
      undoSignal()
      limits?.stop()
      collector?.close()
      feed?.stop({ flush: false })
      leaveSlot?.()
      await turn?.leave(outcome === 'asked')
      this.#active.delete(run)
      this.#tell({
        type: 'ended',
        ...run.names,
        outcome,
        durationMs: this.#clock.now() - startedAt,
      })
      if (this.#active.size === 0) this.#whenIdle?.()
    }
  }

  #limitsOf(tool: RunTool, run: ActiveRun): RunLimits {
    return new RunLimits({
      clock: this.#clock,
      timeoutMs: this.#timeoutOf(tool),
      idleTimeoutMs: tool.idleTimeoutMs ?? this.#settings.idleTimeoutMs,
      onReached: (failure) => run.stop(failure),
    })
  }

  #timeoutOf(tool: RunTool): number {
    return tool.timeoutMs ?? this.#settings.timeoutMs
  }

  #feedOf({ request: { progress }, progress: from = 0 }: RunOrder): ProgressFeed | undefined {
    const { enabled, ...options } = this.#streaming
    return progress === undefined || !enabled
      ? undefined
      : new ProgressFeed(progress, this.#clock, { ...options, from })
  }

  #orphan(run: ActiveRun): void {
    this.#tell({ type: 'orphaned', ...run.names })
    this.#options.agents.degrade(run.names.agentId, 'It did not stop when it was told to')
  }

  /**
   * What the caller is told; the details go to the log alone.
   *
   * @throws ProtocolError for a fault of our own
   */
  #failureFrom(error: unknown, run: ActiveRun, traceId: string | undefined): RunFailure {
    if (error instanceof RunFailure && error.cause === undefined) return error
    const cause = error instanceof RunFailure ? error.cause : error
    this.#tell({ type: 'failed', ...run.names, error: cause, ...(traceId && { traceId }) })
    if (error instanceof RunFailure) return error
    if (GatewayError.is(error)) return new RunFailure('unavailable', AWAY)
    const { runId } = run.names
    throw new ProtocolError(ProtocolErrorCode.InternalError, `Internal error in ${runId}`, {
      runId,
    })
  }

  #tell(event: RunEvent): void {
    this.#options.onEvent(event)
  }
}

/** Which part of the gateway it is, and where that lies, is nothing to tell callers. */
const AWAY = 'What the gateway keeps for it cannot be reached now. Call again in a moment.'

const NO_INPUT: AgentInput = { kind: 'message', text: '', files: [] }

function inWordsOf(failure: RunFailure, agent: string): RunFailure {
  if (failure.reason === 'busy' || failure.reason === 'cancelled') return failure
  return new RunFailure(failure.reason, `Agent "${agent}": ${failure.message}`, {
    cause: failure,
    retryAfterMs: failure.retryAfterMs,
  })
}

/** The second part of `traceparent` (W3C Trace Context, 3.2). */
function traceIdOf({ trace }: RunRequest): string | undefined {
  return /^[\da-f]{2}-([\da-f]{32})-/.exec(trace?.['traceparent'] ?? '')?.[1]
}

function namesOf(tool: RunTool, request: RunRequest, runId: string): RunNames {
  return {
    runId,
    tool: tool.name,
    agentId: tool.agent.id,
    skillId: tool.skill.id,
    principal: request.principal.id,
  }
}

function stopping(): RunFailure {
  return new RunFailure('cancelled', 'The gateway is stopping. Call again in a moment.', {
    retryAfterMs: 5000,
  })
}
