import type { ToolRunnableConfig } from '@langchain/core/tools'
import {
  McpClientError,
  type ClientHandlers,
  type HandlerContext,
  type Progress,
} from '@x/mcp-client'
import type { McpToolError } from '../mcp-tool-error.ts'
import { isForTheCaller, toolErrorFrom } from '../calls/tool-failure.ts'
import { processWarnings, type ToolLog } from '../tool-log.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { ToolCallOptions, ToolResult } from '../catalogue/tool-source.ts'
import { askAccess, askPerson, elicitAnswersFrom } from './ask-person.ts'
import type { AuthorizationToInterrupt } from './authorization-to-interrupt.ts'
import { CallJournal } from './call-journal.ts'
import {
  callOutcomeFrom,
  errorFrom,
  failedOutcomeFrom,
  unknownOutcome,
  type AskedOutcome,
  type CallOutcome,
  type Question,
} from './call-outcome.ts'
import { graphPlaceOf, type GraphPlace } from './graph-place.ts'
import { HeldCalls } from './held-calls.ts'
import { crowded, endless, unanswerable } from './input-errors.ts'
import type { ElicitationAnswer } from './interrupt-value.ts'
import { loadLangGraph, type LangGraphRuntime } from './langgraph-runtime.ts'
import { currentLiveCall, LiveCall, withoutLiveCall, type LiveCallNews } from './live-call.ts'
import { isForPerson, ownAnswer } from './own-answers.ts'
import { sendOnce } from './send-once.ts'

export interface ElicitationToInterruptOptions {
  /**
   * Answers where no graph can be stopped: outside a graph, without a checkpointer, and where one node makes
   * several calls. @default declines
   */
  readonly elicitation?: ClientHandlers['elicitation']
  /** Answers what servers ask the model; never an interrupt. @default servers are told that there is none */
  readonly sampling?: ClientHandlers['sampling']
  /** Gives the folders that servers may look at. @default servers are told that there are none */
  readonly roots?: ClientHandlers['roots']
  /** How long a server with sessions is kept waiting for a person, in milliseconds. @default 600_000 */
  readonly humanTimeoutMs?: number | undefined
  /** How often one call may ask at most. @default 32 */
  readonly maxRounds?: number | undefined
  /** Makes an interrupt of a 401 that needs a person. @default none: it is a failure of the call */
  readonly authorization?: AuthorizationToInterrupt | undefined
  /** Told where a person should have been asked, and could not be. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

/** One call of a tool, as a tool hands it over. */
export interface InterruptibleCall {
  readonly origin: McpToolOrigin
  readonly config: ToolRunnableConfig
  /** Time that the server may take, in milliseconds; it stands still while a person is asked. @default 600_000 */
  readonly timeoutMs: number | undefined
  /** Told of each progress notification, where somebody wants to know. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** One request on the wire. */
  send(options: ToolCallOptions): Promise<ToolResult>
}

/** Who answers what is for a person. */
type Answering = 'interrupt' | 'handler' | 'nobody'

interface Round {
  readonly number: number
  /** What was asked in the one before. */
  readonly asked?: AskedOutcome
  readonly answers?: Readonly<Record<string, ElicitationAnswer>>
  /** What the user came back with from an authorization server. */
  readonly callback?: string | undefined
}

interface Sending {
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  readonly round: Round
}

const FIRST: Round = { number: 0 }
const WORK_MS = 600_000
const HUMAN_MS = 600_000
/** The longest a timer can be: the limits of a call are kept here, not in the client. */
const NO_LIMIT_MS: number = 2 ** 31 - 1

/**
 * Lets servers ask a person in the middle of a call, by stopping the graph in which the tool was called:
 * `handlers` are for the client, the object itself for the tools. One object can serve several clients.
 *
 * Servers without sessions have handed the call back when they ask: a resumed graph goes on with it, in
 * whichever process. Servers with sessions wait, and only the process that made the call can go on with
 * it; in another one its outcome is unknown.
 */
export class ElicitationToInterrupt {
  /** For `new McpClient(server, { handlers })`. */
  readonly handlers: ClientHandlers
  readonly #options: ElicitationToInterruptOptions
  readonly #journal = new CallJournal()
  readonly #held = new HeldCalls<ToolResult>()
  readonly #open = new Set<LiveCall<ToolResult>>()
  /** How many calls are under way that no person is asked about. */
  #plainCalls = 0

  constructor(options: ElicitationToInterruptOptions = {}) {
    this.#options = options
    const { sampling, roots } = options
    this.handlers = {
      elicitation: (params, context) => {
        // A question that comes beside the answers belongs to the only call there is, or to none we know.
        const [only, another] = this.#open
        const isOnly = another === undefined && this.#plainCalls === 0
        const call = currentLiveCall() ?? (isOnly ? only : undefined)
        return call?.canWait === true
          ? call.ask(params, context.signal)
          : this.#withoutPerson(params, context)
      },
      sampling,
      roots,
    }
  }

  /**
   * Calls a tool, with all the rounds that it takes.
   *
   * @throws McpToolError where it came to no result; LangGraph's `GraphInterrupt` where it stops the graph
   */
  callTool(call: InterruptibleCall): Promise<ToolResult> {
    const place = graphPlaceOf(call.config)
    return place === undefined ? this.#plain(call) : this.#inGraph(call, place)
  }

  async #inGraph(call: InterruptibleCall, place: GraphPlace): Promise<ToolResult> {
    const graph = await loadLangGraph()
    if (graph === undefined) return this.#plain(call)
    return place.isAlone ? this.#interruptible(call, place, graph) : this.#among(call, place, graph)
  }

  /** Outside a graph: nobody is kept waiting, so the client's own limits do, and handlers answer. */
  async #plain(call: InterruptibleCall): Promise<ToolResult> {
    const { config, onProgress, timeoutMs } = call
    const { signal } = config
    const { maxRounds = 32 } = this.#options
    const options: ToolCallOptions = {
      signal,
      timeoutMs,
      inputRequired: 'surface',
      ...(onProgress !== undefined && { onProgress }),
    }
    let resume: ToolCallOptions['resume']
    for (let sent = 0; sent <= maxRounds; sent++) {
      this.#plainCalls++
      let result: ToolResult
      try {
        result = await withoutLiveCall(() => call.send(resume ? { ...options, resume } : options))
      } finally {
        this.#plainCalls--
      }
      if (!isSurfaced(result)) return result
      // One round after the other: each answers what the last one asked.
      const { requestState, answered } = await this.#asked(result, { answering: 'handler', call })
      resume = { ...(requestState !== undefined && { requestState }), inputResponses: answered }
    }
    throw this.#endless(call, undefined)
  }

  /** Rounds and interrupts: each round is executed once, in whichever process, and remembered. */
  async #interruptible(
    call: InterruptibleCall,
    place: GraphPlace,
    graph: LangGraphRuntime,
  ): Promise<ToolResult> {
    const { maxRounds = 32 } = this.#options
    const { origin } = call
    const thrown: { error?: McpToolError } = {}
    const step = graph.task(`mcp:${place.toolCallId}`, (round: Round) =>
      this.#once({ origin, place, round }, () =>
        this.#round(call, round, { answering: 'interrupt', place, thrown }),
      ),
    )
    let round = FIRST
    for (;;) {
      const outcome = callOutcomeFrom(await step(round))
      const number = round.number + 1
      if (outcome.kind === 'asked') {
        if (number > maxRounds) throw this.#endless(call, place)
        const answers = askPerson(graph, { outcome, origin, place, number })
        round = { number, asked: outcome, answers }
      } else if (outcome.kind === 'authorization') {
        if (number > maxRounds) throw this.#endless(call, place)
        round = { ...round, number, callback: askAccess(graph, { outcome, origin, place, number }) }
      } else {
        return resultOf(outcome, call, thrown.error)
      }
    }
  }

  /** Siblings share the node: it must not be interrupted by us, and what was done is not done again. */
  async #among(
    call: InterruptibleCall,
    place: GraphPlace,
    graph: LangGraphRuntime,
  ): Promise<ToolResult> {
    const thrown: { error?: McpToolError } = {}
    const answering = this.#options.elicitation === undefined ? 'nobody' : 'handler'
    const step = graph.task(`mcp:${place.toolCallId}`, () =>
      this.#once({ origin: call.origin, place, round: FIRST }, () =>
        this.#round(call, FIRST, { answering, thrown }),
      ),
    )
    return resultOf(callOutcomeFrom(await step()), call, thrown.error)
  }

  #once({ origin, place, round }: Sending, send: () => Promise<CallOutcome>): Promise<CallOutcome> {
    // A call that is held can be answered once, by this process: nothing to write down.
    if (round.asked?.isHeld === true) return send()
    return sendOnce(this.#journal, { origin, place, number: round.number }, send)
  }

  async #round(
    call: InterruptibleCall,
    { asked, answers, callback }: Round,
    by: {
      readonly answering: Answering
      readonly place?: GraphPlace
      readonly thrown?: { error?: McpToolError }
    },
  ): Promise<CallOutcome> {
    const { signal } = call.config
    let problem: string | undefined
    try {
      if (asked?.isHeld === true) {
        const live = by.place && this.#held.take(by.place)
        if (live === undefined) return unknownOutcome(call.origin)
        const hasEnded = !live.isOpen
        live.onProgress = call.onProgress
        live.answer(elicitAnswersFrom(answers))
        const news = await live.next(signal)
        // The run that made it took its session along, while a person was asked: nobody's mistake.
        if (hasEnded && news.kind === 'failed' && isClosed(news.error, call.origin)) {
          return unknownOutcome(call.origin)
        }
        return await this.#outcome(news, { ...by, call, live })
      }
      // If it gives no tokens, the server says 401 again, and the person is asked again.
      if (callback !== undefined) problem = await this.#finish(callback)
      return await this.#send(call, {
        ...by,
        resume: asked && {
          ...(asked.requestState !== undefined && { requestState: asked.requestState }),
          inputResponses: { ...asked.answered, ...answers },
        },
      })
    } catch (error) {
      if (signal?.aborted === true) throw error
      const url = by.answering === 'interrupt' && this.#options.authorization?.urlIn(error)
      if (typeof url === 'string') {
        return { kind: 'authorization', url, ...(problem !== undefined && { problem }) }
      }
      const failure = toolErrorFrom(error, call.origin)
      if (failure === undefined || isForTheCaller(failure)) throw error
      if (by.thrown !== undefined) by.thrown.error = failure
      return failedOutcomeFrom(failure)
    }
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

  /** Sends the call, and again where a server only wants what needs no person. */
  async #send(
    call: InterruptibleCall,
    by: {
      readonly answering: Answering
      readonly place?: GraphPlace
      readonly resume: ToolCallOptions['resume']
    },
  ): Promise<CallOutcome> {
    const { maxRounds = 32 } = this.#options
    let { resume } = by
    for (let sent = 0; sent <= maxRounds; sent++) {
      const live = this.#start(call, { canWait: by.answering === 'interrupt', resume })
      const news = await live.next(call.config.signal)
      const outcome = await this.#outcome(news, { ...by, call, live })
      if (outcome.kind !== 'asked' || outcome.isHeld || hasQuestions(outcome)) return outcome
      resume = {
        ...(outcome.requestState !== undefined && { requestState: outcome.requestState }),
        inputResponses: outcome.answered,
      }
    }
    throw this.#endless(call, by.place)
  }

  #start(
    call: InterruptibleCall,
    { canWait, resume }: { readonly canWait: boolean; readonly resume: ToolCallOptions['resume'] },
  ): LiveCall<ToolResult> {
    const { timeoutMs = WORK_MS, origin, onProgress } = call
    const server = serverTitle(origin.server)
    const live: LiveCall<ToolResult> = new LiveCall(
      async (signal) => {
        try {
          return await call.send({
            signal,
            timeoutMs: NO_LIMIT_MS,
            inputRequired: 'surface',
            resume,
            ...(onProgress !== undefined && {
              onProgress: (progress: Progress) => live.onProgress?.(progress),
            }),
          })
        } finally {
          this.#open.delete(live)
        }
      },
      {
        canWait,
        workMs: timeoutMs,
        humanMs: this.#options.humanTimeoutMs ?? HUMAN_MS,
        timeoutError: (ms) =>
          new McpClientError('TIMEOUT', `MCP server "${server}" gave no answer within ${ms} ms`, {
            server,
            tool: origin.toolName,
            outcome: 'unknown',
          }),
      },
    )
    live.onProgress = onProgress
    this.#open.add(live)
    return live
  }

  async #outcome(
    news: LiveCallNews<ToolResult>,
    by: {
      readonly answering: Answering
      readonly place?: GraphPlace
      readonly call: InterruptibleCall
      readonly live: LiveCall<ToolResult>
    },
  ): Promise<CallOutcome> {
    switch (news.kind) {
      case 'failed':
        throw news.error
      case 'asked':
        if (by.place !== undefined) this.#held.hold(by.place, by.live)
        return { kind: 'asked', requests: news.requests, answered: {}, isHeld: true }
      case 'ended':
        return isSurfaced(news.value)
          ? this.#asked(news.value, by)
          : { kind: 'result', result: news.value }
    }
  }

  /** What is left for a person of what a server wants to know. */
  async #asked(
    surfaced: Surfaced,
    { answering, call }: { readonly answering: Answering; readonly call: InterruptibleCall },
  ): Promise<AskedOutcome> {
    const { inputRequests = {}, requestState } = surfaced
    const signal = call.config.signal ?? new AbortController().signal
    const context: HandlerContext = { signal, scope: undefined }
    const requests: Record<string, Question> = {}
    const answered: Record<string, unknown> = {}
    for (const [key, question] of Object.entries(inputRequests)) {
      if (isForPerson(question) && answering === 'interrupt') {
        requests[key] = question
        continue
      }
      if (isForPerson(question) && answering === 'nobody') throw crowded(call.origin)
      const handlers = { ...this.handlers, elicitation: this.#withoutPerson }
      // One after the other: most servers ask one thing.
      const answer = await ownAnswer(question, handlers, context).catch((cause: unknown) => {
        signal.throwIfAborted()
        throw unanswerable(call.origin, question.method, { cause })
      })
      if (answer === undefined) throw unanswerable(call.origin, question.method)
      answered[key] = answer
    }
    return {
      kind: 'asked',
      requests,
      answered,
      ...(requestState !== undefined && { requestState }),
      isHeld: false,
    }
  }

  readonly #withoutPerson: NonNullable<ClientHandlers['elicitation']> = (params, context) => {
    const { elicitation, log = processWarnings } = this.#options
    if (elicitation !== undefined) return elicitation(params, context)
    log({
      level: 'warning',
      code: 'NOBODY_ASKED',
      message:
        'An MCP server asked for a person and was told that nobody answers. A graph can be stopped to ask where it has a checkpointer and each of its tasks makes one call: use createAgent() or fanOutToolCalls().',
      server: 'unnamed',
    })
    return { action: 'decline' }
  }

  #endless({ origin }: InterruptibleCall, place: GraphPlace | undefined): McpToolError {
    const error = endless(origin, this.#options.maxRounds ?? 32)
    if (place !== undefined) this.#held.take(place)?.abort(error)
    return error
  }
}

/** Lets servers ask a person in the middle of a call, by an `interrupt()` of the graph. */
export function elicitationToInterrupt(
  options: ElicitationToInterruptOptions = {},
): ElicitationToInterrupt {
  return new ElicitationToInterrupt(options)
}

interface Surfaced {
  readonly inputRequests?: Readonly<Record<string, Question>>
  readonly requestState?: string
}

/** The client has checked it already; this is for the compiler. */
function isSurfaced(value: ToolResult): value is ToolResult & Surfaced {
  return value.type === 'input_required'
}

function hasQuestions({ requests }: AskedOutcome): boolean {
  return Object.keys(requests).length > 0
}

function isClosed(error: unknown, origin: McpToolOrigin): boolean {
  return toolErrorFrom(error, origin)?.code === 'CLOSED'
}

function resultOf(
  outcome: CallOutcome,
  { origin }: InterruptibleCall,
  thrown?: McpToolError,
): ToolResult {
  if (outcome.kind === 'result') return outcome.result
  if (outcome.kind === 'failed') throw thrown ?? errorFrom(outcome, origin)
  throw unanswerable(origin, 'elicitation/create')
}
