import type { Clock } from '../internal/clock.ts'
import { GatewayError, type GatewayErrorCode } from '../errors.ts'
import type { AgentCall } from '../agents/agent-call.ts'
import type { AgentUpdate, FinalUpdate } from '../agents/agent-update.ts'
import type { AgentSource } from '../agents/agent-source.ts'
import type { RunCollector } from './run-collector.ts'
import type { RunNames } from '../internal/run-event.ts'
import { RunFailure } from '../agents/run-failure.ts'
import { type RunFailureReason } from '../internal/run-event.ts'
import type { RunLimits } from './run-limits.ts'

/** A run between its registration and its end. */
export class ActiveRun {
  readonly names: RunNames
  readonly #controller = new AbortController()
  readonly #clock: Clock

  constructor(names: RunNames, clock: Clock) {
    this.names = names
    this.#clock = clock
  }

  /** What the agent listens to. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Tells the agent to stop. The first reason counts. */
  stop(failure: RunFailure): void {
    this.#controller.abort(failure)
  }

  /** Stops when another signal aborts. @returns the undo */
  stopWith(signal: AbortSignal, failure: () => RunFailure): () => void {
    const onAbort = (): void => this.stop(failure())
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    return () => signal.removeEventListener('abort', onAbort)
  }

  /**
   * The end of a run, or the reason why it was stopped. An agent that was told to stop has `graceMs` to do so;
   * then the run ends without it, after `onOrphaned`.
   */
  untilEnd<T>(end: Promise<T>, graceMs: number, onOrphaned: () => void): Promise<T> {
    return new Promise((resolve, reject) => {
      let undoGrace: (() => void) | undefined
      const onStop = (): void => {
        undoGrace = this.#clock.after(graceMs, () => {
          onOrphaned()
          reject(this.signal.reason)
        })
      }
      const settle = (): void => {
        undoGrace?.()
        this.signal.removeEventListener('abort', onStop)
      }
      if (this.signal.aborted) onStop()
      else this.signal.addEventListener('abort', onStop, { once: true })
      const follow = async (): Promise<void> => {
        try {
          const final = await end
          // An answer that comes after the stop is too late: whoever waited was told otherwise, or is gone.
          this.signal.throwIfAborted()
          resolve(final)
        } catch (error) {
          reject(this.signal.aborted ? this.signal.reason : error)
        } finally {
          settle()
        }
      }
      void follow()
    })
  }
}

export interface AgentRun {
  readonly source: AgentSource
  readonly call: AgentCall
  readonly collector: RunCollector
  readonly limits: RunLimits
}

/**
 * Lets the agent speak until its last update.
 *
 * @throws RunFailure, with what the agent threw as its cause: that may hold anything, and is for the log alone
 */
export async function listenToAgent(run: AgentRun): Promise<FinalUpdate> {
  try {
    return await listen(run)
  } catch (error) {
    if (error instanceof RunFailure) throw error
    // It was told so by the gateway, and did nothing about it.
    const reason = GatewayError.is(error) ? REASONS.get(error.code) : undefined
    if (GatewayError.is(error) && reason) throw new RunFailure(reason, `${error.message}.`)
    throw new RunFailure('agent_failed', 'It failed; the log of the gateway says why.', {
      cause: error,
    })
  }
}

const REASONS: ReadonlyMap<GatewayErrorCode, RunFailureReason> = new Map([
  ['LIMIT', 'too_large'],
  ['QUOTA', 'no_room'],
])

const UPDATES_A_TURN = 1000

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

async function listen({ source, call, collector, limits }: AgentRun): Promise<FinalUpdate> {
  call.signal.throwIfAborted()
  let heard = 0
  for await (const update of source.run(call)) {
    heard += 1
    // One that never pauses would let nobody else have a turn: no limit could be reached, and no caller give up.
    if (heard % UPDATES_A_TURN === 0) await nextTurn()
    if (call.signal.aborted) forgetQuestion({ source, call }, update)
    call.signal.throwIfAborted()
    limits.touch()
    const final = await collector.take(update)
    if (final !== undefined) return final
    // Storing a large file is not silence.
    if (update.type === 'file') limits.touch()
  }
  throw new RunFailure('agent_failed', 'It ended without an answer.')
}

/** Tells an agent that nobody will answer its question. Nobody waits for the agent, which may hang. */
export function forgetQuestion(
  { source, call }: Pick<AgentRun, 'source' | 'call'>,
  update: AgentUpdate,
): void {
  if (update.type !== 'asked' && update.type !== 'authorization') return
  const { state } = update
  if (state === undefined) return
  const forgetting = async (): Promise<void> => source.forget?.(call.agentId, state)
  forgetting().catch(() => undefined) // a source reports its own failures
}
