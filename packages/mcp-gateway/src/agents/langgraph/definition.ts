import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { OutputFile } from '../../files/result-files.ts'
import type { AgentInput, Skill } from '../agent.ts'

/** A graph as an agent. */
export interface GraphDefinition {
  /** Compiled, or what makes it once at the start. With a checkpointer it can ask. */
  readonly graph: RunnableGraph | (() => RunnableGraph | Promise<RunnableGraph>)
  /** What it is good for, in the words that a model reads. */
  readonly description: string
  /** @default its key */
  readonly name?: string | undefined
  /** @default one skill; with the schema of the graph's input, where that is declared with one and has no `messages` */
  readonly skills?: readonly Skill[] | undefined
  /**
   * Returns the input of the graph for one call. A graph without a schema and without `messages`, such as one of
   * `Annotation`, needs it.
   *
   * @default a user message in `messages`; the arguments, where the graph has a schema of its own
   */
  readonly input?: ((input: AgentInput, skillId: string) => unknown) | undefined
  /**
   * What the caller gets of the final state: text, or more than that.
   *
   * @default text, images, audio and files of the last message of the model, `structuredResponse`; the state itself, where it has no messages
   */
  readonly output?: ((state: GraphState) => GraphOutput | Promise<GraphOutput>) | undefined
  /** Steps until the graph is stopped. @default that of the graph */
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
  input: check.func,
  output: check.func,
  recursionLimit: check.number(1),
}

/**
 * The state of whichever graph it is: only its author knows the type, and
 * `state.messages.at(-1).text` has to compile without a cast.
 */
export type GraphState = any

export type GraphOutput =
  | string
  | {
      readonly text?: string | undefined
      readonly structured?: Readonly<Record<string, unknown>> | undefined
      readonly files?: readonly OutputFile[] | undefined
    }

/** What we need of a compiled graph. Those of `@langchain/langgraph` have it, of any version from 1.4 on. */
export interface RunnableGraph {
  stream(input: unknown, options?: object): Promise<AsyncIterable<unknown>>
  /** By the name of the state's keys. */
  readonly channels?: object | undefined
  readonly builder?: unknown
  readonly outputChannels?: unknown
  readonly checkpointer?: unknown
}

/** Where the threads of a graph are kept. */
export interface ThreadKeeper {
  deleteThread(threadId: string): Promise<void>
}

export function isRunnableGraph(value: unknown): value is RunnableGraph {
  return (
    typeof value === 'object' &&
    value !== null &&
    'stream' in value &&
    typeof value.stream === 'function'
  )
}

/** @returns `undefined` for a graph that keeps nothing: it cannot ask, and leaves nothing behind */
export function threadKeeperOf({ checkpointer }: RunnableGraph): ThreadKeeper | undefined {
  return isThreadKeeper(checkpointer) ? checkpointer : undefined
}

/** Whether its checkpointer is the one of LangGraph that lives in memory, in whichever copy of that package. */
export function keepsThreadsHere({ checkpointer }: RunnableGraph): boolean {
  if (!isThreadKeeper(checkpointer)) return false
  return /^(?:Memory|InMemory)Saver$/.test(checkpointer.constructor.name)
}

function isThreadKeeper(value: unknown): value is ThreadKeeper {
  return (
    typeof value === 'object' &&
    value !== null &&
    'deleteThread' in value &&
    typeof value.deleteThread === 'function'
  )
}
