import { ToolMessage } from '@langchain/core/messages'
import { ToolInputParsingException } from '@langchain/core/tools'
import { GraphInterrupt } from '@langchain/langgraph'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, test } from 'vitest'
import { McpToolError } from '../mcp-tool-error.ts'
import { McpTool, type McpToolOptions } from './mcp-tool.ts'
import type {
  McpToolSource,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from '../catalogue/tool-source.ts'

interface ReceivedCall {
  readonly name: string
  readonly args: Record<string, unknown> | undefined
  readonly options: ToolCallOptions | undefined
}

/** A source that answers each call with what it is given: a result, or an error to fail with. */
class AnsweringSource implements McpToolSource {
  readonly calls: ReceivedCall[] = []
  readonly #answer: ToolResult | Error

  constructor(answer: ToolResult | Error = textResult('done')) {
    this.#answer = answer
  }

  listTools(): Promise<readonly ToolDefinition[]> {
    return Promise.resolve([])
  }

  callTool(...[name, args, options]: Parameters<McpToolSource['callTool']>): Promise<ToolResult> {
    this.calls.push({ name, args, options })
    return this.#answer instanceof Error
      ? Promise.reject(this.#answer)
      : Promise.resolve(this.#answer)
  }
}

function textResult(text: string, more: Partial<ToolResult> = {}): ToolResult {
  return { content: [{ type: 'text', text }], ...more }
}

function clientError(code: string, message = 'what went wrong'): Error {
  return Object.assign(new Error(message), { name: 'McpClientError', code })
}

function transportError(code: string, certain?: boolean): Error {
  return Object.assign(new Error('broken'), { name: 'TransportError', code, certain })
}

const broken = transportError('OUTCOME_UNKNOWN')

const server = { slug: 'shop', name: 'Shop', folderPath: 'Shared' }
const addItem: ToolDefinition = {
  name: 'add item',
  description: 'Puts something into the cart',
  inputSchema: {
    type: 'object',
    properties: { item: { type: 'string' }, count: { type: 'integer' } },
    required: ['item'],
  },
}

function toolOver(
  source: McpToolSource,
  definition: Partial<ToolDefinition> = {},
  options: McpToolOptions = {},
): McpTool {
  return new McpTool({
    name: 'add_item',
    definition: { ...addItem, ...definition },
    server,
    source,
    options,
  })
}

function toolCall(args: Record<string, unknown>): {
  readonly type: 'tool_call'
  readonly id: string
  readonly name: string
  readonly args: Record<string, unknown>
} {
  return { type: 'tool_call', id: 'call-1', name: 'add_item', args }
}

function outcomeOf(code: string): Promise<unknown> {
  return toolOver(new AnsweringSource(clientError(code)), {}, { onToolError: 'throw' })
    .invoke({ item: 'x' })
    .catch((error: unknown) => (McpToolError.is(error) ? error.outcome : error))
}

describe('what the model is told', () => {
  test('name, description, and the schema as it is', () => {
    const tool = toolOver(new AnsweringSource())
    expect(tool.name).toBe('add_item')
    expect(tool.description).toBe('Puts something into the cart')
    expect(tool.schema).toEqual(addItem.inputSchema)
  })

  test('metadata has the five keys that spans and interfaces read, and the hints of the server', () => {
    const annotations = { destructiveHint: true }
    const tool = toolOver(new AnsweringSource(), { annotations, title: 'Add an item' })
    expect(tool.metadata).toEqual({
      tool_type: 'mcp',
      display_name: 'add item',
      folder_path: 'Shared',
      slug: 'shop',
      server_name: 'Shop',
      title: 'Add an item',
      annotations,
    })
  })

  test('a tool without description and schema gets empty ones', () => {
    const tool = new McpTool({
      name: 'ping',
      definition: { name: 'ping' },
      server,
      source: new AnsweringSource(),
    })
    expect(tool.description).toBe('')
    expect(tool.schema).toEqual({ type: 'object', properties: {} })
  })

  test('the way back to the server and its own name is exact', () => {
    expect(toolOver(new AnsweringSource()).origin).toEqual({ server, toolName: 'add item' })
  })
})

describe('a call', () => {
  test('goes out under the raw name; a plain invoke gets the content', async () => {
    const source = new AnsweringSource()
    await expect(toolOver(source).invoke({ item: 'apple' })).resolves.toBe('done')
    expect(source.calls).toMatchObject([{ name: 'add item', args: { item: 'apple' } }])
  })

  test('made with a tool call gives a ToolMessage with content and artifact', async () => {
    const source = new AnsweringSource(textResult('done', { structuredContent: { total: 2 } }))
    const message: unknown = await toolOver(source).invoke(toolCall({ item: 'apple', count: 2 }))
    expect(message).toBeInstanceOf(ToolMessage)
    expect(message).toMatchObject({
      content: 'done',
      status: 'success',
      tool_call_id: 'call-1',
      name: 'add_item',
      artifact: [
        { type: 'mcp_structured_content', data: { total: 2 } },
        { type: 'mcp_content', data: [{ type: 'text', text: 'done' }] },
      ],
    })
  })

  test('with a tool call that has no id keeps its status all the same', async () => {
    const source = new AnsweringSource(textResult('no such item', { isError: true }))
    const { id: _, ...withoutId } = toolCall({ item: 'apple' })
    expect(await toolOver(source).invoke(withoutId)).toMatchObject({
      status: 'error',
      content: 'no such item',
    })
  })

  test('of a tool that was renamed goes on under the new name', async () => {
    const tool = toolOver(new AnsweringSource())
    tool.name = 'shop_add_item'
    expect(await tool.invoke(toolCall({ item: 'apple' }))).toMatchObject({ name: 'shop_add_item' })
  })

  test('tells callbacks name, arguments and result', async () => {
    const seen: unknown[] = []
    await toolOver(new AnsweringSource()).invoke(toolCall({ item: 'apple' }), {
      callbacks: [
        {
          handleToolStart: (...args: readonly unknown[]) =>
            void seen.push({ input: args[1], runName: args[6], toolCallId: args[7] }),
          handleToolEnd: (output: unknown) =>
            void seen.push({ isMessage: ToolMessage.isInstance(output) }),
        },
      ],
    })
    expect(seen).toEqual([
      { input: '{"item":"apple"}', runName: 'add_item', toolCallId: 'call-1' },
      { isMessage: true },
    ])
  })
})

describe('arguments', () => {
  test('that do not fit are refused with the reason, and nothing is sent', async () => {
    const source = new AnsweringSource()
    const call = toolOver(source).invoke({ count: 'two' })
    await expect(call).rejects.toThrow(ToolInputParsingException)
    await expect(call).rejects.toThrow(/required property "item".*#\/count.*Expected "integer"/)
    expect(source.calls).toEqual([])
  })

  test.each(['constructor', '__proto__', 'self', 'config', 'toString', 'type'])(
    'may be called %s',
    async (name) => {
      const source = new AnsweringSource()
      const inputSchema = JSON.parse(
        `{"type":"object","properties":{"${name}":{"type":"string"}},"required":["${name}"],"additionalProperties":false}`,
      )
      const tool = toolOver(source, { inputSchema })
      const args = JSON.parse(`{"${name}":"tool_call"}`)
      await tool.invoke(toolCall(args))
      expect(JSON.stringify(source.calls[0]?.args)).toBe(`{"${name}":"tool_call"}`)
      expect(Object.getPrototypeOf(source.calls[0]?.args)).toBe(Object.prototype)
      await expect(tool.invoke(toolCall({}))).rejects.toThrow(ToolInputParsingException)
    },
  )

  test('that are undefined are left out', async () => {
    const source = new AnsweringSource()
    await toolOver(source).invoke({ item: 'apple', count: undefined })
    expect(source.calls[0]?.args).toEqual({ item: 'apple' })
    expect(source.calls[0]?.args).not.toHaveProperty('count')
  })

  test('may be absent where a tool takes none', async () => {
    const source = new AnsweringSource()
    const tool = toolOver(source, { inputSchema: undefined })
    await tool.invoke(undefined)
    expect(source.calls[0]?.args).toEqual({})
  })

  test.each([
    ['a pattern that is no JavaScript expression', { type: 'string', pattern: '^[\\w-.]+$' }],
    ['a reference to elsewhere', { $ref: 'https://schemas.example/item.json' }],
    ['endless recursion', { $ref: '#/properties/item' }],
  ])('are left to the server where the schema has %s', async (_, item) => {
    const source = new AnsweringSource()
    const tool = toolOver(source, { inputSchema: { type: 'object', properties: { item } } })
    await expect(tool.invoke({ item: 'apple' })).resolves.toBe('done')
  })

  test('are checked against a frozen schema without touching it', async () => {
    const inputSchema = Object.freeze({ type: 'object', required: Object.freeze(['item']) })
    const tool = toolOver(new AnsweringSource(), { inputSchema })
    await expect(tool.invoke({})).rejects.toThrow(ToolInputParsingException)
    expect(Reflect.ownKeys(inputSchema)).toEqual(['type', 'required'])
  })
})

describe('limits of the run', () => {
  test('its signal reaches the client', async () => {
    const source = new AnsweringSource()
    const { signal } = new AbortController()
    await toolOver(source).invoke({ item: 'apple' }, { signal })
    expect(source.calls[0]?.options?.signal).toBe(signal)
  })

  test('its timeout reaches the client, as a signal and as a number', async () => {
    const source = new AnsweringSource()
    await toolOver(source).invoke({ item: 'apple' }, { timeout: 120_000 })
    expect(source.calls[0]?.options?.timeoutMs).toBe(120_000)
    expect(source.calls[0]?.options?.signal).toBeInstanceOf(AbortSignal)
  })

  test('the timeout of the tools is used where the run has none', async () => {
    const source = new AnsweringSource()
    await toolOver(source, {}, { timeoutMs: 5000 }).invoke({ item: 'apple' })
    expect(source.calls[0]?.options?.timeoutMs).toBe(5000)
  })

  test('a run that is over sends nothing, and gets its own reason', async () => {
    const source = new AnsweringSource()
    const reason = new Error('the user left')
    const call = toolOver(source).invoke({ item: 'apple' }, { signal: AbortSignal.abort(reason) })
    await expect(call).rejects.toBe(reason)
    expect(source.calls).toEqual([])
  })

  test('an abort in mid-call is passed on untouched, never told to the model', async () => {
    const controller = new AbortController()
    const reason = new DOMException('the user left', 'AbortError')
    const source: McpToolSource = {
      listTools: () => Promise.resolve([]),
      callTool: (_name, _args, options) => {
        controller.abort(reason)
        return Promise.reject(options?.signal?.reason)
      },
    }
    const call = toolOver(source).invoke(toolCall({ item: 'apple' }), {
      signal: controller.signal,
    })
    await expect(call).rejects.toBe(reason)
  })
})

describe('a tool that reports an error', () => {
  const failing = textResult('no such item', {
    isError: true,
    structuredContent: { code: 404 },
    _meta: { trace: 'x' },
  })

  test('gives a message with status error that keeps the structured part', async () => {
    const message: unknown = await toolOver(new AnsweringSource(failing)).invoke(
      toolCall({ item: 'x' }),
    )
    expect(message).toBeInstanceOf(ToolMessage)
    expect(message).toMatchObject({
      status: 'error',
      content: 'no such item',
      tool_call_id: 'call-1',
      artifact: [
        { type: 'mcp_structured_content', data: { code: 404 } },
        { type: 'mcp_meta', data: { trace: 'x' } },
        { type: 'mcp_content' },
      ],
    })
  })

  test('gives its text to a plain invoke', async () => {
    await expect(toolOver(new AnsweringSource(failing)).invoke({ item: 'x' })).resolves.toBe(
      'no such item',
    )
  })

  test('without a word says "Unknown error"', async () => {
    const source = new AnsweringSource({ content: [], isError: true })
    expect(await toolOver(source).invoke(toolCall({ item: 'x' }))).toMatchObject({
      status: 'error',
      content: 'Unknown error',
    })
  })

  test('is thrown where that is asked for, with what the server sent', async () => {
    const tool = toolOver(new AnsweringSource(failing), {}, { onToolError: 'throw' })
    await expect(tool.invoke(toolCall({ item: 'x' }))).rejects.toMatchObject({
      name: 'McpToolError',
      code: 'TOOL_FAILED',
      outcome: 'executed',
      serverSlug: 'shop',
      toolName: 'add item',
      artifact: [{ type: 'mcp_structured_content' }, { type: 'mcp_meta' }, { type: 'mcp_content' }],
    })
  })
})

describe('a call that fails', () => {
  test.each([
    ['SESSION_LOST', /could not be re-established.*try again later/],
    ['OUTCOME_UNKNOWN', /may or may not have been executed.*Check/],
    ['TIMEOUT', /No answer came in time.*may or may not/],
    ['UNREACHABLE', /not executed.*what went wrong/],
    ['UNAUTHORIZED', /refused the credentials/],
    ['INVALID_OUTPUT', /was executed.*does not fit.*what went wrong/],
  ])('%s is told to the model', async (code, text) => {
    const cause = clientError(code)
    const message: unknown = await toolOver(new AnsweringSource(cause)).invoke(
      toolCall({ item: 'x' }),
    )
    expect(message).toMatchObject({ status: 'error', content: expect.stringMatching(text) })
    const thrown = toolOver(new AnsweringSource(cause), {}, { onToolError: 'throw' }).invoke({
      item: 'x',
    })
    await expect(thrown).rejects.toMatchObject({ name: 'McpToolError', code, cause })
  })

  test('says whether it may have been executed', async () => {
    await expect(outcomeOf('OUTCOME_UNKNOWN')).resolves.toBe('unknown')
    await expect(outcomeOf('UNREACHABLE')).resolves.toBe('not-executed')
  })

  test.each(['REJECTED', 'UNEXPECTED_RESPONSE', 'TIMEOUT', 'SESSION_LOST', 'CLOSED'])(
    'before it was sent (%s) is told as not executed, so that nobody looks for what it did',
    async (code) => {
      const cause = Object.assign(clientError(code), { outcome: 'not-executed' })
      const failed: unknown = await toolOver(
        new AnsweringSource(cause),
        {},
        { onToolError: 'throw' },
      )
        .invoke({ item: 'x' })
        .catch((error: unknown) => error)
      expect(failed).toMatchObject({ outcome: 'not-executed' })
      expect(String(failed)).not.toContain('may or may not')
    },
  )

  test('by an error of the server tells its words, but not a page of them', async () => {
    const refused = new McpError(-32_602, `no such cart ${'x'.repeat(5000)}`)
    const content: unknown = await toolOver(new AnsweringSource(refused)).invoke({ item: 'x' })
    expect(content).toMatch(/"add item" of server "shop".*answered with an error.*no such cart/)
    expect(String(content).length).toBeLessThan(1500)
  })

  test.each([
    ['an answer with the number of a time-out', new McpError(-32_001, 'no'), 'SERVER_ERROR'],
    [
      'an answer with the number of a closed connection',
      new McpError(-32_000, 'no'),
      'SERVER_ERROR',
    ],
    ['a transport under the SDK', new McpError(-32_000, 'lost', broken), 'OUTCOME_UNKNOWN'],
    ['a refusal that proves nothing', transportError('SESSION_LOST', false), 'OUTCOME_UNKNOWN'],
    ['a refusal that is certain', transportError('SESSION_LOST', true), 'SESSION_LOST'],
    ['an answer that is not MCP', clientError('REJECTED'), 'HTTP_ERROR'],
  ])('by %s has a code of its own', async (_, cause, code) => {
    const tool = toolOver(new AnsweringSource(cause), {}, { onToolError: 'throw' })
    await expect(tool.invoke({ item: 'x' })).rejects.toMatchObject({ code, cause })
  })

  test.each([
    ['CONFIG', 'CONFIG'],
    ['NOT_FOUND', 'CONFIG'],
    ['NO_RUN', 'CONFIG'],
    ['CLOSED', 'CLOSED'],
  ])('%s cannot be repaired by a model, so it is thrown', async (code, expected) => {
    const call = toolOver(new AnsweringSource(clientError(code))).invoke(toolCall({ item: 'x' }))
    await expect(call).rejects.toMatchObject({ name: 'McpToolError', code: expected })
  })

  test.each([
    ['an interrupt of the graph', new GraphInterrupt([])],
    ['an abort', new DOMException('stopped', 'AbortError')],
    ['a bug', new TypeError('x is not a function')],
  ])('by %s is passed on as the same object', async (_, error) => {
    const call = toolOver(new AnsweringSource(error)).invoke(toolCall({ item: 'x' }))
    await expect(call).rejects.toBe(error)
  })
})

describe('structured results', () => {
  const outputSchema = { type: 'object', properties: { total: { type: 'number' } } }

  test('that fit the declared schema pass', async () => {
    const source = new AnsweringSource(textResult('2', { structuredContent: { total: 2 } }))
    await expect(toolOver(source, { outputSchema }).invoke({ item: 'x' })).resolves.toBe('2')
  })

  test('that do not fit are told as such, with the raw result at hand', async () => {
    const source = new AnsweringSource(textResult('2', { structuredContent: { total: 'two' } }))
    expect(await toolOver(source, { outputSchema }).invoke(toolCall({ item: 'x' }))).toMatchObject({
      status: 'error',
      content: expect.stringMatching(/was executed.*#\/total.*It answered: 2/),
      artifact: [{ type: 'mcp_structured_content', data: { total: 'two' } }, {}],
    })
  })
})
