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

/** What a person is asked for, and by which round of which call. */
export interface Asking<Outcome> {
  readonly outcome: Outcome
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  /** Of the round that goes on with the answer. */
  readonly number: number
}

/** Stops the graph until there are answers that fit; a wrong one asks again, and sends nothing. */
export function askPerson(
  graph: LangGraphRuntime,
  { outcome, origin, place, number }: Asking<AskedOutcome>,
): Readonly<Record<string, ElicitationAnswer>> {
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
  const read = askUntilItFits(graph, question, (given) => answersFrom(given, { key, requests }))
  return read.answers
}

/** Stops the graph until the user came back from an authorization server: with its callback, or with tokens in place. */
export function askAccess(
  graph: LangGraphRuntime,
  { outcome, origin, place, number }: Asking<AuthorizationOutcome>,
): string | undefined {
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
  return askUntilItFits(graph, question, (given) => callbackFrom(given, key)).callback
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

function askUntilItFits<Read extends object>(
  { interrupt }: LangGraphRuntime,
  question: McpElicitationInterrupt | McpAuthorizationInterrupt,
  read: (given: unknown) => Read | { readonly problem: string },
): Read {
  let asked = question
  for (;;) {
    const answer = read(interrupt(asked))
    if (!('problem' in answer)) return answer
    asked = { ...question, problem: answer.problem }
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
