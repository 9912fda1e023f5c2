import { canonicalJson, isRecord } from '@x/internal'
import type { McpToolOrigin } from '../base/tool-source.ts'
import { noAnswerError } from './call-outcome.ts'
import { isQuestionOfOurs } from './interrupt-value.ts'
import {
  pendingWrites,
  taskIn,
  tasksIn,
  type GraphPlace,
  type LangGraphRuntime,
} from './langgraph.ts'

interface Asking<Content extends object> {
  readonly origin: McpToolOrigin
  /** Value of the interrupt. */
  readonly question: { readonly key: string }
  readonly place: GraphPlace
  /** Returns the content of an answer, or why the answer cannot be used. */
  readonly read: (answer: unknown) => Content | { readonly problem: string }
}

/** Plain data, because it is stored in the checkpoint. It contains no answer, because answers may be confidential. */
type Verdict =
  | { readonly kind: 'accepted'; readonly key: string }
  | {
      readonly kind: 'refused'
      readonly problem: string
      /** True if only an answer with the key of the question counts from now on. */
      readonly isKeyNeeded: boolean
    }

/**
 * Asks a person by an interrupt of the graph, until an answer counts: for questions of a server, and for access.
 * A wrong answer asks again with the reason, and sends nothing.
 *
 * Each verdict is kept in the checkpoint. Else a refused answer could count when the task is executed again,
 * because other calls have been answered since.
 *
 * @throws McpToolError `INPUT_REQUIRED` if the accepted answer was for another question, which the task asked when it
 * was executed before
 */
export async function askPerson<Content extends object>(
  graph: LangGraphRuntime,
  { origin, question, place, read }: Asking<Content>,
): Promise<Content> {
  const { key } = question
  const judge = taskIn(
    { graph, place },
    `mcp:${place.toolCallId}:answer`,
    async (answer: unknown, isKeyNeeded: boolean): Promise<Verdict> => {
      const content = read(answer)
      const givenKey = isRecord(answer) ? answer['key'] : undefined
      if (givenKey !== undefined && givenKey !== key) {
        return refused('This was the answer to an older question, or to another call')
      }
      if ('problem' in content) return refused(content.problem)
      if (givenKey === key) return { kind: 'accepted', key }
      const problem = await addressProblem(answer, { key, isKeyNeeded, place })
      return problem === undefined ? { kind: 'accepted', key } : refused(problem, true)
    },
  )
  let isKeyNeeded = false
  let problem: string | undefined
  for (;;) {
    const answer: unknown = graph.interrupt({
      ...question,
      ...(problem !== undefined && { problem }),
    })
    const verdict = await judge(answer, isKeyNeeded)
    if (verdict.kind === 'accepted') {
      const content = read(answer)
      if (verdict.key === key && !('problem' in content)) return content
      throw noAnswerError(origin, 'elicitation/create')
    }
    problem = verdict.problem
    isKeyNeeded ||= verdict.isKeyNeeded
  }
}

function refused(problem: string, isKeyNeeded = false): Verdict {
  return { kind: 'refused', problem, isKeyNeeded }
}

/** A question, and the call that received an answer without a key for it. */
interface Unkeyed {
  readonly key: string
  /** True if an answer to this question was refused before, because it could have been for another one. */
  readonly isKeyNeeded: boolean
  readonly place: GraphPlace
}

/**
 * Returns why an answer without a key does not count: the question was not shown, or the answer could be for
 * another one. It counts if it names the interrupt by id, or if no other task waits. LangGraph passes an
 * answer without an id to each waiting task, and may pass it again to a task that is executed later.
 */
async function addressProblem(
  answer: unknown,
  { key, isKeyNeeded, place }: Unkeyed,
): Promise<string | undefined> {
  const { own, isOnlyOne } = await waitingTasks(place, answer)
  if (!isRecord(own) || own['key'] !== key) {
    return 'This question was not shown before: look at it, and answer again'
  }
  const { answersById } = place
  const isForThisCall =
    answersById === undefined ? isOnlyOne && !isKeyNeeded : answersById.includes(answer)
  if (isForThisCall) return undefined
  return 'Several calls waited for an answer, and this one does not say which call it is for. Resume with elicitationResume(), or with the id of the interrupt: { [id]: answer }'
}

/** The interrupts in the checkpoint that wait for an answer. */
interface WaitingTasks {
  /** Value of this task's interrupt; undefined if it does not wait. */
  readonly own: unknown
  /** True if this task waits, and no other task of the thread. */
  readonly isOnlyOne: boolean
}

/**
 * Reads from the checkpoint which tasks wait for an answer, in the graph of this call and in each outer
 * graph. LangGraph passes an answer that names no interrupt to every waiting task.
 *
 * @param answer a finished task of another kind counts as waiting if this answer may have finished it
 */
async function waitingTasks(place: GraphPlace, answer: unknown): Promise<WaitingTasks> {
  let own: unknown
  let isOnlyOne = true
  const path = place.namespace.split('|')
  for (let level = 0; path.length > 0; level++) {
    const task = path.pop()
    if (task === undefined || /^\d*$/.test(task)) continue // a number separates the graphs inside one task
    const graph = path.join('|')
    const waiting = waitingIn(await pendingWrites(place, graph), answer)
    const id = task.slice(task.lastIndexOf(':') + 1)
    isOnlyOne &&= waiting.size === 1 && waiting.has(id)
    if (level === 0) own = waiting.get(id)
  }
  return { own, isOnlyOne }
}

/** Returns the values of waiting interrupts, by task id. */
function waitingIn(writes: readonly unknown[], answer: unknown): ReadonlyMap<string, unknown> {
  const waiting = new Map<string, unknown>()
  for (const [id, task] of tasksIn(writes)) {
    if (!task.isInterrupted) continue
    // Questions of this package refuse an answer that other tasks wait for too.
    const mayHaveTakenIt =
      !isQuestionOfOurs(task.interrupt) && canonicalJson(task.answer) === canonicalJson(answer)
    if (!task.isFinished || mayHaveTakenIt) waiting.set(id, task.interrupt)
  }
  return waiting
}
