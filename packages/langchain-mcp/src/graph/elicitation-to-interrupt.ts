import type { RunnableConfig } from '@langchain/core/runnables'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import { check, type Checks } from '@x/internal'
import type { ClientHandlers } from '@x/mcp-client'
import { loadLangGraph } from './langgraph.ts'
import { processWarnings, type ToolLog } from '../log.ts'
import { assertOptions } from '../options.ts'
import type { ToolResult } from '../tool-source.ts'
import type { GraphStore } from './call-context.ts'
import type { AuthorizationToInterrupt } from './authorization-to-interrupt.ts'
import { CallJournal } from './call-journal.ts'
import { noAnswerError } from './call-outcome.ts'
import { CallRounds, type InterruptibleCall, type SharedByCalls } from './call-rounds.ts'
import { graphPlaceOf, type GraphPlace } from './graph-place.ts'
import { listWithSignIn, type Listing } from './list-sign-in.ts'
import { HeldCalls, ToolCaller } from './live-call.ts'

/**
 * The handlers answer requests of servers without an interrupt. `elicitation` is used where the graph cannot be
 * interrupted: outside a graph, without a checkpointer, and if one node makes several calls. Without it, such
 * questions are declined.
 */
export interface ElicitationToInterruptOptions extends ClientHandlers {
  /** Time that a server with sessions waits for a person, in milliseconds. @default 600_000 */
  readonly humanTimeoutMs?: number | undefined
  /** Interrupts the graph for a 401 that needs a person. @default none: the call fails */
  readonly authorization?: AuthorizationToInterrupt | undefined
  /**
   * Receives a warning if a person should have been asked, and could not be, and if the store of the graph cannot record a
   * call. @default warnings of the Node process
   */
  readonly log?: ToolLog | undefined
}

const optionChecks: Checks<ElicitationToInterruptOptions> = {
  elicitation: check.func,
  sampling: check.func,
  roots: check.func,
  humanTimeoutMs: check.number(),
  authorization: {
    ...check.methods('pageIn', 'finish'),
    takes: 'what authorizationToInterrupt() returns',
  },
  log: check.func,
}

const HUMAN_MS = 600_000

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
  readonly #shared: SharedByCalls
  /** Who answers calls that share a task with other calls. The graph cannot be interrupted for them. */
  readonly #amongSiblings: 'client' | 'none'
  readonly #isOfClient: boolean

  /** @throws {McpClientError} `CONFIG` for an option that is unknown or has a wrong value */
  constructor(options: ElicitationToInterruptOptions = {}, isOfClient = false) {
    assertOptions('elicitationToInterrupt()', options, optionChecks)
    const { authorization, humanTimeoutMs = HUMAN_MS } = options
    const { log = processWarnings } = options
    const { elicitation = declining(log), sampling, roots } = options
    const handlers = { elicitation, sampling, roots }
    this.#isOfClient = isOfClient
    this.#amongSiblings = options.elicitation === undefined ? 'none' : 'client'
    const [journal, held] = [new CallJournal(log), new HeldCalls()]
    const warnOfUnknown = warningOnce(log)
    this.#shared = { handlers, authorization, humanTimeoutMs, journal, held, warnOfUnknown }
    this.handlers = {
      ...handlers,
      elicitation: async (params, context) => {
        const asking = context.origin?.call?.caller
        const caller = asking instanceof ToolCaller ? asking : undefined
        if (caller?.live !== undefined) return caller.live.ask(params, context.signal)
        try {
          return await elicitation(params, context)
        } catch (cause) {
          if (caller) {
            caller.unanswered = noAnswerError(caller.origin, 'elicitation/create', { cause })
          }
          throw cause
        }
      },
    }
  }

  /**
   * Calls a tool in a graph, in as many rounds as its questions need.
   *
   * @throws McpToolError if the call fails; LangGraph's `GraphInterrupt` if it interrupts the graph
   */
  async callTool(call: InterruptibleCall, place: GraphPlace): Promise<ToolResult> {
    const { source, origin, args, options } = call
    const graph = await loadLangGraph()
    // Without tasks, LangGraph decides what is executed again.
    if (graph === undefined || (this.#isOfClient && source.startTool === undefined)) {
      return source.callTool(origin.toolName, args, options)
    }
    // A task with several calls must not be interrupted, because all of them would be executed again.
    const answering = this.#isOfClient
      ? 'client'
      : place.isAlone
        ? 'interrupt'
        : this.#amongSiblings
    return new CallRounds({ ...call, graph, place, answering, shared: this.#shared }).run()
  }

  /** Reads lists of tools as `listWithSignIn()` does. */
  listWithSignIn<Lists>(
    listing: Listing<Lists>,
    config: RunnableConfig | undefined,
  ): Promise<Lists> {
    return listWithSignIn(this.#shared, listing, config)
  }

  /** Returns true if a call was sent before the graph was resumed. */
  async wasSent(config: ToolRunnableConfig): Promise<boolean> {
    const place = graphPlaceOf(config)
    return place !== undefined && (await this.#shared.journal.wasSent(place))
  }

  /** Waits until expired call records are deleted, for at most 2 s. Never rejects. */
  settle(): Promise<void> {
    return this.#shared.journal.settle()
  }

  /** Deletes the call records of a thread from the store of the graph. @throws the error of the store */
  deleteThread(threadId: string, store: GraphStore): Promise<void> {
    return this.#shared.journal.deleteThread(threadId, store)
  }
}

/**
 * Makes interrupts of the graph from questions of servers.
 *
 * @example
 * ```ts
 * import { elicitationToInterrupt, loadMcpTools } from '@x/langchain-mcp'
 * import { McpClient } from '@x/mcp-client'
 *
 * const elicitation = elicitationToInterrupt()
 * const { handlers } = elicitation
 * await using client = new McpClient('https://hotel.example/mcp', { handlers })
 * const tools = await loadMcpTools(client, { elicitation })
 * ```
 */
export function elicitationToInterrupt(
  options: ElicitationToInterruptOptions = {},
): ElicitationToInterrupt {
  return new ElicitationToInterrupt(options)
}

/** For clients that answer questions themselves. A graph is interrupted only for tasks. */
export const answeredByClient: ElicitationToInterrupt = new ElicitationToInterrupt({}, true)

/**
 * Returns who answers questions of servers: the given `elicitation`, or a new one unless `handlers` answer or
 * it is `false`; and the handlers for clients.
 */
export function answeringFrom(
  given: ElicitationToInterrupt | false | undefined,
  handlers: ClientHandlers | undefined,
  log: ToolLog | undefined,
): {
  readonly elicitation: ElicitationToInterrupt
  readonly handlers: ClientHandlers | undefined
} {
  const { sampling, roots } = handlers ?? {}
  const isNew = given === undefined && handlers?.elicitation === undefined
  if (!isNew && !given) return { elicitation: answeredByClient, handlers }
  const elicitation = given || elicitationToInterrupt({ sampling, roots, log })
  return {
    elicitation,
    handlers: {
      elicitation: elicitation.handlers.elicitation,
      sampling: sampling ?? elicitation.handlers.sampling,
      roots: roots ?? elicitation.handlers.roots,
    },
  }
}

/** Returns a function that warns at its first call: other versions of LangGraph may name or write things differently. */
function warningOnce(log: ToolLog): (what: string) => void {
  let hasWarned = false
  return function warnOfUnknown(what) {
    if (hasWarned) return
    hasWarned = true
    log({
      level: 'warning',
      code: 'LANGGRAPH_UNKNOWN',
      message: `This version of LangGraph is not known: ${what}. Answers to questions of MCP servers count if they contain the key of their question, as elicitationResume() returns them. Others may be refused`,
      server: 'all',
    })
  }
}

/** Returns a handler that declines questions with a warning. */
function declining(log: ToolLog): NonNullable<ClientHandlers['elicitation']> {
  return function decline() {
    log({
      level: 'warning',
      code: 'NOBODY_ASKED',
      message:
        'An MCP server asked a question for a person, and it was declined because nobody answers here. A graph can be interrupted if it has a checkpointer and each of its tasks makes one call: use createAgent() or fanOutToolCalls().',
      server: 'unnamed',
    })
    return { action: 'decline' }
  }
}
