import { randomUUID } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import { canonicalJson, fulfilledWithin, isRecord } from '@x/internal'
import { currentRun } from '@x/mcp-client'
import {
  canKeep,
  executionOf,
  innerNames,
  isPushed,
  keepReturned,
  loadLangGraph,
  ONE_CALL,
  readTasks,
  taskInputOf,
  type InnerNames,
  type LangGraphRuntime,
  type TaskWrites,
} from './langgraph.ts'
import { digest, toGraphStore, toThreadId, type GraphStore } from './call-context.ts'

/**
 * Ends the run of a graph with an error. A `ToolNode` around the call would turn a thrown error into a
 * message for the model. Outside a graph the error is only thrown.
 *
 * The error fails a separate task. The task of the call stops as if interrupted: it leaves nothing in the
 * checkpoint, and is executed again when the thread continues.
 */
export async function failRun(error: unknown, config: ToolRunnableConfig): Promise<never> {
  const graph = executionOf(config) && (await loadLangGraph())
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
  /** Equal for the same call, in every process. It starts with the thread. */
  readonly key: string
  readonly thread: string
  /** LangGraph's id of the task that contains the call. */
  readonly task: string
  /** Namespace of the graph that contains the task; empty for the root graph. */
  readonly graph: string
  /** Namespace of the task. */
  readonly namespace: string
  /** The checkpoint from which the task was started. */
  readonly checkpoint: string
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
  readonly inner: InnerNames
  /** The writes that were read during this execution of the task, by graph. */
  readonly reads: Map<string, Promise<ReadonlyMap<string, TaskWrites>>>
}

/**
 * Returns a key that identifies a call of a model in a graph. It is the same after a resume, in any process, and no other
 * call has it. Undefined for a call that a model did not make.
 */
export function idempotencyKeyOf(config: ToolRunnableConfig): string | undefined {
  const { configurable = {}, toolCall } = config
  if (toolCall?.id === undefined) return undefined
  const execution = executionOf(config)
  // Outside a graph, a model may use the same id for the calls of each turn.
  if (execution === undefined) return randomUUID()
  const owner = toThreadId(configurable['thread_id']) ?? currentRun()?.id ?? randomUUID()
  return digest([owner, execution.checkpointNs, execution.taskId, callOf(config)])
}

/** The different calls with the same id, in their order, by the attempts of tasks that made them. */
const callsOfAttempts = new WeakMap<object, Map<string, string[]>>()

/**
 * Returns the id of a call, with a number from the second call on that has this id in one attempt of the task. The
 * arguments are no part of it: in another attempt, a model or a middleware may choose others for the same call.
 */
function callOf(config: ToolRunnableConfig): string {
  const { id = '', name = '', args } = config.toolCall ?? {}
  const attempt = executionOf(config)
  if (attempt === undefined) return id
  const calls = callsOfAttempts.get(attempt) ?? new Map<string, string[]>()
  callsOfAttempts.set(attempt, calls)
  const sameId = calls.get(id) ?? []
  calls.set(id, sameId)
  const call = digest([name, canonicalJson(args)])
  if (!sameId.includes(call)) sameId.push(call)
  const number = sameId.indexOf(call)
  return number === 0 ? id : JSON.stringify([id, number])
}

/** Returns undefined outside a graph with a checkpointer, and for a call that a model did not make. */
export function graphPlaceOf(config: ToolRunnableConfig): GraphPlace | undefined {
  const { toolCall, metadata } = config
  const id = toolCall?.id
  const place = id ? taskPlaceOf(config) : undefined
  if (!id || place === undefined) return undefined
  const call = callOf(config)
  return {
    ...place,
    key: JSON.stringify([place.thread, place.task, call]),
    toolCallId: id,
    call,
    isAlone: isAlone(taskInputOf(config), { id, isSent: isPushed(metadata) }),
  }
}

/** Returns the place of lists of tools, whose task may not make several calls. `name`: other lists have other names. */
export function listPlaceOf(config: RunnableConfig, name: string): GraphPlace | undefined {
  const place = taskPlaceOf(config)
  const input = taskInputOf(config)
  const hasSeveralCalls = !isOneCall(input) && openCalls(messagesIn(input)).length > 1
  if (place === undefined || hasSeveralCalls) return undefined
  const key = JSON.stringify([place.thread, place.task, name])
  return { ...place, key, toolCallId: name, call: name, isAlone: true }
}

/** Returns undefined outside a graph with a checkpointer. */
function taskPlaceOf(
  config: RunnableConfig,
): Omit<GraphPlace, 'key' | 'toolCallId' | 'call' | 'isAlone'> | undefined {
  const { configurable = {} } = config
  const execution = executionOf(config)
  const thread = toThreadId(configurable['thread_id'])
  if (execution === undefined || thread === undefined) return undefined
  const inner = innerNames(configurable)
  if (!inner.canInterrupt) return undefined
  const { taskId: task, checkpointNs: namespace, checkpointId: checkpoint } = execution
  return {
    thread,
    task,
    graph: graphOf({ namespace, checkpoint }, inner),
    namespace,
    checkpoint,
    store: 'store' in config ? toGraphStore(config.store) : undefined,
    inner,
    reads: new Map(),
  }
}

/**
 * Returns the namespace of the graph of a task. A `task()` of the functional API has the namespace of its caller, which is
 * a task of the same graph: both were started from one checkpoint.
 */
function graphOf(
  { namespace, checkpoint }: Pick<GraphPlace, 'namespace' | 'checkpoint'>,
  { checkpoints }: InnerNames,
): string {
  const names = namespace.split('|')
  const outer = names.map((_, index) => names.slice(0, index).join('|'))
  return outer.find((one) => checkpoints[one] === checkpoint) ?? names.slice(0, -1).join('|')
}

/**
 * Returns the key of a question of a call. It contains the task, because two agents that work at the same time may use
 * one id for equal calls: an answer for the one must not count for the other.
 */
export function questionKey({ call, namespace }: GraphPlace, question: number | 'task'): string {
  return `${call}:${question}:${digest([namespace]).slice(0, 8)}`
}

/** Milliseconds from the start of UUIDs (1582) to 1970. */
const UUID_EPOCH_MS = 12_219_292_800_000n

/**
 * Returns when the task of a call was started, in milliseconds since 1970: the time in the id of its checkpoint, a
 * UUID of version 6. NaN if it is unknown.
 */
export function startTimeOf({ checkpoint }: GraphPlace): number {
  const hex = checkpoint.replaceAll('-', '')
  if (!/^[0-9a-f]{12}6[0-9a-f]{19}$/.test(hex)) return Number.NaN
  const time = BigInt(`0x${hex.slice(0, 12)}${hex.slice(13, 16)}`) // in 100 ns
  return Number(time / 10_000n - UUID_EPOCH_MS)
}

/** Time that a checkpoint may take to keep an outcome that is not needed again, unless the run fails, in milliseconds. */
const KEEP_MS = 2000

/** One step of a call: a function whose outcome is kept in the checkpoint. */
interface Step<Arguments extends unknown[]> {
  /** Name of the `task()`, where there has to be one. */
  readonly name: string
  readonly run: (...args: Arguments) => Promise<unknown>
  /** Returns true if the call cannot continue in another process without this outcome. */
  readonly isNeeded: (outcome: unknown) => boolean
}

/**
 * Returns a function that executes a step, and is never executed again once its outcome is in the checkpoint.
 *
 * It is no `task()` of LangGraph: those appear in the update stream with all that a server answered, finished ones of
 * inner graphs are executed again by 1.4, and those that take an answer without an id are forgotten by all versions
 * (`consumeNullResume` in `pregel/algo.ts`). A `task()` serves where the saver is not known.
 *
 * @throws the error of the step, or of the saver if the outcome is needed
 */
export function stepIn<Arguments extends unknown[]>(
  { graph, place }: { readonly graph: LangGraphRuntime; readonly place: GraphPlace },
  { name, run, isNeeded }: Step<Arguments>,
): (...args: Arguments) => Promise<unknown> {
  const { saver } = place.inner
  if (!canKeep(saver)) return graph.task(name, run)
  let number = 0
  return async function step(...args) {
    const id = uuidFrom([place.task, place.call, number++])
    const returned = (await pendingTasks(place)).get(id)?.returned
    if (returned !== undefined) return returned.value
    const value = await run(...args)
    const keeping = keepReturned(saver, place, { id, value })
    if (isNeeded(value)) await keeping
    else await fulfilledWithin(keeping, KEEP_MS).catch(() => false) // LangGraph reports a saver that fails
    return value
  }
}

/** Returns an id in the form of a UUID, because savers may have a column for those. */
function uuidFrom(parts: readonly (string | number)[]): string {
  return digest(parts).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/**
 * Returns the writes of the tasks of a graph since its checkpoint, by task: the graph of the call, or an outer one. They
 * are read once in an execution of the task.
 */
export function pendingTasks(
  place: GraphPlace,
  graph: string = place.graph,
): Promise<ReadonlyMap<string, TaskWrites>> {
  const { reads, inner, thread } = place
  const checkpoint = graph === place.graph ? place.checkpoint : inner.checkpoints[graph]
  const known = reads.get(graph) ?? readTasks(inner.saver, { thread, graph, checkpoint })
  reads.set(graph, known)
  return known
}

/** Finds the message with the model's call in the input of the task. Returns true if the task makes no other call of it. */
function isAlone(
  input: unknown,
  { id, isSent }: { readonly id: string; readonly isSent: boolean },
): boolean {
  if (isOneCall(input)) return true
  const open = openCalls(messagesIn(input), id)
  return open.length > 0 ? open.length === 1 : isSent
}

function isOneCall(input: unknown): boolean {
  return isRecord(input) && ONE_CALL in input
}

function messagesIn(input: unknown): readonly unknown[] {
  const given = isRecord(input) ? input['messages'] : input
  return Array.isArray(given) ? given : []
}

/** Returns the calls without a result in the last message that has calls, or that has the call `id`. */
function openCalls(messages: readonly unknown[], id?: string): readonly unknown[] {
  const calls = messages
    .map(callsOf)
    .findLast((ids) => (id === undefined ? ids.length > 0 : ids.includes(id)))
  const answered = new Set(
    messages.map((message) => (isRecord(message) ? message['tool_call_id'] : undefined)),
  )
  return (calls ?? []).filter((call) => !answered.has(call))
}

function callsOf(message: unknown): readonly unknown[] {
  if (!isRecord(message) || !Array.isArray(message['tool_calls'])) return []
  return message['tool_calls'].map((call: unknown) => (isRecord(call) ? call['id'] : undefined))
}
