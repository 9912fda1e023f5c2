import type { LegacySession } from './legacy-session.ts'

/** Result of `tools/call`. */
export interface ToolResult {
  readonly content: readonly { readonly type: 'text'; readonly text: string }[]
  readonly structuredContent?: Readonly<Record<string, unknown>> | undefined
  readonly isError?: boolean | undefined
}

/** What a tool may use. */
interface ToolContext {
  readonly session: LegacySession
  /** Settles when the test releases the call; rejects when the client cancels it. */
  readonly held: () => Promise<string>
}

/** A tool as `tools/list` shows it, and what it does. */
export interface LegacyTool {
  readonly definition: { readonly name: string } & Readonly<Record<string, unknown>>
  readonly run: (
    args: Readonly<Record<string, unknown>>,
    context: ToolContext,
  ) => ToolResult | Promise<ToolResult>
}

const text = (value: string): ToolResult => ({ content: [{ type: 'text', text: value }] })
const failure = (value: string): ToolResult => ({ ...text(value), isError: true })
const noArguments = { type: 'object', properties: {} }

const counterAdd: LegacyTool = {
  definition: {
    name: 'counter_add',
    description: 'Adds to the counter of this session and returns it.',
    inputSchema: { type: 'object', properties: { by: { type: 'number', default: 1 } } },
    outputSchema: {
      type: 'object',
      properties: { count: { type: 'number' } },
      required: ['count'],
    },
    annotations: { readOnlyHint: false, idempotentHint: false },
  },
  run({ by = 1 }, { session }) {
    if (typeof by !== 'number') return failure('`by` must be a number')
    session.count += by
    return { ...text(`counter is ${session.count}`), structuredContent: { count: session.count } }
  },
}

const cartAdd: LegacyTool = {
  definition: {
    name: 'cart_add',
    description: 'Puts an item into the cart of this session and returns the cart.',
    inputSchema: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
    outputSchema: {
      type: 'object',
      properties: { items: { type: 'array', items: { type: 'string' } } },
      required: ['items'],
    },
    annotations: { readOnlyHint: false, idempotentHint: false },
  },
  run({ item }, { session }) {
    if (typeof item !== 'string') return failure('`item` must be a string')
    session.cart.push(item)
    return {
      ...text(`cart holds ${session.cart.join(', ')}`),
      structuredContent: { items: [...session.cart] },
    }
  },
}

const echo: LegacyTool = {
  definition: {
    name: 'echo',
    description: 'Returns the text it was given.',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    annotations: { readOnlyHint: true },
  },
  run: (args) =>
    typeof args['text'] === 'string' ? text(args['text']) : failure('`text` must be a string'),
}

const fail: LegacyTool = {
  definition: { name: 'fail', description: 'Fails, as a tool fails.', inputSchema: noArguments },
  run: () => failure('This tool always fails'),
}

const slow: LegacyTool = {
  definition: {
    name: 'slow',
    description: 'Answers when it is released.',
    inputSchema: noArguments,
    annotations: { readOnlyHint: false, idempotentHint: false },
  },
  run: async (_args, { held }) => text(await held()),
}

const whoami: LegacyTool = {
  definition: {
    name: 'whoami',
    description: 'Tells which session this is, shortened.',
    inputSchema: noArguments,
    annotations: { readOnlyHint: true },
  },
  run: (_args, { session }) => text(session.shortId),
}

/** The tools of the stateful server, in the order of `tools/list`. */
export const legacyTools: readonly LegacyTool[] = [counterAdd, cartAdd, echo, fail, slow, whoami]
