import { ToolMessage } from '@langchain/core/messages'
import { ToolInputParsingException } from '@langchain/core/tools'
import { describe, expect, test } from 'vitest'
import {
  addItem,
  AnsweringSource,
  shop,
  textResult,
  toolCall,
  toolFrom,
  toolOver,
} from '../../test/answering-source.ts'
import type { McpToolSource, ToolDefinition } from '../tool-source.ts'

describe('the model', () => {
  test('sees name, description, and the unchanged schema', () => {
    const tool = toolOver(new AnsweringSource())
    expect(tool.name).toBe('add_item')
    expect(tool.description).toBe('Puts something into the cart')
    expect(tool.schema).toEqual(addItem.inputSchema)
  })

  test('gets metadata with the five fields for spans and interfaces, and the hints of the server', () => {
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

  test('sees an empty schema if the server has none', () => {
    const tool = toolOver(new AnsweringSource(), { inputSchema: undefined })
    expect(tool.schema).toEqual({ type: 'object', properties: {} })
  })

  // Bedrock refuses an empty description (LibreChat#13209).
  test.each<[Partial<ToolDefinition>, string]>([
    [{ title: 'Look', annotations: { title: 'See' } }, 'Look'],
    [{ annotations: { title: 'See' } }, 'See'],
    [{ title: ' ' }, 'ping'],
    [{}, 'ping'],
  ])('sees the title or the name if the description is blank: %j', (about, shown) => {
    for (const description of [undefined, '', ' \n', '\u200B']) {
      const definition = { name: 'ping', description, ...about }
      expect(toolFrom({ definition, source: new AnsweringSource() }).description).toBe(shown)
    }
  })

  test("does not see the origin, which has the server and the tool's own name", () => {
    expect(toolOver(new AnsweringSource()).origin).toEqual({ server: shop, toolName: 'add item' })
  })
})

describe('a call', () => {
  test("uses the tool's own name; a plain invoke returns the content", async () => {
    const source = new AnsweringSource()
    await expect(toolOver(source).invoke({ item: 'apple' })).resolves.toBe('done')
    expect(source.calls).toMatchObject([{ name: 'add item', args: { item: 'apple' } }])
  })

  test('with a tool call returns a ToolMessage with content and artifact', async () => {
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

  test('keeps its status for a tool call without an id', async () => {
    const source = new AnsweringSource(textResult('no such item', { isError: true }))
    const { id: _, ...withoutId } = toolCall({ item: 'apple' })
    expect(await toolOver(source).invoke(withoutId)).toMatchObject({
      status: 'error',
      content: 'no such item',
    })
  })

  test('of a renamed tool uses the new name', async () => {
    const tool = toolOver(new AnsweringSource())
    tool.name = 'shop_add_item'
    expect(await tool.invoke(toolCall({ item: 'apple' }))).toMatchObject({ name: 'shop_add_item' })
  })

  test('passes name, arguments and result to callbacks', async () => {
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
  test('are refused with the reason if they are invalid, and nothing is sent', async () => {
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

  test('are sent as JSON', async () => {
    const source = new AnsweringSource()
    const tool = toolOver(source, { inputSchema: { type: 'object' } })
    const when = new Date(0)
    await tool.invoke({ when, list: [undefined, { none: undefined }], few: Number.NaN })
    await tool.invoke({ when: 'now', list: [{ a: null }, true, 1.5] })
    expect(source.calls.map(({ args }) => args)).toEqual([
      { when: '1970-01-01T00:00:00.000Z', list: [null, {}], few: null },
      { when: 'now', list: [{ a: null }, true, 1.5] },
    ])
  })

  test('are left out if they are undefined', async () => {
    const source = new AnsweringSource()
    await toolOver(source).invoke({ item: 'apple', count: undefined })
    expect(source.calls[0]?.args).toEqual({ item: 'apple' })
    expect(source.calls[0]?.args).not.toHaveProperty('count')
  })

  test('may be absent for a tool without parameters', async () => {
    const source = new AnsweringSource()
    const tool = toolOver(source, { inputSchema: undefined })
    await tool.invoke(undefined)
    expect(source.calls[0]?.args).toEqual({})
  })

  test.each([
    ['a pattern that is no JavaScript expression', { type: 'string', pattern: '^[\\w-.]+$' }],
    ['a reference to elsewhere', { $ref: 'https://schemas.example/item.json' }],
    ['endless recursion', { $ref: '#/properties/item' }],
  ])('are validated by the server only, if the schema has %s', async (_, item) => {
    const source = new AnsweringSource()
    const tool = toolOver(source, { inputSchema: { type: 'object', properties: { item } } })
    await expect(tool.invoke({ item: 'apple' })).resolves.toBe('done')
  })

  test('are checked against a frozen schema without changing it', async () => {
    const inputSchema = Object.freeze({ type: 'object', required: Object.freeze(['item']) })
    const tool = toolOver(new AnsweringSource(), { inputSchema })
    await expect(tool.invoke({})).rejects.toThrow(ToolInputParsingException)
    expect(Reflect.ownKeys(inputSchema)).toEqual(['type', 'required'])
  })
})

describe('limits of the run', () => {
  test('pass the signal to the client', async () => {
    const source = new AnsweringSource()
    const { signal } = new AbortController()
    await toolOver(source).invoke({ item: 'apple' }, { signal })
    expect(source.calls[0]?.options?.signal).toBe(signal)
  })

  test('pass the timeout to the client, as a signal and as a number', async () => {
    const source = new AnsweringSource()
    await toolOver(source).invoke({ item: 'apple' }, { timeout: 120_000 })
    expect(source.calls[0]?.options?.timeoutMs).toBe(120_000)
    expect(source.calls[0]?.options?.signal).toBeInstanceOf(AbortSignal)
  })

  test('use the timeout of the tools without one of the run', async () => {
    const source = new AnsweringSource()
    await toolOver(source, {}, { timeoutMs: 5000 }).invoke({ item: 'apple' })
    expect(source.calls[0]?.options?.timeoutMs).toBe(5000)
  })

  test('send nothing after the run was aborted, and reject with its reason', async () => {
    const source = new AnsweringSource()
    const reason = new Error('the user left')
    const call = toolOver(source).invoke({ item: 'apple' }, { signal: AbortSignal.abort(reason) })
    await expect(call).rejects.toBe(reason)
    expect(source.calls).toEqual([])
  })

  test('rethrow an abort during the call, without a message for the model', async () => {
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

test('uses the default configuration of the tool, and that of the call first', async () => {
  const source = new AnsweringSource()
  const tool = toolOver(source)
  const runs: unknown[] = []
  const handleToolStart = (...args: unknown[]): void => {
    const [, , , , tags, metadata, runName] = args
    runs.push({ tags, metadata, runName })
  }
  tool.defaultConfig = { tags: ['shop'], metadata: { a: 1, b: 1 }, runName: 'default' }
  await tool.invoke(toolCall({ item: 'x' }), {
    metadata: { b: 2 },
    callbacks: [{ handleToolStart }],
  })
  await tool.invoke({ item: 'x' }, { runName: 'own', callbacks: [{ handleToolStart }] })
  expect(runs).toMatchObject([
    { tags: ['shop'], metadata: { a: 1, b: 2 }, runName: 'default' },
    { tags: ['shop'], metadata: { a: 1, b: 1 }, runName: 'own' },
  ])
  expect(source.calls).toHaveLength(2)
})
