import type { CallToolResult } from '@modelcontextprotocol/server'

import type { AgentSource } from '../../agents/agent-source.ts'
import type { Clock } from '../../internal/clock.ts'
import { listAll } from '../../store/gateway-store.ts'
import type { Values } from '../../store/gateway-store.ts'
import { Sweeper } from '../../internal/sweeper.ts'
import { RunFailure } from '../../agents/run-failure.ts'
import { failureResult } from '../run-result.ts'
import { waitingRunFrom, type WaitingRun } from './waiting-run.ts'

export interface WaitingRunsOptions {
  readonly values: Values
  readonly clock: Clock
  readonly sourceOf: (agentId: string) => AgentSource | undefined
  readonly repeatTtlMs: number
  readonly sweepMs: number
}

const PREFIX = 'waiting-run:'
/** Rows outlive their end by this, so that some process gets to clean up after them. */
const SWEEP_GRACE_MS = 600_000
/** What a stored outcome may take; a larger one is given once only. */
const MAX_STORED_CHARS = 1024 * 1024

/** The rows of runs that asked, in the store, and what becomes of those that nobody answers. */
export class WaitingRuns {
  readonly #options: WaitingRunsOptions
  readonly #sweeper: Sweeper

  constructor(options: WaitingRunsOptions) {
    this.#options = options
    const { clock, sweepMs: everyMs } = options
    this.#sweeper = new Sweeper({ clock, everyMs, sweep: () => this.#sweep() })
  }

  async get(
    runId: string,
  ): Promise<{ readonly row: WaitingRun; readonly version: string } | undefined> {
    const found = await this.#options.values.get(keyOf(runId))
    const row = waitingRunFrom(found?.value)
    return found === undefined || row === undefined ? undefined : { row, version: found.version }
  }

  /** @returns the new version; `undefined` if the row is another one meanwhile */
  put(row: WaitingRun, ifVersion: string | null): Promise<string | undefined> {
    const ttlMs = row.expiresAt - this.#options.clock.now() + SWEEP_GRACE_MS
    return this.#options.values.put(keyOf(row.runId), row, { ttlMs, ifVersion })
  }

  /** Keeps the result for whoever repeats the last answer. Never rejects: whoever waits for it has it either way. */
  async end(row: WaitingRun, version: string, result: CallToolResult): Promise<void> {
    const isLarge = JSON.stringify(result).length > MAX_STORED_CHARS
    await this.#end(row, version, isLarge ? givenOnce(row.runId) : result).catch(nothing)
  }

  /** Tells the agent that it need not keep the run any longer. Nobody waits for the agent, which may hang. */
  forget({ agentId, state }: WaitingRun): void {
    const forgetting = async (): Promise<void> => {
      await this.#options.sourceOf(agentId)?.forget?.(agentId, state)
    }
    forgetting().catch(nothing) // a source reports its own failures
  }

  close(): void {
    void this.#sweeper.close()
  }

  async #end(row: WaitingRun, version: string, result: CallToolResult): Promise<boolean> {
    const { values, clock, repeatTtlMs: ttlMs } = this.#options
    const over = { phase: 'ended', state: null, files: undefined, result } as const
    const ended: WaitingRun = { ...row, ...over, expiresAt: clock.now() + ttlMs }
    return (await values.put(keyOf(row.runId), ended, { ttlMs, ifVersion: version })) !== undefined
  }

  async #sweep(): Promise<void> {
    for await (const { value, version } of listAll(this.#options.values, PREFIX)) {
      if (this.#sweeper.isClosed) return
      const row = waitingRunFrom(value)
      if (row !== undefined && this.#isOver(row)) await this.#sweepOne(row, version)
    }
  }

  #isOver({ phase, expiresAt, agentId }: WaitingRun): boolean {
    const { clock, sourceOf } = this.#options
    const isLate = phase !== 'ended' && expiresAt <= clock.now()
    return isLate && sourceOf(agentId) !== undefined
  }

  async #sweepOne(row: WaitingRun, version: string): Promise<void> {
    const { answered, ...rest } = row
    // Of a round that was answered, and whose process died, the answer is still known.
    const ended: WaitingRun = row.phase === 'running' ? { ...rest, answered } : rest
    const failure = row.phase === 'running' ? died() : expired()
    const isOurs = await this.#end(ended, version, failureResult(failure, row.runId))
    if (isOurs) this.forget(row)
  }
}

function expired(): RunFailure {
  return new RunFailure('expired', 'The run waited too long for its answer.')
}

export function died(): RunFailure {
  return new RunFailure('agent_failed', 'The process that went on with this run ended before it.')
}

function keyOf(runId: string): string {
  return `${PREFIX}${runId}`
}

function givenOnce(runId: string): CallToolResult {
  const text = 'The answer of this run was given before, and is too large to be given again.'
  return failureResult(new RunFailure('already_answered', text), runId)
}

function nothing(): void {}
