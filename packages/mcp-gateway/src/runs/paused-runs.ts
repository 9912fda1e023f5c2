import { isDeepStrictEqual } from 'node:util'

import {
  isCallToolResult,
  type CallToolResult,
  type ContentBlock,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { z } from 'zod'
import { RunFailure } from '../agents/agent.ts'
import { whenSchemasChecked } from '../agents/schemas.ts'
import type { EarlierFiles } from '../files/result-files.ts'
import { randomHex } from '../internal/random-hex.ts'
import { whenBack } from '../store/gateway-store.ts'
import {
  readAnswers,
  toForm,
  type Answers,
  type AnswersReading,
  type QuestionForm,
} from './forms.ts'
import { parseClaim, type ResumeClaim } from './request-state.ts'
import { failedOutcome, failureResult } from './result.ts'
import {
  busy,
  hashOf,
  isRunId,
  isStorable,
  type Execution,
  type RunEnding,
  type RunOrder,
  type RunResume,
  type RunStorage,
  type ToolOutcome,
} from './order.ts'
import { DEAD_AFTER_MS, RunRows, type Versioned } from './run-rows.ts'
import { forgetState } from './run.ts'

type Execute = (execution: Execution) => Promise<RunEnding>
type Asked = Extract<RunEnding, { type: 'asked' }>
type Values = Readonly<Record<string, unknown>>

const StoredAnswer = z.union([
  z.object({ action: z.literal('accept'), content: z.custom<Values>(isRecord) }),
  z.object({ action: z.enum(['decline', 'cancel']) }),
])

const StoredQuestion = z.object({
  id: z.string(),
  message: z.string(),
  schema: z.custom<Values>(isRecord).optional(),
  url: z.string().optional(),
  takesRefusal: z.boolean().optional(),
  isBeforeTask: z.boolean().optional(),
})

const StoredFiles = z.object({
  blocks: z.custom<EarlierFiles['blocks']>((content) => isCallToolResult({ content })),
  shown: z.array(z.string()).readonly(),
  scope: z.string().optional(),
})

/** A paused run, as it is stored. Any process that gets the answers can continue it. */
const StoredRun = z.object({
  /** `waiting` for answers; `running` since it was answered; `ended`. */
  phase: z.enum(['waiting', 'running', 'ended']),
  runId: z.custom<string>(isRunId),
  agentId: z.string(),
  skillId: z.string(),
  tool: z.string(),
  principal: z.string(),
  args: z.string(),
  /** Secret of the `resume` argument. It is part of the question, and of nothing else. */
  key: z.string(),
  /** Number of the last question, from 1. */
  round: z.number(),
  /** Number of times that the client was asked. It counts once more when no answer fits. Rows of earlier versions have none. */
  asks: z.number().optional(),
  questions: z.array(StoredQuestion).readonly(),
  /** Answers of this round that were accepted when others were not. */
  answers: z.record(z.string(), StoredAnswer).optional(),
  state: z.unknown().optional(),
  /** The agent has no state to continue with: with the answers, the run begins again. */
  beginsAnew: z.boolean().optional(),
  files: StoredFiles.optional(),
  /** Number of the last piece of progress. */
  progress: z.number(),
  /** The last answers that were accepted: a repeat of them executes nothing. */
  answered: z.object({ round: z.number(), hash: z.string() }).optional(),
  result: z.custom<CallToolResult>(isCallToolResult).optional(),
  /** Milliseconds since 1970. The run waits, or runs, until then. */
  expiresAt: z.number(),
})

type PausedRun = Readonly<z.infer<typeof StoredRun>>

const PREFIX = 'waiting-run:'
/** Most times that the client of one call is asked. Clients have limits too: those of the SDKs stop after 10. */
const MAX_ASKS = 8
const ASKED_TOO_OFTEN = `The agent asked more than ${MAX_ASKS} times in one call, so it was stopped. Call again with the answers in the arguments.`
const NOT_ANSWERED = `The client was asked ${MAX_ASKS} times, and its last answers do not fit the questions, so the agent was stopped. Call again, and answer as the questions say.`
const MAX_CONFLICTS = 5
const UNANSWERED = 'Nobody answered the question of the agent in time, so it stopped.'

/**
 * Runs that asked a question, and their continuation. A paused run is a row in the store, and nothing in this process.
 * Each round is taken by compare-and-set, so that one of all processes and repeats continues the run.
 */
export class PausedRuns {
  readonly #storage: RunStorage
  readonly #execute: Execute
  readonly #rows: RunRows<PausedRun>
  /** Runs that this process continues. A repeat of the answers joins them. */
  readonly #running = new Map<string, Promise<ToolOutcome>>()

  constructor(storage: RunStorage, execute: Execute) {
    this.#storage = storage
    this.#execute = execute
    this.#rows = new RunRows(storage, {
      prefix: PREFIX,
      schema: StoredRun,
      onExpired: (_runId, found) => this.#expire(found),
    })
  }

  /** Begins a run. It may ask. */
  async begin(execution: Execution): Promise<ToolOutcome> {
    const { order } = execution
    if ((order.attempt ?? 1) > 1) {
      const { row } = await this.#reach(execution, () => this.#rows.get(order.runId))
      // An earlier process stored its question, and died before its task had it.
      if (row?.phase === 'waiting') return questionsOutcome(execution, row)
    }
    const ending = await this.#execute(execution)
    if (ending.type === 'result') return ending
    return this.#pause(execution, this.#newRow(execution, ending), null)
  }

  async resume(execution: Execution, resume: RunResume): Promise<ToolOutcome> {
    const claim = parseClaim(resume.state)
    const runId = claim?.runId ?? execution.order.runId
    const own = { ...execution, order: { ...execution.order, runId } }
    try {
      if (claim === undefined) {
        const text = 'This names no run that can be continued: call again without `resume`.'
        throw new RunFailure('invalid_arguments', text)
      }
      for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
        const outcome = await this.#tryResume(own, claim, resume)
        if (outcome !== undefined) return outcome
      }
      throw busy('Another process continues this run. Call again in a moment.')
    } catch (error) {
      const text = 'The answer cannot be stored now. Send it again in a moment.'
      return failedOutcome(error, text, runId)
    }
  }

  close(): void {
    this.#rows.close()
  }

  /** @returns `undefined` if another process changed the row in the meantime. @throws RunFailure */
  async #tryResume(
    execution: Execution,
    claim: ResumeClaim,
    { responses }: RunResume,
  ): Promise<ToolOutcome | undefined> {
    const { clock } = this.#storage
    const { order, tool } = execution
    const { row, version } = await this.#reach(execution, () => this.#rows.get(claim.runId))
    // A run of another caller gets the same answer as an unknown run.
    if (row === undefined || !isOwn(row, execution, claim)) {
      const text = 'No such run waits for an answer. It may have waited too long.'
      throw new RunFailure('expired', text)
    }
    if (!isSameCall(row, order, claim)) {
      const text = 'A run is continued with the same arguments with which it began.'
      throw new RunFailure('invalid_arguments', text)
    }
    const answered = { round: claim.round, hash: hashOf(responses) }
    const isOpen = row.phase === 'waiting' && claim.round === row.round
    // The process that took the answers has died or was stopped.
    const isLeft =
      (order.attempt ?? 1) > 1 &&
      row.phase === 'running' &&
      isDeepStrictEqual(row.answered, answered)
    if (!isOpen && !isLeft) return this.#repeat(execution, row, answered.hash)
    if (isOpen && row.expiresAt <= clock.now()) throw expired()
    if (row.beginsAnew === true && order.input === undefined) {
      throw new RunFailure('invalid_arguments', 'This run begins again: call with all arguments.')
    }
    if (row.questions.some(({ schema }) => schema)) await whenSchemasChecked()
    const isPlain = claim.type === 'argument'
    const reading = readAnswers(row, responses, isPlain)
    if (reading.type === 'errors') {
      const { answers } = reading
      const isProgress = Object.keys(answers).length > Object.keys(row.answers ?? {}).length
      const asks = asksOf(row) + (isProgress ? 0 : 1)
      if (asks > MAX_ASKS) {
        const result = tooManyQuestions(row, NOT_ANSWERED)
        const isEnded = await this.#giveUp({ ...row, answered }, version, result)
        return isEnded ? { type: 'result', result } : undefined
      }
      const stored = await this.#rows.put(row.runId, { ...row, answers, asks }, version)
      return stored === undefined ? undefined : questionsOutcome(execution, row, reading)
    }
    const taken: PausedRun = {
      ...row,
      phase: 'running',
      answered,
      expiresAt: clock.now() + this.#storage.maxRunMs(tool) + DEAD_AFTER_MS,
    }
    const takenVersion = await this.#take(execution, taken, version)
    if (takenVersion === undefined) return undefined
    const outcome = this.#continue(execution, { row: taken, version: takenVersion }, reading)
    this.#running.set(row.runId, outcome)
    try {
      return await outcome
    } finally {
      if (this.#running.get(row.runId) === outcome) this.#running.delete(row.runId)
    }
  }

  async #continue(
    execution: Execution,
    { row, version }: Versioned<PausedRun>,
    reading: Exclude<AnswersReading, { type: 'errors' }>,
  ): Promise<ToolOutcome> {
    if (reading.type !== 'answers') {
      const result =
        reading.type === 'refusal'
          ? refusedResult(row.runId, reading.action)
          : failureResult(new RunFailure('expired', UNANSWERED), row.runId)
      await this.#end(row, version, result).catch(() => {})
      this.#forget(row)
      return { type: 'result', result }
    }
    const { answers } = reading
    const { files, progress, state } = row
    const resume = row.beginsAnew === true ? undefined : { state, answers }
    const ending = await this.#execute({ ...execution, earlier: { resume, files, progress } })
    if (ending.type === 'asked') {
      const next = this.#newRow(execution, ending, row)
      if (asksOf(next) <= MAX_ASKS) return this.#pause(execution, next, version)
      const result = tooManyQuestions(next, ASKED_TOO_OFTEN)
      await this.#giveUp(next, version, result).catch(() => {})
      return { type: 'result', result }
    }
    if (ending.isStarted === false) {
      // The agent did not get the answers, so they can be given again.
      const { answered: _, ...rest } = row
      const again: PausedRun = { ...rest, phase: 'waiting', expiresAt: this.#waitsUntil() }
      await this.#rows.put(row.runId, again, version)
      return { type: 'result', result: ending.result }
    }
    const result = withEarlierFiles(ending.result, files?.blocks ?? [])
    const { order, sink } = execution
    // A stopped attempt of an engine is not the end of the run: another process may continue it.
    const isStopped = order.attempt !== undefined && sink.signal.aborted
    const isEnd = !isStopped && sink.remote?.isLeft() !== true
    if (isEnd) await this.#end(row, version, result).catch(() => {})
    return { type: 'result', result }
  }

  /** The outcome for answers to a round that was answered before. Executes nothing. */
  async #repeat(execution: Execution, row: PausedRun, hash: string): Promise<ToolOutcome> {
    const isExpired = row.phase === 'ended' && row.answered === undefined
    if (!isExpired && row.answered?.hash !== hash) {
      const text = 'This question was answered before, with another answer.'
      throw new RunFailure('already_answered', text)
    }
    if (row.phase === 'waiting') return questionsOutcome(execution, row)
    if (row.phase === 'ended' && row.result) return { type: 'result', result: row.result }
    const running = this.#running.get(row.runId)
    if (running !== undefined) return running
    if (row.expiresAt <= this.#storage.clock.now()) throw died()
    throw busy('The run continues in another process. Call again in a moment.')
  }

  async #pause(
    execution: Execution,
    row: PausedRun,
    ifVersion: string | null,
  ): Promise<ToolOutcome> {
    const isOfEngine = execution.order.attempt !== undefined
    let failure: unknown
    try {
      const stored = await this.#reach(execution, () => this.#rows.put(row.runId, row, ifVersion))
      if (stored !== undefined) return questionsOutcome(execution, row)
      // Stored by a write whose answer was lost, or by an attempt whose process froze.
      const { row: found } = await this.#reach(execution, () => this.#rows.get(row.runId))
      const isAsked = found?.phase === 'waiting' && found.round === row.round
      if (isOfEngine && isAsked) return questionsOutcome(execution, found)
    } catch (error) {
      failure = error
    }
    // Another attempt of an engine, or a process that has joined the run, may use the state.
    if (!isOfEngine && (await execution.sink.remote?.isOwn()) !== false) this.#forget(row)
    const text = 'The agent has a question, but the gateway cannot store the paused run now.'
    return failedOutcome(failure, text, row.runId)
  }

  /** Stores that answers were taken. @returns `undefined` if another process changed the row in the meantime */
  async #take(
    execution: Execution,
    taken: PausedRun,
    ifVersion: string | null,
  ): Promise<string | undefined> {
    let isLost = false
    return this.#reach(execution, async () => {
      if (isLost) {
        // A write whose answer was lost may have happened.
        const { row, version } = await this.#rows.get(taken.runId)
        const isTaken = isDeepStrictEqual(row, JSON.parse(JSON.stringify(taken)))
        if (version !== null && isTaken) return version
      }
      isLost = true
      return this.#rows.put(taken.runId, taken, ifVersion)
    })
  }

  /**
   * Reads or writes a row. While the store is away, a run of an engine tries again until it is stopped: its caller cannot
   * call again.
   */
  #reach<T>({ order, sink, tool }: Execution, operate: () => Promise<T>): Promise<T> {
    const { clock, maxRunMs } = this.#storage
    const ms = order.attempt === undefined ? 0 : maxRunMs(tool)
    return whenBack(operate, { clock, ms, signal: sink.signal })
  }

  #newRow({ order, tool }: Execution, ending: Asked, previous?: PausedRun): PausedRun {
    const { questions, beginsAnew, state, files, progress } = ending
    return {
      phase: 'waiting',
      runId: order.runId,
      agentId: tool.agent.id,
      skillId: tool.skill.id,
      tool: tool.name,
      principal: order.principal.id,
      args: previous?.args ?? hashOf(order.arguments ?? {}),
      key: previous?.key ?? randomHex(8),
      round: (previous?.round ?? 0) + 1,
      asks: previous === undefined ? 1 : asksOf(previous) + 1,
      questions,
      state,
      beginsAnew,
      files,
      progress,
      answered: previous?.answered,
      expiresAt: this.#waitsUntil(),
    }
  }

  #waitsUntil(): number {
    return this.#storage.clock.now() + this.#storage.needsInputTtlMs
  }

  /**
   * Stores the result for a repeat of the last answers.
   *
   * @returns whether this process ended the run. The caller that waits gets the result anyway
   */
  async #end(row: PausedRun, ifVersion: string | null, whole: CallToolResult): Promise<boolean> {
    const { clock, records, repeatTtlMs: ttlMs } = this.#storage
    const result = isStorable(whole) ? whole : givenOnce(row.runId)
    const expiresAt = clock.now() + ttlMs
    const gone = { phase: 'ended', state: null, files: undefined } as const
    const ended: PausedRun = { ...row, ...gone, result, expiresAt }
    return (await records.put(PREFIX + row.runId, ended, { ttlMs, ifVersion })) !== undefined
  }

  /** Ends a run that would ask again. @returns `false` if another process changed the row in the meantime */
  async #giveUp(
    row: PausedRun,
    ifVersion: string | null,
    result: CallToolResult,
  ): Promise<boolean> {
    const isEnded = await this.#end(row, ifVersion, result)
    if (isEnded) this.#forget(row)
    return isEnded
  }

  #forget({ agentId, state }: PausedRun): void {
    forgetState(this.#storage.agents.sourceOf(agentId), agentId, state)
  }

  /** Ends a run that waited too long, or whose process died. */
  async #expire({ row, version }: Versioned<PausedRun>): Promise<void> {
    if (row.phase === 'ended') return
    const isRunning = row.phase === 'running'
    const result = failureResult(isRunning ? died() : expired(), row.runId)
    // A repeat of the answers to a run that died gets this result; other answers are refused.
    const ended = isRunning ? row : { ...row, answered: undefined }
    if (await this.#end(ended, version, result)) this.#forget(row)
  }
}

function asksOf({ asks, round }: PausedRun): number {
  return asks ?? round
}

/** Whether a run belongs to the caller, and is the run that the claim names. */
function isOwn(row: PausedRun, { tool, order }: Execution, claim: ResumeClaim): boolean {
  return (
    row.principal === order.principal.id &&
    row.agentId === tool.agent.id &&
    row.skillId === tool.skill.id &&
    (claim.type === 'argument' ? claim.key === row.key : claim.tool === row.tool)
  )
}

/** Whether a call has the arguments with which the run began. A `resume` argument may come without the others. */
function isSameCall(row: PausedRun, order: RunOrder, claim: ResumeClaim): boolean {
  if (claim.type === 'state' && claim.args !== row.args) return false
  if (claim.type === 'argument' && order.arguments === undefined) return true
  return hashOf(order.arguments ?? {}) === row.args
}

/** The open questions of a run: as forms for a client that can show them, else as text for its model. */
function questionsOutcome(
  { order, tool }: Execution,
  row: PausedRun,
  reading?: Extract<AnswersReading, { type: 'errors' }>,
): ToolOutcome {
  const { canAsk, canVisit, knowsChoices } = order.client
  const answers: Answers = reading?.answers ?? row.answers ?? {}
  const forms = row.questions.flatMap((question, index) => {
    if (Object.hasOwn(answers, question.id)) return []
    const form = toForm(question, index, knowsChoices)
    const error = reading?.errors.get(question.id)
    const asked = error === undefined ? form : { ...form, message: `${form.message}\n(${error})` }
    return canVisit || form.url === undefined ? asked : withoutPage(asked)
  })
  if (forms.every(({ url }) => (url === undefined ? canAsk : canVisit))) {
    const { runId, round, args } = row
    const isBeforeTask = row.questions.every((question) => question.isBeforeTask === true)
    return { type: 'input', forms, state: { runId, round, tool: row.tool, args }, isBeforeTask }
  }
  const result = tool.takesResume
    ? needsInputResult(row, forms, tool.outputSchema !== undefined)
    : cannotAnswerResult(row, forms)
  return { type: 'result', result }
}

/** For a client that cannot send its user to a page. */
function withoutPage({ message, url, ...form }: QuestionForm): QuestionForm {
  return { ...form, message: `${message}\n${url}`, url: undefined }
}

/** Questions for a client without forms: the model reads them, and calls again with `resume`. */
function needsInputResult(
  row: PausedRun,
  forms: readonly QuestionForm[],
  hasOutputSchema: boolean,
): CallToolResult {
  const questions = forms.map(({ key, message, requestedSchema }) => ({
    key,
    message,
    schema: requestedSchema,
  }))
  // The key is part of the question only: ids of runs are in logs.
  const run = `${row.runId}.${row.round}.${row.key}`
  const example = { run, answers: Object.fromEntries(forms.map(({ key }) => [key, {}])) }
  const lines = [
    'The agent has a question before it can go on:',
    ...questions.map(({ key, message, schema }) => `${key}: ${message}\n${JSON.stringify(schema)}`),
    `Ask the user, then call this tool again with \`resume\`: ${JSON.stringify(example)}, each answer filled in by its schema, or {"action":"decline"} where the user does not want to answer.`,
  ]
  return {
    content: [{ type: 'text', text: lines.join('\n') }, ...(row.files?.blocks ?? [])],
    // Structured content of another schema would break the output schema. An error needs none.
    ...(hasOutputSchema
      ? { isError: true }
      : { structuredContent: { status: 'needs_input', run, questions } }),
    _meta: { reason: 'needs_input', runId: row.runId },
  }
}

/** Questions that neither the client nor its model can answer. Its run ends when its time is over. */
function cannotAnswerResult(row: PausedRun, forms: readonly QuestionForm[]): CallToolResult {
  const lines = [
    'The agent has a question before it can go on:',
    ...forms.map(({ message }) => message),
    'It cannot be answered here: the client does not show questions (elicitation), and the tool has no parameter for answers. Ask the user, and call again with the answer in the arguments, or use a client that shows questions.',
  ]
  return {
    content: [{ type: 'text', text: lines.join('\n') }, ...(row.files?.blocks ?? [])],
    isError: true,
    _meta: { reason: 'needs_input', runId: row.runId },
  }
}

function refusedResult(runId: string, action: 'decline' | 'cancel'): CallToolResult {
  const text = action === 'decline' ? 'declined to answer' : 'cancelled the question'
  return {
    content: [{ type: 'text', text: `The user ${text}, so the agent stopped.` }],
    _meta: { runId, reason: action },
  }
}

/** A failure with the files of all rounds. */
function tooManyQuestions({ files, runId }: PausedRun, why: string): CallToolResult {
  const failure = failureResult(new RunFailure('too_many_questions', why), runId)
  return withEarlierFiles(failure, files?.blocks ?? [])
}

/** Adds the files of earlier rounds to a failure, after its text. Other results have them already. */
function withEarlierFiles(result: CallToolResult, blocks: readonly ContentBlock[]): CallToolResult {
  if (result.isError !== true || blocks.length === 0) return result
  const at = result.content[0]?.type === 'text' ? 1 : 0
  return { ...result, content: result.content.toSpliced(at, 0, ...blocks) }
}

function givenOnce(runId: string): CallToolResult {
  const text = 'The answer of this run was given before, and is too large to be given again.'
  return failureResult(new RunFailure('already_answered', text), runId)
}

function expired(): RunFailure {
  return new RunFailure('expired', 'The run waited too long for its answer.')
}

function died(): RunFailure {
  return new RunFailure('agent_failed', 'The process that continued this run died before its end.')
}
