import type { RunSettings } from '../../options.ts'
import { ProtocolError } from '@modelcontextprotocol/server'

import type { AgentSource } from '../../agents/agent-source.ts'
import type { Clock } from '../../internal/clock.ts'
import type { Values } from '../../store/gateway-store.ts'
import type { RunEnding, RunOrder } from '../run-ending.ts'
import { RunFailure } from '../../agents/run-failure.ts'
import { failureResult } from '../run-result.ts'
import type { RunResume } from '../run-request.ts'
import type { ToolOutcome } from '../tool-outcome.ts'
import { readAnswers, type AnswersReading } from './answers.ts'
import { askedRun, isOf, isSameCall } from './asked-run.ts'
import {
  failed,
  failureOutcome,
  questionsOutcome,
  refusedResult,
  withEarlier,
} from './asking-outcome.ts'
import { canonicalHash } from './canonical-hash.ts'
import { resumeClaimFrom, type ResumeClaim } from './request-state.ts'
import type { WaitingRun } from './waiting-run.ts'
import { died, WaitingRuns } from './waiting-runs.ts'

interface AskingContext extends Pick<RunSettings, 'needsInputTtlMs' | 'repeatTtlMs' | 'sweepMs'> {
  readonly values: Values
  readonly clock: Clock
  /** The longest time that a run may take. Then its process is dead. */
  readonly maxRunMsOf: (order: RunOrder) => number
  readonly execute: (order: RunOrder) => Promise<RunEnding>
  readonly sourceOf: (agentId: string) => AgentSource | undefined
}

interface Claimed {
  readonly row: WaitingRun
  readonly version: string
}

/** A process that died in the middle of a run is told from a slow one by this. */
const DEAD_AFTER_MS = 60_000
const MAX_CONFLICTS = 5
const UNANSWERED = 'Nobody answered the question of the agent in time, so it stopped.'

/**
 * Runs that ask, and what follows on an answer. A run that waits is a row in the store, and nothing in this
 * process: each round is taken by compare-and-set, so that of all processes and repeats one goes on with it.
 */
export class Asking {
  readonly #context: AskingContext
  readonly #ttlMs: number
  readonly #rows: WaitingRuns
  /** Rounds that this process goes on with: a repeat joins them. */
  readonly #underWay = new Map<string, Promise<ToolOutcome>>()

  constructor(context: AskingContext) {
    const { needsInputTtlMs, repeatTtlMs, sweepMs } = context
    const { values, clock, sourceOf } = context
    this.#context = context
    this.#ttlMs = needsInputTtlMs
    this.#rows = new WaitingRuns({ values, clock, sourceOf, repeatTtlMs, sweepMs })
  }

  /** A new run, which may ask. */
  async begin(order: RunOrder): Promise<ToolOutcome> {
    const ending = await this.#context.execute(order)
    if (ending.type === 'ended') return { type: 'result', result: ending.result }
    const row = askedRun({ order, ending, expiresAt: this.#waitsUntil() })
    return this.#keep(order, row, null)
  }

  /** The answer to a run that asked. */
  async resume(order: RunOrder, resume: RunResume): Promise<ToolOutcome> {
    const claim = resumeClaimFrom(resume.state)
    if (claim === undefined) {
      return failed(
        order,
        'invalid_arguments',
        'This names no run that can be continued: call again without `resume`.',
      )
    }
    const own = { ...order, runId: claim.runId }
    try {
      return await this.#resumeOnce(own, claim, resume)
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      const text = 'The answer cannot be taken now. Give it again in a moment.'
      return failureOutcome(new RunFailure('unavailable', text, { cause: error }), own.runId)
    }
  }

  close(): void {
    this.#rows.close()
  }

  async #resumeOnce(order: RunOrder, claim: ResumeClaim, resume: RunResume): Promise<ToolOutcome> {
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts += 1) {
      const outcome = await this.#tryResume(order, claim, resume)
      if (outcome !== undefined) return outcome
    }
    return failed(order, 'busy', 'The run is being continued elsewhere.')
  }

  /** @returns `undefined` if somebody else changed the row meanwhile */
  async #tryResume(
    order: RunOrder,
    claim: ResumeClaim,
    resume: RunResume,
  ): Promise<ToolOutcome | undefined> {
    const found = await this.#rows.get(claim.runId)
    // One answer for all of these: whether the run exists is nobody else's business.
    if (found === undefined || !isOf(found.row, order, claim)) {
      return failed(
        order,
        'expired',
        'No such run waits for an answer; it may have waited too long.',
      )
    }
    const { row } = found
    if (!isSameCall(row, order, claim)) {
      return failed(
        order,
        'invalid_arguments',
        'A run is continued with the same arguments with which it began.',
      )
    }
    const isPlain = claim.args === undefined
    const reading = readAnswers(row.questions, resume.responses, { earlier: row.answers, isPlain })
    const isOpen = row.phase === 'waiting' && claim.round === row.round
    if (!isOpen) return this.#repeat(order, row, canonicalHash(resume.responses))
    if (row.expiresAt <= this.#context.clock.now()) {
      return failed(order, 'expired', 'The run waited too long for its answer.')
    }
    if (row.beginsAnew === true && order.request.input === undefined) {
      return failed(order, 'invalid_arguments', 'This run begins anew: call with all arguments.')
    }
    if (reading.type === 'complaints') {
      const kept = await this.#rows.put({ ...row, answers: reading.answers }, found.version)
      return kept === undefined ? undefined : questionsOutcome(order, row, reading)
    }
    const taken: WaitingRun = {
      ...row,
      phase: 'running',
      answered: { round: row.round, hash: canonicalHash(resume.responses) },
      expiresAt: this.#context.clock.now() + this.#context.maxRunMsOf(order) + DEAD_AFTER_MS,
    }
    const version = await this.#rows.put(taken, found.version)
    if (version === undefined) return undefined
    const outcome = this.#goOn(order, { row: taken, version }, reading)
    this.#underWay.set(row.runId, outcome)
    try {
      return await outcome
    } finally {
      this.#underWay.delete(row.runId)
    }
  }

  async #goOn(
    order: RunOrder,
    { row, version }: Claimed,
    reading: Exclude<AnswersReading, { type: 'complaints' }>,
  ): Promise<ToolOutcome> {
    if (reading.type === 'refusal' || reading.type === 'timeout') {
      const { runId } = row
      const result =
        reading.type === 'refusal'
          ? refusedResult(runId, reading.action)
          : failureResult(new RunFailure('expired', UNANSWERED), runId)
      await this.#rows.end(row, version, result)
      this.#rows.forget(row)
      return { type: 'result', result }
    }
    const { answers } = reading
    const resume = row.beginsAnew === true ? undefined : { state: row.state, answers }
    const { files, progress } = row
    const ending = await this.#context.execute({ ...order, resume, files, progress })
    if (ending.type === 'asked') {
      const next = askedRun({ order, ending, previous: row, expiresAt: this.#waitsUntil() })
      return this.#keep(order, next, version)
    }
    if (!ending.isStarted) {
      // Nobody has seen the answer yet: it can be given again.
      const { answered: _, ...rest } = row
      const waiting = { ...rest, phase: 'waiting' as const, expiresAt: this.#waitsUntil() }
      await this.#rows.put(waiting, version)
      return { type: 'result', result: ending.result }
    }
    const result = withEarlier(ending.result, files?.blocks ?? [])
    await this.#rows.end(row, version, result)
    return { type: 'result', result }
  }

  /** An answer to a round that was answered before: the same gets the same outcome, and executes nothing. */
  async #repeat(order: RunOrder, row: WaitingRun, hash: string): Promise<ToolOutcome> {
    const isSwept = row.phase === 'ended' && row.answered === undefined
    if (!isSwept && row.answered?.hash !== hash) {
      const text = 'This question was answered before, and otherwise.'
      return failed(order, 'already_answered', text)
    }
    if (row.phase === 'waiting') return questionsOutcome(order, row)
    if (row.phase === 'ended' && row.result !== undefined) {
      return { type: 'result', result: row.result }
    }
    const here = this.#underWay.get(row.runId)
    if (here !== undefined) return here
    return row.expiresAt > this.#context.clock.now()
      ? failed(order, 'busy', 'The run goes on in another process. Ask again in a moment.')
      : failureOutcome(died(), row.runId)
  }

  async #keep(order: RunOrder, row: WaitingRun, ifVersion: string | null): Promise<ToolOutcome> {
    let cause: unknown
    try {
      if ((await this.#rows.put(row, ifVersion)) !== undefined) return questionsOutcome(order, row)
    } catch (error) {
      cause = error
    }
    this.#rows.forget(row)
    const text = 'The agent has a question, but it cannot be kept until it is answered.'
    return failureOutcome(new RunFailure('unavailable', text, { cause }), row.runId)
  }

  #waitsUntil(): number {
    return this.#context.clock.now() + this.#ttlMs
  }
}
