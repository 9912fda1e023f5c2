import { isRecord } from '@x/internal'
import { SchemaCheck } from '../schema/schema-check.ts'
import type { Question } from './call-outcome.ts'

/** Value of the interrupt by which a graph asks a person what a server wants to know. */
export interface McpElicitationInterrupt {
  readonly type: 'mcp_elicitation'
  /** Names this question: an answer to an older one is told apart by it. */
  readonly key: string
  /** Its slug, else its name. */
  readonly server: string
  /** The server's name for the tool. */
  readonly tool: string
  /** What is asked, as the server sent it: a form (`requestedSchema`), or a page to visit (`mode: 'url'`). */
  readonly inputRequests: Readonly<Record<string, Question>>
  /** Their params alone, under the same keys: LangChain's own adapters name it so. */
  readonly requests: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Why an answer that was given could not be used. */
  readonly problem?: string
}

/** Value of the interrupt by which a graph asks a person to grant access to a server. */
export interface McpAuthorizationInterrupt {
  readonly type: 'mcp_authorization'
  /** Names this question: an answer to an older one is told apart by it. */
  readonly key: string
  /** Its slug, else its name. */
  readonly server: string
  /** The server's name for the tool. */
  readonly tool: string
  /** The page to visit. For nobody else than the user. */
  readonly url: string
  /** Why what the user came back with could not be used. */
  readonly problem?: string
}

/** The answer to one question (`ElicitResult`, specification 2025-11-25, "Elicitation"). */
export interface ElicitationAnswer {
  /** `decline`: the person said no; `cancel`: the person did not decide. */
  readonly action: 'accept' | 'decline' | 'cancel'
  /** With `accept` of a form: the values, by the names in `requestedSchema`. */
  readonly content?: Readonly<Record<string, string | number | boolean | readonly string[]>>
}

/** An interrupt, as LangGraph hands it out. */
export interface PendingInterrupt {
  readonly id?: string | undefined
  readonly value?: unknown
}

/** For `new Command({ resume })`; those of several interrupts can be put into one object. */
export type InterruptResume = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** Whether the value of an interrupt is a question of an MCP server, for `elicitationResume()`. */
export function isElicitationInterrupt(value: unknown): value is McpElicitationInterrupt {
  return isRecord(value) && value['type'] === 'mcp_elicitation' && typeof value['key'] === 'string'
}

/** Whether the value of an interrupt asks for access to an MCP server, for `authorizationResume()`. */
export function isAuthorizationInterrupt(value: unknown): value is McpAuthorizationInterrupt {
  return (
    isRecord(value) && value['type'] === 'mcp_authorization' && typeof value['key'] === 'string'
  )
}

/**
 * What to resume a graph with, so that the answers reach the call that asked, and no later question of it.
 *
 * @throws TypeError for an interrupt that asks something else
 */
export function elicitationResume(
  interrupt: PendingInterrupt,
  answers: Readonly<Record<string, ElicitationAnswer>>,
): InterruptResume {
  const { id, value } = interrupt
  if (id === undefined || !isElicitationInterrupt(value)) {
    throw new TypeError('This is no interrupt by which an MCP server asks something')
  }
  return { [id]: { key: value.key, responses: answers } }
}

/**
 * What to resume a graph with when access was granted. `callback` is the URL that the user came back to, or
 * its query; leave it out where the tokens are saved already.
 *
 * @throws TypeError for an interrupt that asks something else
 */
export function authorizationResume(
  interrupt: PendingInterrupt,
  callback?: string | URL,
): InterruptResume {
  const { id, value } = interrupt
  if (id === undefined || !isAuthorizationInterrupt(value)) {
    throw new TypeError('This is no interrupt by which access to an MCP server is asked for')
  }
  return { [id]: { key: value.key, ...(callback !== undefined && { callback: String(callback) }) } }
}

/** Answers, or why they cannot be used: the person is asked again then. */
type ReadAnswers =
  | { readonly answers: Readonly<Record<string, ElicitationAnswer>> }
  | { readonly problem: string }

/**
 * What a person gave, which may be anything. What is accepted has to fit the schema that the server asked with (specification 2025-11-25, "Elicitation").
 */
export function answersFrom(
  value: unknown,
  {
    key,
    requests,
  }: { readonly key: string; readonly requests: Readonly<Record<string, Question>> },
): ReadAnswers {
  if (!isRecord(value)) return { problem: 'An answer is an object: see elicitationResume()' }
  if (value['key'] !== undefined && value['key'] !== key) {
    return { problem: 'This was the answer to an older question' }
  }
  const given = value['responses']
  if (!isRecord(given)) return { problem: 'The answer has no `responses`' }
  const answers: Record<string, ElicitationAnswer> = {}
  for (const [name, question] of Object.entries(requests)) {
    const answer = given[name]
    if (!isAnswer(answer)) {
      return { problem: `There is no answer to "${name}" with an action that MCP knows` }
    }
    const complaints = answer.action === 'accept' ? complaintsOf(question, answer.content) : []
    if (complaints.length > 0) {
      return { problem: `The answer to "${name}" does not fit: ${complaints.join('; ')}` }
    }
    answers[name] = answer
  }
  return { answers }
}

/** A question that sends somebody to a page has no schema. */
function complaintsOf(
  { params }: Question,
  content: ElicitationAnswer['content'] = {},
): readonly string[] {
  const schema = params?.['requestedSchema']
  return isRecord(schema) ? new SchemaCheck(schema).complaints(content) : []
}

function isAnswer(value: unknown): value is ElicitationAnswer {
  return (
    isRecord(value) &&
    (value['action'] === 'accept' ||
      value['action'] === 'decline' ||
      value['action'] === 'cancel') &&
    (value['content'] === undefined || isRecord(value['content']))
  )
}

/** What came back from an authorization server, if the graph shall pass it on; or why it cannot be used. */
export function callbackFrom(
  value: unknown,
  key: string,
): { readonly callback: string | undefined } | { readonly problem: string } {
  if (!isRecord(value)) return { callback: undefined } // "go on": the tokens are there
  if (value['key'] !== undefined && value['key'] !== key) {
    return { problem: 'This was the answer to an older question' }
  }
  const { callback } = value
  return { callback: typeof callback === 'string' && callback !== '' ? callback : undefined }
}

/**
 * Value of the interrupt that asks a person to approve a call. It has the fields of LangChain's
 * human-in-the-loop middleware, so a program that shows and answers those interrupts also works with these.
 */
export interface ApprovalRequest {
  readonly type: 'mcp_approval'
  /** Names this call with these arguments. An answer with another key approves nothing. */
  readonly key: string
  readonly actionRequests: readonly [
    {
      readonly name: string
      readonly args: Readonly<Record<string, unknown>>
      readonly description: string
    },
  ]
  readonly reviewConfigs: readonly [
    {
      readonly actionName: string
      /** Without `edit` where a sensitive value is hidden. */
      readonly allowedDecisions: readonly ('approve' | 'edit' | 'reject')[]
      readonly argsSchema?: Readonly<Record<string, unknown>>
    },
  ]
  /** Why the answer before was not used. */
  readonly problem?: string
}

/** What a person decides about one call. */
export type ApprovalDecision =
  | { readonly type: 'approve' }
  | {
      readonly type: 'edit'
      /** `name` is the name of the tool; only the arguments can be changed. */
      readonly editedAction: {
        readonly name: string
        readonly args: Readonly<Record<string, unknown>>
      }
    }
  | { readonly type: 'reject'; readonly message?: string | undefined }

/** Whether the value of an interrupt asks to approve a call of an MCP tool, for `approvalResume()`. */
export function isApprovalInterrupt(value: unknown): value is ApprovalRequest {
  return isRecord(value) && value['type'] === 'mcp_approval' && typeof value['key'] === 'string'
}

/** Whether the value of an interrupt is a question that names itself by a key. */
export function isQuestionOfOurs(value: unknown): boolean {
  return (
    isApprovalInterrupt(value) || isElicitationInterrupt(value) || isAuthorizationInterrupt(value)
  )
}

/**
 * Returns what to resume a graph with, so that the decision reaches the call that was shown, and no other.
 * The results for several interrupts can be put into one object.
 *
 * @throws TypeError for an interrupt that asks something else
 */
export function approvalResume(
  { id, value }: PendingInterrupt,
  decision: ApprovalDecision,
): InterruptResume {
  if (id === undefined || !isApprovalInterrupt(value)) {
    throw new TypeError('This interrupt does not ask to approve a call of an MCP tool')
  }
  return { [id]: { key: value.key, decisions: [decision] } }
}
