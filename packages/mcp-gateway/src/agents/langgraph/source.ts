import { randomUUID } from 'node:crypto'
import { check, isRecord, type Check, type Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../../errors.ts'
import { systemClock, type Clock } from '../../internal/clock.ts'
import { wholeCharacters } from '../../internal/text.ts'
import { withDeadline } from '../../internal/timers.ts'
import { RunFailure, skillsOf } from '../agent.ts'
import type { Agent, AgentCall, AgentListener, AgentSource, AgentUpdate } from '../agent.ts'
import { readGraphConfig } from './config.ts'
import {
  callerContextOf,
  contextChecks,
  contextFailure,
  contextOf,
  missingContextText,
  type ContextOptions,
} from './context.ts'
import {
  declaredBreakpoints,
  graphChecks,
  isRemoteGraph,
  keepsThreadsHere,
  threadKeeperOf,
  type GraphDefinition,
  type RunnableGraph,
} from './definition.ts'
import { endingOf } from './ending.ts'
import { revived } from './fields.ts'
import { GraphHost } from './host.ts'
import {
  askedFrom,
  isStopAnswer,
  resumeOf,
  STOPPED,
  threadStateFrom,
  waitsForAnswer,
} from './interrupts.ts'
import { loadCommand } from './library.ts'
import { graphToLoad, loadGraph, type GraphToLoad, type LoadedGraph } from './loading.ts'
import { argumentStateOf, messageStateOf } from './messages.ts'
import { contextDefectOf, inputFieldsOf, messageDefectOf, takesMessages } from './skills.ts'
import { Arrivals, newEnd, readChunk, REMOTE_STREAM_MODES, STREAM_MODES } from './stream.ts'
import {
  assertKnownNodes,
  checkpointReaderOf,
  guardAfterFreeze,
  newBreakpoints,
  openInterrupts,
  resumeOfOpen,
  threadStateOf,
} from './thread.ts'

export interface LangGraphSourceOptions extends ContextOptions {
  /** Set it if several processes answer runs. Then graphs with threads in memory cause a warning. @default false */
  readonly isShared?: boolean | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/** Graphs by name, or the path of a `langgraph.json`. */
type Graphs = Readonly<Record<string, GraphDefinition>> | string | URL

/** Time limit for the deletion of a thread. */
const DELETE_MS = 5000

const optionChecks: Checks<LangGraphSourceOptions> = {
  isShared: check.flag,
  ...contextChecks,
  clock: check.methods('now', 'after'),
}

const graphsByName: Check = {
  ...check.or(check.url, check.mapOf(check.section(graphChecks))),
  takes: 'graphs by name, or the path of a langgraph.json',
}

/**
 * A source of graphs in this process, by name, or of the graphs of a `langgraph.json`, by its path. Each call gets its own
 * thread, which is deleted after the call, unless the graph asked.
 *
 * @throws GatewayError `CONFIG` if an option is unknown or has a wrong value
 * @example
 * ```ts
 * import { createGateway, langGraphSource } from '@x/mcp-gateway'
 *
 * const gateway = createGateway({ sources: [langGraphSource('./langgraph.json')] })
 * ```
 */
export function langGraphSource(
  graphs: Readonly<Record<string, GraphDefinition>> | string | URL,
  options: LangGraphSourceOptions = {},
): AgentSource {
  assertGatewayOptions('langGraphSource()', { graphs }, { graphs: check.required(graphsByName) })
  assertGatewayOptions('langGraphSource()', options, optionChecks)
  return new LangGraphSource(graphs, options)
}

class LangGraphSource implements AgentSource {
  readonly name = 'langgraph'
  readonly isLocal = true
  readonly #graphs: Graphs
  readonly #options: LangGraphSourceOptions
  readonly #loaded = new Map<string, LoadedGraph>()
  #listener: AgentListener | undefined
  /** Ids of agents whose threads stay, because their checkpointer cannot delete them. */
  readonly #keeping = new Set<string>()

  constructor(graphs: Graphs, options: LangGraphSourceOptions) {
    this.#graphs = graphs
    this.#options = options
  }

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    const graphs = await this.#graphsToLoad(listener)
    const results = await Promise.allSettled(graphs.map((each) => loadGraph(each, listener)))
    const isAnyLoaded = results.some(({ status }) => status === 'fulfilled')
    let failure: { readonly reason: unknown } | undefined
    for (const [index, result] of results.entries()) {
      if (result.status === 'fulfilled') {
        const one = result.value
        this.#loaded.set(one.agent.id, one)
        this.#warnOf(one, listener)
        listener.found(one.agent)
      } else if (failure === undefined && !isAnyLoaded) {
        failure = result // the reason of the whole source
      } else {
        const message = `The graph "${graphs[index]?.name}" is not offered: it cannot be loaded`
        listener.warned(message, result.reason)
      }
    }
    if (failure !== undefined) throw failure.reason
  }

  async #graphsToLoad(listener: AgentListener): Promise<readonly GraphToLoad[]> {
    const graphs = this.#graphs
    if (typeof graphs !== 'string' && !(graphs instanceof URL)) {
      return Object.entries(graphs).map(([name, definition]) =>
        graphToLoad(name, this.#withDefaults(definition)),
      )
    }
    const onWarning = (message: string, cause?: unknown): void => listener.warned(message, cause)
    const host = new GraphHost({ isShared: this.#options.isShared ?? false, onWarning })
    const configured = await readGraphConfig(graphs, onWarning)
    return configured.map(({ definition, ...each }) => {
      return { ...each, definition: this.#withDefaults(definition), host }
    })
  }

  #withDefaults<Definition extends ContextOptions>(definition: Definition): Definition {
    const { callerContext, context } = this.#options
    return {
      ...definition,
      context: definition.context ?? context,
      callerContext: definition.callerContext ?? callerContext,
    }
  }

  #warnOf({ agent, definition, graph, missing }: LoadedGraph, listener: AgentListener): void {
    if (missing.length > 0) listener.warned(missingContextText(agent.name, missing))
    if (this.#options.isShared === true && keepsThreadsHere(graph)) {
      listener.warned(
        `The graph "${agent.name}" keeps its threads in this process, so its questions cannot be answered in another process`,
      )
    }
    const keeper = threadKeeperOf(graph)
    if (keeper && !keeper.deleteThread) this.#warnOfThreads(agent)
    if (isRemoteGraph(graph)) {
      listener.warned(
        `The graph "${agent.name}" is a RemoteGraph: its threads stay at the server, and its questions cannot be answered. Offer it with langGraphServerSource()`,
      )
    }
    const { after, before } = declaredBreakpoints(graph)
    if (!graph.checkpointer && (after || before.size > 0)) {
      listener.warned(
        `The graph "${agent.name}" has breakpoints and no checkpointer: a call that reaches one fails. Compile it with a checkpointer, or without interruptBefore and interruptAfter`,
      )
    }
    if (definition.input !== undefined || skillsOf(agent).every(({ inputSchema }) => inputSchema))
      return
    const defect = messageDefectOf(graph)
    if (defect === undefined) return
    listener.warned(
      `Every call of the graph "${agent.name}" will fail: it ${defect}. Declare its state or its input with a schema that callers can fill, or give the agent an "input": a function, or its JSON schema in a langgraph.json`,
    )
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    const loaded = this.#loaded.get(call.agentId)
    if (loaded === undefined) throw new GatewayError('NOT_FOUND', 'This graph does not exist')
    const resumed = call.resume && threadStateFrom(call.resume.state)
    if (call.resume !== undefined && resumed === undefined) {
      throw new TypeError('The state is not the state of a graph that asked')
    }
    const { attempt, runId } = call
    const own = attempt === undefined ? randomUUID() : runId
    const thread = resumed?.thread ?? call.thread ?? own
    const configurable = configurableOf(loaded, call, thread)
    let graph: RunnableGraph
    try {
      graph = await loaded.graphFor({ configurable: { ...configurable } })
    } catch (error) {
      const reason = shownReasonOf(error)
      if (reason === undefined) throw error
      yield { type: 'failed', reason }
      return
    }
    // Another process may continue the run. Its thread is forgotten when its end is stored.
    let isKept = call.thread !== undefined || attempt !== undefined
    try {
      for await (const update of updatesOf({ loaded, graph, call, thread, configurable })) {
        isKept ||= waitsForAnswer(update)
        yield update
      }
    } finally {
      if (!isKept) await this.#deleteThread(loaded.agent, graph, thread)
    }
  }

  async forget(agentId: string, state: unknown): Promise<void> {
    const loaded = this.#loaded.get(agentId)
    const waiting = threadStateFrom(state)
    if (loaded === undefined || waiting === undefined || waiting.isConversation) return
    await this.#deleteThread(loaded.agent, loaded.latest(), waiting.thread)
  }

  async forgetThread(agentId: string, thread: string): Promise<void> {
    const loaded = this.#loaded.get(agentId)
    if (loaded !== undefined) await this.#deleteThread(loaded.agent, loaded.latest(), thread)
  }

  async close(): Promise<void> {
    this.#loaded.clear()
  }

  /** Warns once of a checkpointer that cannot delete threads. */
  #warnOfThreads({ id, name }: Agent): void {
    if (this.#keeping.has(id)) return
    this.#keeping.add(id)
    this.#listener?.warned(
      `The checkpointer of the graph "${name}" has no deleteThread(), so the threads of its calls stay: delete old ones yourself`,
    )
  }

  /** Ends within a time limit, and never throws, because the answer of the run is there already. */
  async #deleteThread(agent: Agent, graph: RunnableGraph, thread: string): Promise<void> {
    const keeper = threadKeeperOf(graph)
    if (!keeper?.deleteThread || this.#keeping.has(agent.id)) return
    const { clock = systemClock } = this.#options
    const deadline = { clock, ms: DELETE_MS, what: 'Deleting a thread' }
    try {
      await withDeadline(keeper.deleteThread(thread), deadline)
    } catch (error) {
      if (isUnsupported(error)) return this.#warnOfThreads(agent)
      this.#listener?.warned(`A thread of the graph "${agent.name}" could not be deleted`, error)
    }
  }
}

/** Some checkpointers have the method because LangGraph demands it, and throw. */
function isUnsupported(error: unknown): boolean {
  return error instanceof Error && /not (?:yet )?(?:implemented|supported)/i.test(error.message)
}

interface RunOfGraph {
  readonly loaded: LoadedGraph
  readonly graph: RunnableGraph
  readonly call: AgentCall
  readonly thread: string
  readonly configurable: Readonly<Record<string, unknown>>
}

async function* updatesOf(run: RunOfGraph): AsyncGenerator<AgentUpdate> {
  const { call, configurable, graph, thread } = run
  const { definition } = run.loaded
  using guard = call.attempt === undefined ? undefined : guardAfterFreeze(call.signal)
  const end = newEnd()
  const isConversation = call.thread !== undefined
  const kept = { thread, isConversation, context: callerContextOf(call) }
  let isStarted = false
  try {
    const isTakenOver = (call.attempt ?? 1) > 1
    if (isTakenOver || call.resume !== undefined) await assertKnownNodes(graph, thread)
    if (call.resume !== undefined && isStopAnswer(call.resume)) {
      yield STOPPED
      return
    }
    const stops = isTakenOver ? await newBreakpoints(graph, call, thread) : []
    if (stops.length > 0) {
      yield askedFrom(stops, kept)
      return
    }
    const input = isTakenOver ? await inputAfterDeath(run) : await inputOf(run)
    if (input === undefined) {
      yield { type: 'failed', reason: 'It takes named arguments, not a message.' }
      return
    }
    const context = withCredentialsOf(graph, call, await contextOf(call, definition))
    const defect = contextDefectOf(graph, context)
    if (defect) throw contextFailure(defect.path, definition, defect.why)
    const isRemote = isRemoteGraph(graph)
    const arrivals = new Arrivals()
    const chunks = await graph.stream(input, {
      ...(context && { context }),
      ...(definition.recursionLimit !== undefined && {
        recursionLimit: definition.recursionLimit,
      }),
      // The declared output of the graph instead of its whole state.
      ...(graph.outputChannels !== undefined && { outputKeys: graph.outputChannels }),
      signal: call.signal,
      streamMode: isRemote ? REMOTE_STREAM_MODES : STREAM_MODES,
      ...(guard && { durability: 'sync' as const }),
      callbacks: [
        ...(guard ? [...guard.callbacks, arrivals.holdNodes] : []),
        ...arrivals.callbacks,
      ],
      subgraphs: true,
      configurable,
    })
    for await (const each of arrivals.among(chunks)) {
      isStarted = true
      const update = 'chunk' in each ? readChunk(each.chunk, end, isRemote) : each
      if (update !== undefined) yield update
    }
  } catch (error) {
    call.signal.throwIfAborted()
    if (error instanceof RunFailure) throw error
    const refusal = isStarted ? undefined : inputRefusalOf(error)
    if (refusal !== undefined) throw new RunFailure('invalid_arguments', refusal)
    const reason = isRemoteQuestion(graph, error) ? REMOTE_QUESTION : shownReasonOf(error)
    if (reason === undefined) throw error
    yield { type: 'failed', reason }
    return
  }
  call.signal.throwIfAborted()
  // LangGraph sends no state if no node has set a key of the declared output.
  if (end.state === undefined && hasOutputSchema(run)) end.state = {}
  const reader = {
    state: () => threadStateOf(graph, thread),
    checkpoint: call.attempt === undefined ? undefined : checkpointReaderOf(graph),
  }
  yield* endingOf({ ...kept, end, reader, output: definition.output })
}

function hasOutputSchema({ call, loaded }: RunOfGraph): boolean {
  const skill = skillsOf(loaded.agent).find(({ id }) => id === call.skillId)
  return skill?.outputSchema !== undefined
}

/**
 * Adds the credentials of the caller, which no caller may give itself. They do not leave this process, and are never stored.
 * A graph whose context schema refuses other fields gets them only if it declares them.
 */
function withCredentialsOf(
  graph: RunnableGraph,
  { credentials }: AgentCall,
  context: Readonly<Record<string, unknown>> | undefined,
): Readonly<Record<string, unknown>> | undefined {
  if (credentials === undefined || isRemoteGraph(graph)) return context
  const all = { ...context, credentials }
  return contextDefectOf(graph, all)?.path === '' ? context : all
}

/** Returns `config.configurable` of a run. It is a new object for each call, because a graph may write into it. */
function configurableOf(
  { agent, configurable, isConfigured }: LoadedGraph,
  { artifacts, input, principal, runId, skillId, trace }: AgentCall,
  thread: string,
): Readonly<Record<string, unknown>> {
  return {
    ...configurable,
    ...(isConfigured && langGraphNames(agent.id, principal, runId)),
    thread_id: thread,
    runId,
    skillId,
    principal,
    artifacts,
    files: input.files,
    ...(trace !== undefined && { trace }),
  }
}

/** Names by which LangGraph's server tells a graph about its run and its caller. */
function langGraphNames(
  graphId: string,
  { id, isAnonymous, scopes }: AgentCall['principal'],
  runId: string,
): Readonly<Record<string, unknown>> {
  const run = { graph_id: graphId, assistant_id: graphId, run_id: runId }
  if (isAnonymous) return run
  const permissions = [...scopes]
  return {
    ...run,
    langgraph_auth_user: { identity: id, display_name: id, is_authenticated: true, permissions },
    langgraph_auth_user_id: id,
    langgraph_auth_permissions: permissions,
  }
}

/** Returns the input of a graph whose process died. With `null`, the graph continues from its last checkpoint. */
async function inputAfterDeath(run: RunOfGraph): Promise<unknown> {
  const { call, graph, thread } = run
  const open = await openInterrupts(graph, thread)
  if (open === undefined) return inputOf(run)
  if (call.resume === undefined) return null
  // The checkpoint has an answer when the node that asked has ended, or asks again. Until then, the node needs it again.
  const value = resumeOf(call.resume, open)
  return value === undefined ? null : commandOf(value)
}

async function inputOf({ call, graph, loaded, thread }: RunOfGraph): Promise<unknown> {
  const { agent, definition } = loaded
  if (call.resume !== undefined) {
    const state = await threadStateOf(graph, thread)
    const reader = call.attempt === undefined ? undefined : checkpointReaderOf(graph)
    const value = await resumeOfOpen(call.resume, state, reader)
    return value === undefined ? null : commandOf(value)
  }
  if (definition.input !== undefined) return definition.input(call.input, call.skillId)
  if (takesMessages(graph)) return messageStateOf(call.input, call.signal)
  const skill = agent.skills.find(({ id }) => id === call.skillId)
  const state = argumentStateOf(call.input, skill?.inputSchema)
  const fields = inputFieldsOf(graph)
  const values = Object.entries(state ?? {}).map(([name, value]) => [
    name,
    revived(fields[name], value),
  ])
  return state && Object.fromEntries(values)
}

async function commandOf(resume: unknown): Promise<unknown> {
  const Command = await loadCommand()
  return new Command({ resume })
}

/** Returns why a graph refuses its input. Errors of nodes have the id of a task; input errors come before any node. */
function inputRefusalOf(error: unknown): string | undefined {
  if (!isRecord(error) || 'pregelTaskId' in error) return undefined
  const { name, issues } = error
  if (name === 'EmptyInputError') return 'It got none of the arguments that it takes.'
  const first: unknown = Array.isArray(issues) ? issues[0] : undefined
  if (!isRecord(first)) return undefined
  const { message, path } = first
  const place = Array.isArray(path) && path.length > 0 ? ` at ${path.map(String).join('.')}` : ''
  return `It does not take these arguments${place}: ${wholeCharacters(String(message), 200)}`
}

const REMOTE_QUESTION =
  'It asked a question, and a RemoteGraph cannot wait for the answer. The operator of the gateway can offer the graph with langGraphServerSource(), where its questions are answered.'

/** A `RemoteGraph` throws its questions and its breakpoints. */
function isRemoteQuestion(graph: RunnableGraph, error: unknown): boolean {
  return isRemoteGraph(graph) && error instanceof Error && error.name === 'GraphInterrupt'
}

/** Returns why a graph failed, for the caller. Other errors may contain anything, unless they have `expose: true`. */
function shownReasonOf(error: unknown): string | undefined {
  if (!isRecord(error)) return undefined
  if (error['lc_error_code'] === 'GRAPH_RECURSION_LIMIT') {
    return 'It did not end within its limit of steps.'
  }
  if (error['lc_error_code'] === 'MISSING_CHECKPOINTER') {
    return 'It asked a question, but has no checkpointer to wait for the answer.'
  }
  const { expose, message } = error
  return expose === true && typeof message === 'string' ? message : undefined
}
