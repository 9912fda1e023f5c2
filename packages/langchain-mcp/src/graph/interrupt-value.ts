import { isRecord } from '@x/internal'
import type { TaskReference } from '@x/mcp-client'
import type { InputRequest, UserCode } from '@x/mcp-transport'
import { SchemaCheck } from '@x/internal/schema-check'

/**
 * Verdict about an answer. `unusable`: its content does not fit; `other question`: its key was that of another
 * question; `not shown` and `which one?`: it had no key, and the question was new, or several calls waited.
 */
export type AnswerVerdict = 'ok' | 'unusable' | 'other question' | 'not shown' | 'which one?'

/** A question of an MCP server, as the value of an interrupt. */
interface ServerInterrupt {
  /** Identifies this question. An answer with this key always counts for it, and one with another key never. */
  readonly key: string
  /** The id of the model's call, with a number if the model used the id again in one node. */
  readonly call: string
  /** Verdicts about earlier answers for this call, for this package. They contain no answer. */
  readonly history: readonly AnswerVerdict[]
  /** Slug of the server, else its name. */
  readonly server: string
  /** Name of the tool on the server; `tools/list` if its list of tools needs a sign-in. */
  readonly tool: string
  /** Why the previous answer could not be used. */
  readonly problem?: string
}

/** Value of the interrupt that asks a person a question of a server. */
export interface McpElicitationInterrupt extends ServerInterrupt {
  readonly type: 'mcp_elicitation'
  /** The questions as the server sent them: a form (`requestedSchema`), or a page to visit (`mode: 'url'`). */
  readonly inputRequests: Readonly<Record<string, InputRequest>>
  /** The params of the questions, by the same keys, as LangChain's own adapters provide them. */
  readonly requests: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** Value of the interrupt that asks a person to grant access to a server. */
export interface McpAuthorizationInterrupt extends ServerInterrupt {
  readonly type: 'mcp_authorization'
  /** The page to visit. Show it only to the user. */
  readonly url: string
  /**
   * With a provider of `deviceOAuth()`: the code that the page asks for, or shows for comparison. Resume without a callback
   * when the user has entered it. If the user has not, the graph is interrupted again.
   */
  readonly device?: UserCode
}

/**
 * Value of the interrupt of a call that the server continues as a task (`taskMode: 'interrupt'`). Resume with any value,
 * in any process: if the task has not ended, the graph is interrupted again.
 */
export interface McpTaskInterrupt extends Omit<ServerInterrupt, 'problem'> {
  readonly type: 'mcp_task'
  /** For `resumeTask()` of a client of the server, such as to wait for the end. */
  readonly task: TaskReference
  /** Text of the server for people. */
  readonly message: string | undefined
}

/** The answer to one question (`ElicitResult`, specification 2025-11-25, "Elicitation"). */
export interface ElicitationAnswer {
  /** `decline`: the person refused; `cancel`: the person did not decide. */
  readonly action: 'accept' | 'decline' | 'cancel'
  /** For `accept` of a form: the values, by the names in `requestedSchema`. */
  readonly content?: Readonly<Record<string, string | number | boolean | readonly string[]>>
}

/** An interrupt as LangGraph returns it. */
export interface PendingInterrupt {
  readonly id?: string | undefined
  readonly value?: unknown
}

/** Value for `new Command({ resume })`. The values for several interrupts can be merged into one object. */
export type InterruptResume = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/**
 * Returns true for the question of an MCP server, for `elicitationResume()`.
 *
 * @example
 * ```ts
 * import { INTERRUPT, isInterrupted } from '@langchain/langgraph'
 * import { isElicitationInterrupt } from '@x/langchain-mcp'
 *
 * // Questions of MCP servers in a graph that stopped.
 * export function questions(state: unknown) {
 *   const values = isInterrupted(state) ? state[INTERRUPT].map(({ value }) => value) : []
 *   return values.filter(isElicitationInterrupt).map(({ inputRequests }) => inputRequests)
 * }
 * ```
 */
export function isElicitationInterrupt(value: unknown): value is McpElicitationInterrupt {
  return hasType(value, 'mcp_elicitation')
}

/**
 * Returns true for a call that the server continues as a task.
 *
 * @example
 * ```ts
 * import { INTERRUPT, isInterrupted } from '@langchain/langgraph'
 * import { isTaskInterrupt } from '@x/langchain-mcp'
 *
 * // Returns whether a graph waits for a task of a server, and not for a person.
 * export function waitsForTask(state: unknown): boolean {
 *   return isInterrupted(state) && state[INTERRUPT].some(({ value }) => isTaskInterrupt(value))
 * }
 * ```
 */
export function isTaskInterrupt(value: unknown): value is McpTaskInterrupt {
  return hasType(value, 'mcp_task')
}

/**
 * Returns true for a request for access to an MCP server, for `authorizationResume()`.
 *
 * @example
 * ```ts
 * import { INTERRUPT, isInterrupted } from '@langchain/langgraph'
 * import { isAuthorizationInterrupt } from '@x/langchain-mcp'
 *
 * // Addresses where a person has to sign in before the graph can continue.
 * export function signInUrls(state: unknown): readonly string[] {
 *   const values = isInterrupted(state) ? state[INTERRUPT].map(({ value }) => value) : []
 *   return values.filter(isAuthorizationInterrupt).map(({ url }) => url)
 * }
 * ```
 */
export function isAuthorizationInterrupt(value: unknown): value is McpAuthorizationInterrupt {
  return hasType(value, 'mcp_authorization')
}

export function isQuestionOfOurs(value: unknown): boolean {
  return isElicitationInterrupt(value) || isAuthorizationInterrupt(value)
}

/** A call that stopped at an interrupt of this package, as a checkpoint contains it. */
export function isStoppedCall(value: unknown): value is ServerInterrupt {
  return (
    (isQuestionOfOurs(value) || isTaskInterrupt(value)) &&
    isRecord(value) &&
    Array.isArray(value['history'])
  )
}

function hasType(value: unknown, type: string): boolean {
  return isRecord(value) && value['type'] === type && typeof value['key'] === 'string'
}

/**
 * Returns the value that resumes a graph with these answers. They reach the call that asked, and no later
 * question of it.
 *
 * @throws TypeError for another kind of interrupt
 * @example
 * ```ts
 * import { Command, INTERRUPT, isInterrupted } from '@langchain/langgraph'
 * import { elicitationResume, isElicitationInterrupt } from '@x/langchain-mcp'
 *
 * // Declines everything that MCP servers asked in a graph that stopped.
 * export function declineAll(state: unknown): Command {
 *   let resume = {}
 *   for (const asked of isInterrupted(state) ? state[INTERRUPT] : []) {
 *     if (!isElicitationInterrupt(asked.value)) continue
 *     const keys = Object.keys(asked.value.inputRequests)
 *     const answers = Object.fromEntries(keys.map((key) => [key, { action: 'decline' as const }]))
 *     resume = { ...resume, ...elicitationResume(asked, answers) }
 *   }
 *   return new Command({ resume })
 * }
 * ```
 */
export function elicitationResume(
  { id, value }: PendingInterrupt,
  answers: Readonly<Record<string, ElicitationAnswer>>,
): InterruptResume {
  if (id !== undefined && isElicitationInterrupt(value)) {
    return { [id]: { key: value.key, responses: answers } }
  }
  throw otherKind('is not a question of an MCP server', 'isElicitationInterrupt()')
}

/**
 * Returns the value that resumes a graph after access was granted. `callback` is the URL that the user came
 * back to, or its query. Leave it out if the tokens are saved already.
 *
 * @throws TypeError for another kind of interrupt
 * @example
 * ```ts
 * import { Command, INTERRUPT, isInterrupted } from '@langchain/langgraph'
 * import { authorizationResume, isAuthorizationInterrupt } from '@x/langchain-mcp'
 *
 * // Continues a graph that asked for access, once the user came back to `callbackUrl`.
 * export function afterSignIn(state: unknown, callbackUrl: string): Command | undefined {
 *   if (!isInterrupted(state)) return undefined
 *   const asked = state[INTERRUPT].find(({ value }) => isAuthorizationInterrupt(value))
 *   return asked && new Command({ resume: authorizationResume(asked, callbackUrl) })
 * }
 * ```
 */
export function authorizationResume(
  { id, value }: PendingInterrupt,
  callback?: string | URL,
): InterruptResume {
  if (id !== undefined && isAuthorizationInterrupt(value)) {
    const { key } = value
    return { [id]: { key, ...(callback !== undefined && { callback: String(callback) }) } }
  }
  throw otherKind('does not ask for access to an MCP server', 'isAuthorizationInterrupt()')
}

function otherKind(what: string, check: string): TypeError {
  return new TypeError(`This interrupt ${what}. Check it with ${check} first`)
}

/** Characters of a refused answer that the reason shows. */
const MAX_SHOWN = 200

/**
 * Reads the answer of a person, or why it cannot be used. Accepted content must fit the schema of the
 * question (specification 2025-11-25, "Elicitation").
 */
export function answersFrom(
  value: unknown,
  requests: Readonly<Record<string, InputRequest>>,
):
  | { readonly answers: Readonly<Record<string, ElicitationAnswer>> }
  | { readonly problem: string } {
  if (!isRecord(value))
    return { problem: 'The answer must be an object: resume with elicitationResume()' }
  const given = value['responses']
  if (!isRecord(given))
    return { problem: 'The answer has no `responses`: resume with elicitationResume()' }
  const answers: Record<string, ElicitationAnswer> = {}
  for (const [name, question] of Object.entries(requests)) {
    const answer = given[name]
    if (!isAnswer(answer)) {
      return {
        problem: `The answer to "${name}" is missing, or its action is not accept, decline or cancel`,
      }
    }
    const { action, content = {} } = answer
    const errors = action === 'accept' ? contentErrors(question, content) : []
    if (errors.length > 0) {
      const shown = JSON.stringify(content).slice(0, MAX_SHOWN).toWellFormed()
      return {
        problem: `The answer to "${name}" does not fit: ${errors.join('; ')} It was: ${shown}`,
      }
    }
    answers[name] = answer
  }
  return { answers }
}

/** A question with a page to visit has no schema. */
function contentErrors(
  { params }: InputRequest,
  content: NonNullable<ElicitationAnswer['content']>,
): readonly string[] {
  const schema = params?.['requestedSchema']
  return isRecord(schema) ? new SchemaCheck(schema).errors(content) : []
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

/** Reads the callback of an authorization server from an answer. Without one, the tokens are saved already. */
export function callbackFrom(value: unknown): { readonly callback: string | undefined } {
  const callback = isRecord(value) ? value['callback'] : undefined
  return { callback: typeof callback === 'string' && callback !== '' ? callback : undefined }
}
