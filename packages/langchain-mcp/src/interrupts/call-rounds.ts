import type { ToolRunnableConfig } from '@langchain/core/tools'
import { isRecord } from '@x/internal'
import { McpClientError, type Progress } from '@x/mcp-client'
import { isForTheCaller, toolErrorFrom, type McpToolError } from '../base/errors.ts'
import {
  serverTitle,
  type McpToolOrigin,
  type ToolCallOptions,
  type ToolResult,
} from '../base/tool-source.ts'
import type { AuthorizationToInterrupt } from './authorization-to-interrupt.ts'
import {
  askedOutcomeFrom,
  tooManyRoundsError,
  failedOutcomeFrom,
  isInputRequired,
  resumeFrom,
  unknownOutcome,
  withMissedQuestion,
  type Answering,
  type AskedOutcome,
  type AuthorizationOutcome,
  type CallOutcome,
} from './call-outcome.ts'
import {
  answersFrom,
  callbackFrom,
  type ElicitationAnswer,
  type McpAuthorizationInterrupt,
  type McpElicitationInterrupt,
} from './interrupt-value.ts'
import { addressVerdict, type GraphPlace, type LangGraphRuntime } from './langgraph.ts'
import {
  HeldCalls,
  LiveCall,
  type ElicitAnswer,
  type LiveCallEvent,
  type ToolCaller,
} from './live-call.ts'
import type { OwnHandlers } from './handlers.ts'

/** One call of a tool. */
export interface InterruptibleCall {
  readonly origin: McpToolOrigin
  readonly config: ToolRunnableConfig
  /** Passed to the client, which passes it back with each question of the call. */
  readonly caller: ToolCaller
  /** Time limit of the server in milliseconds. The clock stops while a person is asked. @default 600_000 */
  readonly timeoutMs: number | undefined
  /** Receives each progress notification. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** Sends one request. */
  send(options: ToolCallOptions): Promise<ToolResult>
}

/** One round: a request, up to its result or the next question. */
export interface Round {
  /** 0 for the first round. */
  readonly number: number
  /** The questions of the previous round. */
  readonly asked?: AskedOutcome
  readonly answers?: Readonly<Record<string, ElicitationAnswer>>
  /** The callback of the authorization server. */
  readonly callback?: string | undefined
}

export const FIRST_ROUND: Round = { number: 0 }

/** The call of a round, and who answers its questions. */
export interface RoundContext {
  readonly call: InterruptibleCall
  readonly answering: Answering
  /** When the call gets its own session. */
  readonly ownSession?: ToolCallOptions['ownSession']
  /** Where the request waits while a person is asked. Undefined if it cannot wait. */
  readonly place?: GraphPlace
  /** Receives the original error, because a checkpoint keeps only plain data of it. */
  readonly thrown: { error?: McpToolError }
}

interface CallRoundsOptions {
  readonly handlers: OwnHandlers
  readonly authorization: AuthorizationToInterrupt | undefined
  /** Time that a request waits for a person, in milliseconds. */
  readonly humanTimeoutMs: number
  readonly maxRounds: number
}

const WORK_MS = 600_000
/** The longest delay of a timer. The limits of a call are checked here, not in the client. */
const NO_LIMIT_MS: number = 2 ** 31 - 1

/**
 * Executes the rounds of calls in a graph. A round sends a request, or continues one that waits for a
 * person.
 */
export class CallRounds {
  readonly #options: CallRoundsOptions
  readonly #held = new HeldCalls<ToolResult>()

  constructor(options: CallRoundsOptions) {
    this.#options = options
  }

  /**
   * Returns the outcome of a round. Most failures are outcomes too.
   *
   * @throws McpToolError for mistakes of the developer; errors that are not from MCP; the reason of the
   * run's signal
   */
  async execute({ asked, answers, callback }: Round, context: RoundContext): Promise<CallOutcome> {
    const { call, answering, thrown } = context
    let problem: string | undefined
    try {
      if (asked?.isHeld === true) return await this.#goOn(answers, context)
      // If this gives no tokens, the server answers 401 again, and the person is asked again.
      if (callback !== undefined) problem = await this.#finish(callback)
      return await this.#send(asked && resumeFrom(asked, answers), context)
    } catch (error) {
      if (call.config.signal?.aborted === true) throw error
      const url = answering === 'interrupt' && this.#options.authorization?.urlIn(error)
      if (typeof url === 'string') {
        return { kind: 'authorization', url, ...(problem !== undefined && { problem }) }
      }
      const failure = toolErrorFrom(error, call.origin)
      if (failure === undefined || isForTheCaller(failure)) throw error
      thrown.error = failure
      return failedOutcomeFrom(failure)
    }
  }

  /** Ends a call whose server keeps asking, with its open request. */
  giveUp({ call, place }: Pick<RoundContext, 'call' | 'place'>): McpToolError {
    const error = tooManyRoundsError(call.origin, this.#options.maxRounds)
    if (place !== undefined) this.#held.take(place)?.abort(error)
    return error
  }

  async #goOn(answers: Round['answers'], context: RoundContext): Promise<CallOutcome> {
    const { call, place } = context
    const live = place && this.#held.take(place)
    if (live === undefined) return unknownOutcome(call.origin)
    const hasEnded = !live.isOpen
    live.onProgress = call.onProgress
    live.answer(elicitAnswersFrom(answers))
    const event = await live.next(call.config.signal)
    // The run that sent the request has ended, and closed its session while a person was asked.
    if (hasEnded && event.kind === 'failed' && isClosed(event.error, call.origin)) {
      return unknownOutcome(call.origin)
    }
    return this.#outcome(event, live, context)
  }

  /** Sends the call, and sends it again while its questions need no person. */
  async #send(given: ToolCallOptions['resume'], context: RoundContext): Promise<CallOutcome> {
    let resume = given
    for (let sent = 0; sent <= this.#options.maxRounds; sent++) {
      const live = this.#start(resume, context)
      const event = await live.next(context.call.config.signal)
      const outcome = await this.#outcome(event, live, context)
      if (outcome.kind !== 'asked' || outcome.isHeld || hasQuestions(outcome)) return outcome
      resume = resumeFrom(outcome)
    }
    throw this.giveUp(context)
  }

  /** @returns why there are no tokens */
  async #finish(callback: string): Promise<string | undefined> {
    try {
      await this.#options.authorization?.finish(callback)
      return undefined
    } catch (error) {
      return error instanceof Error ? error.message : 'Access was not granted'
    }
  }

  #start(
    resume: ToolCallOptions['resume'],
    { call, answering, ownSession }: RoundContext,
  ): LiveCall<ToolResult> {
    const { timeoutMs = WORK_MS, origin, caller, onProgress } = call
    const server = serverTitle(origin.server)
    const live: LiveCall<ToolResult> = new LiveCall(
      async (signal) =>
        call.send({
          signal,
          timeoutMs: NO_LIMIT_MS,
          inputRequired: 'surface',
          resume,
          ownSession,
          ...(onProgress !== undefined && {
            onProgress: (progress: Progress) => live.onProgress?.(progress),
          }),
        }),
      {
        caller,
        workMs: timeoutMs,
        humanMs: this.#options.humanTimeoutMs,
        timeoutError: (ms) =>
          new McpClientError('TIMEOUT', `MCP server "${server}" gave no answer within ${ms} ms`, {
            server,
            tool: origin.toolName,
            outcome: 'unknown',
          }),
      },
    )
    live.onProgress = onProgress
    caller.live = answering === 'interrupt' ? live : undefined
    return live
  }

  async #outcome(
    event: LiveCallEvent<ToolResult>,
    live: LiveCall<ToolResult>,
    { call, answering, place }: RoundContext,
  ): Promise<CallOutcome> {
    switch (event.kind) {
      case 'failed':
        throw event.error
      case 'asked':
        if (place !== undefined) this.#held.hold(place, live)
        return { kind: 'asked', requests: event.requests, answered: {}, isHeld: true }
      case 'ended': {
        const { origin, config } = call
        const { handlers } = this.#options
        return isInputRequired(event.value)
          ? askedOutcomeFrom(event.value, { answering, handlers, origin, signal: config.signal })
          : { kind: 'result', result: withMissedQuestion(event.value, origin, live.caller) }
      }
    }
  }
}

function hasQuestions({ requests }: AskedOutcome): boolean {
  return Object.keys(requests).length > 0
}

function isClosed(error: unknown, origin: McpToolOrigin): boolean {
  return toolErrorFrom(error, origin)?.code === 'CLOSED'
}

/** A question to a person, with its round and call. */
interface Asking<Outcome> {
  readonly outcome: Outcome
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  readonly config: ToolRunnableConfig
  /** Number of the round that continues with the answer. */
  readonly number: number
}

/** Interrupts the graph until valid answers arrive. A wrong answer asks again, and sends nothing. */
export async function askPerson(
  graph: LangGraphRuntime,
  { outcome, origin, place, config, number }: Asking<AskedOutcome>,
): Promise<Readonly<Record<string, ElicitationAnswer>>> {
  const { requests } = outcome
  const key = `${place.toolCallId}:${number}`
  const question: McpElicitationInterrupt = {
    type: 'mcp_elicitation',
    key,
    server: serverTitle(origin.server),
    tool: origin.toolName,
    inputRequests: requests,
    requests: Object.fromEntries(
      Object.entries(requests).map(([name, { params = {} }]) => [name, params]),
    ),
  }
  const read = await askUntilItFits(graph, {
    question,
    place,
    config,
    read: (given) => answersFrom(given, { key, requests }),
  })
  return read.answers
}

/**
 * Interrupts the graph until the user has granted access. Returns the callback of the authorization server,
 * or undefined if the tokens are saved.
 */
export async function askAccess(
  graph: LangGraphRuntime,
  { outcome, origin, place, config, number }: Asking<AuthorizationOutcome>,
): Promise<string | undefined> {
  const { url, problem } = outcome
  const key = `${place.toolCallId}:${number}`
  const question: McpAuthorizationInterrupt = {
    type: 'mcp_authorization',
    key,
    server: serverTitle(origin.server),
    tool: origin.toolName,
    url,
    ...(problem !== undefined && { problem }),
  }
  const read = await askUntilItFits(graph, {
    question,
    place,
    config,
    read: (given) => callbackFrom(given, key),
  })
  return read.callback
}

/** Converts answers of a person to the form that an open request takes. */
function elicitAnswersFrom(
  answers: Readonly<Record<string, ElicitationAnswer>> = {},
): Record<string, ElicitAnswer> {
  return Object.fromEntries(
    Object.entries(answers).map(([key, { action, content }]) => [
      key,
      { action, ...(content !== undefined && { content: plainContent(content) }) },
    ]),
  )
}

interface Question<Read> extends Pick<Asking<unknown>, 'place' | 'config'> {
  readonly question: McpElicitationInterrupt | McpAuthorizationInterrupt
  readonly read: (given: unknown) => Read | { readonly problem: string }
}

/**
 * Asks again until an answer is valid. An answer without the key of the question counts only if it cannot be
 * for another question.
 */
async function askUntilItFits<Read extends object>(
  { interrupt, task }: LangGraphRuntime,
  { question, place, config, read }: Question<Read>,
): Promise<Read> {
  const { key } = question
  const judge = task(`mcp:${place.toolCallId}:address`, (answer: unknown, isKeyNeeded: boolean) =>
    addressVerdict(answer, { key, isKeyNeeded, config }),
  )
  let asked = question
  let isKeyNeeded = false
  for (;;) {
    const given: unknown = interrupt(asked)
    const answer = read(given)
    if ('problem' in answer) {
      asked = { ...question, problem: answer.problem }
      continue
    }
    const isUnkeyed = isRecord(given) && given['key'] !== key
    const verdict = isUnkeyed ? await judge(given, isKeyNeeded) : undefined
    if (verdict?.kind !== 'refused') return answer
    isKeyNeeded = true
    asked = { ...question, problem: verdict.problem }
  }
}

function plainContent(
  content: NonNullable<ElicitationAnswer['content']>,
): NonNullable<ElicitAnswer['content']> {
  return Object.fromEntries(
    Object.entries(content).map(([name, value]) => [
      name,
      typeof value === 'object' ? [...value] : value,
    ]),
  )
}
