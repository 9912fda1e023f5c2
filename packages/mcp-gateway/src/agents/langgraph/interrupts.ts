import { canonicalJson, isRecord } from '@x/internal'
import type { AgentUpdate, Answer, JsonSchema, Question, Resume } from '../agent.ts'

/** An interrupt of LangGraph. The graph chooses the value. */
export interface GraphInterrupt {
  readonly id?: string | undefined
  readonly value?: unknown
}

type Values = Readonly<Record<string, unknown>>
type Answers = Readonly<Record<string, Answer>>

/**
 * Makes the questions of an interrupt. `index` makes the ids of its questions unique in its round. Known values are:
 * text; `{ message, schema }`; `{ message, choices }` or a list of choices; a human review, which is an action and the
 * decisions to choose from; and questions of an MCP server. Other values are shown as JSON.
 */
export function questionsOf({ value }: GraphInterrupt, index: number): readonly Question[] {
  const id = String(index)
  const relayed = relayedFrom(value)
  if (relayed !== undefined) {
    return Object.entries(relayed).map(([name, asked]) => {
      return { id: `${id}.${name}`, ...asked, takesRefusal: true }
    })
  }
  const url = authorizationFrom({ value })
  if (url !== undefined)
    return [{ id, message: 'The agent needs access. Sign in at this page.', url }]
  const review = reviewFrom(value)
  if (review !== undefined) return [{ id, value, ...reviewQuestion(review) }]
  const takesRefusal = isRecord(value) && value['takesRefusal'] === true
  const isBeforeTask = isRecord(value) && value['beforeTask'] === true
  const schema = objectSchema(value)
  return [{ id, message: messageOf(value), schema, value, takesRefusal, isBeforeTask }]
}

/** Makes the value that `interrupt()` returns to the graph. */
export function resumeValueOf({ value }: GraphInterrupt, index: number, answers: Answers): unknown {
  const id = String(index)
  const relayed = relayedFrom(value)
  if (relayed !== undefined && isRecord(value)) {
    const responses = Object.keys(relayed).map((name) => {
      return [name, answers[`${id}.${name}`] ?? { action: 'cancel' }] as const
    })
    return { key: value['key'], responses: Object.fromEntries(responses) }
  }
  // The answer is only that the person visited the page. The key names the question.
  if (authorizationFrom({ value }) !== undefined && isRecord(value)) return { key: value['key'] }
  const answer = answers[id] ?? { action: 'cancel' }
  const review = reviewFrom(value)
  if (review !== undefined) return reviewResume(review, answer)
  if (answer.action !== 'accept') return { action: answer.action }
  return isWrapped(value) ? answer.content['answer'] : answer.content
}

/** Returns the page to visit of `interrupt({ type: 'mcp_authorization' })`. */
function authorizationFrom({ value }: GraphInterrupt): string | undefined {
  if (!isRecord(value) || value['type'] !== 'mcp_authorization') return undefined
  return typeof value['url'] === 'string' ? value['url'] : undefined
}

function messageOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value) && choicesFrom(value) !== undefined) return 'Choose one.'
  if (!isRecord(value)) return JSON.stringify(value) ?? 'The agent needs an answer.'
  for (const key of ['message', 'question', 'prompt', 'description', 'title']) {
    const text = value[key]
    if (typeof text === 'string' && text !== '') return text
  }
  return JSON.stringify(value, null, 2)
}

/** Returns the schema of the answer as an object, because forms have fields. */
function objectSchema(value: unknown): JsonSchema | undefined {
  const schema = schemaFrom(value)
  if (schema === undefined || !isWrapped(value)) return schema
  return { type: 'object', properties: { answer: schema }, required: ['answer'] }
}

/** Returns whether the answer is one value, which the form has in the field `answer`. */
function isWrapped(value: unknown): boolean {
  return schemaFrom(value)?.['type'] !== 'object'
}

function schemaFrom(value: unknown): JsonSchema | undefined {
  if (isRecord(value) && isRecord(value['schema'])) return value['schema']
  const list = isRecord(value) ? (value['choices'] ?? value['options']) : value
  const choices = choicesFrom(list)
  if (choices === undefined) return undefined
  if (choices.every((choice) => typeof choice === 'boolean')) return { type: 'boolean' }
  return { type: 'string', enum: choices }
}

function choicesFrom(value: unknown): readonly unknown[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined
  const isPlain =
    value.every((choice) => typeof choice === 'string') ||
    value.every((choice) => typeof choice === 'boolean')
  return isPlain ? value : undefined
}

interface RelayedQuestion {
  readonly message: string
  readonly schema?: JsonSchema | undefined
  readonly url?: string | undefined
}

/** Reads questions of an MCP server, as tools of LangChain relay them: `{ type, key, inputRequests }`. */
function relayedFrom(value: unknown): Readonly<Record<string, RelayedQuestion>> | undefined {
  if (!isRecord(value) || value['type'] !== 'mcp_elicitation') return undefined
  const { inputRequests } = value
  if (!isRecord(inputRequests)) return undefined
  const questions: Record<string, RelayedQuestion> = {}
  for (const [name, request] of Object.entries(inputRequests)) {
    const params: Values = isRecord(request) && isRecord(request['params']) ? request['params'] : {}
    const { message, requestedSchema, url } = params
    const text = typeof message === 'string' ? message : 'The server asks something.'
    if (isRecord(requestedSchema)) questions[name] = { message: text, schema: requestedSchema }
    else
      questions[name] =
        typeof url === 'string' ? { message: text, url } : { message: text, schema: DONE }
  }
  return questions
}

/** A form without fields: the answer is only that it is done. */
const DONE: JsonSchema = { type: 'object', properties: {} }

/** Actions that a person reviews, in one of the two forms of LangChain. */
interface Review {
  readonly actions: readonly ReviewedAction[]
  /**
   * `middleware`: `{ actionRequests, reviewConfigs }`, answered by `{ decisions }`. `inbox`: `{ action_request,
   * config }` or a list of these, answered by `{ type, args }` or a list of these.
   */
  readonly form: 'middleware' | 'inbox' | 'inbox list'
}

interface ReviewedAction {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
  readonly description: string | undefined
  /** Decisions to choose from, by their names in the form. */
  readonly decisions: readonly string[]
}

/** @returns `undefined` if the interrupt is not a review */
function reviewFrom(value: unknown): Review | undefined {
  if (isRecord(value) && Array.isArray(value['actionRequests'])) {
    const configs: readonly unknown[] = Array.isArray(value['reviewConfigs'])
      ? value['reviewConfigs']
      : []
    const actions = value['actionRequests'].map((request: unknown, index) => {
      return actionFromMiddleware(request, configs, index)
    })
    return isFull(actions) ? { actions, form: 'middleware' } : undefined
  }
  const requests: readonly unknown[] = Array.isArray(value) ? value : [value]
  const actions = requests.map(actionFromInbox)
  return isFull(actions)
    ? { actions, form: Array.isArray(value) ? 'inbox list' : 'inbox' }
    : undefined
}

/** Makes one form for all actions: a decision for each, and fields that some decisions need. */
function reviewQuestion(review: Review): Omit<Question, 'id'> {
  const properties: Record<string, JsonSchema> = {}
  const required: string[] = []
  const rules: JsonSchema[] = []
  const lines: string[] = []
  for (const [index, action] of review.actions.entries()) {
    const suffix = suffixOf(review, index)
    const { name, args, description, decisions } = action
    lines.push(description ?? `${name} ${JSON.stringify(args)}`)
    properties[`decision${suffix}`] = { type: 'string', title: name, enum: decisions }
    required.push(`decision${suffix}`)
    if (decisions.includes('edit')) {
      properties[`edit${suffix}`] = {
        type: 'string',
        title: `${name}: arguments instead (JSON)`,
        description: `Now: ${JSON.stringify(args)}`,
        contentMediaType: 'application/json',
        contentSchema: { type: 'object' },
      }
      // Without the rule, an action with an empty edit would be executed unchanged.
      rules.push({
        if: { properties: { [`decision${suffix}`]: { const: 'edit' } } },
        // oxlint-disable-next-line unicorn/no-thenable -- a word of JSON Schema
        then: { properties: { [`edit${suffix}`]: { minLength: 1 } }, required: [`edit${suffix}`] },
      })
    }
    if (decisions.some((decision) => TAKES_TEXT.includes(decision))) {
      properties[`message${suffix}`] = { type: 'string', title: `${name}: message to the agent` }
    }
  }
  const takesRefusal = review.actions.every(({ decisions }) => refusalOf(decisions) !== undefined)
  return {
    message: lines.join('\n'),
    schema: { type: 'object', properties, required, ...(rules.length > 0 && { allOf: rules }) },
    takesRefusal,
  }
}

/** Makes the value for the graph: the decisions, in the form of the interrupt. */
function reviewResume(review: Review, answer: Answer): unknown {
  const decisions = review.actions.map((action, index) => {
    const suffix = suffixOf(review, index)
    const content: Values =
      answer.action === 'accept'
        ? answer.content
        : { [`decision${suffix}`]: refusalOf(action.decisions) }
    const { [`decision${suffix}`]: decision, [`edit${suffix}`]: edit } = content
    const message = content[`message${suffix}`]
    const args = decision === 'edit' ? (recordFromJson(edit) ?? action.args) : action.args
    return review.form === 'middleware'
      ? middlewareDecision(action.name, decision, { args, message })
      : inboxResponse(action.name, decision, { args, message })
  })
  switch (review.form) {
    case 'middleware':
      return { decisions }
    case 'inbox list':
      return decisions
    case 'inbox':
      return decisions[0]
  }
}

const TAKES_TEXT: readonly string[] = ['reject', 'respond', 'response']

interface Details {
  readonly args: Values
  readonly message: unknown
}

function middlewareDecision(name: string, type: unknown, { args, message }: Details): Values {
  if (type === 'edit') return { type, editedAction: { name, args } }
  return typeof message === 'string' && message !== '' ? { type, message } : { type }
}

function inboxResponse(action: string, type: unknown, { args, message }: Details): Values {
  if (type === 'edit') return { type, args: { action, args } }
  if (type === 'response') return { type, args: typeof message === 'string' ? message : '' }
  return { type, args: null }
}

/** Returns the decision that refuses the action. `undefined` if there is none. */
function refusalOf(decisions: readonly string[]): string | undefined {
  return decisions.find((decision) => decision === 'reject' || decision === 'ignore')
}

function suffixOf({ actions }: Review, index: number): string {
  return actions.length === 1 ? '' : `_${index + 1}`
}

function actionFromMiddleware(
  request: unknown,
  configs: readonly unknown[],
  index: number,
): ReviewedAction | undefined {
  if (!isRecord(request) || typeof request['name'] !== 'string') return undefined
  const { name, args, description } = request
  const config =
    configs.find((one) => isRecord(one) && one['actionName'] === name) ?? configs[index]
  const allowed = isRecord(config) ? config['allowedDecisions'] : undefined
  const decisions = Array.isArray(allowed)
    ? allowed.filter((one) => typeof one === 'string')
    : ['approve', 'reject']
  if (decisions.length === 0) return undefined
  return {
    name,
    args: isRecord(args) ? args : {},
    description: typeof description === 'string' ? description : undefined,
    decisions,
  }
}

const INBOX_DECISIONS = {
  allow_accept: 'accept',
  allow_edit: 'edit',
  allow_respond: 'response',
  allow_ignore: 'ignore',
} as const

function actionFromInbox(request: unknown): ReviewedAction | undefined {
  if (!isRecord(request) || !isRecord(request['action_request'])) return undefined
  const { action, args } = request['action_request']
  const { config, description } = request
  if (typeof action !== 'string' || !isRecord(config)) return undefined
  const decisions = Object.entries(INBOX_DECISIONS)
    .filter(([key]) => config[key] === true)
    .map(([, decision]) => decision)
  if (decisions.length === 0) return undefined
  return {
    name: action,
    args: isRecord(args) ? args : {},
    description: typeof description === 'string' ? description : undefined,
    decisions,
  }
}

function isFull(actions: readonly (ReviewedAction | undefined)[]): actions is ReviewedAction[] {
  return actions.length > 0 && actions.every((action) => action !== undefined)
}

function recordFromJson(text: unknown): Values | undefined {
  if (typeof text !== 'string' || text.trim() === '') return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** State of a graph that asked: its thread and its interrupts. JSON. */
export interface ThreadState {
  readonly thread: string
  readonly interrupts: readonly GraphInterrupt[]
  /** `true` for the thread of a conversation, which outlives the run. @default false */
  readonly isConversation?: boolean | undefined
}

/** Parses the state of an `asked` update. @returns `undefined` for other values */
export function threadStateFrom(value: unknown): ThreadState | undefined {
  if (!isRecord(value)) return undefined
  const { thread, interrupts, isConversation } = value
  if (typeof thread !== 'string' || !Array.isArray(interrupts)) return undefined
  return interrupts.every(isRecord)
    ? { thread, interrupts: interrupts.map(interruptFrom), isConversation: isConversation === true }
    : undefined
}

function interruptFrom({ id, value }: Readonly<Record<string, unknown>>): GraphInterrupt {
  return { id: typeof id === 'string' ? id : undefined, value }
}

/** Makes the last update of a run that stopped at interrupts. */
export function askedFrom(
  interrupts: readonly GraphInterrupt[],
  { thread, isConversation }: Omit<ThreadState, 'interrupts'>,
): AgentUpdate {
  const stopped = interrupts.map(({ id, value }) => ({ id, value }))
  const state = { thread, interrupts: stopped, ...(isConversation && { isConversation }) }
  const [first] = interrupts
  const url = first && authorizationFrom(first)
  if (url !== undefined && interrupts.length === 1) return { type: 'authorization', url, state }
  return { type: 'asked', questions: interrupts.flatMap(questionsOf), state }
}

/** Returns the interrupts of a thread that the thread has not passed. @param snapshot what `graph.getState()` returned */
export function openInterruptsOf({ tasks }: Values): readonly GraphInterrupt[] {
  if (!Array.isArray(tasks)) return []
  return tasks.flatMap((task: unknown) => {
    const interrupts = isRecord(task) ? task['interrupts'] : undefined
    return Array.isArray(interrupts) ? interrupts.filter(isRecord).map(interruptFrom) : []
  })
}

/**
 * Makes the value of `Command({ resume })`: by the ids of the interrupts, if they have ids.
 *
 * @param open leaves out all other interrupts. @default all are open
 * @returns `undefined` if none is open
 */
export function resumeOf({ state, answers }: Resume, open?: readonly GraphInterrupt[]): unknown {
  const interrupts = threadStateFrom(state)?.interrupts ?? []
  const texts = open?.map((each) => canonicalJson(each)) // the state was stored as JSON
  const values = interrupts.flatMap((interrupt, index) => {
    if (texts?.includes(canonicalJson(interrupt)) === false) return []
    return [[interrupt.id, resumeValueOf(interrupt, index, answers)] as const]
  })
  const [first] = values
  return first?.[0] === undefined ? first?.[1] : Object.fromEntries(values)
}
