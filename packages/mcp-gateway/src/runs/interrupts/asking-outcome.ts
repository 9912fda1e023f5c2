import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server'

import type { RunOrder } from '../run-ending.ts'
import { RunFailure } from '../../agents/run-failure.ts'
import { type RunFailureReason } from '../../internal/run-event.ts'
import { failureResult } from '../run-result.ts'
import type { ToolOutcome } from '../tool-outcome.ts'
import type { Answers } from './answers.ts'
import { needsInputResult } from './input-required.ts'
import { formOf, type QuestionForm } from './question-form.ts'
import type { WaitingRun } from './waiting-run.ts'

const BUSY_RETRY_MS = 5000

interface RoundReading {
  /** By the id of the question. @default nothing was wrong */
  readonly complaints?: ReadonlyMap<string, string> | undefined
  /** That need not be given again. @default none */
  readonly answers?: Answers | undefined
}

/**
 * The open questions of a run: as forms for a client that can show them, else as text for its model.
 *
 * @param reading of answers that came: which questions are open still, and what was wrong
 */
export function questionsOutcome(
  { request, tool }: RunOrder,
  row: WaitingRun,
  reading: RoundReading = row,
): ToolOutcome {
  const { canAsk = false, canVisit = false, knowsChoices } = request
  const { answers = {}, complaints } = reading
  const forms = row.questions.flatMap((question, index) => {
    if (Object.hasOwn(answers, question.id)) return []
    const complaint = complaints?.get(question.id)
    const form = formOf(question, index, { complaint, knowsChoices })
    return canVisit ? form : withoutPage(form)
  })
  if (forms.every(({ url }) => (url === undefined ? canAsk : canVisit))) {
    const { runId, round, args } = row
    return { type: 'input', forms, state: { runId, round, tool: row.tool, args } }
  }
  const hasOutputSchema = tool.outputSchema !== undefined
  return { type: 'result', result: needsInputResult(row, forms, { hasOutputSchema }) }
}

/** A run that ended because nobody wanted to answer it. */
export function refusedResult(runId: string, action: 'decline' | 'cancel'): CallToolResult {
  const text = action === 'decline' ? 'declined to answer' : 'cancelled the question'
  return {
    content: [{ type: 'text', text: `The user ${text}, so the agent stopped.` }],
    _meta: { runId, reason: action },
  }
}

/** A failure with the files of earlier rounds, behind what is said of it; any other result has them. */
export function withEarlier(
  result: CallToolResult,
  blocks: readonly ContentBlock[],
): CallToolResult {
  if (result.isError !== true || blocks.length === 0) return result
  const isTextFirst = result.content[0]?.type === 'text'
  const at = isTextFirst ? 1 : 0
  return { ...result, content: result.content.toSpliced(at, 0, ...blocks) }
}

/** A failure that has no cause but what the caller did, or when. */
export function failed({ runId }: RunOrder, reason: RunFailureReason, text: string): ToolOutcome {
  const retryAfterMs = reason === 'busy' ? BUSY_RETRY_MS : undefined
  return failureOutcome(new RunFailure(reason, text, { retryAfterMs }), runId)
}

export function failureOutcome(failure: RunFailure, runId: string): ToolOutcome {
  return { type: 'result', result: failureResult(failure, runId) }
}

/** For a client that cannot send anybody to a page. */
function withoutPage({ key, message, requestedSchema, url }: QuestionForm): QuestionForm {
  return { key, message: url === undefined ? message : `${message}\n${url}`, requestedSchema }
}
