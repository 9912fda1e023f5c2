import { canonicalJson, isRecord } from '@x/internal'
import type { LangGraphRuntime, StoredInterrupt, TaskWrites } from './langgraph.ts'
import { serverTitle, type McpToolOrigin } from '../tool-source.ts'
import type { AccessPage } from './authorization-to-interrupt.ts'
import { noAnswerError } from './call-outcome.ts'
import {
  callbackFrom,
  isQuestionOfOurs,
  isStoppedCall,
  type AnswerVerdict,
  type McpAuthorizationInterrupt,
} from './interrupt-value.ts'
import { pendingTasks, type GraphPlace } from './graph-place.ts'

interface Asking<Content extends object> {
  readonly origin: McpToolOrigin
  /** Value of the interrupt. */
  readonly question: { readonly key: string }
  readonly answers: AnswerLog
  /** Returns the content of an answer, or why the answer cannot be used. */
  readonly read: (answer: unknown) => Content | { readonly problem: string }
}

/**
 * Asks a person by an interrupt of the graph, until an answer counts: for questions of a server, and for access.
 * A wrong answer asks again with the reason, and sends nothing.
 *
 * @throws McpToolError `INPUT_REQUIRED` if the accepted answer was for another question, which the task asked when it
 * was executed before
 */
export async function askPerson<Content extends object>(
  graph: LangGraphRuntime,
  { origin, question, answers, read }: Asking<Content>,
): Promise<Content> {
  let problem: string | undefined
  for (;;) {
    const answer: unknown = graph.interrupt({
      ...question,
      ...answers.about,
      ...(problem !== undefined && { problem }),
    })
    const content = read(answer)
    const unusable = 'problem' in content ? content.problem : undefined
    const verdict = await answers.judge(answer, question.key, unusable !== undefined)
    if (verdict !== 'ok') {
      problem = (verdict === 'unusable' ? unusable : undefined) ?? problemOf(verdict, question.key)
      continue
    }
    if ('problem' in content) throw noAnswerError(origin, 'elicitation/create')
    return content
  }
}

/**
 * Asks a person by an interrupt of the graph to grant access to a server. Returns the callback of the authorization
 * server, if the person has one.
 *
 * @throws as `askPerson()`
 */
export async function askForAccess(
  graph: LangGraphRuntime,
  {
    origin,
    key,
    answers,
    needed: { url, device, problem },
  }: Pick<Asking<object>, 'origin' | 'answers'> & {
    /** Key of the question. */
    readonly key: string
    readonly needed: AccessPage & { readonly problem?: string | undefined }
  },
): Promise<string | undefined> {
  const question: McpAuthorizationInterrupt = {
    type: 'mcp_authorization',
    key,
    server: serverTitle(origin.server),
    tool: origin.toolName,
    ...answers.about,
    url,
    ...(device !== undefined && { device }),
    ...(problem !== undefined && { problem }),
  }
  return (await askPerson(graph, { origin, question, answers, read: callbackFrom })).callback
}

function problemOf(verdict: AnswerVerdict, key: string): string {
  const advice = `Resume with elicitationResume(), or with { [id of the interrupt]: { key: '${key}', … } }`
  if (verdict === 'other question') {
    return 'This was the answer to an older question, or to another call'
  }
  return verdict === 'not shown'
    ? `This question was not shown before: look at it, and answer again. ${advice}`
    : `Several calls waited for an answer, and this one does not say which call it is for. ${advice}`
}

/**
 * The answers that one execution of a task received, in their order.
 *
 * A resumed task is executed again from its start, with all its answers. A verdict about an answer without a key must
 * stay what it was, although other calls have been answered since. So each question carries the verdicts before it, and
 * LangGraph keeps the question in the checkpoint. An answer with the key of its question needs no record.
 */
export class AnswerLog {
  readonly #place: GraphPlace
  readonly #warnOfUnknown: (what: string) => void
  readonly #verdicts: AnswerVerdict[] = []

  constructor(place: GraphPlace, warnOfUnknown: (what: string) => void) {
    this.#place = place
    this.#warnOfUnknown = warnOfUnknown
  }

  /** Fields of each question of the call. */
  get about(): { readonly call: string; readonly history: readonly AnswerVerdict[] } {
    const { missing } = this.#place.inner
    if (missing.length > 0) this.#warnOfUnknown(`it does not set ${missing.join(' and ')}`)
    return { call: this.#place.call, history: [...this.#verdicts] }
  }

  /** Decides whether an answer counts for the question with this key. */
  async judge(answer: unknown, key: string, isUnusable: boolean): Promise<AnswerVerdict> {
    const given = isRecord(answer) ? answer['key'] : undefined
    const verdict =
      given === undefined
        ? await this.#judgeUnkeyed(answer, key, isUnusable)
        : given === key
          ? isUnusable
            ? 'unusable'
            : 'ok'
          : 'other question'
    this.#verdicts.push(verdict)
    return verdict
  }

  async #judgeUnkeyed(answer: unknown, key: string, isUnusable: boolean): Promise<AnswerVerdict> {
    const number = this.#verdicts.length
    const { id, value, task } = await this.#stored()
    const history = value?.history ?? []
    const earlier = history[number]
    if (earlier !== undefined) return earlier
    if (isUnusable) return 'unusable'
    const isNewest = number === history.length
    // LangGraph 1.4 executes a finished task of an inner graph again. Its last answer was accepted.
    if (isNewest && task?.isFinished === true) return 'ok'
    if (!isNewest || value?.key !== key) return 'not shown'
    const { answersById } = this.#place.inner
    if (answersById !== undefined) {
      const isForThis = typeof id === 'string' && id in answersById
      return isForThis && isSame(answersById[id], answer) ? 'ok' : 'which one?'
    }
    const sinceAccepted = this.#verdicts.slice(this.#verdicts.lastIndexOf('ok') + 1)
    const wasRefused = sinceAccepted.includes('which one?')
    return !wasRefused && (await isOnlyWaiting(this.#place, answer)) ? 'ok' : 'which one?'
  }

  /** Reads the question at which the task stopped, when it was executed before. */
  async #stored(): Promise<StoredQuestion> {
    const task = (await pendingTasks(this.#place)).get(this.#place.task)
    if (task?.isInterrupted === true && task.interrupts.length === 0) {
      this.#warnOfUnknown('a checkpoint contains an interrupt in another form')
    }
    for (const { id, value } of task?.interrupts.toReversed() ?? []) {
      if (isStoppedCall(value) && value.call === this.#place.call) return { id, value, task }
    }
    return { id: undefined, value: undefined, task }
  }
}

interface StoredQuestion {
  readonly id: StoredInterrupt['id']
  readonly value: { readonly key: string; readonly history: readonly AnswerVerdict[] } | undefined
  readonly task: TaskWrites | undefined
}

/**
 * Returns true if no other task waits for an answer, in the graph of this call and in each outer graph. LangGraph passes
 * an answer that names no interrupt to every waiting task, and may pass it again to a task that is executed later.
 */
async function isOnlyWaiting(place: GraphPlace, answer: unknown): Promise<boolean> {
  const path = place.namespace.split('|')
  while (path.length > 0) {
    const task = path.pop()
    if (task === undefined || /^\d*$/.test(task)) continue // a number separates the graphs inside one task
    const id = task.slice(task.lastIndexOf(':') + 1)
    const waiting = waitingIn(await pendingTasks(place, path.join('|')), answer)
    if (waiting.length !== 1 || waiting[0] !== id) return false
  }
  return true
}

/** Returns the ids of waiting tasks. */
function waitingIn(tasks: ReadonlyMap<string, TaskWrites>, answer: unknown): readonly string[] {
  return [...tasks]
    .filter(([, task]) => task.isInterrupted && (!task.isFinished || mayHaveTaken(task, answer)))
    .map(([id]) => id)
}

/** Returns true if this answer may have finished a task. Questions of this package refuse one that others wait for too. */
function mayHaveTaken({ interrupts, answer: taken }: TaskWrites, answer: unknown): boolean {
  const areOurs = interrupts.length > 0 && interrupts.every(({ value }) => isQuestionOfOurs(value))
  return !areOurs && isSame(taken, answer)
}

function isSame(one: unknown, other: unknown): boolean {
  return canonicalJson(one) === canonicalJson(other)
}
