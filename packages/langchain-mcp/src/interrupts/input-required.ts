import type { HandlerContext } from '@x/mcp-client'
import type { ToolCallOptions, ToolResult } from '../catalogue/tool-source.ts'
import type { McpToolOrigin } from '../tool-origin.ts'
import type { AskedOutcome, Question } from './call-outcome.ts'
import { crowded, unanswerable } from './input-errors.ts'
import type { ElicitationAnswer } from './interrupt-value.ts'
import { isForPerson, ownAnswer, type OwnHandlers } from './own-answers.ts'

/**
 * By what a server without sessions hands a call back: it must know something first (specification
 * 2026-07-28, `InputRequiredResult`).
 */
export interface InputRequired {
  readonly inputRequests?: Readonly<Record<string, Question>>
  readonly requestState?: string
}

/** Who answers what is for a person: an interrupt of the graph, a handler, or nobody, and then nothing is sent. */
export type Answering = 'interrupt' | 'handler' | 'nobody'

interface Answerer {
  readonly answering: Answering
  readonly handlers: OwnHandlers
  readonly origin: McpToolOrigin
  readonly signal: AbortSignal | undefined
}

/** The client has checked it already; this is for the compiler. */
export function isInputRequired(value: ToolResult): value is ToolResult & InputRequired {
  return value.type === 'input_required'
}

/**
 * Answers what needs no person, and leaves the rest for one.
 *
 * @throws McpToolError `INPUT_REQUIRED` for what nobody answers; the reason of `signal`
 */
export async function askedOutcomeFrom(
  { inputRequests = {}, requestState }: InputRequired,
  { answering, handlers, origin, signal = new AbortController().signal }: Answerer,
): Promise<AskedOutcome> {
  const context: HandlerContext = { signal, scope: undefined }
  const requests: Record<string, Question> = {}
  const answered: Record<string, unknown> = {}
  for (const [key, question] of Object.entries(inputRequests)) {
    if (isForPerson(question) && answering === 'interrupt') {
      requests[key] = question
      continue
    }
    if (isForPerson(question) && answering === 'nobody') throw crowded(origin)
    // One after the other: most servers ask one thing.
    const answer = await ownAnswer(question, handlers, context).catch((cause: unknown) => {
      signal.throwIfAborted()
      throw unanswerable(origin, question.method, { cause })
    })
    if (answer === undefined) throw unanswerable(origin, question.method)
    answered[key] = answer
  }
  return {
    kind: 'asked',
    requests,
    answered,
    ...(requestState !== undefined && { requestState }),
    isHeld: false,
  }
}

/** What the call goes on with: what was answered here, and by a person. */
export function resumeFrom(
  { requestState, answered }: AskedOutcome,
  answers: Readonly<Record<string, ElicitationAnswer>> = {},
): NonNullable<ToolCallOptions['resume']> {
  return {
    ...(requestState !== undefined && { requestState }),
    inputResponses: { ...answered, ...answers },
  }
}
