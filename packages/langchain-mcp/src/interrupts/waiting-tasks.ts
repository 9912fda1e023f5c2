import type { ToolRunnableConfig } from '@langchain/core/tools'
import { canonicalJson, isRecord } from '@x/internal'
import { isQuestionOfOurs } from './interrupt-value.ts'

/** A question that an answer without a key was given to. */
export interface Unkeyed {
  readonly key: string
  /** An answer to this question was refused before because it could have been for another one. */
  readonly isKeyNeeded: boolean
  readonly config: ToolRunnableConfig
}

/** Plain data, because a checkpoint keeps it. */
export type AddressVerdict =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly problem: string }

/**
 * Accepts an answer without a key if it was given to the interrupt by id, or if no other task waits. LangGraph gives
 * an answer without an id to each task that waits, and may give it again to a task that is executed later: so the
 * verdict must be kept in the checkpoint.
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

/** The answers that this run was given for interrupts by their ids; undefined where it was given none. */
function resumedById({ configurable }: ToolRunnableConfig): readonly unknown[] | undefined {
  const byId: unknown = configurable?.['__pregel_resume_map']
  return isRecord(byId) ? Object.values(byId) : undefined
}

/** What the checkpoint says of the interrupts that wait for an answer. */
interface WaitingTasks {
  /** Value of the interrupt that this task waits with; undefined if it does not wait. */
  readonly own: unknown
  /** Whether this task waits, and no other task of the thread. */
  readonly isOnlyOne: boolean
}

/** What we use of a checkpoint saver. */
export interface CheckpointReader {
  getTuple(config: { readonly configurable: Readonly<Record<string, unknown>> }): Promise<
    | {
        readonly checkpoint?: { readonly id?: string }
        readonly pendingWrites?: readonly unknown[]
      }
    | undefined
  >
}

/** Writes of LangGraph that do not finish a task. */
const UNFINISHED = new Set(['__interrupt__', '__resume__', '__error__', '__scheduled__'])

/**
 * Reads from the checkpoint which tasks wait for an answer: in the graph of this call, and in each graph
 * around it. LangGraph gives an answer that names no interrupt to every task that waits.
 *
 * @param answer a task of others that is done counts as waiting if this answer may have finished it
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
    if (task === undefined || /^\d*$/.test(task)) continue // counts the graphs inside one task
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

/** The values of interrupts, by the ids of the tasks that wait with them. */
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
    // A question of ours does not accept an answer that others wait for, too.
    const isOurs = isQuestionOfOurs(waiting.get(task))
    if (isOurs || canonicalJson(answers.get(task)) !== canonicalJson(answer)) waiting.delete(task)
  }
  return waiting
}

/** Whether a write in a checkpoint says that a task is done: LangGraph does not execute it again. */
export function isFinishing(write: unknown, task: string): boolean {
  if (!Array.isArray(write)) return false
  const [id, channel]: readonly unknown[] = write
  return id === task && typeof channel === 'string' && !UNFINISHED.has(channel)
}

/** The checkpointer of a graph, if it can be read. */
export function checkpointReaderFrom(saver: unknown): CheckpointReader | undefined {
  return isReader(saver) ? saver : undefined
}

function isReader(value: unknown): value is CheckpointReader {
  return isRecord(value) && typeof value['getTuple'] === 'function'
}
