import { forgetQuestion, listenToAgent, type AgentRun } from './active-run.ts'
import type { FinalUpdate, Question } from '../agents/agent-update.ts'
import { asksForSecret } from './interrupts/secret-field.ts'
import type { RunFiles } from '../files/result-files.ts'
import type { RunEnding } from './run-ending.ts'
import { RunFailure } from '../agents/run-failure.ts'
import { resultOf } from './run-result.ts'
import { RESULT_MAX_BYTES } from '../files/blocks.ts'
import type { RunTool } from '../agents/run-tool.ts'

export interface EndingRun extends AgentRun {
  readonly files: RunFiles | undefined
  readonly tool: RunTool
  /** The client can send a person to a page. @default false */
  readonly canVisit?: boolean | undefined
}

/**
 * Lets the agent speak, and makes of it what the caller gets.
 *
 * @throws RunFailure for every end that is no answer
 */
export async function endingOf(run: EndingRun): Promise<RunEnding> {
  const final = await listenToAgent(run)
  if (final.type === 'asked' && final.questions.some(({ schema }) => asksForSecret(schema))) {
    forgetQuestion(run, final)
    throw new RunFailure('agent_failed', SECRET)
  }
  if (final.type === 'asked' || final.type === 'authorization') {
    const ending = await (final.type === 'asked' ? asked(run, final) : authorizing(run, final))
    if (run.call.signal.aborted) forgetQuestion(run, final)
    return ending
  }
  const { collector, files, tool } = run
  const answer = collector.answer(answerFrom(final, tool))
  const hasOutputSchema = tool.outputSchema !== undefined
  const maxBytes = files?.resultMaxBytes ?? RESULT_MAX_BYTES
  const result = await resultOf({ ...answer, hasOutputSchema }, maxBytes)
  return { type: 'ended', result, isStarted: true }
}

const SECRET =
  'It asks for a secret, and answers pass through the client: it has to send people to a page of its own instead.'

type Update<Type extends FinalUpdate['type']> = Extract<FinalUpdate, { type: Type }>
type Asked = Extract<RunEnding, { type: 'asked' }>

async function asked(
  { files }: EndingRun,
  { questions, state, beginsAnew }: Pick<Asked, 'questions' | 'state' | 'beginsAnew'>,
): Promise<Asked> {
  return {
    type: 'asked',
    questions: questions.map(withWebPage),
    state,
    beginsAnew,
    files: await files?.soFar(),
    progress: 0,
  }
}

/** A page to visit is a question like others, for a client that can send somebody there. */
async function authorizing(run: EndingRun, update: Update<'authorization'>): Promise<RunEnding> {
  const { url, reason, state } = update
  const text = reason ?? 'It needs access.'
  const page = isWebUrl(url) ? url : undefined
  if (run.canVisit === true && page !== undefined) {
    const message = `Agent "${run.tool.agent.name}": ${text}`
    const questions = [{ id: 'access', message, url: page }]
    return asked(run, { questions, state: state ?? null, beginsAnew: state === undefined })
  }
  forgetQuestion(run, update)
  const where =
    page === undefined ? 'It does not say where.' : `Open ${page} to sign in, then call again.`
  throw new RunFailure('auth_required', `${text} ${where}`)
}

/** What is no page of the web is shown, and not opened. */
function withWebPage({ url, ...question }: Question): Question {
  if (url === undefined || isWebUrl(url)) return { ...question, url }
  return { ...question, message: `${question.message}\n${url}` }
}

function isWebUrl(url: string | undefined): boolean {
  return url !== undefined && /^https?:/i.test(url) && URL.canParse(url)
}

/** @throws RunFailure for every end that is no answer */
function answerFrom(final: Update<'done' | 'failed'>, tool: RunTool): Update<'done'> {
  if (final.type === 'done') return checkedOutput(final, tool)
  const { reason, isCancelled = false } = final
  if (!isCancelled) throw new RunFailure('agent_failed', reason)
  throw new RunFailure('cancelled', `Agent "${tool.agent.name}": ${reason}`)
}

function checkedOutput(done: Update<'done'>, tool: RunTool): Update<'done'> {
  if (tool.outputSchema === undefined) return done
  const { structured } = done
  const complaint = structured === undefined ? 'there is none' : tool.checkOutput?.(structured)
  if (complaint === undefined) return done
  throw new RunFailure('invalid_output', `Its output does not match its own schema: ${complaint}.`)
}
