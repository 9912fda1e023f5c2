import { isRecord } from '@x/internal'
import type { JsonSchema } from '../agent.ts'
import type { Answer } from '../agent-call.ts'
import type { Question } from '../agent-update.ts'
import { reviewFrom, reviewQuestion, reviewResume } from './review-interrupt.ts'

/** What a graph stopped at, as LangGraph hands it out. Its value is the graph's own. */
export interface GraphInterrupt {
  readonly id?: string | undefined
  readonly value?: unknown
}

type Values = Readonly<Record<string, unknown>>
type Answers = Readonly<Record<string, Answer>>

/**
 * What to ask for an interrupt. `index` makes the ids of its questions unique in its round. Known are: text;
 * `{ message, schema }`; `{ message, choices }` or a list of choices; a human review (an action and what may
 * be decided of it); questions of an MCP server, relayed by a graph. Of anything else the value itself is shown.
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
  if (url !== undefined) return [{ id, message: 'It needs access. Sign in at this page.', url }]
  const review = reviewFrom(value)
  if (review !== undefined) return [{ id, value, ...reviewQuestion(review) }]
  const takesRefusal = isRecord(value) && value['takesRefusal'] === true
  return [{ id, message: messageOf(value), schema: objectSchema(value), value, takesRefusal }]
}

/** What `interrupt()` returns to the graph. */
export function resumeValueOf({ value }: GraphInterrupt, index: number, answers: Answers): unknown {
  const id = String(index)
  const relayed = relayedFrom(value)
  if (relayed !== undefined && isRecord(value)) {
    const responses = Object.keys(relayed).map((name) => {
      return [name, answers[`${id}.${name}`] ?? { action: 'cancel' }] as const
    })
    return { key: value['key'], responses: Object.fromEntries(responses) }
  }
  // That somebody went there is all there is to tell; the key names the question to whoever put it.
  if (authorizationFrom({ value }) !== undefined && isRecord(value)) return { key: value['key'] }
  const answer = answers[id] ?? { action: 'cancel' }
  const review = reviewFrom(value)
  if (review !== undefined) return reviewResume(review, answer)
  if (answer.action !== 'accept') return { action: answer.action }
  return isWrapped(value) ? answer.content['answer'] : answer.content
}

/** `interrupt({ type: 'mcp_authorization' })`: a page to visit, which no form can ask for. */
export function authorizationFrom({ value }: GraphInterrupt): string | undefined {
  if (!isRecord(value) || value['type'] !== 'mcp_authorization') return undefined
  return typeof value['url'] === 'string' ? value['url'] : undefined
}

function messageOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value) && choicesFrom(value) !== undefined) return 'Choose one.'
  if (!isRecord(value)) return JSON.stringify(value) ?? 'How shall it go on?'
  for (const key of ['message', 'question', 'prompt', 'description', 'title']) {
    const text = value[key]
    if (typeof text === 'string' && text !== '') return text
  }
  return JSON.stringify(value, null, 2)
}

/** The schema of the answer as an object: forms have fields. */
function objectSchema(value: unknown): JsonSchema | undefined {
  const schema = schemaFrom(value)
  if (schema === undefined || !isWrapped(value)) return schema
  return { type: 'object', properties: { answer: schema }, required: ['answer'] }
}

/** The answer is one value, which the form puts into a field of its own. */
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

/** Questions of an MCP server, as LangChain tools of such servers put them: `{ type, key, inputRequests }`. */
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

/** There is nothing to tell but that it is done. */
const DONE: JsonSchema = { type: 'object', properties: {} }
