import { randomUUID } from 'node:crypto'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import { canonicalJson, isRecord } from '@x/internal'
import { currentRun } from '@x/mcp-client'
import { digest, toGraphStore, toThreadId, type GraphStore } from '../sessions/call-context.ts'

/** The functions of LangGraph that are used inside a run. */
export type LangGraphRuntime = Pick<
  // oxlint-disable-next-line consistent-type-imports -- an import would stay in types that compile without LangGraph
  typeof import('@langchain/langgraph'),
  'interrupt' | 'task' | 'getConfig' | 'GraphInterrupt'
>

let loading: Promise<LangGraphRuntime | undefined> | undefined

/**
 * Loads LangGraph at the first call in a graph, so that users without graphs need not install it. Resolves
 * to undefined if it is not installed.
 */
export function loadLangGraph(): Promise<LangGraphRuntime | undefined> {
  loading ??= import('@langchain/langgraph').catch(() => undefined)
  return loading
}

/**
 * Ends the run of a graph with an error. A `ToolNode` around the call would turn a thrown error into a
 * message for the model. Outside a graph the error is only thrown.
 *
 * The error fails a separate task. The task of the call stops as if interrupted: it leaves nothing in the
 * checkpoint, and is executed again when the thread continues.
 */
export async function failRun(
  error: unknown,
  { configurable = {} }: ToolRunnableConfig,
): Promise<never> {
  const isInGraph = typeof configurable['__pregel_call'] === 'function'
  const graph = isInGraph ? await loadLangGraph() : undefined
  if (graph === undefined) throw error
  const fail = graph.task('mcp:failed', () => {
    throw error
  })
  try {
    await fail()
  } catch {
    // LangGraph ends the run with this error.
  }
  throw new graph.GraphInterrupt()
}

/** Position of a call in a graph. It is the same in every process that continues the call. */
export interface GraphPlace {
  readonly thread: string
  /** LangGraph's id of the task that contains the call. */
  readonly task: string
  /** Namespace of the graph that contains the task; empty for the root graph. */
  readonly graph: string
  /** Namespace of the task. */
  readonly namespace: string
  readonly toolCallId: string
  /** Identifies the call among those of the task. A model may use its id again within one node. */
  readonly call: string
  /**
   * True if the task makes only this call. Only then may it be interrupted, because a resumed task is
   * executed again from its start, with all its calls.
   */
  readonly isAlone: boolean
  /** Store of the graph, if it has one. */
  readonly store: GraphStore | undefined
  readonly saver: CheckpointReader | undefined
  /** Ids of the checkpoints from which the task and its outer graphs were started, by namespace. */
  readonly checkpoints: Readonly<Record<string, string | undefined>>
  /** The answers that resumed the graph by the ids of interrupts. Undefined if no ids were given. */
  readonly answersById: readonly unknown[] | undefined
  /** True if the task is part of a subgraph or a sub-agent, and was executed before. */
  readonly isResumedInside: boolean
}

/**
 * Returns a key that identifies a call of a model in a graph. It is the same after a resume, in any process, and no other
 * call has it. Undefined for a call that a model did not make.
 */
export function idempotencyKeyOf(config: ToolRunnableConfig): string | undefined {
  const { configurable = {}, toolCall } = config
  const { thread_id: thread, checkpoint_ns: namespace, __pregel_task_id: task } = configurable
  if (toolCall?.id === undefined) return undefined
  // Outside a graph, a model may use the same id for the calls of each turn.
  if (typeof task !== 'string' || typeof namespace !== 'string') return randomUUID()
  const owner = toThreadId(thread) ?? currentRun()?.id ?? randomUUID()
  return digest([owner, namespace, task, callOf(config)])
}

/** The different calls with the same id, in their order, by the attempts of tasks that made them. */
const callsOfAttempts = new WeakMap<object, Map<string, string[]>>()

/**
 * Returns the id of a call, with a number from the second call on that has this id in one attempt of the task. The
 * arguments are no part of it: in another attempt, a model or a middleware may choose others for the same call.
 */
function callOf(config: ToolRunnableConfig): string {
  const { id = '', name = '', args } = config.toolCall ?? {}
  const attempt: unknown = 'executionInfo' in config ? config.executionInfo : undefined
  if (!isRecord(attempt)) return id
  const calls = callsOfAttempts.get(attempt) ?? new Map<string, string[]>()
  callsOfAttempts.set(attempt, calls)
  const sameId = calls.get(id) ?? []
  calls.set(id, sameId)
  const call = digest([name, canonicalJson(args)])
  if (!sameId.includes(call)) sameId.push(call)
  const number = sameId.indexOf(call)
  return number === 0 ? id : JSON.stringify([id, number])
}

/** Trigger of a task for a `Send`, and of a `task()` of the functional API. */
const PUSH = '__pregel_push'

/** Returns undefined outside a graph with a checkpointer, and for a call that a model did not make. */
export function graphPlaceOf(config: ToolRunnableConfig): GraphPlace | undefined {
  const { configurable = {}, toolCall } = config
  const { thread_id: thread, __pregel_task_id: task, checkpoint_ns: namespace = '' } = configurable
  const { __pregel_checkpointer: saver, __pregel_resume_map: byId } = configurable
  const toolCallId = toolCall?.id
  const isInGraph = Boolean(saver) && typeof configurable['__pregel_call'] === 'function'
  if (!isInGraph || !toolCallId) return undefined
  if (typeof task !== 'string' || typeof namespace !== 'string') return undefined
  if (typeof thread !== 'string' && typeof thread !== 'number') return undefined
  const graph = namespace.split('|').slice(0, -1).join('|')
  return {
    thread: String(thread),
    task,
    graph,
    namespace,
    toolCallId,
    call: callOf(config),
    isAlone: isAlone(config, toolCallId),
    store: 'store' in config ? toGraphStore(config.store) : undefined,
    saver: isReader(saver) ? saver : undefined,
    checkpoints: configurable['checkpoint_map'] ?? {},
    answersById: isRecord(byId) ? Object.values(byId) : undefined,
    isResumedInside: graph !== '' && configurable['__pregel_resuming'] === true,
  }
}

/** Milliseconds from the start of UUIDs (1582) to 1970. */
const UUID_EPOCH_MS = 12_219_292_800_000n

/**
 * Returns when the task of a call was started, in milliseconds since 1970: the time in the id of its checkpoint, a
 * UUID of version 6. NaN if it is unknown.
 */
export function startOf({ checkpoints, graph }: GraphPlace): number {
  const hex = checkpoints[graph]?.replaceAll('-', '') ?? ''
  if (!/^[0-9a-f]{12}6[0-9a-f]{19}$/.test(hex)) return Number.NaN
  const time = BigInt(`0x${hex.slice(0, 12)}${hex.slice(13, 16)}`) // in 100 ns
  return Number(time / 10_000n - UUID_EPOCH_MS)
}

/**
 * LangGraph's `task()`, which also works in subgraphs and sub-agents. There, LangGraph 1.4 executes a finished
 * task again when the graph is resumed, although the checkpoint contains its outcome. So the task looks there
 * itself.
 */
export function taskIn<Arguments extends unknown[], Outcome>(
  { graph, place }: { readonly graph: LangGraphRuntime; readonly place: GraphPlace },
  name: string,
  run: (...args: Arguments) => Promise<Outcome>,
): (...args: Arguments) => Promise<Outcome> {
  const task = graph.task(name, async (...args: Arguments): Promise<unknown> => {
    const stored = place.isResumedInside ? await storedOutcome(graph, place) : undefined
    return stored === undefined ? run(...args) : stored.outcome
  })
  // oxlint-disable-next-line no-unsafe-type-assertion -- the checkpoint contains what `run` returned
  return async (...args) => (await task(...args)) as Outcome
}

/** Returns the writes of the tasks of a graph since its checkpoint: the graph of the call, or an outer one. */
export async function pendingWrites(
  { saver, thread, checkpoints, graph: own }: GraphPlace,
  graph: string = own,
): Promise<readonly unknown[]> {
  const tuple = await saver?.getTuple({
    configurable: { thread_id: thread, checkpoint_ns: graph, checkpoint_id: checkpoints[graph] },
  })
  return tuple?.pendingWrites ?? []
}

/** Returns the outcome of the running task, if the checkpoint contains it. */
async function storedOutcome(
  { getConfig }: LangGraphRuntime,
  place: GraphPlace,
): Promise<{ readonly outcome: unknown } | undefined> {
  const task: unknown = getConfig().configurable?.['__pregel_task_id']
  for (const write of await pendingWrites(place)) {
    if (!Array.isArray(write)) continue
    const [id, channel, outcome]: readonly unknown[] = write
    if (id === task && channel === '__return__') return { outcome }
  }
  return undefined
}

/** Finds the message with the model's call in the input of the task. Returns true if the task makes no other call of it. */
function isAlone({ configurable = {}, metadata = {} }: ToolRunnableConfig, id: string): boolean {
  const scratchpad: unknown = configurable['__pregel_scratchpad']
  const input = isRecord(scratchpad) ? scratchpad['currentTaskInput'] : undefined
  const given = isRecord(input) ? input['messages'] : input
  const messages: readonly unknown[] = Array.isArray(given) ? given : []
  const calls = messages.map(callsOf).findLast((ids) => ids.includes(id)) ?? []
  const answered = new Set(
    messages.map((message) => (isRecord(message) ? message['tool_call_id'] : undefined)),
  )
  const open = calls.filter((call) => !answered.has(call))
  const triggers = metadata['langgraph_triggers']
  const isSent = Array.isArray(triggers) && triggers[0] === PUSH
  if (isRecord(input) && 'lg_tool_call' in input) return true
  return open.length > 0 ? open.length === 1 : isSent
}

function callsOf(message: unknown): readonly unknown[] {
  if (!isRecord(message) || !Array.isArray(message['tool_calls'])) return []
  return message['tool_calls'].map((call: unknown) => (isRecord(call) ? call['id'] : undefined))
}

/** The method of a checkpoint saver that is used here. */
interface CheckpointReader {
  getTuple(config: {
    readonly configurable: Readonly<Record<string, unknown>>
  }): Promise<{ readonly pendingWrites?: readonly unknown[] } | undefined>
}

function isReader(value: unknown): value is CheckpointReader {
  return isRecord(value) && typeof value['getTuple'] === 'function'
}

/** Channels of writes that do not finish a task. */
const UNFINISHED = new Set([
  '__interrupt__',
  '__resume__',
  '__error__',
  '__error_source_node__',
  '__scheduled__',
])

/** The writes of one task in a checkpoint. */
interface TaskWrites {
  /** Value of the interrupt at which the task stopped, if it did. */
  readonly interrupt: unknown
  readonly isInterrupted: boolean
  /** The last answer that the task received. */
  readonly answer: unknown
  /** LangGraph does not execute a finished task again. */
  readonly isFinished: boolean
}

/** Reads the writes of a checkpoint, by the ids of their tasks. */
export function tasksIn(writes: readonly unknown[]): ReadonlyMap<string, TaskWrites> {
  const tasks = new Map<string, TaskWrites>()
  for (const write of writes) {
    if (!Array.isArray(write)) continue
    const [id, channel, value]: readonly unknown[] = write
    if (typeof id !== 'string' || typeof channel !== 'string') continue
    const known = tasks.get(id)
    const isInterrupt = channel === '__interrupt__'
    const isAnswer = channel === '__resume__'
    tasks.set(id, {
      interrupt: isInterrupt ? interruptIn(value) : known?.interrupt,
      isInterrupted: isInterrupt || known?.isInterrupted === true,
      answer: isAnswer ? (Array.isArray(value) ? value.at(-1) : value) : known?.answer,
      isFinished: !UNFINISHED.has(channel) || known?.isFinished === true,
    })
  }
  return tasks
}

/** Value of the newest interrupt in a write: LangGraph 1.7 and newer write an array, older ones an object. */
function interruptIn(write: unknown): unknown {
  const newest: unknown = Array.isArray(write) ? write.at(-1) : write
  return isRecord(newest) ? newest['value'] : undefined
}
