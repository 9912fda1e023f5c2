import type { ToolRunnableConfig } from '@langchain/core/tools'
import { isRecord } from '@x/internal'
import { graphStoreFrom, type GraphStore } from '../sessions/graph-store.ts'
import { checkpointReaderFrom, type CheckpointReader } from './waiting-tasks.ts'

/** Where in a graph a call stands: the same in every process that goes on with it. */
export interface GraphPlace {
  readonly thread: string
  /** LangGraph's id of the task that the call is made in. */
  readonly task: string
  /** Namespace of the graph that the task belongs to; empty for the root. */
  readonly graph: string
  readonly step: number
  readonly toolCallId: string
  /**
   * Whether the task makes this call alone. Only then may it be interrupted: on resume a task is executed
   * again from its start, siblings included.
   */
  readonly isAlone: boolean
  /** Whether the model made other calls in the same message. */
  readonly hasSiblings: boolean
  /** The graph's own, if it has one. */
  readonly store: GraphStore | undefined
  readonly saver: CheckpointReader | undefined
  /** Ids of the checkpoints that the task and the graphs around it were started from, by namespace. */
  readonly checkpoints: Readonly<Record<string, string | undefined>>
}

/** What starts a task of its own for each `Send`, and for each `task()` of the functional API. */
const PUSH = '__pregel_push'

/** Undefined outside a graph that has a checkpointer, and for a call that no model made. */
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
    store: 'store' in config ? graphStoreFrom(config.store) : undefined,
    saver: checkpointReaderFrom(configurable['__pregel_checkpointer']),
    checkpoints: configurable['checkpoint_map'] ?? {},
  }
}

/** The message in which the model made a call, and all messages that the task was given. */
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
