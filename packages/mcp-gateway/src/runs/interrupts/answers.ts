import { isRecord } from '@x/internal'
import type { Answer } from '../../agents/agent-call.ts'
import type { Question } from '../../agents/agent-update.ts'
import { hasField, keyOf, readForm } from './question-form.ts'

/** The answers of a round, or for each question that has none why. A refusal that ends the run needs no other answers. */
export type AnswersReading =
  | { readonly type: 'answers'; readonly answers: Answers }
  | { readonly type: 'refusal'; readonly action: 'decline' | 'cancel' }
  | { readonly type: 'timeout' }
  | {
      readonly type: 'complaints'
      readonly complaints: ReadonlyMap<string, string>
      /** Of the other questions: they are not asked again. */
      readonly answers: Answers
    }

/** Stands for the answer to an elicitation that nobody answered in time. Known by its identity: no client can send it. */
export const TIMED_OUT: Answer = { action: 'cancel' }

/** By the id of the question. */
export type Answers = Readonly<Record<string, Answer>>

export interface AnswersOptions {
  /** Answers of the same round that were good, when others were not. @default none */
  readonly earlier?: Answers | undefined
  /** A model wrote them, by the schema: it may well have a field `action` of its own. @default false */
  readonly isPlain?: boolean | undefined
}

/** Reads what a client sent for a round: results of elicitations, or plain values where a model answered. */
export function readAnswers(
  questions: readonly Question[],
  responses: Readonly<Record<string, unknown>>,
  { earlier = {}, isPlain = false }: AnswersOptions = {},
): AnswersReading {
  const answers: Record<string, Answer> = {}
  const complaints = new Map<string, string>()
  for (const [index, question] of questions.entries()) {
    const response = responses[keyOf(index)] ?? undefined
    if (response === TIMED_OUT) return { type: 'timeout' }
    const known = response === undefined ? earlier[question.id] : undefined
    const reading = known ?? readAnswer(question, response, isPlain)
    if (typeof reading === 'string') complaints.set(question.id, reading)
    // Its agent does not want to hear of it: the run ends, whatever became of the other questions.
    else if (reading.action !== 'accept' && question.takesRefusal !== true) {
      return { type: 'refusal', action: reading.action }
    } else answers[question.id] = reading
  }
  return complaints.size === 0
    ? { type: 'answers', answers }
    : { type: 'complaints', complaints, answers }
}

function readAnswer(question: Question, response: unknown, isPlain: boolean): Answer | string {
  if (response === undefined) return 'There is no answer yet.'
  if (!isRecord(response)) return readContent(question, { answer: response })
  const { action, content } = response
  if (isPlain && content === undefined && hasField(question.schema, 'action')) {
    const reading = readContent(question, response)
    if (typeof reading !== 'string') return reading
  }
  if (action === 'decline' || action === 'cancel') return { action }
  if (action !== 'accept') return readContent(question, response)
  return readContent(question, isRecord(content) ? content : {})
}

function readContent(
  question: Question,
  content: Readonly<Record<string, unknown>>,
): Answer | string {
  const reading = readForm(question, content)
  return reading.ok ? { action: 'accept', content: reading.content } : reading.complaint
}
