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
  unanswerable,
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
import { outsideOtherRuns, ownHandlersFrom, type OwnHandlers } from './own-handlers.ts'

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
  readonly #own: OwnHandlers
  /** Whether siblings, which no graph can be stopped for, have somebody who answers. */
  readonly #amongSiblings: 'handler' | 'nobody'
  readonly #maxRounds: number
  readonly #rounds: CallRounds
  readonly #journal = new CallJournal()
  readonly #log: ToolLog
  /** Tools whose questions do not come on the response stream of their call. */
  readonly #askingAside = new Set<string>()

  /** @throws {McpClientError} `CONFIG` for an option that is unknown or cannot be used */
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
   * Calls a tool, with all the rounds that it takes.
   *
   * @throws McpToolError where it came to no result; LangGraph's `GraphInterrupt` where it stops the graph
   */
  callTool(call: InterruptibleCall): Promise<ToolResult> {
    const place = graphPlaceOf(call.config)
    return place === undefined ? this.#plain(call) : this.#inGraph(call, place)
  }

  /** Deletes what the store of the graph has of calls that checkpoints contain. Takes at most 2 s. Never rejects. */
  settle(): Promise<void> {
    return this.#journal.settle()
  }

  /** Deletes what the store of the graph has of the calls of a thread. @throws what the store throws */
  deleteThread(threadId: string, store: GraphStore): Promise<void> {
    return this.#journal.deleteThread(threadId, store)
  }

  async #inGraph(call: InterruptibleCall, place: GraphPlace): Promise<ToolResult> {
    const graph = await loadLangGraph()
    if (graph === undefined) return this.#plain(call)
    return place.isAlone ? this.#interruptible(call, place, graph) : this.#among(call, place, graph)
  }

  /** Outside a graph: nobody is kept waiting, so the client's own limits do, and handlers answer. */
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
      // One round after the other: each answers what the last one asked.
      const by = { answering: 'handler', handlers: this.#own, origin, signal } as const
      resume = resumeFrom(await askedOutcomeFrom(result, by))
    }
    throw this.#rounds.giveUp({ call })
  }

  /** Rounds and interrupts: each round is executed once, in whichever process, and remembered. */
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
      // A call that is held can be answered once, by this process: nothing to write down.
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

  /** Siblings share the node: it must not be interrupted by us, and what was done is not done again. */
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

  /** The person of any of these calls could be the wrong one. */
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

/** Lets servers ask a person in the middle of a call, by an `interrupt()` of the graph. */
export function elicitationToInterrupt(
  options: ElicitationToInterruptOptions = {},
): ElicitationToInterrupt {
  return new ElicitationToInterrupt(options)
}

function resultOf(outcome: CallOutcome, { call: { origin }, thrown }: RoundContext): ToolResult {
  if (outcome.kind === 'result') return outcome.result
  if (outcome.kind === 'failed') throw thrown.error ?? errorFrom(outcome, origin)
  throw unanswerable(origin, 'elicitation/create')
}

/** What of the options says who answers servers. */
interface AnsweringOptions {
  readonly elicitation?: ElicitationToInterrupt | false | undefined
  readonly handlers?: ClientHandlers | undefined
  readonly log?: ToolLog | undefined
}

/** By interrupts, unless the caller answers by handlers of his own, or does not want it. */
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

/** What clients are given to answer with. */
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
