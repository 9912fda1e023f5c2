import { ProtocolError, ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server'

import { isRecord, legible } from '@x/internal'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { mayUse } from '../internal/principal.ts'
import type { RunFailureReason } from '../internal/run-event.ts'
import { shortened } from '../internal/text.ts'
import type { CallRecord } from '../runs/call-record.ts'
import type { RunClient, RunOrder } from '../runs/order.ts'
import { toolError } from '../runs/result.ts'
import { openTaskForms, taskIdOf, type TaskCallRecord } from '../tasks/task-view.ts'
import { NOTHING_UNTAKEN, taskOwnerOf, type UntakenAnswers } from '../tasks/tasks.ts'
import { RESULT_TOOL, RESULT_WAIT_MS } from '../tools/pair.ts'
import type { PlannedTool } from '../tools/plan.ts'
import type { HandlerParts } from './handlers.ts'
import type { Params } from './json-rpc.ts'
import type { RequestContext } from './request-context.ts'

/** Questions of started work are stored, whatever the client can show: `agent_result` shows them as text. */
export const PAIR_CLIENT: RunClient = { canAsk: true, canVisit: false, knowsChoices: true }

const ResultArguments = z.object({
  handle: z.string().min(1).max(256),
  answers: z.record(z.string(), z.unknown()).nullish(),
  cancel: z.boolean().nullish(),
})

const WRONG =
  'Bad arguments: "handle" must be the text that the start tool returned, "answers" an object, and "cancel" true or false.'
const UNKNOWN =
  'No work has this handle: it does not exist, its result has expired, or it belongs to another caller. Check what the work did before you start it again.'
const REFUSED =
  'An answer was refused. The reason stands in brackets after its question, which has a new key.'
const CANCELLED = 'The work was cancelled. It may have been done in part.'
const AWAY =
  'The result cannot be read now. The work was not stopped by this. Call again in a moment.'

/** Returns the owner of started work. A caller without a name has a new session after each restart: its handle is its proof. */
export function pairOwnerOf({ principal }: RequestContext): string {
  return taskOwnerOf({ principal })
}

/** Returns the answer of a `…_start` tool. */
export function startedResult(task: TaskCallRecord): CallToolResult {
  const handle = taskIdOf(task)
  const text = `The work has begun. Its handle is ${handle}. ${nextStep({ handle })} Do not start the same work again.`
  return workingResult(task, text)
}

/** Answers a call of `agent_result`. */
export async function callResultTool(
  args: Params,
  context: RequestContext,
  parts: HandlerParts,
): Promise<CallToolResult> {
  const given = ResultArguments.safeParse(args)
  if (!given.success) return toolError('invalid_arguments', WRONG)
  const { answers, cancel, handle } = given.data
  const { signal } = context
  const { tasks } = parts
  const reference = { owner: pairOwnerOf(context), taskId: handle }
  try {
    let untaken = NOTHING_UNTAKEN
    if (cancel === true) await tasks.cancel(reference)
    else if (answers) {
      const caller = { principal: context.principal, client: PAIR_CLIENT }
      untaken = await tasks.update(reference, toResponses(answers), (call) => {
        return continuedCall(parts, call, caller)
      })
    }
    const task = await tasks.settled(reference, { ms: RESULT_WAIT_MS, signal })
    return resultOf(task, untaken)
  } catch (error) {
    if (error instanceof ProtocolError) return failedResult(error)
    if (!GatewayError.is(error)) throw error
    parts.onError(new Error('The result of started work could not be reached', { cause: error }))
    return toolError('unavailable', AWAY)
  }
}

/** Models write a plain value where a form has one field. */
function toResponses(answers: Params): Params {
  const responses = Object.entries(answers).map(([key, value]) => {
    return [key, isRecord(value) ? value : { answer: value }] as const
  })
  return Object.fromEntries(responses)
}

/** Returns the call that answers continue. @throws ProtocolError if its agent is gone, or the caller may not use it now */
export function continuedCall(
  { registry }: Pick<HandlerParts, 'registry'>,
  { order, tool: name }: CallRecord,
  caller: Pick<RunOrder, 'client' | 'principal'>,
): { readonly tool: PlannedTool; readonly order: RunOrder } {
  const tool = registry.plan().byName(name)
  if (tool && order && mayUse(caller.principal, tool))
    return { tool, order: { ...order, ...caller } }
  const text = `The answers are not taken: the agent behind ${name} is gone now. Send them again later.`
  throw new ProtocolError(ProtocolErrorCode.InternalError, text, { reason: 'agent_gone' })
}

function resultOf(task: TaskCallRecord, untaken: UntakenAnswers): CallToolResult {
  const { runId, state } = task
  const handle = taskIdOf(task)
  switch (state.status) {
    case 'running': {
      const step = state.message === undefined ? '' : ` Its last step: ${state.message}`
      return workingResult(task, `The work is not done yet. ${nextStep({ handle })}${step}`)
    }
    case 'asking':
      return questionsResult(task, untaken)
    case 'ended':
      break
  }
  const { end } = state
  switch (end.type) {
    case 'result':
      return end.result
    case 'cancelled':
      return { content: [{ type: 'text', text: CANCELLED }], _meta: { reason: 'cancelled', runId } }
    case 'unkept':
      return withRun(toolError('expired', UNKNOWN), runId)
    case 'error':
      return withRun(failedResult(end.error), runId)
  }
}

function workingResult(task: TaskCallRecord, text: string): CallToolResult {
  return {
    content: [{ type: 'text', text }],
    structuredContent: { status: 'working', handle: taskIdOf(task) },
    _meta: { runId: task.runId },
  }
}

/** Questions as text: the model asks its user, and calls again with the answers. */
function questionsResult(
  task: TaskCallRecord,
  { refused, unknown }: UntakenAnswers,
): CallToolResult {
  const { round, runId } = task
  const handle = taskIdOf(task)
  // Another call may have answered in the meantime: then these are other questions.
  const reading = refused?.round === round ? refused.reading : undefined
  const questions = openTaskForms(task, reading).map(({ key, form }) => ({
    key,
    message: form.message,
    schema: form.requestedSchema,
  }))
  const answers = Object.fromEntries(questions.map(({ key }) => [key, {}]))
  const lines = [
    ...(reading ? [REFUSED] : []),
    ...(unknown.length > 0 ? [unknownText(unknown)] : []),
    'The work waits for answers. An answer that does not fit its schema is asked for again:',
    ...questions.map(({ key, message, schema }) => `${key}: ${message}\n${JSON.stringify(schema)}`),
    `Ask the user. ${nextStep({ handle, answers })} Fill in each answer by its schema, or {"action":"decline"} where the user does not want to answer.`,
  ]
  return {
    content: [{ type: 'text', text: lines.join('\n') }],
    structuredContent: { status: 'needs_input', handle, questions },
    _meta: { reason: 'needs_input', runId },
  }
}

const MAX_KEYS = 5

function unknownText(keys: readonly string[]): string {
  const named = keys.slice(0, MAX_KEYS).map((key) => legible(JSON.stringify(shortened(key, 64))))
  const more = keys.length > MAX_KEYS ? ` and ${keys.length - MAX_KEYS} more` : ''
  return `Not taken, because no open question has the key: ${named.join(', ')}${more}.`
}

function nextStep(args: Params): string {
  const what = args['answers'] === undefined ? 'To get the result' : 'To answer'
  return `${what}, call ${RESULT_TOOL} with ${JSON.stringify(args)}.`
}

function failedResult({ data, message }: { data?: unknown; message: string }): CallToolResult {
  const reason = isRecord(data) ? data['reason'] : undefined
  if (reason === 'unknown_task') return toolError('expired', UNKNOWN)
  return toolError(isReason(reason) ? reason : 'agent_failed', message)
}

function isReason(reason: unknown): reason is RunFailureReason {
  return reason === 'outcome_unknown' || reason === 'agent_gone' || reason === 'cancelled'
}

function withRun(result: CallToolResult, runId: string): CallToolResult {
  return { ...result, _meta: { ...result['_meta'], runId } }
}
