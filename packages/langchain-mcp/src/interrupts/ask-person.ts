import type { ToolRunnableConfig } from '@langchain/core/tools'
import { isRecord } from '@x/internal'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { AskedOutcome, AuthorizationOutcome } from './call-outcome.ts'
import type { GraphPlace } from './graph-place.ts'
import {
  answersFrom,
  callbackFrom,
  type ElicitationAnswer,
  type McpAuthorizationInterrupt,
  type McpElicitationInterrupt,
} from './interrupt-value.ts'
import type { LangGraphRuntime } from './langgraph-runtime.ts'
import type { ElicitAnswer } from './live-call.ts'
import { addressVerdict } from './waiting-tasks.ts'

/** What a person is asked for, and by which round of which call. */
export interface Asking<Outcome> {
  readonly outcome: Outcome
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  readonly config: ToolRunnableConfig
  /** Of the round that goes on with the answer. */
  readonly number: number
}

/** Stops the graph until there are answers that fit; a wrong one asks again, and sends nothing. */
export async function askPerson(
  graph: LangGraphRuntime,
  { outcome, origin, place, config, number }: Asking<AskedOutcome>,
): Promise<Readonly<Record<string, ElicitationAnswer>>> {
  const { requests } = outcome
  const key = `${place.toolCallId}:${number}`
  const question: McpElicitationInterrupt = {
    type: 'mcp_elicitation',
    key,
    server: serverTitle(origin.server),
    tool: origin.toolName,
    inputRequests: requests,
    requests: Object.fromEntries(
      Object.entries(requests).map(([name, { params = {} }]) => [name, params]),
    ),
  }
  const read = await askUntilItFits(graph, {
    question,
    place,
    config,
    read: (given) => answersFrom(given, { key, requests }),
  })
  return read.answers
}

/** Stops the graph until the user came back from an authorization server: with its callback, or with tokens in place. */
export async function askAccess(
  graph: LangGraphRuntime,
  { outcome, origin, place, config, number }: Asking<AuthorizationOutcome>,
): Promise<string | undefined> {
  const { url, problem } = outcome
  const key = `${place.toolCallId}:${number}`
  const question: McpAuthorizationInterrupt = {
    type: 'mcp_authorization',
    key,
    server: serverTitle(origin.server),
    tool: origin.toolName,
    url,
    ...(problem !== undefined && { problem }),
  }
  const read = await askUntilItFits(graph, {
    question,
    place,
    config,
    read: (given) => callbackFrom(given, key),
  })
  return read.callback
}

/** Answers of a person in the shape in which a server that waits for them takes them. */
export function elicitAnswersFrom(
  answers: Readonly<Record<string, ElicitationAnswer>> = {},
): Record<string, ElicitAnswer> {
  return Object.fromEntries(
    Object.entries(answers).map(([key, { action, content }]) => [
      key,
      { action, ...(content !== undefined && { content: plainContent(content) }) },
    ]),
  )
}

interface Question<Read> extends Pick<Asking<unknown>, 'place' | 'config'> {
  readonly question: McpElicitationInterrupt | McpAuthorizationInterrupt
  readonly read: (given: unknown) => Read | { readonly problem: string }
}

/** An answer without the key of the question counts only if it can be for no other question. */
async function askUntilItFits<Read extends object>(
  { interrupt, task }: LangGraphRuntime,
  { question, place, config, read }: Question<Read>,
): Promise<Read> {
  const { key } = question
  const judge = task(`mcp:${place.toolCallId}:address`, (answer: unknown, isKeyNeeded: boolean) =>
    addressVerdict(answer, { key, isKeyNeeded, config }),
  )
  let asked = question
  let isKeyNeeded = false
  for (;;) {
    const given: unknown = interrupt(asked)
    const answer = read(given)
    if ('problem' in answer) {
      asked = { ...question, problem: answer.problem }
      continue
    }
    const isUnkeyed = isRecord(given) && given['key'] !== key
    const verdict = isUnkeyed ? await judge(given, isKeyNeeded) : undefined
    if (verdict?.kind !== 'refused') return answer
    isKeyNeeded = true
    asked = { ...question, problem: verdict.problem }
  }
}

function plainContent(
  content: NonNullable<ElicitationAnswer['content']>,
): NonNullable<ElicitAnswer['content']> {
  return Object.fromEntries(
    Object.entries(content).map(([name, value]) => [
      name,
      typeof value === 'object' ? [...value] : value,
    ]),
  )
}
