import { check, isRecord, type Checks } from '@x/internal'
import type { OutputFile } from '../../files/result-files.ts'
import type { AgentInput, AnswerUi, Skill, ToolUi } from '../agent.ts'
import { contextChecks, type ContextOptions } from './context.ts'

/** A graph as an agent. */
export interface GraphDefinition extends ContextOptions {
  /** Compiled graph, or a function that makes it once at the start. With a checkpointer the graph can ask. */
  readonly graph: RunnableGraph | (() => RunnableGraph | Promise<RunnableGraph>)
  /** Description for models. */
  readonly description: string
  /** @default its key */
  readonly name?: string | undefined
  /** @default one skill, with the schema of the graph's input if it is declared with one and has no `messages` */
  readonly skills?: readonly Skill[] | undefined
  /** User interface of its tools. @default none */
  readonly ui?: ToolUi | undefined
  /**
   * Returns the input of the graph for one call. A graph without a schema and without `messages`, such as one of
   * `Annotation`, needs it.
   *
   * @default a user message in `messages`; the arguments, if the graph has its own schema
   */
  readonly input?: ((input: AgentInput, skillId: string) => unknown) | undefined
  /**
   * Makes the answer from the final state. Only this function can add a user interface to a single answer (`ui`).
   *
   * @default `outputOf`: text, images, audio and files of the last message of the model, or what stands for an empty one; `structuredResponse`; files of deep agents; the whole state, if it has no messages
   */
  readonly output?: ((state: GraphState) => GraphOutput | Promise<GraphOutput>) | undefined
  /** Steps after which the graph is stopped. @default the limit of the graph */
  readonly recursionLimit?: number | undefined
}

export const graphChecks: Checks<GraphDefinition> = {
  graph: check.required({
    takes: 'a compiled graph, or a function that makes one',
    accepts: (value) => typeof value === 'function' || isRunnableGraph(value),
  }),
  description: check.required(check.string),
  name: check.text,
  skills: check.listOf(check.record),
  ui: check.record,
  input: check.func,
  output: check.func,
  recursionLimit: check.number(1),
  ...contextChecks,
}

/**
 * The state of any graph. Only its author knows the type, and `state.messages.at(-1).text` must compile without a cast.
 */
export type GraphState = any

export type GraphOutput =
  | string
  | {
      readonly text?: string | undefined
      readonly structured?: Readonly<Record<string, unknown>> | undefined
      readonly files?: readonly OutputFile[] | undefined
      readonly ui?: AnswerUi | undefined
    }

/** The parts of a compiled graph that the gateway uses. Graphs of `@langchain/langgraph` 1.4 and later have them. */
export interface RunnableGraph {
  stream(input: unknown, options?: object): Promise<AsyncIterable<unknown>>
  getState?(config: object, options?: object): Promise<unknown>
  /** Channels by the keys of the state. */
  readonly channels?: object | undefined
  readonly builder?: unknown
  /** Options of `createAgent()`. */
  readonly options?: unknown
  readonly outputChannels?: unknown
  readonly checkpointer?: unknown
  readonly interruptBefore?: unknown
  readonly interruptAfter?: unknown
  getSubgraphs?(): Iterable<readonly [string, unknown]>
}

/** A checkpointer, which keeps the threads of a graph. */
export interface ThreadKeeper {
  /** Some checkpointers of other authors do not have it. */
  deleteThread?(threadId: string): Promise<void>
  getTuple?(config: unknown): Promise<unknown>
}

export function isRunnableGraph(value: unknown): value is RunnableGraph {
  return check.methods('stream').accepts(value)
}

/** Returns the checkpointer of a graph. `undefined` if it has none: then it cannot ask. */
export function threadKeeperOf({ checkpointer }: RunnableGraph): ThreadKeeper | undefined {
  return isThreadKeeper(checkpointer) ? checkpointer : undefined
}

/** Returns whether the graph keeps its threads in the memory of this process. Any copy of LangGraph may have made the checkpointer. */
export function keepsThreadsHere(graph: RunnableGraph): boolean {
  return /^(?:Memory|InMemory)Saver$/.test(threadKeeperOf(graph)?.constructor.name ?? '')
}

/**
 * Returns whether a graph certainly keeps nothing between its calls: neither it nor a subgraph has a checkpointer. Graphs of
 * a server, and objects that only look like graphs, may keep their threads elsewhere.
 */
export function keepsNoThreads(graph: RunnableGraph): boolean {
  if (isRemoteGraph(graph) || pregelOf(graph) === undefined) return false
  return [graph, ...subgraphsOf(graph)].every((each) => {
    return !isRemoteGraph(each) && !each.checkpointer && !pregelOf(each)?.['checkpointer']
  })
}

/** Nodes at which a graph stops, and those of its subgraphs. `*` stands for all. */
export interface Breakpoints {
  readonly before: ReadonlySet<string>
  /** The graph stops after some node. */
  readonly after: boolean
}

/** Returns the breakpoints with which a graph and its subgraphs were compiled. */
export function declaredBreakpoints(graph: RunnableGraph): Breakpoints {
  const graphs = [graph, ...subgraphsOf(graph)]
  return {
    before: new Set(graphs.flatMap(({ interruptBefore }) => namesIn(interruptBefore))),
    after: graphs.some(({ interruptAfter }) => namesIn(interruptAfter).length > 0),
  }
}

function subgraphsOf(graph: RunnableGraph): readonly RunnableGraph[] {
  // Its subgraphs are at the server, and the method throws.
  if (isRemoteGraph(graph)) return []
  const inner = [...(graph.getSubgraphs?.() ?? [])].map(([, each]) => each)
  return inner.filter(isRunnableGraph).flatMap((each) => [each, ...subgraphsOf(each)])
}

function namesIn(value: unknown): readonly string[] {
  if (value === '*') return ['*']
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []
}

function isThreadKeeper(value: unknown): value is ThreadKeeper {
  return (
    check.methods('getTuple', 'put').accepts(value) || check.methods('deleteThread').accepts(value)
  )
}

/** Returns whether a graph is a `RemoteGraph` of LangGraph, which runs at a LangGraph server. */
export function isRemoteGraph(graph: RunnableGraph): boolean {
  return 'graphId' in graph && typeof graph.graphId === 'string' && 'client' in graph
}

/** Returns the graph itself, or the one inside an agent of `createAgent()`. `undefined` for any other value. */
export function pregelOf(graph: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isRecord(graph)) return undefined
  return graph['lg_is_pregel'] === true && 'nodes' in graph ? graph : pregelOf(graph['graph'])
}
