import { isRecord } from '@x/internal'
import type { JsonSchema } from '../agent.ts'
import type { Answer } from '../agent-call.ts'
import type { Question } from '../agent-update.ts'

/** Actions that a person shall review, in one of the two shapes that LangChain has for it. */
export interface Review {
  readonly actions: readonly ReviewedAction[]
  /**
   * `middleware`: `{ actionRequests, reviewConfigs }`, answered by `{ decisions }`. `inbox`: `{ action_request,
   * config }` or a list of such, answered by `{ type, args }` or a list of such.
   */
  readonly form: 'middleware' | 'inbox' | 'inbox list'
}

interface ReviewedAction {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
  readonly description: string | undefined
  /** What may be decided, in the words of its form. */
  readonly decisions: readonly string[]
}

type Values = Readonly<Record<string, unknown>>

/** @returns `undefined` for the value of any other interrupt */
export function reviewFrom(value: unknown): Review | undefined {
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

/** One form for all actions: a decision each, and beside it what some decisions need. */
export function reviewQuestion(review: Review): Omit<Question, 'id'> {
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
      // Else an action that somebody wanted to change would be done as it was.
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

/** What the graph gets: the decisions, in the words of its form. */
export function reviewResume(review: Review, answer: Answer): unknown {
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

/** How "no" is said, if it may be said at all. */
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
