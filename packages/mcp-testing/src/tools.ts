import { inputRequired } from '@modelcontextprotocol/server'
import type { ElicitRequestFormParams, InputRequest } from '@modelcontextprotocol/server'
import type { LedgerEntry } from './call-ledger.ts'

/** Result of a tool: a text, or the members of a `CallToolResult` or an `InputRequiredResult`. */
export type TestToolResult = string | Readonly<Record<string, unknown>>

/** What a tool can see and do while it runs. */
export interface ToolContext {
  /** The call in the ledger, with its key, principal and session id. */
  readonly call: LedgerEntry
  /** The bearer token of the request: in a test, the token names the user. */
  readonly principal: string | undefined
  readonly sessionId: string | undefined
  /** State of the session; in the modern era, which has no sessions, state of the server. */
  readonly state: Map<string, unknown>
  /** Aborts when the client cancels the call or leaves, and when the server restarts. */
  readonly signal: AbortSignal
  /** Headers of the HTTP request, names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** Answers to what an earlier round of this call asked for. */
  readonly inputResponses: Readonly<Record<string, unknown>> | undefined
  /** State that an earlier round of this call returned. */
  readonly requestState: unknown
  /** Reports progress, if the caller asked for it. */
  readonly progress: (progress: number, total?: number, message?: string) => Promise<void>
  /** Sends a log message on the stream of the answer. */
  readonly log: (level: 'debug' | 'info' | 'warning' | 'error', data: unknown) => Promise<void>
  /** Waits until the test calls `server.release()`. Rejects when the call is cancelled. */
  readonly hold: () => Promise<string>
}

/** A tool of a test server, for both eras. */
export interface TestTool {
  readonly name: string
  readonly description?: string | undefined
  /** JSON Schema. Only the modern server checks arguments. @default an object with any properties */
  readonly inputSchema?: Readonly<Record<string, unknown>> | undefined
  /** JSON Schema of `structuredContent`. */
  readonly outputSchema?: Readonly<Record<string, unknown>> | undefined
  readonly annotations?: Readonly<Record<string, unknown>> | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
  readonly run: (
    args: Readonly<Record<string, unknown>>,
    context: ToolContext,
  ) => TestToolResult | Promise<TestToolResult>
}

/** A tool as `tools/list` shows it. */
export type ToolDefinition = Omit<TestTool, 'run' | 'inputSchema'> & {
  readonly inputSchema: Readonly<Record<string, unknown>>
}

const ANY_OBJECT = { type: 'object', properties: {} }

/** The tool as `tools/list` shows it. */
export function definitionOf(tool: TestTool): ToolDefinition {
  const { run: _run, inputSchema = ANY_OBJECT, ...rest } = tool
  return { ...rest, inputSchema }
}

/** A result with `content`, whatever short form the tool used. */
export function fullResult(result: TestToolResult): Record<string, unknown> {
  if (typeof result === 'string') return { content: [{ type: 'text', text: result }] }
  if ('content' in result || result['resultType'] === 'input_required') return { ...result }
  return {
    content: [{ type: 'text', text: JSON.stringify(result['structuredContent']) }],
    ...result,
  }
}

/** A text with structured content. */
function structured(text: string, structuredContent: unknown): TestToolResult {
  return { content: [{ type: 'text', text }], structuredContent }
}

/** A failure that the tool reports itself. */
function toolError(text: string): TestToolResult {
  return { content: [{ type: 'text', text }], isError: true }
}

/** JSON Schema of an object with these properties. */
function object(
  properties: Readonly<Record<string, unknown>> = {},
  required: readonly string[] = [],
): Record<string, unknown> {
  return { type: 'object', properties, ...(required.length > 0 && { required }) }
}

const readOnly: TestTool['annotations'] = { readOnlyHint: true }
const sideEffects: TestTool['annotations'] = { readOnlyHint: false, idempotentHint: false }

const string = { type: 'string' }

const echo: TestTool = {
  name: 'echo',
  description: 'Returns its text.',
  inputSchema: object({ text: string }, ['text']),
  annotations: readOnly,
  run: ({ text }) => (typeof text === 'string' ? text : toolError('`text` must be a string')),
}

const fail: TestTool = {
  name: 'fail',
  description: 'Always reports a failure.',
  run: () => toolError('This tool always fails'),
}

const slow: TestTool = {
  name: 'slow',
  description: 'Answers when it is released.',
  annotations: sideEffects,
  run: (_args, context) => context.hold(),
}

/** Tools of a legacy server that has none of the test's own: their state lives in the session. */
export const legacyTools: readonly TestTool[] = [
  {
    name: 'counter_add',
    description: 'Adds to the counter of this session and returns it.',
    inputSchema: object({ by: { type: 'number', default: 1 } }),
    outputSchema: object({ count: { type: 'number' } }, ['count']),
    annotations: sideEffects,
    run({ by = 1 }, { state }) {
      if (typeof by !== 'number') return toolError('`by` must be a number')
      const count = Number(state.get('count') ?? 0) + by
      state.set('count', count)
      return structured(`counter is ${count}`, { count })
    },
  },
  {
    name: 'cart_add',
    description: 'Puts an item into the cart of this session and returns the cart.',
    inputSchema: object({ item: string }, ['item']),
    outputSchema: object({ items: { type: 'array', items: string } }, ['items']),
    annotations: sideEffects,
    run({ item }, { state }) {
      if (typeof item !== 'string') return toolError('`item` must be a string')
      const cart = state.get('cart')
      const items = [...(Array.isArray(cart) ? cart : []), item]
      state.set('cart', items)
      return structured(`cart holds ${items.join(', ')}`, { items })
    },
  },
  echo,
  fail,
  slow,
  {
    name: 'whoami',
    description: 'Returns the session id, shortened.',
    annotations: readOnly,
    run: (_args, { sessionId: id }) =>
      id === undefined ? 'no session' : `${id.slice(0, 4)}… (${id.length})`,
  },
]

/** A tool that asks the client for one input, and returns the answer under `key`. */
function asking(
  tool: Pick<TestTool, 'name' | 'description'>,
  key: string,
  requestFor: (args: Readonly<Record<string, unknown>>) => InputRequest,
): TestTool {
  return {
    ...tool,
    run(args, { inputResponses }) {
      if (inputResponses?.[key] === undefined) {
        return inputRequired({ inputRequests: { [key]: requestFor(args) } })
      }
      return structured(JSON.stringify(inputResponses), { ...inputResponses })
    },
  }
}

function form(message: string): InputRequest {
  const requestedSchema: ElicitRequestFormParams['requestedSchema'] = {
    type: 'object',
    properties: { value: { type: 'string' }, confirmed: { type: 'boolean', default: true } },
  }
  return inputRequired.elicit({ message, requestedSchema })
}

/** Reaches the server unchanged only if no client parses, trims or encodes it. */
const FIRST_STATE = ' {"round": 1,  "mark":"\u00fc\u2028=?base64?"}\t'

/** Tools of a modern server that has none of the test's own. */
export const modernTools: readonly TestTool[] = [
  echo,
  {
    name: 'add',
    description: 'Adds two numbers.',
    inputSchema: object({ a: { type: 'number' }, b: { type: 'number' } }, ['a', 'b']),
    outputSchema: object({ sum: { type: 'number' } }, ['sum']),
    annotations: readOnly,
    run: ({ a, b }) => structured(String(Number(a) + Number(b)), { sum: Number(a) + Number(b) }),
  },
  fail,
  slow,
  {
    name: 'progress',
    description: 'Reports progress three times and logs once before it answers.',
    annotations: readOnly,
    async run(_args, context) {
      await context.progress(1, 3)
      await context.progress(2, 3)
      await context.log('info', 'two of three')
      await context.progress(3, 3)
      return 'three of three'
    },
  },
  asking(
    { name: 'confirm', description: 'Asks the user the `question`.' },
    'confirmation',
    ({ question }) => form(typeof question === 'string' ? question : 'Go on?'),
  ),
  {
    name: 'ask_twice',
    description: 'Asks for a first and then for a last name, and keeps the first in its state.',
    run(_args, { inputResponses, requestState: state }) {
      if (state === undefined) {
        const inputRequests = { first: form('First name?') }
        return inputRequired({ inputRequests, requestState: FIRST_STATE })
      }
      if (state === FIRST_STATE) {
        const first = JSON.stringify(inputResponses?.['first'] ?? null)
        const inputRequests = { last: form('Last name?') }
        return inputRequired({ inputRequests, requestState: FIRST_STATE + first })
      }
      if (typeof state !== 'string' || !state.startsWith(FIRST_STATE)) {
        return toolError('The request state was changed')
      }
      const first: unknown = JSON.parse(state.slice(FIRST_STATE.length))
      const answers = { first, last: inputResponses?.['last'] ?? null }
      return structured(JSON.stringify(answers), answers)
    },
  },
  asking(
    { name: 'sample', description: 'Sends `prompt` to the model.' },
    'answer',
    ({ prompt }) => {
      const text = typeof prompt === 'string' ? prompt : 'Say hello'
      const messages = [{ role: 'user' as const, content: { type: 'text' as const, text } }]
      return inputRequired.createMessage({ messages, maxTokens: 100 })
    },
  ),
  asking({ name: 'roots', description: 'Asks for the roots of the client.' }, 'roots', () =>
    inputRequired.listRoots(),
  ),
]
