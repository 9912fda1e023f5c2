import { isRecord } from '../../is-record.ts'
import type { Answer } from '../agent-call.ts'
import type { Question } from '../agent-update.ts'
import { keyOf, readForm } from './question-form.ts'

/** The answers of a round, or for each question that has none why. */
export type AnswersReading =
  | { readonly ok: true; readonly answers: Readonly<Record<string, Answer>> }
  | { readonly ok: false; readonly complaints: ReadonlyMap<string, string> }

/** Reads what a client sent for a round: results of elicitations, or plain values where a model answered. */
export function readAnswers(
  questions: readonly Question[],
  responses: Readonly<Record<string, unknown>>,
): AnswersReading {
  const answers: Record<string, Answer> = {}
  const complaints = new Map<string, string>()
  for (const [index, question] of questions.entries()) {
    const reading = readAnswer(question, responses[keyOf(index)])
    if (typeof reading === 'string') complaints.set(question.id, reading)
    else answers[question.id] = reading
  }
  return complaints.size === 0 ? { ok: true, answers } : { ok: false, complaints }
}

/** A question that was refused, and whose agent does not want to hear of it: its run ends. */
export function refusedIn(
  questions: readonly Question[],
  answers: Readonly<Record<string, Answer>>,
): Question | undefined {
  return questions.find(({ id, takesRefusal }) => {
    return takesRefusal !== true && answers[id]?.action !== 'accept'
  })
}

function readAnswer(question: Question, response: unknown): Answer | string {
  if (response === undefined || response === null) return 'There is no answer yet.'
  if (!isRecord(response)) return readContent(question, { answer: response })
  const { action, content } = response
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
