import { ProtocolError, ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server'

import { removeFrom } from '@x/internal'
import { RunFailure, type RunTool } from '../agents/agent.ts'
import { GatewayError, isOfCaller, textForCaller } from '../errors.ts'
import type { InputFile } from '../files/result-files.ts'
import { accountOf, ownerOf } from '../internal/principal.ts'
import type { RunEvent, RunFailureReason } from '../internal/run-event.ts'
import { Conversations, type Turn } from './conversations.ts'
import { ProgressFeed } from './progress-feed.ts'
import { failureResult, runAgent } from './result.ts'
import { ActiveRun, forgetState } from './run.ts'
import type { CallRecord } from './call-record.ts'
import {
  maxRunMsOf,
  type Execution,
  type RunEnding,
  type RunOrder,
  type RunStorage,
} from './order.ts'
import { RUN_QUEUE, RunSlots } from './slots.ts'

export interface RunsOptions extends RunStorage {
  /** Must not throw. */
  readonly onEvent: (event: RunEvent) => void
}

type Outcome = Extract<RunEvent, { type: 'ended' }>['outcome']

/** Time that a cancelled agent has to end: most agents stop at their next step. The caller waits for it. */
export const STOP_GRACE_MS = 2000

/** In this time, a run that was sent to its server just now gets its id. */
const LEAVE_MS = 1000

/** Executes agents: their turns, slots, time limits, progress and failures. Knows nothing of stored calls. */
export class Runs {
  readonly #options: RunsOptions
  readonly #slots: RunSlots
  /** `undefined` in mode `run`. */
  readonly conversations: Conversations | undefined
  /** An array, because it changes with every run: see `removeFrom`. */
  readonly #active: ActiveRun[] = []
  #isClosed = false
  #onIdle: (() => void) | undefined

  constructor(options: RunsOptions) {
    this.#options = options
    this.#slots = new RunSlots(options.clock, { ...options, ...RUN_QUEUE })
    this.conversations = options.mode === 'thread' ? new Conversations(options) : undefined
  }

  /** Number of runs that have not ended, with those that wait for a slot. */
  get size(): number {
    return this.#active.length
  }

  /** Returns whether another process can continue a call after its process died. */
  canContinue({ agent }: RunTool, order: RunOrder): boolean {
    // The thread of a conversation does not show whether its last checkpoint belongs to this call or to the one before.
    const isConversation = this.conversations !== undefined && ownerOf(order) !== undefined
    return agent.canContinue === true && !isConversation
  }

  /**
   * Lets an agent delete the thread of a run that an engine executed. Nothing waits for the agent.
   *
   * @param remote what was stored to join the run at its server. The run is stopped
   */
  forgetRun({ agentId, runId }: Pick<CallRecord, 'agentId' | 'runId'>, remote?: unknown): void {
    if (remote !== undefined) return this.forgetState(agentId, remote)
    const source = this.#options.agents.sourceOf(agentId)
    const forgetting = async (): Promise<void> => source?.forgetThread?.(agentId, runId)
    forgetting().catch(() => {}) // a source reports its own failures
  }

  /** Lets an agent delete the state of a question that will not be answered. */
  forgetState(agentId: string, state: unknown): void {
    forgetState(this.#options.agents.sourceOf(agentId), agentId, state)
  }

  /** Stops all runs after `graceMs`, and sooner those that go on without this process. */
  async close(graceMs = 0): Promise<void> {
    this.#isClosed = true
    this.conversations?.close()
    if (this.#active.length > 0) await this.#stopRuns(graceMs)
  }

  async #stopRuns(graceMs: number): Promise<void> {
    const { clock } = this.#options
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
    const stopAll = (): void => {
      for (const run of this.#active) run.stop(stopping())
    }
    const leave = (): void => {
      for (const run of this.#active) {
        if (run.execution.sink.remote?.isLeft() === true) run.stop(stopping())
      }
    }
    const undo = graceMs > 0 ? clock.after(graceMs, stopAll) : stopAll()
    const undoLeave = clock.after(Math.min(graceMs, LEAVE_MS), leave)
    await idle
    undo?.()
    undoLeave()
  }

  /**
   * Runs an agent up to its result or its questions. Errors of the agent become results.
   *
   * @throws ProtocolError -32603 with the `runId`, for an error of the gateway
   */
  async execute(execution: Execution): Promise<RunEnding> {
    const { tool, order, earlier } = execution
    const { clock, agents } = this.#options
    // The feed exists before the run has a slot: clients give up after a minute of silence.
    const { progress } = execution.sink
    const feed = progress && new ProgressFeed(progress, clock, earlier?.progress ?? 0)
    const run = new ActiveRun(execution, this.#options, feed)
    this.#active.push(run)
    const startedAt = clock.now()
    const account = accountOf(order)
    let turn: Turn | undefined
    let hasSlot = false
    let isStarted = false
    let outcome: Outcome = 'agent_failed'
    try {
      if (this.#isClosed) throw stopping()
      if (this.conversations) turn = await this.conversations.enter(execution, run.signal)
      const inputFiles = order.files.length > 0 ? await this.#openInputFiles(order) : []
      await this.#slots.take(account, run.signal)
      hasSlot = true
      const source = agents.sourceOf(tool.agent.id)
      if (source === undefined)
        throw new RunFailure('agent_gone', 'It left the gateway. List the tools again.')
      this.#options.onEvent({ type: 'started', ...run.names })
      run.begin(maxRunMsOf(tool, this.#options), inputFiles)
      feed?.line(`Accepted by ${tool.agent.name}`)
      isStarted = true
      const ending = await run.untilEnd(
        runAgent(run, source, turn?.thread),
        this.#options.stopGraceMs,
      )
      feed?.stop({ flush: true })
      outcome = ending.type === 'result' ? 'done' : 'asked'
      if (ending.type === 'result') {
        if (ending.isEmpty === true) this.#options.onEvent({ type: 'empty', ...run.names })
        return { ...ending, result: withUsage(ending.result, run) }
      }
      return { ...ending, progress: feed?.count ?? earlier?.progress ?? 0 }
    } catch (error) {
      if (run.isAbandoned) {
        this.#options.onEvent({ type: 'orphaned', ...run.names })
        agents.degrade(run.names.agentId, 'It did not stop when it was told to')
      }
      feed?.stop({ flush: false })
      const failure = this.#toFailure(error, run)
      outcome = failure.reason
      const failed = failureResult(withAgent(failure, tool.agent.name), order.runId)
      const result = withUsage(failed, run)
      if (error instanceof RunFailure) isStarted &&= error.isStarted
      return { type: 'result', result, isStarted }
    } finally {
      run.close()
      if (hasSlot) this.#slots.release(account)
      if (turn) await turn.leave(outcome === 'asked')
      removeFrom(this.#active, run)
      const durationMs = clock.now() - startedAt
      const usage = run.usage && { usage: run.usage }
      this.#options.onEvent({ type: 'ended', ...run.names, outcome, durationMs, ...usage })
      if (this.#active.length === 0) this.#onIdle?.()
    }
  }

  /** @throws RunFailure `invalid_arguments`; GatewayError `UNAVAILABLE` */
  async #openInputFiles(order: RunOrder): Promise<readonly InputFile[]> {
    try {
      return await this.#options.files.input(order, order.files)
    } catch (error) {
      if (!isOfCaller(error)) throw error
      throw new RunFailure('invalid_arguments', `${textForCaller(error)}.`)
    }
  }

  /**
   * Returns the error for the caller. Its details go to the log only.
   *
   * @throws ProtocolError for an error of the gateway
   */
  #toFailure(error: unknown, { names, execution }: ActiveRun): RunFailure {
    if (error instanceof RunFailure && error.cause === undefined) return error
    const cause = error instanceof RunFailure ? error.cause : error
    const traceId = traceIdOf(execution.order)
    this.#options.onEvent({ type: 'failed', ...names, error: cause, ...(traceId && { traceId }) })
    if (error instanceof RunFailure) return error
    if (GatewayError.is(error)) return new RunFailure('unavailable', UNAVAILABLE)
    const { runId } = names
    throw new ProtocolError(ProtocolErrorCode.InternalError, `Internal error in ${runId}`, {
      runId,
    })
  }
}

/** Does not name the part of the gateway, nor its address. */
const UNAVAILABLE = 'The data of the gateway for it cannot be reached now. Call again in a moment.'

/** The message of these failures does not speak of the agent. */
const NOT_OF_AGENT: ReadonlySet<RunFailureReason> = new Set([
  'busy',
  'cancelled',
  'invalid_arguments',
])

function withAgent(failure: RunFailure, agent: string): RunFailure {
  const { reason, message, retryAfterMs } = failure
  if (NOT_OF_AGENT.has(reason)) return failure
  return new RunFailure(reason, `Agent "${agent}": ${message}`, { cause: failure, retryAfterMs })
}

/** Tells clients that bill or watch what the run has used. */
function withUsage(result: CallToolResult, { usage }: ActiveRun): CallToolResult {
  return usage === undefined ? result : { ...result, _meta: { ...result['_meta'], usage } }
}

/** The second part of `traceparent` (W3C Trace Context, 3.2). */
function traceIdOf({ trace }: RunOrder): string | undefined {
  return /^[\da-f]{2}-([\da-f]{32})-/.exec(trace?.['traceparent'] ?? '')?.[1]
}

function stopping(): RunFailure {
  return new RunFailure('cancelled', 'The gateway is stopping. Call again in a moment.', {
    retryAfterMs: 5000,
  })
}
