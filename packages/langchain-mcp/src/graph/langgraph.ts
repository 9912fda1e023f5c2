// Reads LangGraph. Its public API serves wherever it can; the inner names that are needed
// besides are here and in no other file. Each has a test that it exists, and an answer that is safe without it.
import type { RunnableConfig } from '@langchain/core/runnables'
import { isRecord } from '@x/internal'

/** The functions of LangGraph that are used inside a run. */
export type LangGraphRuntime = Pick<
  // oxlint-disable-next-line consistent-type-imports -- an import would stay in types that compile without LangGraph
  typeof import('@langchain/langgraph'),
  'interrupt' | 'task' | 'GraphInterrupt'
>

let loading: Promise<LangGraphRuntime | undefined> | undefined

/**
 * Loads LangGraph at the first call in a graph, so that users without graphs need not install it. Resolves
 * to undefined if it is not installed.
 */
export function loadLangGraph(): Promise<LangGraphRuntime | undefined> {
  return (loading ??= importLangGraph())
}

/** In `try`, a bundler accepts that the package is not installed. */
async function importLangGraph(): Promise<LangGraphRuntime | undefined> {
  try {
    return await import('@langchain/langgraph')
  } catch {
    return undefined
  }
}

/** LangGraph's public description of the running task (`config.executionInfo`). */
export interface Execution {
  readonly taskId: string
  /** Namespace of the task: the tasks that contain it, then its own name and id. */
  readonly checkpointNs: string
  /** The checkpoint from which the task was started. */
  readonly checkpointId: string
}

/** Returns undefined outside a graph. It is another object in each attempt of the task. */
export function executionOf(config: object | undefined): Execution | undefined {
  const info: unknown = config && 'executionInfo' in config ? config.executionInfo : undefined
  return isExecution(info) ? info : undefined
}

function isExecution(info: unknown): info is Execution {
  return (
    isRecord(info) &&
    ['taskId', 'checkpointNs', 'checkpointId'].every((name) => typeof info[name] === 'string')
  )
}

/**
 * Returns the input of the running task without loading LangGraph, as `getCurrentTaskInput()` would: the state of the
 * graph, or what a `Send` contains. Undefined outside a graph.
 */
export function taskInputOf({ configurable = {} }: RunnableConfig): unknown {
  const scratchpad: unknown = configurable['__pregel_scratchpad']
  return isRecord(scratchpad) ? scratchpad['currentTaskInput'] : undefined
}

/** The methods of LangGraph's `BaseCheckpointSaver` that are used here. */
export interface CheckpointSaver {
  getTuple(config: {
    readonly configurable: Readonly<Record<string, unknown>>
  }): Promise<{ readonly pendingWrites?: readonly unknown[] } | undefined>
  putWrites?(
    config: { readonly configurable: Readonly<Record<string, unknown>> },
    writes: [channel: string, value: unknown][],
    taskId: string,
    taskPath?: string,
  ): Promise<unknown>
}

/** Facts about a task that only inner names of LangGraph give. */
export interface InnerNames {
  /** False if the graph has no checkpointer. True if that is not known: LangGraph refuses an interrupt then. */
  readonly canInterrupt: boolean
  /** Without it, only an answer with the key of its question counts, and outcomes of calls are kept by `task()`s. */
  readonly saver: CheckpointSaver | undefined
  /**
   * Ids of the checkpoints from which the task and its outer graphs were started, by namespace. Without them, the
   * newest checkpoint of an outer graph is read.
   */
  readonly checkpoints: Readonly<Record<string, unknown>>
  /**
   * The answers that resumed the graph, by the ids of interrupts. Undefined if no ids were given. Without it, an answer
   * counts only if one question waits.
   */
  readonly answersById: Readonly<Record<string, unknown>> | undefined
  /** The names that this version of LangGraph does not have. */
  readonly missing: readonly string[]
}

export function innerNames(configurable: Readonly<Record<string, unknown>> = {}): InnerNames {
  const saver = configurable['__pregel_checkpointer']
  const byId = configurable['__pregel_resume_map']
  const checkpoints = configurable['checkpoint_map']
  // LangGraph sets both in every task, also without a checkpointer.
  const missing = ['__pregel_checkpointer', 'checkpoint_map'].filter(
    (name) => !(name in configurable),
  )
  return {
    canInterrupt: Boolean(saver) || !('__pregel_checkpointer' in configurable),
    saver: isSaver(saver) ? saver : undefined,
    checkpoints: isRecord(checkpoints) ? checkpoints : {},
    answersById: isRecord(byId) ? byId : undefined,
    missing,
  }
}

function isSaver(value: unknown): value is CheckpointSaver {
  return isRecord(value) && typeof value['getTuple'] === 'function'
}

/** Returns true for a field of `configurable` that belongs to LangGraph: it describes a run, not the caller. */
export function isInnerName(name: string): boolean {
  return /^__pregel_|^checkpoint_/.test(name)
}

/** Field of the input of a task for one tool call, which `ToolNode` reads. */
export const ONE_CALL = 'lg_tool_call'

/** LangGraph wraps the store of a graph in one that answers only during the run. Returns the store inside. */
export function storeInside(store: Readonly<Record<string, unknown>>): unknown {
  return store['lg_name'] === 'AsyncBatchedStore' ? store['store'] : undefined
}

/** Returns true for an error with which LangGraph stops a task: it must reach LangGraph. */
export function isInterrupt(error: unknown): boolean {
  return error instanceof Error && 'is_bubble_up' in error && error.is_bubble_up === true
}

/** Trigger of a task for a `Send`, and of a `task()` of the functional API. */
export function isPushed(metadata: Readonly<Record<string, unknown>> = {}): boolean {
  const triggers = metadata['langgraph_triggers']
  return Array.isArray(triggers) && triggers[0] === '__pregel_push'
}

/** An interrupt at which a task stopped. */
export interface StoredInterrupt {
  readonly id: unknown
  readonly value: unknown
}

/** The writes of one task in a checkpoint. */
export interface TaskWrites {
  /** True if the task stopped at an interrupt, also at one in an unknown form. */
  readonly isInterrupted: boolean
  /** The interrupts in the newest write. */
  readonly interrupts: readonly StoredInterrupt[]
  /** The last answer that the task received. */
  readonly answer: unknown
  /** LangGraph does not execute a finished task again, except for 1.4 in inner graphs. */
  readonly isFinished: boolean
  /** Stored result: that of a `task()` of the functional API, or the outcome of a call that `keepReturned()` stored. */
  readonly returned: { readonly value: unknown } | undefined
}

/** Channels of writes that do not finish a task. */
const UNFINISHED = new Set([
  '__interrupt__',
  '__resume__',
  '__error__',
  '__error_source_node__',
  '__scheduled__',
])

const NO_WRITES: TaskWrites = {
  isInterrupted: false,
  interrupts: [],
  answer: undefined,
  isFinished: false,
  returned: undefined,
}

/** Where a write belongs: a graph of a thread, and the checkpoint from which its tasks were started. */
export interface CheckpointPlace {
  readonly thread: string
  readonly graph: string
  /** Undefined for the newest. */
  readonly checkpoint: unknown
}

/**
 * Keeps a value beside the writes of the tasks, as what the task with this id returned. LangGraph ignores writes of tasks
 * that it does not know, and removes them with their checkpoint.
 *
 * @throws the error of the saver
 */
export async function keepReturned(
  saver: Required<CheckpointSaver>,
  place: CheckpointPlace,
  { id, value }: { readonly id: string; readonly value: unknown },
): Promise<void> {
  const configurable = configurableFor(place)
  await saver.putWrites({ configurable }, [['__return__', value]], id, '')
}

export function canKeep(saver: CheckpointSaver | undefined): saver is Required<CheckpointSaver> {
  return typeof saver?.putWrites === 'function'
}

/** Reads the writes of the tasks of a graph since a checkpoint, by the ids of the tasks. Empty without a saver. */
export async function readTasks(
  saver: CheckpointSaver | undefined,
  place: CheckpointPlace,
): Promise<ReadonlyMap<string, TaskWrites>> {
  const tuple = await saver?.getTuple({ configurable: configurableFor(place) })
  return tasksIn(tuple?.pendingWrites ?? [])
}

function configurableFor({
  thread,
  graph,
  checkpoint,
}: CheckpointPlace): Readonly<Record<string, unknown>> {
  return { thread_id: thread, checkpoint_ns: graph, checkpoint_id: checkpoint }
}

/** Reads the writes of a checkpoint, by the ids of their tasks. */
export function tasksIn(writes: readonly unknown[]): ReadonlyMap<string, TaskWrites> {
  const tasks = new Map<string, TaskWrites>()
  for (const write of writes) {
    if (!Array.isArray(write)) continue
    const [id, channel, value]: readonly unknown[] = write
    if (typeof id !== 'string' || typeof channel !== 'string') continue
    tasks.set(id, taskWith(tasks.get(id) ?? NO_WRITES, channel, value))
  }
  return tasks
}

function taskWith(task: TaskWrites, channel: string, value: unknown): TaskWrites {
  switch (channel) {
    case '__interrupt__':
      return { ...task, isInterrupted: true, interrupts: interruptsIn(value) }
    case '__resume__':
      return { ...task, answer: Array.isArray(value) ? value.at(-1) : value }
    case '__return__':
      return { ...task, isFinished: true, returned: { value } }
    default:
      return UNFINISHED.has(channel) ? task : { ...task, isFinished: true }
  }
}

/** LangGraph 1.7 and newer write an array, older ones an object. Another form has no interrupt. */
function interruptsIn(write: unknown): readonly StoredInterrupt[] {
  return [write]
    .flat()
    .filter((one) => isRecord(one))
    .map(({ id, value }) => ({ id, value }))
}
