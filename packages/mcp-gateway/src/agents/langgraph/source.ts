import { randomUUID } from 'node:crypto'
import { check, isRecord, type Check, type Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../../errors.ts'
import { systemClock, type Clock } from '../../internal/clock.ts'
import { withDeadline } from '../../internal/timers.ts'
import { RunFailure, skillsOf } from '../agent.ts'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  JsonSchema,
  Skill,
} from '../agent.ts'
import { graphsFromConfig } from './config.ts'
import {
  callerContextOf,
  contextChecks,
  contextFailure,
  contextOf,
  contextPlanOf,
  missingContextText,
  type ContextOptions,
} from './context.ts'
import {
  declaredBreakpoints,
  graphChecks,
  isRunnableGraph,
  keepsThreadsHere,
  threadKeeperOf,
} from './definition.ts'
import type { GraphDefinition, RunnableGraph } from './definition.ts'
import { endingOf } from './ending.ts'
import { revived } from './fields.ts'
import {
  areOpen,
  askedFrom,
  isStopAnswer,
  openInterruptsOf,
  resumeOf,
  STOPPED,
  threadStateFrom,
  waitsForAnswer,
} from './interrupts.ts'
import { argumentStateOf, messageStateOf } from './messages.ts'
import {
  contextDefectOf,
  contextSchemaOf,
  inputFieldsOf,
  messageDefectOf,
  skillsOfGraph,
  takesMessages,
} from './skills.ts'
import { Arrivals, newEnd, readChunk, STREAM_MODES } from './stream.ts'
import {
  assertKnownNodes,
  checkpointReaderOf,
  guardAfterFreeze,
  isAtBreakpointOf,
  newBreakpoints,
  openInterrupts,
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
 */
export function langGraphSource(
  graphs: Readonly<Record<string, GraphDefinition>> | string | URL,
  options: LangGraphSourceOptions = {},
): AgentSource {
  assertGatewayOptions('langGraphSource()', { graphs }, { graphs: check.required(graphsByName) })
  assertGatewayOptions('langGraphSource()', options, optionChecks)
  return new LangGraphSource(graphs, options)
}

interface LoadedGraph {
  readonly agent: Agent
  readonly definition: GraphDefinition
  readonly graph: RunnableGraph
  readonly takesMessages: boolean
  /** Required fields of its context that the configuration does not set and callers may not set. */
  readonly missing: readonly string[]
}

class LangGraphSource implements AgentSource {
  readonly name = 'langgraph'
  readonly isLocal = true
  readonly #graphs: Graphs
  readonly #options: LangGraphSourceOptions
  readonly #loaded = new Map<string, LoadedGraph>()
  #listener: AgentListener | undefined

  constructor(graphs: Graphs, options: LangGraphSourceOptions) {
    this.#graphs = graphs
    this.#options = options
  }

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    const isConfig = typeof this.#graphs === 'string' || this.#graphs instanceof URL
    const graphs = isConfig ? await graphsFromConfig(this.#graphs) : this.#graphs
    const names = Object.keys(graphs)
    const results = await Promise.allSettled(
      Object.entries(graphs).map(([name, definition]) =>
        load(name, this.#withDefaults(definition), listener),
      ),
    )
    const [failure] = results.filter(({ status }) => status === 'rejected')
    const isAnyLoaded = results.some(({ status }) => status === 'fulfilled')
    if (failure?.status === 'rejected' && !isAnyLoaded) throw failure.reason
    for (const [index, result] of results.entries()) {
      const name = names[index] ?? ''
      if (result.status === 'rejected') {
        const message = `The graph "${name}" is not offered: it cannot be loaded`
        listener.warned(message, result.reason)
        continue
      }
      const one = result.value
      this.#loaded.set(one.agent.id, one)
      this.#warnOf(one, listener)
      listener.found(one.agent)
    }
  }

  #withDefaults(definition: GraphDefinition): GraphDefinition {
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
      `Every call of the graph "${agent.name}" will fail: it ${defect}. Declare its state or its input with a schema that callers can fill, or give the agent an "input" function`,
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
    // Another process may continue the run. Its thread is forgotten when its end is stored.
    let isKept = call.thread !== undefined || attempt !== undefined
    try {
      for await (const update of updatesOf(loaded, call, thread)) {
        isKept ||= waitsForAnswer(update)
        yield update
      }
    } finally {
      if (!isKept) await this.#deleteThread(loaded, thread)
    }
  }

  async forget(agentId: string, state: unknown): Promise<void> {
    const loaded = this.#loaded.get(agentId)
    const waiting = threadStateFrom(state)
    if (loaded === undefined || waiting === undefined || waiting.isConversation) return
    await this.#deleteThread(loaded, waiting.thread)
  }

  async forgetThread(agentId: string, thread: string): Promise<void> {
    const loaded = this.#loaded.get(agentId)
    if (loaded !== undefined) await this.#deleteThread(loaded, thread)
  }

  async close(): Promise<void> {
    this.#loaded.clear()
  }

  /** Ends within a time limit, and never throws, because the answer of the run is there already. */
  async #deleteThread({ graph, agent }: LoadedGraph, thread: string): Promise<void> {
    const keeper = threadKeeperOf(graph)
    if (keeper === undefined) return
    const { clock = systemClock } = this.#options
    const deadline = { clock, ms: DELETE_MS, what: 'Deleting a thread' }
    try {
      await withDeadline(keeper.deleteThread(thread), deadline)
    } catch (error) {
      this.#listener?.warned(`A thread of the graph "${agent.name}" could not be deleted`, error)
    }
  }
}

async function load(
  name: string,
  definition: GraphDefinition,
  listener: AgentListener,
): Promise<LoadedGraph> {
  const made: unknown =
    typeof definition.graph === 'function' ? await definition.graph() : definition.graph
  if (!isRunnableGraph(made)) {
    throw new GatewayError('CONFIG', `The agent "${name}" is not a compiled graph`, {
      path: `agents.${name}.graph`,
    })
  }
  const warned = (message: string, cause: unknown): void => listener.warned(message, cause)
  const skills = await skillsOfGraph({ name, definition, graph: made }, (cause) => {
    warned(`The schema of the graph "${name}" cannot be read, so its tool takes a message`, cause)
  })
  const contextSchema = await contextSchemaOf(made).catch((cause: unknown) => {
    warned(`The context schema of the graph "${name}" cannot be read`, cause)
    return undefined
  })
  const { callerSchema, missing } = contextPlanOf(contextSchema, definition)
  const agent: Agent = {
    id: name,
    name: definition.name ?? name,
    description: definition.description,
    skills: withContext(skills, callerSchema, { id: name, description: definition.description }),
    health: 'healthy',
    canAsk: threadKeeperOf(made) !== undefined,
    canContinue: threadKeeperOf(made) !== undefined && !keepsThreadsHere(made),
  }
  return { agent, definition, graph: made, missing, takesMessages: takesMessages(made) }
}

/** Adds the parameter `context` to tools, also to that of an agent without skills. */
function withContext(
  skills: readonly Skill[],
  contextSchema: JsonSchema | undefined,
  { id, description }: Pick<Skill, 'id' | 'description'>,
): readonly Skill[] {
  if (contextSchema === undefined) return skills
  const all = skills.length > 0 ? skills : [{ id, name: '', description }]
  return all.map((skill) => ({ ...skill, contextSchema }))
}

async function* updatesOf(
  loaded: LoadedGraph,
  call: AgentCall,
  thread: string,
): AsyncGenerator<AgentUpdate> {
  const { definition, graph } = loaded
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
    const input = isTakenOver
      ? await inputAfterDeath(loaded, call, thread)
      : await inputOf(loaded, call, thread)
    if (input === undefined) {
      yield { type: 'failed', reason: 'It takes named arguments, not a message.' }
      return
    }
    const context = await contextOf(call, definition)
    const defect = contextDefectOf(graph, context)
    if (defect) throw contextFailure(defect.path, definition, defect.why)
    const arrivals = new Arrivals()
    const chunks = await graph.stream(input, {
      ...(context && { context }),
      ...(definition.recursionLimit !== undefined && {
        recursionLimit: definition.recursionLimit,
      }),
      // The declared output of the graph instead of its whole state.
      ...(graph.outputChannels !== undefined && { outputKeys: graph.outputChannels }),
      signal: call.signal,
      streamMode: STREAM_MODES,
      ...(guard && { durability: 'sync' as const }),
      callbacks: [...(guard?.callbacks ?? []), ...arrivals.callbacks],
      subgraphs: true,
      // A new object for each call, because a graph may write into it.
      configurable: {
        thread_id: thread,
        runId: call.runId,
        skillId: call.skillId,
        principal: call.principal,
        artifacts: call.artifacts,
        files: call.input.files,
        ...(call.trace !== undefined && { trace: call.trace }),
      },
    })
    for await (const each of arrivals.among(chunks)) {
      isStarted = true
      const update = 'chunk' in each ? readChunk(each.chunk, end) : each
      if (update !== undefined) yield update
    }
  } catch (error) {
    call.signal.throwIfAborted()
    if (error instanceof RunFailure) throw error
    const refusal = isStarted ? undefined : inputRefusalOf(error)
    if (refusal !== undefined) throw new RunFailure('invalid_arguments', refusal)
    const reason = shownReasonOf(error)
    if (reason === undefined) throw error
    yield { type: 'failed', reason }
    return
  }
  call.signal.throwIfAborted()
  const reader = {
    state: () => threadStateOf(graph, thread),
    checkpoint: call.attempt === undefined ? undefined : checkpointReaderOf(graph),
  }
  yield* endingOf({ ...kept, end, reader, output: definition.output })
}

/** Returns the input of a graph whose process died. With `null`, the graph continues from its last checkpoint. */
async function inputAfterDeath(
  loaded: LoadedGraph,
  call: AgentCall,
  thread: string,
): Promise<unknown> {
  const open = await openInterrupts(loaded.graph, thread)
  if (open === undefined) return inputOf(loaded, call, thread)
  if (call.resume === undefined) return null
  // The checkpoint has an answer when the node that asked has ended, or asks again. Until then, the node needs it again.
  const value = resumeOf(call.resume, open)
  return value === undefined ? null : commandOf(value)
}

async function inputOf(
  { agent, definition, graph, takesMessages: isChat }: LoadedGraph,
  call: AgentCall,
  thread: string,
): Promise<unknown> {
  if (call.resume !== undefined) {
    const state = await threadStateOf(graph, thread)
    if (state === undefined) throw lostQuestion()
    const reader = call.attempt === undefined ? undefined : checkpointReaderOf(graph)
    const value = resumeOf(call.resume)
    const isThere =
      value === undefined
        ? isAtBreakpointOf(call.resume, state)
        : areOpen(call.resume, await openInterruptsOf(state, reader))
    if (!isThere) throw lostQuestion()
    return value === undefined ? null : commandOf(value)
  }
  if (definition.input !== undefined) return definition.input(call.input, call.skillId)
  if (isChat) return messageStateOf(call.input, call.signal)
  const skill = agent.skills.find(({ id }) => id === call.skillId)
  const state = argumentStateOf(call.input, skill?.inputSchema)
  const fields = inputFieldsOf(graph)
  const values = Object.entries(state ?? {}).map(([name, value]) => [
    name,
    revived(fields[name], value),
  ])
  return state && Object.fromEntries(values)
}

/**
 * A graph whose thread has gone would begin again with the answer: what it did before its question would be done twice. With
 * `null` it would continue from wherever its thread is now.
 */
function lostQuestion(): RunFailure {
  const text =
    'Its thread does not stand at the question any more that the answer is for, so nothing was continued. Check what the call did before you call again.'
  return new RunFailure('outcome_unknown', text)
}

async function commandOf(resume: unknown): Promise<unknown> {
  const { Command } = await import('@langchain/langgraph')
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
  return `It does not take these arguments${place}: ${String(message).slice(0, 200)}`
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
