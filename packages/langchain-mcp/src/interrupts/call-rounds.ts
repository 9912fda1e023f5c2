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
  endless,
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
  type LiveCallNews,
  type ToolCaller,
} from './live-call.ts'
import type { OwnHandlers } from './own-handlers.ts'

/** One call of a tool, as a tool hands it over. */
export interface InterruptibleCall {
  readonly origin: McpToolOrigin
  readonly config: ToolRunnableConfig
  /** Told to the client, which gives it back with each question of the call. */
  readonly caller: ToolCaller
  /** Time that the server may take, in milliseconds; it stands still while a person is asked. @default 600_000 */
  readonly timeoutMs: number | undefined
  /** Told of each progress notification, where somebody wants to know. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** One request on the wire. */
  send(options: ToolCallOptions): Promise<ToolResult>
}

/** One turn between a server and a person: what goes out until there is a result, or another question. */
export interface Round {
  /** The first one is 0. */
  readonly number: number
  /** What was asked in the one before. */
  readonly asked?: AskedOutcome
  readonly answers?: Readonly<Record<string, ElicitationAnswer>>
  /** What the user came back with from an authorization server. */
  readonly callback?: string | undefined
}

export const FIRST_ROUND: Round = { number: 0 }

/** The call that a round belongs to, and who answers what the server asks in it. */
export interface RoundContext {
  readonly call: InterruptibleCall
  readonly answering: Answering
  /** When the call gets a session of its own. */
  readonly ownSession?: ToolCallOptions['ownSession']
  /** Where the call waits while a person is asked; without one it cannot. */
  readonly place?: GraphPlace
  /** Given the error itself, which is no plain data: what comes out of a checkpoint has lost it. */
  readonly thrown: { error?: McpToolError }
}

interface CallRoundsOptions {
  readonly handlers: OwnHandlers
  readonly authorization: AuthorizationToInterrupt | undefined
  /** How long a call is held for a person, in milliseconds. */
  readonly humanTimeoutMs: number
  readonly maxRounds: number
}

const WORK_MS = 600_000
/** The longest a timer can be: the limits of a call are kept here, not in the client. */
const NO_LIMIT_MS: number = 2 ** 31 - 1

/**
 * Executes the rounds of calls in a graph, and keeps open what waits for a person: a round sends a request,
 * or goes on with one that is held.
 */
export class CallRounds {
  readonly #options: CallRoundsOptions
  readonly #held = new HeldCalls<ToolResult>()

  constructor(options: CallRoundsOptions) {
    this.#options = options
  }

  /**
   * @throws McpToolError that no model can repair; what does not come from MCP; the reason of the run's
   * signal. All other failures are outcomes
   */
  async execute({ asked, answers, callback }: Round, context: RoundContext): Promise<CallOutcome> {
    const { call, answering, thrown } = context
    let problem: string | undefined
    try {
      if (asked?.isHeld === true) return await this.#goOn(answers, context)
      // If it gives no tokens, the server says 401 again, and the person is asked again.
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

  /** The server goes on asking. What is held of the call is ended. */
  giveUp({ call, place }: Pick<RoundContext, 'call' | 'place'>): McpToolError {
    const error = endless(call.origin, this.#options.maxRounds)
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
    const news = await live.next(call.config.signal)
    // The run that made it took its session along, while a person was asked: nobody's mistake.
    if (hasEnded && news.kind === 'failed' && isClosed(news.error, call.origin)) {
      return unknownOutcome(call.origin)
    }
    return this.#outcome(news, live, context)
  }

  /** Sends the call, and again where a server only wants what needs no person. */
  async #send(given: ToolCallOptions['resume'], context: RoundContext): Promise<CallOutcome> {
    let resume = given
    for (let sent = 0; sent <= this.#options.maxRounds; sent++) {
      const live = this.#start(resume, context)
      const news = await live.next(context.call.config.signal)
      const outcome = await this.#outcome(news, live, context)
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
    news: LiveCallNews<ToolResult>,
    live: LiveCall<ToolResult>,
    { call, answering, place }: RoundContext,
  ): Promise<CallOutcome> {
    switch (news.kind) {
      case 'failed':
        throw news.error
      case 'asked':
        if (place !== undefined) this.#held.hold(place, live)
        return { kind: 'asked', requests: news.requests, answered: {}, isHeld: true }
      case 'ended': {
        const { origin, config } = call
        const { handlers } = this.#options
        return isInputRequired(news.value)
          ? askedOutcomeFrom(news.value, { answering, handlers, origin, signal: config.signal })
          : { kind: 'result', result: withMissedQuestion(news.value, origin, live.caller) }
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

/** What a person is asked for, and by which round of which call. */
interface Asking<Outcome> {
  readonly outcome: Outcome
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  readonly config: ToolRunnableConfig
  /** Of the round that goes on with the answer. */
  readonly number: number
}

/** Stops the graph until there are answers that fit; a wrong one asks again, and sends nothing. */
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

/** Stops the graph until the user came back from an authorization server: with its callback, or with tokens in place. */
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

/** Answers of a person in the shape in which a server that waits for them takes them. */
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

/** An answer without the key of the question counts only if it can be for no other question. */
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
