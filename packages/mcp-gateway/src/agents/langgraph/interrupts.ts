import { canonicalJson, isRecord } from '@x/internal'
import { z } from 'zod'
import { valueFromJson } from '../../internal/text.ts'
import type { AgentUpdate, Answer, JsonSchema, Question, Resume } from '../agent.ts'

/** An interrupt of LangGraph. The graph chooses the value. */
export interface GraphInterrupt {
  readonly id?: string | undefined
  readonly value?: unknown
  /** Number of answers that its node has had before. All questions of a node have the same id. @default 0 */
  readonly answered?: number | undefined
  /** Question of a breakpoint (`interruptBefore`, `interruptAfter`), which has no value and no id. */
  readonly breakpoint?: string | undefined
  /** Ids of the checkpoints at a breakpoint. */
  readonly checkpoints?: readonly string[] | undefined
}

type Values = Readonly<Record<string, unknown>>
type Answers = Readonly<Record<string, Answer>>

/** Questions of an interrupt, and the way to answer it. */
interface Asking {
  readonly questions: readonly Question[]
  /** Makes the value that `interrupt()` returns to the graph. */
  readonly resume: (answers: Answers) => unknown
}

const CANCELLED: Answer = { action: 'cancel' }

/**
 * Reads an interrupt. `index` makes the ids of its questions unique in its round. Known values are: questions of an MCP
 * server; a page to visit; a human review, which is an action and the decisions to choose from; text;
 * `{ message, schema }`; `{ message, choices }` or a list of choices. Other values are shown as JSON.
 */
export function askingOf({ breakpoint, value }: GraphInterrupt, index: number): Asking {
  const id = String(index)
  if (breakpoint !== undefined) {
    return { questions: [{ id, message: breakpoint, schema: CONTINUE }], resume: () => undefined }
  }
  return (
    relayedAsking(value, id) ??
    authorizationAsking(value, id) ??
    reviewAsking(value, id) ??
    plainAsking(value, id)
  )
}

/** To accept the form is to continue, also without the field. */
const CONTINUE: JsonSchema = {
  type: 'object',
  properties: { answer: { type: 'boolean', title: 'Continue?', default: true } },
}

/** A form without fields: the answer is only that it is done. */
const DONE: JsonSchema = { type: 'object', properties: {} }

/** Reads questions of an MCP server, as tools of LangChain relay them: `{ type, key, inputRequests }`. */
function relayedAsking(value: unknown, id: string): Asking | undefined {
  if (!isRecord(value) || value['type'] !== 'mcp_elicitation') return undefined
  const { key, inputRequests } = value
  if (!isRecord(inputRequests)) return undefined
  const names = Object.keys(inputRequests)
  if (names.length === 0) {
    const question = { id, message: 'The server asks to call it again.', schema: DONE }
    return { questions: [question], resume: () => ({ key, responses: {} }) }
  }
  return {
    questions: names.map((name) => {
      const request = inputRequests[name]
      const params = isRecord(request) && isRecord(request['params']) ? request['params'] : {}
      const { message, requestedSchema, url } = params
      return {
        id: `${id}.${name}`,
        message: typeof message === 'string' ? message : 'The server asks something.',
        takesRefusal: true,
        ...(isRecord(requestedSchema)
          ? { schema: requestedSchema }
          : typeof url === 'string'
            ? { url }
            : { schema: DONE }),
      }
    }),
    resume: (answers) => {
      const responses = names.map((name) => [name, answers[`${id}.${name}`] ?? CANCELLED])
      return { key, responses: Object.fromEntries(responses) }
    },
  }
}

/** Reads `interrupt({ type: 'mcp_authorization', url, key })`: the answer is only that the person visited the page. */
function authorizationAsking(value: unknown, id: string): Asking | undefined {
  const url = authorizationFrom(value)
  if (url === undefined || !isRecord(value)) return undefined
  return {
    questions: [{ id, message: 'The agent needs access. Sign in at this page.', url }],
    resume: () => ({ key: value['key'] }),
  }
}

/** Returns the page to visit. */
function authorizationFrom(value: unknown): string | undefined {
  if (!isRecord(value) || value['type'] !== 'mcp_authorization') return undefined
  return typeof value['url'] === 'string' ? value['url'] : undefined
}

/** Reads any value. A form has fields, so an answer that is one value is the field `answer`. */
function plainAsking(value: unknown, id: string): Asking {
  const asked = schemaFrom(value)
  const isWrapped = asked?.['type'] !== 'object'
  const schema: JsonSchema | undefined =
    asked && isWrapped
      ? { type: 'object', properties: { answer: asked }, required: ['answer'] }
      : asked
  const takesRefusal = isRecord(value) && value['takesRefusal'] === true
  const isBeforeTask = isRecord(value) && value['beforeTask'] === true
  return {
    questions: [{ id, message: messageOf(value), schema, takesRefusal, isBeforeTask }],
    resume: ({ [id]: answer = CANCELLED }) => {
      if (answer.action !== 'accept') return { action: answer.action }
      return isWrapped ? answer.content['answer'] : answer.content
    },
  }
}

function messageOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (choicesFrom(value) !== undefined) return 'Choose one.'
  if (!isRecord(value)) return JSON.stringify(value) ?? 'The agent needs an answer.'
  for (const key of ['message', 'question', 'prompt', 'description', 'title']) {
    const text = value[key]
    if (typeof text === 'string' && text !== '') return text
  }
  return JSON.stringify(value, null, 2)
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

// ---- reviews -------------------------------------------------------------------------------------------------------

/** Makes one form for all actions: a decision for each, and fields that some decisions need. */
function reviewAsking(value: unknown, id: string): Asking | undefined {
  const actions = reviewedActions(value)
  if (actions === undefined) return undefined
  const properties: Record<string, JsonSchema> = {}
  const required: string[] = []
  const rules: JsonSchema[] = []
  for (const [index, { name, args, decisions }] of actions.entries()) {
    const { decision, edit, message } = fieldsOf(actions, index)
    properties[decision] = { type: 'string', title: name, enum: decisions }
    required.push(decision)
    if (decisions.includes('edit')) {
      properties[edit] = {
        type: 'string',
        title: `${name}: arguments instead (JSON)`,
        description: `Now: ${JSON.stringify(args)}`,
        contentMediaType: 'application/json',
        contentSchema: { type: 'object' },
      }
      // Without the rule, an action with an empty edit would be executed unchanged.
      rules.push({
        if: { properties: { [decision]: { const: 'edit' } } },
        // oxlint-disable-next-line unicorn/no-thenable -- a word of JSON Schema
        then: { properties: { [edit]: { minLength: 1 } }, required: [edit] },
      })
    }
    if (decisions.some((each) => TAKES_TEXT.includes(each))) {
      properties[message] = { type: 'string', title: `${name}: message to the agent` }
    }
  }
  const lines = actions.map(({ name, args, description }) => {
    return description ?? `${name} ${JSON.stringify(args)}`
  })
  const schema = { type: 'object', properties, required, ...(rules.length > 0 && { allOf: rules }) }
  const takesRefusal = actions.every(({ decisions }) => decisions.includes('reject'))
  return {
    questions: [{ id, message: lines.join('\n'), schema, takesRefusal }],
    resume: ({ [id]: answer = CANCELLED }) => {
      const decisions = actions.map(({ name, args }, index) => {
        const { decision, edit, message } = fieldsOf(actions, index)
        const content: Values =
          answer.action === 'accept' ? answer.content : { [decision]: 'reject' }
        const type = content[decision]
        if (type === 'edit') {
          const edited = valueFromJson(content[edit])
          return { type, editedAction: { name, args: isRecord(edited) ? edited : args } }
        }
        const text = content[message]
        return typeof text === 'string' && text !== '' ? { type, message: text } : { type }
      })
      return { decisions }
    },
  }
}

/** Names of the fields of an action in the form. */
function fieldsOf(
  actions: readonly ReviewedAction[],
  index: number,
): Record<'decision' | 'edit' | 'message', string> {
  const suffix = actions.length === 1 ? '' : `_${index + 1}`
  return { decision: `decision${suffix}`, edit: `edit${suffix}`, message: `message${suffix}` }
}

const TAKES_TEXT: readonly string[] = ['reject', 'respond']

const reviewShape = z.object({
  actionRequests: z
    .array(
      z.object({
        name: z.string(),
        args: z.record(z.string(), z.unknown()).catch({}),
        description: z.string().optional().catch(undefined),
      }),
    )
    .min(1),
  reviewConfigs: z.array(z.unknown()).catch([]),
})

/** An action that a person reviews, and the decisions to choose from, by their names in the form. */
type ReviewedAction = z.infer<typeof reviewShape>['actionRequests'][number] & {
  readonly decisions: readonly string[]
}

/** Reads `{ actionRequests, reviewConfigs }`, which is answered by `{ decisions }`. */
function reviewedActions(value: unknown): readonly ReviewedAction[] | undefined {
  const { data } = reviewShape.safeParse(value)
  if (data === undefined) return undefined
  const configs = data.reviewConfigs
  const actions = data.actionRequests.map((request, index) => {
    const isOfAction = (one: unknown): boolean =>
      isRecord(one) && one['actionName'] === request.name
    const config = configs.find(isOfAction) ?? configs[index]
    const allowed = isRecord(config) ? config['allowedDecisions'] : undefined
    const decisions = Array.isArray(allowed) ? allowed : ['approve', 'reject']
    return { ...request, decisions: decisions.filter((one) => typeof one === 'string') }
  })
  return actions.every(({ decisions }) => decisions.length > 0) ? actions : undefined
}

/** State of a graph that asked: its thread and its interrupts. JSON. */
export interface ThreadState {
  readonly thread: string
  readonly interrupts: readonly GraphInterrupt[]
  /** `true` for the thread of a conversation, which outlives the run. */
  readonly isConversation: boolean
  /** Fields of the context that the caller gave. @default none */
  readonly context?: Values | undefined
}

const interruptShape = z.object({
  id: z.string().optional().catch(undefined),
  value: z.unknown().optional(),
  answered: z.number().optional().catch(undefined),
  breakpoint: z.string().optional().catch(undefined),
  checkpoints: z.array(z.string()).optional().catch(undefined),
})

const threadStateShape = z.object({
  thread: z.string(),
  interrupts: z.array(interruptShape),
  isConversation: z.boolean().catch(false),
  context: z.custom<Values>(isRecord).optional().catch(undefined),
})

/** Parses the state of an `asked` update. @returns `undefined` for other values */
export function threadStateFrom(value: unknown): ThreadState | undefined {
  return threadStateShape.safeParse(value).data
}

/** Makes the last update of a run that stopped at interrupts. */
export function askedFrom(
  interrupts: readonly GraphInterrupt[],
  { context, isConversation, thread }: Omit<ThreadState, 'interrupts'>,
): AgentUpdate {
  const state = {
    thread,
    interrupts,
    ...(isConversation && { isConversation }),
    ...(context && { context }),
  }
  const [first] = interrupts
  const url = authorizationFrom(first?.value)
  if (url !== undefined && interrupts.length === 1) return { type: 'authorization', url, state }
  return {
    type: 'asked',
    questions: interrupts.flatMap((each, index) => askingOf(each, index).questions),
    state,
  }
}

/** Returns whether a run needs its thread after this update, because it waits for an answer. */
export function waitsForAnswer(update: AgentUpdate): boolean {
  return update.type === 'asked' || (update.type === 'authorization' && update.state !== undefined)
}

/**
 * Returns the interrupts of a thread that the thread has not passed.
 *
 * @param snapshot what `graph.getState()` returned, with its subgraphs
 * @param readCheckpoint returns a checkpoint with the writes of the tasks after it. @default no answers are counted
 */
export async function openInterruptsOf(
  { config, tasks }: Values,
  readCheckpoint: (config: unknown) => Promise<unknown> = async () => undefined,
): Promise<readonly GraphInterrupt[]> {
  if (!Array.isArray(tasks)) return []
  const open = tasks.filter(isRecord).map(async (task) => {
    const interrupts = interruptsFrom(task['interrupts'])
    if (interrupts.length === 0) return []
    if (isRecord(task['state'])) return openInterruptsOf(task['state'], readCheckpoint)
    const checkpoint = await readCheckpoint(config)
    const writes = isRecord(checkpoint) ? checkpoint['pendingWrites'] : undefined
    const answered = numberOfAnswers(writes, task['id'])
    return interrupts.map((each) => (answered === 0 ? each : { ...each, answered }))
  })
  return (await Promise.all(open)).flat()
}

/** LangGraph stores the answers that a task has used when the task asks again. */
function numberOfAnswers(writes: unknown, task: unknown): number {
  if (!Array.isArray(writes)) return 0
  const answers = writes.flatMap((write: unknown) => {
    const [id, channel, value] = Array.isArray(write) ? (write as unknown[]) : []
    return id === task && channel === '__resume__' ? value : []
  })
  return answers.length
}

/** Reads a list of interrupts. Empty for any other value. */
export function interruptsFrom(value: unknown): readonly GraphInterrupt[] {
  if (!Array.isArray(value)) return []
  return value.flatMap((one) => interruptShape.safeParse(one).data ?? [])
}

/** End of a run whose caller does not want to pass a breakpoint. */
export const STOPPED: AgentUpdate = {
  type: 'failed',
  reason: 'It stopped at its breakpoint, because the answer was not to continue.',
  isCancelled: true,
}

/** Returns whether the answer to a breakpoint is not to continue. */
export function isStopAnswer({ state, answers }: Resume): boolean {
  const interrupts = threadStateFrom(state)?.interrupts ?? []
  return interrupts.some(({ breakpoint }, index) => {
    const answer = answers[String(index)]
    return (
      breakpoint !== undefined && answer?.action === 'accept' && answer.content['answer'] === false
    )
  })
}

/** Returns whether all interrupts that an answer is for are open. Breakpoints have no value, and are not compared. */
export function areOpen({ state }: Resume, open: readonly GraphInterrupt[]): boolean {
  const texts = new Set(open.map((each) => canonicalJson(each))) // the state was stored as JSON
  const asked = threadStateFrom(state)?.interrupts ?? []
  return asked.every((each) => each.breakpoint !== undefined || texts.has(canonicalJson(each)))
}

/**
 * Makes the value of `Command({ resume })`: by the ids of the interrupts, if they have ids.
 *
 * @param open leaves out all other interrupts. @default all are open
 * @returns `undefined` if none is open: the graph continues with `null`, as after a breakpoint
 */
export function resumeOf({ state, answers }: Resume, open?: readonly GraphInterrupt[]): unknown {
  const interrupts = threadStateFrom(state)?.interrupts ?? []
  const texts = open?.map((each) => canonicalJson(each)) // the state was stored as JSON
  const values = interrupts.flatMap((interrupt, index) => {
    if (interrupt.breakpoint !== undefined) return []
    if (texts?.includes(canonicalJson(interrupt)) === false) return []
    return [[interrupt.id, askingOf(interrupt, index).resume(answers)] as const]
  })
  const [first] = values
  return first?.[0] === undefined ? first?.[1] : Object.fromEntries(values)
}
