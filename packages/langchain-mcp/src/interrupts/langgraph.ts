import type { ToolRunnableConfig } from '@langchain/core/tools'
import { canonicalJson, isRecord } from '@x/internal'
import { toGraphStore, type GraphStore } from '../sessions/call-context.ts'
import { isQuestionOfOurs } from './interrupt-value.ts'

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
  loading ??= import('@langchain/langgraph').then(
    (langgraph) => ({
      interrupt: langgraph.interrupt,
      task: langgraph.task,
      GraphInterrupt: langgraph.GraphInterrupt,
    }),
    () => undefined,
  )
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
  readonly step: number
  readonly toolCallId: string
  /**
   * True if the task makes only this call. Only then may it be interrupted, because a resumed task is
   * executed again from its start, with all its calls.
   */
  readonly isAlone: boolean
  /** True if the model made other calls in the same message. */
  readonly hasSiblings: boolean
  /** Store of the graph, if it has one. */
  readonly store: GraphStore | undefined
  readonly saver: CheckpointReader | undefined
  /** Ids of the checkpoints from which the task and its outer graphs were started, by namespace. */
  readonly checkpoints: Readonly<Record<string, string | undefined>>
}

/** Trigger of a task for a `Send`, and of a `task()` of the functional API. */
const PUSH = '__pregel_push'

/** Returns undefined outside a graph with a checkpointer, and for a call that a model did not make. */
export function graphPlaceOf(config: ToolRunnableConfig): GraphPlace | undefined {
  const { configurable = {}, metadata = {}, toolCall } = config
  const { thread_id: thread, __pregel_task_id: task, checkpoint_ns: ns = '' } = configurable
  const toolCallId = toolCall?.id
  const isInGraph =
    Boolean(configurable['__pregel_checkpointer']) &&
    typeof configurable['__pregel_call'] === 'function'
  if (!isInGraph || !toolCallId) return undefined
  if (typeof task !== 'string' || typeof ns !== 'string') return undefined
  if (typeof thread !== 'string' && typeof thread !== 'number') return undefined
  const step = metadata['langgraph_step']
  return {
    thread: String(thread),
    task,
    graph: ns.split('|').slice(0, -1).join('|'),
    step: typeof step === 'number' ? step : 0,
    toolCallId,
    isAlone: isAlone(config, toolCallId),
    hasSiblings: callsOf(messageOf(config, toolCallId).message).length > 1,
    store: 'store' in config ? toGraphStore(config.store) : undefined,
    saver: checkpointReaderFrom(configurable['__pregel_checkpointer']),
    checkpoints: configurable['checkpoint_map'] ?? {},
  }
}

/** Returns the message with the model's call, and all messages in the input of the task. */
function messageOf(
  { configurable = {} }: ToolRunnableConfig,
  id: string,
): { readonly message: unknown; readonly messages: readonly unknown[] } {
  const input = taskInputOf(configurable)
  const given = isRecord(input) ? input['messages'] : input
  const messages: readonly unknown[] = Array.isArray(given) ? given : []
  return { message: messages.findLast((message) => callsOf(message).includes(id)), messages }
}

function taskInputOf(configurable: Readonly<Record<string, unknown>>): unknown {
  const scratchpad = configurable['__pregel_scratchpad']
  return isRecord(scratchpad) ? scratchpad['currentTaskInput'] : undefined
}

function isAlone(config: ToolRunnableConfig, id: string): boolean {
  const { configurable = {}, metadata = {} } = config
  const input = taskInputOf(configurable)
  if (isRecord(input) && 'lg_tool_call' in input) return true
  const { message, messages } = messageOf(config, id)
  const answered = new Set(messages.map(answeredCall))
  const siblings = callsOf(message).filter((call) => !answered.has(call))
  if (siblings.length > 0) return siblings.length === 1
  const triggers = metadata['langgraph_triggers']
  return Array.isArray(triggers) && triggers[0] === PUSH
}

function callsOf(message: unknown): readonly unknown[] {
  if (!isRecord(message) || !Array.isArray(message['tool_calls'])) return []
  return message['tool_calls'].map((call: unknown) => (isRecord(call) ? call['id'] : undefined))
}

function answeredCall(message: unknown): unknown {
  return isRecord(message) ? message['tool_call_id'] : undefined
}

/** A question, and the run that received an answer without a key for it. */
interface Unkeyed {
  readonly key: string
  /** True if an answer to this question was refused before, because it could have been for another one. */
  readonly isKeyNeeded: boolean
  readonly config: ToolRunnableConfig
}

/** Plain data, because it is stored in the checkpoint. */
type AddressVerdict =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly problem: string }

/**
 * Accepts an answer without a key if it names the interrupt by id, or if no other task waits. LangGraph
 * passes an answer without an id to each waiting task, and may pass it again to a task that is executed
 * later. So the verdict must be kept in the checkpoint.
 */
export async function addressVerdict(
  answer: unknown,
  { key, isKeyNeeded, config }: Unkeyed,
): Promise<AddressVerdict> {
  const { own, isOnlyOne } = await waitingTasks(config, answer)
  if (!isRecord(own) || own['key'] !== key) {
    return {
      kind: 'refused',
      problem: 'This question was not shown before: look at it, and answer again',
    }
  }
  const isAddressed = resumedById(config)?.includes(answer)
  if (isAddressed === true) return { kind: 'accepted' }
  if (isAddressed === undefined && isOnlyOne && !isKeyNeeded) return { kind: 'accepted' }
  return {
    kind: 'refused',
    problem:
      'Several calls waited for an answer, and this one does not say which call it is for. Resume with approvalResume() or elicitationResume(), or with the id of the interrupt: { [id]: answer }',
  }
}

/** Returns the answers that name their interrupts by id, or undefined if there are none. */
function resumedById({ configurable }: ToolRunnableConfig): readonly unknown[] | undefined {
  const byId: unknown = configurable?.['__pregel_resume_map']
  return isRecord(byId) ? Object.values(byId) : undefined
}

/** The interrupts in the checkpoint that wait for an answer. */
interface WaitingTasks {
  /** Value of this task's interrupt; undefined if it does not wait. */
  readonly own: unknown
  /** True if this task waits, and no other task of the thread. */
  readonly isOnlyOne: boolean
}

/** The method of a checkpoint saver that is used here. */
export interface CheckpointReader {
  getTuple(config: { readonly configurable: Readonly<Record<string, unknown>> }): Promise<
    | {
        readonly checkpoint?: { readonly id?: string }
        readonly pendingWrites?: readonly unknown[]
      }
    | undefined
  >
}

/** Channels of writes that do not finish a task. */
const UNFINISHED = new Set(['__interrupt__', '__resume__', '__error__', '__scheduled__'])

/**
 * Reads from the checkpoint which tasks wait for an answer, in the graph of this call and in each outer
 * graph. LangGraph passes an answer that names no interrupt to every waiting task.
 *
 * @param answer a finished task of another kind counts as waiting if this answer may have finished it
 */
async function waitingTasks(
  { configurable = {} }: ToolRunnableConfig,
  answer: unknown,
): Promise<WaitingTasks> {
  const { thread_id, checkpoint_ns: namespace } = configurable
  const saver = checkpointReaderFrom(configurable['__pregel_checkpointer'])
  const ids: unknown = configurable['checkpoint_map']
  if (saver === undefined || typeof namespace !== 'string')
    return { own: undefined, isOnlyOne: false }
  let own: unknown
  let isOnlyOne = true
  const path = namespace.split('|')
  for (let level = 0; path.length > 0; level++) {
    const task = path.pop()
    if (task === undefined || /^\d*$/.test(task)) continue // a number separates the graphs inside one task
    const graph = path.join('|')
    const tuple = await saver.getTuple({
      configurable: {
        thread_id,
        checkpoint_ns: graph,
        checkpoint_id: isRecord(ids) ? ids[graph] : undefined,
      },
    })
    const waiting = waitingIn(tuple?.pendingWrites ?? [], answer)
    const id = task.slice(task.lastIndexOf(':') + 1)
    isOnlyOne &&= waiting.size === 1 && waiting.has(id)
    if (level === 0) own = waiting.get(id)
  }
  return { own, isOnlyOne }
}

/** Returns the values of waiting interrupts, by task id. */
function waitingIn(writes: readonly unknown[], answer: unknown): ReadonlyMap<string, unknown> {
  const waiting = new Map<string, unknown>()
  const done = new Set<string>()
  const answers = new Map<string, unknown>()
  for (const write of writes) {
    if (!Array.isArray(write)) continue
    const [task, channel, value]: readonly unknown[] = write
    if (typeof task !== 'string' || typeof channel !== 'string') continue
    if (channel === '__interrupt__') waiting.set(task, isRecord(value) ? value['value'] : undefined)
    if (channel === '__resume__') answers.set(task, Array.isArray(value) ? value.at(-1) : value)
    if (!UNFINISHED.has(channel)) done.add(task)
  }
  for (const task of done) {
    // Questions of this package refuse an answer that other tasks wait for too.
    const isOurs = isQuestionOfOurs(waiting.get(task))
    if (isOurs || canonicalJson(answers.get(task)) !== canonicalJson(answer)) waiting.delete(task)
  }
  return waiting
}

/** Returns true for a checkpoint write that finishes a task. LangGraph does not execute the task again. */
export function isFinishing(write: unknown, task: string): boolean {
  if (!Array.isArray(write)) return false
  const [id, channel]: readonly unknown[] = write
  return id === task && typeof channel === 'string' && !UNFINISHED.has(channel)
}

/** Returns the checkpointer of a graph, if it can be read. */
function checkpointReaderFrom(saver: unknown): CheckpointReader | undefined {
  return isReader(saver) ? saver : undefined
}

function isReader(value: unknown): value is CheckpointReader {
  return isRecord(value) && typeof value['getTuple'] === 'function'
}
