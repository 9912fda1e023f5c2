import type { ToolRunnableConfig } from '@langchain/core/tools'
import { CreateMessageRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { LONGEST_MS } from '@x/internal'
import type {
  ClientHandlers,
  HandlerContext,
  InputRequired,
  InputResume,
  Progress,
  TimeoutExtension,
} from '@x/mcp-client'
import type { InputRequest } from '@x/mcp-transport'
import { toolErrorFrom, type McpToolError } from '../errors.ts'
import type { LangGraphRuntime } from './langgraph.ts'
import {
  serverTitle,
  type McpToolOrigin,
  type McpToolSource,
  type StartedCall,
  type ToolCallOptions,
  type ToolResult,
} from '../tool-source.ts'
import { AnswerLog, askForAccess, askPerson } from './ask-person.ts'
import { finishError, type AuthorizationToInterrupt } from './authorization-to-interrupt.ts'
import type { CallJournal } from './call-journal.ts'
import {
  callOutcomeFrom,
  errorFrom,
  failedOutcomeFrom,
  fatalFrom,
  noAnswerError,
  siblingsError,
  tooManyRoundsError,
  unknownOutcome,
  type AskedOutcome,
  type AuthorizationOutcome,
  type CallOutcome,
  type TaskOutcome,
} from './call-outcome.ts'
import {
  answersFrom,
  type ElicitationAnswer,
  type McpElicitationInterrupt,
  type McpTaskInterrupt,
} from './interrupt-value.ts'
import { questionKey, stepIn, type GraphPlace } from './graph-place.ts'
import { LiveCall, type HeldCalls, type ToolCaller } from './live-call.ts'

/** One call of a tool. */
export interface InterruptibleCall {
  readonly origin: McpToolOrigin
  readonly source: McpToolSource
  readonly args: Record<string, unknown>
  /** `caller` is passed back by the client with each question of the call. */
  readonly options: ToolCallOptions & {
    readonly config: ToolRunnableConfig
    readonly caller: ToolCaller
  }
  readonly secrets: readonly string[]
  /** `true`: the graph is interrupted while a server continues the call as a task. */
  readonly interruptsForTasks: boolean
}

/** Who answers questions to a person: an interrupt of the graph, the client, or none (the call then fails). */
type Answering = 'interrupt' | 'client' | 'none'

/** The part of an `ElicitationToInterrupt` that its calls share. */
export interface SharedByCalls {
  readonly handlers: ClientHandlers
  readonly authorization: AuthorizationToInterrupt | undefined
  /** Time that a request waits for a person, in milliseconds. */
  readonly humanTimeoutMs: number
  readonly journal: CallJournal
  readonly held: HeldCalls
  /** Warns that LangGraph does not have something, or wrote something in an unknown form. */
  readonly warnOfUnknown: (what: string) => void
}

/** A call in a task of a graph. */
export interface CallInGraph extends InterruptibleCall {
  readonly graph: LangGraphRuntime
  readonly place: GraphPlace
  readonly answering: Answering
  readonly shared: SharedByCalls
}

/** Limit of rounds of questions in one call. People answer them, so it is higher than that of inputs from handlers (`MAX_INPUT_ROUNDS`). */
export const MAX_QUESTION_ROUNDS = 32

/** One round: a request, up to its result or the next question. */
interface Round {
  /** 0 for the first round. */
  readonly number: number
  /** The input that continues the call. A round that continues a task may be executed again. */
  readonly resume: InputResume | undefined
  /** Answers for a request that is still open in this process. */
  readonly held: Readonly<Record<string, ElicitationAnswer>> | undefined
  /** The callback of the authorization server. */
  readonly callback: string | undefined
  /** Time that the server has used in the rounds before, in milliseconds. */
  readonly usedMs: number
}

/** Limit of a call whose client has none. */
const WORK_MS = 600_000

/**
 * One call of a tool in a task of a graph, in as many rounds as its questions need. Each round is executed once, in any
 * process, and its outcome is stored. Between rounds a person may be asked.
 */
export class CallRounds {
  readonly #call: CallInGraph
  /** Created with the first question. */
  #answers: AnswerLog | undefined
  /** Error of the client, because a checkpoint keeps only plain data of the failure. */
  #thrown: unknown
  /** Time that the server has used for the call, in milliseconds. Time that a person takes does not count. */
  #usedMs = 0

  constructor(call: CallInGraph) {
    this.#call = call
  }

  /** Calls the tool. @throws McpToolError if the call fails; LangGraph's `GraphInterrupt` for a question */
  async run(): Promise<ToolResult> {
    const { origin, place } = this.#call
    const step = stepIn(this.#call, {
      name: `mcp:${place.toolCallId}`,
      run: (given: Round) => this.#executeOnce(given),
      isNeeded: (outcome) => !isEnd(outcome),
    })
    const none = { resume: undefined, held: undefined, callback: undefined }
    let round: Round = { number: 0, usedMs: 0, ...none }
    for (;;) {
      const outcome = callOutcomeFrom(await step(round))
      if (outcome.kind === 'result') return outcome.result
      // Made here and not below the task, so that its stack reaches the caller of the tool.
      if (outcome.kind === 'failed') {
        throw toolErrorFrom(this.#thrown, origin) ?? errorFrom(outcome, origin)
      }
      const next =
        outcome.kind === 'task'
          ? this.#waitFor(outcome)
          : await this.#ask(outcome, round.number + 1)
      round = { ...round, ...next, usedMs: outcome.usedMs ?? 0 }
    }
  }

  /** Interrupts the graph while a task works, if that is wanted. Returns the next round, which continues the task. */
  #waitFor({ reference, message }: TaskOutcome): Partial<Round> {
    if (this.#interruptsForTasks) {
      const about = this.#aboutQuestion('task')
      const value: McpTaskInterrupt = { type: 'mcp_task', ...about, task: reference, message }
      this.#call.graph.interrupt(value)
    }
    return { resume: { task: reference }, held: undefined }
  }

  /** Interrupts the graph for a person. Returns the next round, with the answers. */
  async #ask(
    outcome: AskedOutcome | AuthorizationOutcome,
    number: number,
  ): Promise<Partial<Round>> {
    if (number > MAX_QUESTION_ROUNDS) throw this.#giveUp()
    const { origin, graph } = this.#call
    const answers = this.#answerLog
    if (outcome.kind === 'asked') {
      const { requests: inputRequests } = outcome
      const params = Object.entries(inputRequests).map(([name, one]) => [name, one.params ?? {}])
      const question: McpElicitationInterrupt = {
        type: 'mcp_elicitation',
        ...this.#aboutQuestion(number),
        inputRequests,
        requests: Object.fromEntries(params),
      }
      const read = (answer: unknown) => answersFrom(answer, inputRequests)
      const given = await askPerson(graph, { origin, question, answers, read })
      const resume = resumeFrom(outcome, given.answers)
      const held = outcome.isHeld ? given.answers : undefined
      return { number, resume, held, callback: undefined }
    }
    const key = questionKey(this.#call.place, number)
    const callback = await askForAccess(graph, { origin, key, answers, needed: outcome })
    return { number, callback }
  }

  get #answerLog(): AnswerLog {
    return (this.#answers ??= new AnswerLog(this.#call.place, this.#call.shared.warnOfUnknown))
  }

  #aboutQuestion(
    question: number | 'task',
  ): Pick<McpTaskInterrupt, 'key' | 'server' | 'tool' | 'call' | 'history'> {
    const { server, toolName: tool } = this.#call.origin
    const key = questionKey(this.#call.place, question)
    return { key, server: serverTitle(server), tool, ...this.#answerLog.about }
  }

  /** Executes a round, unless it was executed before: then its outcome counts. */
  async #executeOnce(round: Round): Promise<CallOutcome> {
    const execute = async (sentAt?: number): Promise<CallOutcome> => {
      this.#usedMs = round.usedMs
      const outcome = await this.#execute(round, sentAt)
      return { ...outcome, usedMs: this.#usedMs }
    }
    // Only this process can answer an open request, and only once, so no record is needed.
    if (round.held !== undefined || round.resume?.task !== undefined) return execute()
    const { origin, place, shared } = this.#call
    const outcome = await shared.journal.once({ origin, place, number: round.number }, execute)
    // The run was aborted while the reference was stored. `callTool()` then cancels the task.
    const isAborted = this.#call.options.config.signal?.aborted === true
    return outcome.kind === 'task' && isAborted ? this.#send({ task: outcome.reference }) : outcome
  }

  /**
   * Returns the outcome of a round: of a request, or of one that waits for a person. Most failures are
   * outcomes too.
   *
   * @throws McpToolError for mistakes of the developer; errors that are not from MCP; the reason of the
   * run's signal
   */
  async #execute(
    { resume, held, callback }: Round,
    sentAt: number | undefined,
  ): Promise<CallOutcome> {
    const { origin, secrets, options, shared } = this.#call
    const { authorization } = shared
    let problem: string | undefined
    try {
      if (held !== undefined) return await this.#goOn(held)
      // If this gives no tokens, the server answers 401 again, and the person is asked again.
      if (callback !== undefined) problem = await finishError(authorization, callback)
      return resume?.task !== undefined && this.#interruptsForTasks
        ? await this.#continueTask(resume)
        : await this.#send(resume, sentAt)
    } catch (error) {
      if (options.config.signal?.aborted === true) throw error
      const failure = toolErrorFrom(error, origin)
      // After the sign-in the call is sent again, so it must not have been executed. The request that needs access may
      // also be a later one, which continues the response of the call or answers a question. A task is only polled again.
      const isUnsent = failure === undefined || failure.outcome === 'not-executed'
      const mayRepeat = resume?.task !== undefined || (isUnsent && held === undefined)
      const canAsk = mayRepeat && this.#call.answering === 'interrupt'
      const page = canAsk ? authorization?.pageIn(error) : undefined
      if (page !== undefined) return { kind: 'authorization', ...page, problem }
      const fatal = fatalFrom(error, origin, secrets)
      if (fatal !== undefined) throw fatal.error // the task ends the run with exactly this error
      if (failure === undefined) throw error
      // An earlier process may have executed the call, whatever this attempt met.
      if (sentAt !== undefined) return unknownOutcome(origin)
      this.#thrown = error
      return failedOutcomeFrom(failure)
    }
  }

  /**
   * Sends the call, and sends it again while its questions need no person.
   *
   * @param given the input that continues an earlier request
   * @param sentAt when an earlier process sent the request
   */
  async #send(given?: InputResume, sentAt?: number): Promise<CallOutcome> {
    let resume = given
    for (let sent = 0; sent <= MAX_QUESTION_ROUNDS; sent++) {
      // A checkpoint keeps the reference of a task before the result is awaited.
      const keepsTask = resume?.task === undefined
      const own = { resume, sentAt: resume === given ? sentAt : undefined }
      // In sequence, because each request answers the questions of the previous one.
      const outcome =
        keepsTask && this.#call.answering === 'interrupt'
          ? await this.#sendLive(own)
          : await this.#outcomeOf(await this.#timed(() => this.#request(own, keepsTask)))
      if (outcome.kind !== 'asked' || outcome.isHeld) return outcome
      if (Object.keys(outcome.requests).length > 0) return outcome
      resume = resumeFrom(outcome)
    }
    throw this.#giveUp()
  }

  /** Sends the call, and waits for its task if there is one and it is not kept. */
  async #request(own: ToolCallOptions, keepsTask: boolean): Promise<StartedCall> {
    const { source, origin, args } = this.#call
    const options = this.#optionsWith(own)
    return keepsTask && source.startTool !== undefined
      ? source.startTool(origin.toolName, args, options)
      : { result: await source.callTool(origin.toolName, args, options) }
  }

  /** Each request gets what is left of the limit of the call. */
  #optionsWith(own: ToolCallOptions): ToolCallOptions {
    const inputRequired = this.#call.answering === 'client' ? 'answer' : 'surface'
    const { options } = this.#call
    const { timeoutMs: limitMs } = options
    const extension = this.#extension
    if (extension !== undefined) {
      const timeout = { ...extension, maxMs: Math.max(extension.maxMs - this.#usedMs, 1) }
      const timeoutMs = limitMs && Math.min(limitMs, timeout.maxMs)
      return { ...options, inputRequired, timeoutMs, timeout, ...own }
    }
    const timeoutMs = limitMs && Math.max(limitMs - this.#usedMs, 1)
    return { ...options, inputRequired, timeoutMs, ...own }
  }

  /** Set if progress restarts the limit. Then each request restarts it, too. */
  get #extension(): TimeoutExtension | undefined {
    const { timeout } = this.#call.source
    return timeout?.resetOnProgress === true ? timeout : undefined
  }

  /** Counts the time of a request. */
  async #timed<Result>(request: () => Promise<Result>): Promise<Result> {
    const startedAt = performance.now()
    try {
      return await request()
    } finally {
      this.#usedMs += performance.now() - startedAt
    }
  }

  get #interruptsForTasks(): boolean {
    return this.#call.interruptsForTasks && this.#call.place.isAlone
  }

  /** Answers the questions of a task. Returns its result or next questions, or at once if it still works. */
  async #continueTask(resume: InputResume): Promise<CallOutcome> {
    const { source, origin, args, options } = this.#call
    const { signal } = options.config
    const started = await source.startTool?.(origin.toolName, args, this.#optionsWith({ resume }))
    if (started?.task === undefined) return this.#send(resume)
    const { task } = started
    const current = await task.status({ signal }).catch((error: unknown) => {
      if (signal?.aborted !== true) throw error
    })
    const { reference } = task
    // The run was aborted: `callTool()` then cancels the task.
    if (current === undefined) return this.#send({ task: reference })
    const { status, statusMessage: message, inputRequests = {} } = current
    // A server may still show questions that were just answered.
    const isAsked = Object.keys(inputRequests).some((key) => !reference.answeredKeys.includes(key))
    const isOpen = status === 'working' || (status === 'input_required' && !isAsked)
    return isOpen ? { kind: 'task', reference, message } : this.#send({ task: reference })
  }

  /** Sends a request that may stay open while a person is asked. */
  async #sendLive(own: ToolCallOptions): Promise<CallOutcome> {
    const { source, options } = this.#call
    const { caller, timeoutMs = source.timeoutMs ?? WORK_MS, onProgress } = options
    const humanMs = this.#call.shared.humanTimeoutMs
    const maxMs = this.#extension?.maxMs
    const limits = { workMs: timeoutMs, maxMs, usedMs: this.#usedMs, humanMs }
    const live: LiveCall = new LiveCall(caller, limits, async (signal) => {
      const asksForProgress = onProgress !== undefined || maxMs !== undefined
      const onLive = asksForProgress ? (progress: Progress) => live.progressed(progress) : undefined
      // The limits of an open request are checked by `LiveCall`, not by the client.
      const limitless = { ...own, signal, timeoutMs: LONGEST_MS, onProgress: onLive }
      return this.#request(limitless, true)
    })
    live.onProgress = onProgress
    caller.live = live
    return this.#next(live)
  }

  /** Continues an open request with the answers of a person. */
  async #goOn(answers: NonNullable<Round['held']>): Promise<CallOutcome> {
    const { origin, options } = this.#call
    const live = this.#call.shared.held.take(this.#call.place)
    if (live === undefined) return unknownOutcome(origin)
    const hasEnded = !live.isOpen
    live.onProgress = options.onProgress
    live.answer(answers)
    try {
      return await this.#next(live)
    } catch (error) {
      // The run that sent the request has ended, and closed its session while a person was asked.
      if (hasEnded && toolErrorFrom(error, origin)?.code === 'CLOSED') return unknownOutcome(origin)
      throw error
    }
  }

  /** Waits for the end of an open request, or for a question. */
  async #next(live: LiveCall): Promise<CallOutcome> {
    try {
      const next = await live.next(this.#call.options.config.signal)
      if (!('requests' in next)) return await this.#outcomeOf(next)
      this.#call.shared.held.hold(this.#call.place, live)
      const none = { answered: {}, requestState: undefined, task: undefined }
      return { kind: 'asked', ...next, ...none, isHeld: true }
    } finally {
      this.#usedMs = live.usedMs
    }
  }

  /** Answers the questions that need no person, and returns the others. */
  #outcomeOf({ result, task }: StartedCall): CallOutcome | Promise<AskedOutcome> {
    if (task !== undefined) return { kind: 'task', reference: task.reference, message: undefined }
    if (isInputRequired(result)) return this.#askedOutcome(result)
    return { kind: 'result', result }
  }

  /** @throws McpToolError `INPUT_REQUIRED` for a question without an answer; the reason of the run's signal */
  async #askedOutcome({
    inputRequests = {},
    requestState,
    task,
  }: InputRequired): Promise<AskedOutcome> {
    const { origin, options } = this.#call
    const { signal = new AbortController().signal } = options.config
    const server = serverTitle(origin.server)
    const context: HandlerContext = { signal, scope: undefined, server, origin: undefined }
    const requests: Record<string, InputRequest> = {}
    const answered: Record<string, unknown> = {}
    for (const [key, question] of Object.entries(inputRequests)) {
      const isForPerson = question.method === 'elicitation/create'
      if (isForPerson && this.#call.answering === 'interrupt') {
        requests[key] = question
        continue
      }
      if (isForPerson) throw siblingsError(origin)
      // In sequence, because most servers ask one question.
      const asked = ownAnswer(question, this.#call.shared.handlers, context)
      const answer = await asked.catch((cause: unknown) => {
        signal.throwIfAborted()
        throw noAnswerError(origin, question.method, { cause })
      })
      if (answer === undefined) throw noAnswerError(origin, question.method)
      answered[key] = answer
    }
    return { kind: 'asked', requests, answered, requestState, isHeld: false, task }
  }

  /** Ends a call whose server keeps asking, with its open request. */
  #giveUp(): McpToolError {
    const error = tooManyRoundsError(this.#call.origin, MAX_QUESTION_ROUNDS)
    this.#call.shared.held.take(this.#call.place)?.abort(error)
    return error
  }
}

function isEnd(outcome: unknown): boolean {
  const { kind } = callOutcomeFrom(outcome)
  return kind === 'result' || kind === 'failed'
}

/** Narrows the type. The client has checked the value. */
function isInputRequired(value: ToolResult): value is ToolResult & InputRequired {
  return value.type === 'input_required'
}

/** Returns the input that continues a call: answers of handlers and of a person. */
function resumeFrom(
  { requestState, answered, task }: AskedOutcome,
  answers: Round['held'] = {},
): InputResume {
  return {
    ...(task !== undefined && { task }),
    ...(requestState !== undefined && { requestState }),
    inputResponses: { ...answered, ...answers },
  }
}

/**
 * Returns the answer of a handler to a question that is not for a person, or undefined without a handler.
 *
 * @throws the error of the handler; ZodError for an invalid question
 */
async function ownAnswer(
  { method, params }: InputRequest,
  { sampling, roots }: ClientHandlers,
  context: HandlerContext,
): Promise<unknown> {
  if (method === 'sampling/createMessage' && sampling !== undefined) {
    return sampling(CreateMessageRequestSchema.parse({ method, params }).params, context)
  }
  if (method === 'roots/list' && roots !== undefined) return { roots: [...(await roots(context))] }
  return undefined
}
