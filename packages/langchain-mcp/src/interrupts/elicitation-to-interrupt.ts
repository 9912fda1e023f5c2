import { check, type Checks } from '@x/internal'
import type { ClientHandlers, HandlerContext } from '@x/mcp-client'
import { processWarnings, type ToolLog } from '../base/log.ts'
import { assertOptions } from '../base/options.ts'
import { serverTitle, type ToolCallOptions, type ToolResult } from '../base/tool-source.ts'
import type { GraphStore } from '../sessions/call-context.ts'
import type { AuthorizationToInterrupt } from './authorization-to-interrupt.ts'
import { CallJournal } from './call-journal.ts'
import {
  askedOutcomeFrom,
  callOutcomeFrom,
  errorFrom,
  isInputRequired,
  resumeFrom,
  noAnswerError,
  withMissedQuestion,
  type CallOutcome,
} from './call-outcome.ts'
import {
  askAccess,
  askPerson,
  CallRounds,
  FIRST_ROUND,
  type InterruptibleCall,
  type Round,
  type RoundContext,
} from './call-rounds.ts'
import { graphPlaceOf, loadLangGraph, type GraphPlace, type LangGraphRuntime } from './langgraph.ts'
import { ToolCaller } from './live-call.ts'
import { outsideOtherRuns, ownHandlersFrom, type OwnHandlers } from './handlers.ts'

export interface ElicitationToInterruptOptions {
  /**
   * Answers questions if the graph cannot be interrupted: outside a graph, without a checkpointer, and if
   * one node makes several calls. @default declines
   */
  readonly elicitation?: ClientHandlers['elicitation']
  /** Answers sampling requests. Never interrupts. @default servers see no sampling capability */
  readonly sampling?: ClientHandlers['sampling']
  /** Returns the folders that servers may read. @default servers see no roots capability */
  readonly roots?: ClientHandlers['roots']
  /** Time that a server with sessions waits for a person, in milliseconds. @default 600_000 */
  readonly humanTimeoutMs?: number | undefined
  /** Limit of rounds of questions in one call. @default 32 */
  readonly maxRounds?: number | undefined
  /** Interrupts the graph for a 401 that needs a person. @default none: the call fails */
  readonly authorization?: AuthorizationToInterrupt | undefined
  /**
   * Receives a warning if a person should have been asked, and could not be. @default warnings of the Node
   * process
   */
  readonly log?: ToolLog | undefined
}

const optionChecks: Checks<ElicitationToInterruptOptions> = {
  elicitation: check.func,
  sampling: check.func,
  roots: check.func,
  humanTimeoutMs: check.number(),
  maxRounds: check.number(),
  authorization: {
    ...check.methods('urlIn', 'finish'),
    takes: 'what authorizationToInterrupt() returns',
  },
  log: check.func,
}

const HUMAN_MS = 600_000
const MAX_ROUNDS = 32

/**
 * Asks a person when a server asks during a call, by an interrupt of the graph. Pass `handlers` to the
 * client, and the object itself to the tools. One object can serve several clients.
 *
 * A stateless server ends its response when it asks, so any process can resume the graph and continue the
 * call. A server with sessions keeps the request open, so only the process that sent it can continue; in
 * another process the outcome is unknown.
 */
export class ElicitationToInterrupt {
  /** For `new McpClient(server, { handlers })`. */
  readonly handlers: ClientHandlers
  readonly #own: OwnHandlers
  /** Who answers calls that share a task with other calls. The graph cannot be interrupted for them. */
  readonly #amongSiblings: 'handler' | 'nobody'
  readonly #maxRounds: number
  readonly #rounds: CallRounds
  readonly #journal = new CallJournal()
  readonly #log: ToolLog
  /** Tools whose questions do not arrive on the response stream of their call. */
  readonly #askingAside = new Set<string>()

  /** @throws {McpClientError} `CONFIG` for an option that is unknown or has a wrong value */
  constructor(options: ElicitationToInterruptOptions = {}) {
    assertOptions('elicitationToInterrupt()', options, optionChecks)
    const { authorization, humanTimeoutMs = HUMAN_MS, maxRounds = MAX_ROUNDS } = options
    const own = ownHandlersFrom(options)
    this.#own = own
    this.#log = options.log ?? processWarnings
    this.#amongSiblings = options.elicitation === undefined ? 'nobody' : 'handler'
    this.#maxRounds = maxRounds
    this.#rounds = new CallRounds({ handlers: own, authorization, humanTimeoutMs, maxRounds })
    this.handlers = {
      ...own,
      elicitation: (params, context) => {
        const { origin } = context
        const callers = origin === undefined ? [] : this.#learn(origin)
        const call = origin?.call
        if (origin !== undefined && call === undefined) return this.#decline(context, callers)
        const caller = call?.caller
        if (!(caller instanceof ToolCaller)) return own.elicitation(params, context)
        return caller.live?.ask(params, context.signal) ?? own.elicitation(params, context)
      },
    }
  }

  /**
   * Calls a tool, in as many rounds as its questions need.
   *
   * @throws McpToolError if the call fails; LangGraph's `GraphInterrupt` if it interrupts the graph
   */
  callTool(call: InterruptibleCall): Promise<ToolResult> {
    const place = graphPlaceOf(call.config)
    return place === undefined ? this.#plain(call) : this.#inGraph(call, place)
  }

  /** Deletes obsolete call records from the store of the graph. Takes at most 2 s. Never rejects. */
  settle(): Promise<void> {
    return this.#journal.settle()
  }

  /** Deletes the call records of a thread from the store of the graph. @throws the error of the store */
  deleteThread(threadId: string, store: GraphStore): Promise<void> {
    return this.#journal.deleteThread(threadId, store)
  }

  async #inGraph(call: InterruptibleCall, place: GraphPlace): Promise<ToolResult> {
    const graph = await loadLangGraph()
    if (graph === undefined) return this.#plain(call)
    return place.isAlone ? this.#interruptible(call, place, graph) : this.#among(call, place, graph)
  }

  /** Calls a tool outside a graph. No person is asked, so the client's own limits apply, and handlers answer. */
  async #plain(call: InterruptibleCall): Promise<ToolResult> {
    const { origin, config, caller, onProgress, timeoutMs } = call
    const { signal } = config
    const options: ToolCallOptions = {
      signal,
      timeoutMs,
      inputRequired: 'surface',
      ownSession: this.#asksAside(caller) ? 'when-shared' : undefined,
      ...(onProgress !== undefined && { onProgress }),
    }
    let resume: ToolCallOptions['resume']
    for (let sent = 0; sent <= this.#maxRounds; sent++) {
      const result = await call.send(resume ? { ...options, resume } : options)
      if (!isInputRequired(result)) return withMissedQuestion(result, origin, caller)
      // In sequence, because each round answers the previous one.
      const by = { answering: 'handler', handlers: this.#own, origin, signal } as const
      resume = resumeFrom(await askedOutcomeFrom(result, by))
    }
    throw this.#rounds.giveUp({ call })
  }

  /**
   * Calls a tool in rounds with interrupts. Each round is executed once, in any process, and its outcome is
   * stored.
   */
  async #interruptible(
    call: InterruptibleCall,
    place: GraphPlace,
    graph: LangGraphRuntime,
  ): Promise<ToolResult> {
    const { origin, config } = call
    const ownSession = this.#ownSessionOf(call, place)
    const answering = 'interrupt'
    const context: RoundContext = { call, answering, ownSession, place, thrown: {} }
    const step = graph.task(`mcp:${place.toolCallId}`, (round: Round) =>
      // Only this process can answer an open request, and only once, so no record is needed.
      round.asked?.isHeld === true
        ? this.#rounds.execute(round, context)
        : this.#once(place, round, context),
    )
    let round = FIRST_ROUND
    for (;;) {
      const outcome = callOutcomeFrom(await step(round))
      const number = round.number + 1
      if (outcome.kind === 'asked') {
        if (number > this.#maxRounds) throw this.#rounds.giveUp(context)
        const answers = await askPerson(graph, { outcome, origin, place, config, number })
        round = { number, asked: outcome, answers }
      } else if (outcome.kind === 'authorization') {
        if (number > this.#maxRounds) throw this.#rounds.giveUp(context)
        const asking = { outcome, origin, place, config, number }
        round = { ...round, number, callback: await askAccess(graph, asking) }
      } else {
        return resultOf(outcome, context)
      }
    }
  }

  /**
   * Calls a tool whose task makes other calls too. The task must not be interrupted, and executed calls must
   * not be repeated.
   */
  async #among(
    call: InterruptibleCall,
    place: GraphPlace,
    graph: LangGraphRuntime,
  ): Promise<ToolResult> {
    const ownSession = this.#ownSessionOf(call, place)
    const context: RoundContext = { call, answering: this.#amongSiblings, ownSession, thrown: {} }
    const step = graph.task(`mcp:${place.toolCallId}`, () =>
      this.#once(place, FIRST_ROUND, context),
    )
    return resultOf(callOutcomeFrom(await step()), context)
  }

  #ownSessionOf(
    { caller }: InterruptibleCall,
    { hasSiblings }: GraphPlace,
  ): RoundContext['ownSession'] {
    if (!this.#asksAside(caller)) return undefined
    return hasSiblings ? 'always' : 'when-shared'
  }

  #once(place: GraphPlace, round: Round, context: RoundContext): Promise<CallOutcome> {
    const { origin } = context.call
    return this.#journal.once({ origin, place, number: round.number }, () =>
      this.#rounds.execute(round, context),
    )
  }

  #asksAside(caller: ToolCaller): boolean {
    return this.#askingAside.size > 0 && this.#askingAside.has(caller.tool)
  }

  /** Remembers a tool that asks without naming its call. Returns the callers that a question may belong to. */
  #learn({ call, isOnCallStream, openCalls }: NonNullable<HandlerContext['origin']>): ToolCaller[] {
    const candidates = call === undefined ? openCalls : [call]
    const callers = candidates
      .map(({ caller }) => caller)
      .filter((one) => one instanceof ToolCaller)
    const [tool, another] = new Set(callers.map((one) => one.tool))
    if (!isOnCallStream && tool !== undefined && another === undefined) this.#askingAside.add(tool)
    return callers
  }

  /** Declines a question, because several calls could have asked it, and the wrong person could answer. */
  #decline(
    { server: label = 'unnamed' }: HandlerContext,
    callers: readonly ToolCaller[],
  ): { readonly action: 'decline' } {
    const server = callers[0] === undefined ? label : serverTitle(callers[0].origin.server)
    for (const caller of callers) caller.hasMissedQuestion = true
    this.#log({
      level: 'warning',
      code: 'QUESTION_DECLINED',
      message: `MCP server "${server}" asked a question and did not say which call it belongs to. It was declined, because other calls of the same session could have caused it (${callers.length} under way). Give each thread its own session (session: 'thread'), or have the server send questions on the response stream of the call (relatedRequestId).`,
      server,
    })
    return { action: 'decline' }
  }
}

/** Makes interrupts of the graph from questions of servers. */
export function elicitationToInterrupt(
  options: ElicitationToInterruptOptions = {},
): ElicitationToInterrupt {
  return new ElicitationToInterrupt(options)
}

function resultOf(outcome: CallOutcome, { call: { origin }, thrown }: RoundContext): ToolResult {
  if (outcome.kind === 'result') return outcome.result
  if (outcome.kind === 'failed') throw thrown.error ?? errorFrom(outcome, origin)
  throw noAnswerError(origin, 'elicitation/create')
}

/** The options that decide who answers questions of servers. */
interface AnsweringOptions extends Pick<ElicitationToInterruptOptions, 'log'> {
  readonly elicitation?: ElicitationToInterrupt | false | undefined
  readonly handlers?: ClientHandlers | undefined
}

/** Returns the given `elicitation`, or a new one unless `handlers` answer or `elicitation` is `false`. */
export function elicitationFrom({
  elicitation,
  handlers = {},
  log,
}: AnsweringOptions): ElicitationToInterrupt | undefined {
  if (elicitation === false) return undefined
  if (elicitation !== undefined) return elicitation
  if (handlers.elicitation !== undefined) return undefined
  const { sampling, roots } = handlers
  return elicitationToInterrupt({ sampling, roots, log })
}

/** Returns the handlers for clients. */
export function handlersFrom(
  elicitation: ElicitationToInterrupt | undefined,
  handlers: ClientHandlers | undefined,
): ClientHandlers | undefined {
  if (elicitation === undefined) return handlers
  const { sampling, roots = elicitation.handlers.roots } = handlers ?? {}
  return {
    elicitation: elicitation.handlers.elicitation,
    sampling: outsideOtherRuns(sampling) ?? elicitation.handlers.sampling,
    roots,
  }
}
