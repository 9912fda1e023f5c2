import { ProtocolError, type CallToolResult } from '@modelcontextprotocol/server'

import { RunFailure, type RunTool } from '../agents/agent.ts'
import { isDeath, type CallRecord } from './call-record.ts'
import { toForm, type AnswersReading, type QuestionForm } from './forms.ts'
import { busy, IDEMPOTENCY, type Execution, type RunClient, type ToolOutcome } from './order.ts'

type Asking = Pick<CallRecord, 'args' | 'asked' | 'files' | 'round' | 'runId' | 'secret' | 'tool'>

export const BUSY = 'The same call runs in another process. Call again in a moment.'
const WORKS =
  'The first call with this idempotency key still works, or waits for an answer to its question. Call again later.'
export const EXPIRED =
  'This call was made before, and its result is not kept here any more. It is not made again. To make it again all the same, use another idempotency key.'

/**
 * Returns the outcome of a stored call for a request that repeats it.
 *
 * @throws RunFailure `busy`, `outcome_unknown`, `expired`, `cancelled`; ProtocolError of the call
 */
export function outcomeOf(
  call: CallRecord,
  { order, tool }: Pick<Execution, 'order' | 'tool'>,
): ToolOutcome {
  const { state, task } = call
  if (state.status === 'running') throw busy(task ? WORKS : BUSY)
  if (state.status === 'asking') {
    if (task) throw busy(WORKS)
    return questionsOutcome(call, { client: order.client, tool })
  }
  const { end } = state
  switch (end.type) {
    case 'result':
      return { type: 'result', result: end.result }
    case 'cancelled':
      throw new RunFailure('cancelled', 'This call was cancelled.')
    case 'unkept':
      throw new RunFailure('expired', EXPIRED)
    case 'error': {
      const { code, data, message } = end.error
      if (isDeath(end)) throw new RunFailure('outcome_unknown', message)
      throw new ProtocolError(code, message, data)
    }
  }
}

/** Marks a result that does not come from an execution for this request. */
export function toReplayed(outcome: ToolOutcome): ToolOutcome {
  if (outcome.type === 'input') return outcome
  const { _meta: meta } = outcome.result
  const result = { ...outcome.result, _meta: { ...meta, [IDEMPOTENCY]: { replayed: true } } }
  return { type: 'result', result }
}

/** Returns the forms of the open questions of a call, as its client can show them. */
export function openForms(
  { asked }: Pick<CallRecord, 'asked'>,
  { canVisit, knowsChoices }: RunClient,
  reading?: Extract<AnswersReading, { type: 'errors' }>,
): readonly QuestionForm[] {
  if (!asked) return []
  const answers = reading?.answers ?? asked.answers
  const isAnswered = ({ id }: { readonly id: string }): boolean => Object.hasOwn(answers, id)
  // The agent did not get the answers: a client that has lost them can give them again.
  const isAskedAgain = asked.questions.every(isAnswered)
  return asked.questions.flatMap((question, index) => {
    if (isAnswered(question) && !isAskedAgain) return []
    const form = toForm(question, index, knowsChoices)
    const error = reading?.errors.get(question.id)
    const told = error === undefined ? form : { ...form, message: `${form.message}\n(${error})` }
    return canVisit || form.url === undefined ? told : withoutPage(told)
  })
}

/** Returns the open questions of a call: as forms for a client that can show them, else as text for its model. */
export function questionsOutcome(
  call: Asking,
  {
    client,
    tool,
  }: {
    readonly client: RunClient
    readonly tool: Pick<RunTool, 'outputSchema' | 'takesResume'>
  },
  reading?: Extract<AnswersReading, { type: 'errors' }>,
): ToolOutcome {
  const { canAsk, canVisit } = client
  const forms = openForms(call, client, reading)
  if (forms.every(({ url }) => (url === undefined ? canAsk : canVisit))) {
    const { args, asked, round, runId } = call
    const isBeforeTask = asked?.questions.every((question) => question.isBeforeTask === true)
    return { type: 'input', forms, state: { runId, round, tool: call.tool, args }, isBeforeTask }
  }
  const result = tool.takesResume
    ? needsInputResult(call, forms, tool.outputSchema !== undefined)
    : cannotAnswerResult(call, forms)
  return { type: 'result', result }
}

/** For a client that cannot send its user to a page. */
function withoutPage({ message, url, ...form }: QuestionForm): QuestionForm {
  return { ...form, message: `${message}\n${url}`, url: undefined }
}

/** Questions for a client without forms: the model reads them, and calls again with `resume`. */
function needsInputResult(
  { files, round, runId, secret }: Asking,
  forms: readonly QuestionForm[],
  hasOutputSchema: boolean,
): CallToolResult {
  const questions = forms.map(({ key, message, requestedSchema }) => ({
    key,
    message,
    schema: requestedSchema,
  }))
  const run = `${runId}.${round}.${secret}`
  const example = { run, answers: Object.fromEntries(forms.map(({ key }) => [key, {}])) }
  const lines = [
    'The agent has a question before it can go on:',
    ...questions.map(({ key, message, schema }) => `${key}: ${message}\n${JSON.stringify(schema)}`),
    `Ask the user, then call this tool again with \`resume\`: ${JSON.stringify(example)}, each answer filled in by its schema, or {"action":"decline"} where the user does not want to answer.`,
  ]
  return {
    content: [{ type: 'text', text: lines.join('\n') }, ...(files?.blocks ?? [])],
    // Structured content of another schema would break the output schema. An error needs none.
    ...(hasOutputSchema
      ? { isError: true }
      : { structuredContent: { status: 'needs_input', run, questions } }),
    _meta: { reason: 'needs_input', runId },
  }
}

/** Questions that neither the client nor its model can answer. Its run ends when its time is over. */
function cannotAnswerResult(
  { files, runId }: Asking,
  forms: readonly QuestionForm[],
): CallToolResult {
  const lines = [
    'The agent has a question before it can go on:',
    ...forms.map(({ message }) => message),
    'It cannot be answered here: the client does not show questions (elicitation), and the tool has no parameter for answers. Ask the user, and call again with the answer in the arguments, or use a client that shows questions.',
  ]
  return {
    content: [{ type: 'text', text: lines.join('\n') }, ...(files?.blocks ?? [])],
    isError: true,
    _meta: { reason: 'needs_input', runId },
  }
}
