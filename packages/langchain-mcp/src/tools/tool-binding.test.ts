import { ToolMessage } from '@langchain/core/messages'
import { GraphInterrupt } from '@langchain/langgraph'
import { describe, expect, test } from 'vitest'
import type { McpTool } from './mcp-tool.ts'
import { toolFrom } from '../../test/answering-source.ts'
import type { ToolLogEntry } from '../log.ts'
import type { McpToolSource, ToolDefinition, RequestOptions, ToolResult } from '../tool-source.ts'

const text = { type: 'string' }
const stored: ToolDefinition = {
  name: 'add item',
  description: 'Adds an item',
  inputSchema: {
    type: 'object',
    properties: { item: text },
    required: ['item'],
    additionalProperties: false,
  },
}
const renamed: ToolDefinition = {
  ...stored,
  description: 'Adds a product',
  inputSchema: {
    type: 'object',
    properties: { sku: text, count: { type: 'integer' } },
    required: ['sku'],
    additionalProperties: false,
  },
  outputSchema: { type: 'object', properties: { total: { type: 'number' } } },
}

/** A server with the given list. */
class ChangingServer implements McpToolSource {
  list: readonly ToolDefinition[] | Error = [stored]
  result: ToolResult = { content: [{ type: 'text', text: 'added' }] }
  lists = 0
  readonly asked: (RequestOptions | undefined)[] = []
  readonly calls: (Record<string, unknown> | undefined)[] = []

  listTools(options?: RequestOptions): Promise<readonly ToolDefinition[]> {
    this.lists++
    this.asked.push(options)
    return this.list instanceof Error ? Promise.reject(this.list) : Promise.resolve(this.list)
  }

  callTool(_name: string, args?: Record<string, unknown>): Promise<ToolResult> {
    this.calls.push(args)
    return Promise.resolve(this.result)
  }
}

interface Subject {
  readonly server: ChangingServer
  readonly tool: McpTool
  readonly entries: ToolLogEntry[]
  readonly call: (args: Record<string, unknown>) => Promise<ToolMessage>
}

function subject(more: Partial<Parameters<typeof toolFrom>[0]> = {}): Subject {
  const server = new ChangingServer()
  const entries: ToolLogEntry[] = []
  const tool = toolFrom({
    name: 'add_item',
    definition: stored,
    server: { slug: 'shop' },
    source: server,
    refreshBeforeCall: true,
    log: (entry) => void entries.push(entry),
    ...more,
  })
  return {
    server,
    tool,
    entries,
    async call(args) {
      const message: unknown = await tool.invoke({
        type: 'tool_call',
        id: 'c1',
        name: 'add_item',
        args,
      })
      if (!ToolMessage.isInstance(message)) throw new Error('no message')
      return message
    },
  }
}

test('calls a tool whose definition did not change', async () => {
  const { server, call, entries } = subject()
  await expect(call({ item: 'apple' })).resolves.toMatchObject({ content: 'added' })
  expect(server.calls).toEqual([{ item: 'apple' }])
  expect(entries).toEqual([])
})

test('calls a tool with new optional parameters, and keeps the schema that the model sees', async () => {
  const { server, tool, call } = subject()
  server.list = [
    {
      ...stored,
      description: 'New words',
      inputSchema: { ...stored.inputSchema, properties: { item: text, note: text } },
    },
  ]
  await expect(call({ item: 'apple' })).resolves.toMatchObject({ status: 'success' })
  expect(tool.schema).toEqual(stored.inputSchema)
})

describe('a breaking change', () => {
  test('refuses the call, takes over the definition, and lists the new parameters', async () => {
    const { server, tool, call, entries } = subject()
    server.list = [renamed]
    const message = await call({ item: 'apple' })
    expect(message).toMatchObject({ status: 'error', tool_call_id: 'c1' })
    expect(message.content).toMatch(
      /"add_item".*not executed.*are now: sku \(string\), count \(integer, optional\)\. Call it again/,
    )
    expect(server.calls).toEqual([])
    expect(tool.schema).toEqual(renamed.inputSchema)
    expect(tool.description).toBe('Adds a product')
    expect(tool.definition.outputSchema).toEqual(renamed.outputSchema)
    expect(entries).toMatchObject([{ code: 'SCHEMA_CHANGED', server: 'shop', tool: 'add item' }])
  })

  test('is accepted by the next call, which is checked against the new schema', async () => {
    const { server, call } = subject()
    server.list = [renamed]
    await call({ item: 'apple' })
    await expect(call({ item: 'apple' })).rejects.toThrow(/required property "sku"/)
    await expect(call({ sku: 'a1' })).resolves.toMatchObject({
      content: 'added',
      status: 'success',
    })
    expect(server.calls).toEqual([{ sku: 'a1' }])
  })

  test('is reported also to a call that fits the new schema', async () => {
    const { server, call } = subject()
    server.list = [renamed]
    await expect(call({ sku: 'a1' })).resolves.toMatchObject({
      content: expect.stringMatching(/are now: sku/),
    })
  })

  test('replaces the definition once for two concurrent calls, and is reported to both', async () => {
    const { server, call, entries } = subject()
    server.list = [renamed]
    const messages = await Promise.all([call({ item: 'apple' }), call({ item: 'pear' })])
    for (const { content } of messages) expect(content).toMatch(/have changed/)
    expect(server.calls).toEqual([])
    expect(entries).toHaveLength(1)
  })

  test('keeps the old description if the server has none', async () => {
    const { server, tool, call } = subject()
    server.list = [{ ...renamed, description: ' ' }]
    await call({ item: 'apple' })
    expect(tool.description).toBe('Adds an item')
  })

  test("is thrown with 'throw'", async () => {
    const { server, call } = subject({ options: { onToolError: 'throw' } })
    server.list = [renamed]
    await expect(call({ item: 'apple' })).rejects.toMatchObject({
      code: 'SCHEMA_CHANGED',
      outcome: 'not-executed',
    })
  })

  test('keeps argument properties, also in the schema that the model sees', async () => {
    const { server, tool, call, entries } = subject({
      argumentProperties: {
        '$.sku': { variant: 'static', value: 'fixed' },
        '$.item': { variant: 'static', value: 'apple' },
      },
    })
    expect(tool.schema).toMatchObject({ properties: { item: { enum: ['apple'] } } })
    server.list = [renamed]
    await expect(call({})).resolves.toMatchObject({
      content: expect.stringMatching(/are now: sku/),
    })
    expect(tool.schema).toMatchObject({ properties: { sku: { enum: ['fixed'] }, count: {} } })
    await call({ count: 2 })
    expect(server.calls).toEqual([{ sku: 'fixed', count: 2 }])
    expect(entries.map(({ code }) => code)).toEqual([
      'ARGUMENT_SKIPPED',
      'SCHEMA_CHANGED',
      'ARGUMENT_SKIPPED',
    ])
  })
})

test('refuses a call of a removed tool, and says so to the model', async () => {
  const { server, call, entries } = subject()
  server.list = []
  await expect(call({ item: 'apple' })).resolves.toMatchObject({
    status: 'error',
    content: expect.stringMatching(
      /"add_item" is no longer offered by server "shop".*Do not call it again/,
    ),
  })
  expect(server.calls).toEqual([])
  expect(entries).toMatchObject([{ level: 'warning', code: 'TOOL_REMOVED' }])
})

test('uses the stored definition without a list', async () => {
  const { server, call, entries } = subject()
  server.list = new Error('the list is broken')
  await expect(call({ item: 'apple' })).resolves.toMatchObject({ content: 'added' })
  await expect(call({ sku: 'a1' })).rejects.toThrow(/required property "item"/)
  expect(entries[0]).toMatchObject({
    level: 'warning',
    code: 'LIST_FAILED',
    message: expect.stringContaining('the list is broken'),
  })
})

test('keeps the stored definition if the new schema cannot be used', async () => {
  const { server, call, entries } = subject()
  server.list = [{ ...renamed, inputSchema: { $ref: 'https://elsewhere.example/x' } }]
  await expect(call({ item: 'apple' })).resolves.toMatchObject({ content: 'added' })
  expect(entries).toMatchObject([{ code: 'TOOL_QUARANTINED' }])
})

test('rethrows an interrupt of the graph', async () => {
  const { server, call } = subject()
  server.list = new GraphInterrupt([])
  await expect(call({ item: 'apple' })).rejects.toBe(server.list)
})

test('rejects with the reason of a run that is aborted during the list request', async () => {
  const { server, tool } = subject()
  const controller = new AbortController()
  server.listTools = () => {
    controller.abort(new Error('the user left'))
    return Promise.reject(new Error('aborted'))
  }
  const call = tool.invoke({ item: 'apple' }, { signal: controller.signal })
  await expect(call).rejects.toThrow('the user left')
  expect(server.calls).toEqual([])
})

test('requests the list for the caller, within the limit of the call', async () => {
  const { server, tool } = subject({ options: { timeoutMs: 500 } })
  await tool.invoke({ item: 'apple' }, { configurable: { thread_id: 't1' } })
  expect(server.asked).toMatchObject([
    { timeoutMs: 500, config: { configurable: { thread_id: 't1' } } },
  ])
})

test('requests no list if refreshSchemaBeforeCall is false', async () => {
  const { server, call } = subject({ refreshBeforeCall: false })
  server.list = [renamed]
  await expect(call({ item: 'apple' })).resolves.toMatchObject({ content: 'added' })
  expect(server.lists).toBe(0)
})

test('reports an unreachable server only by the call', async () => {
  const { server, tool, entries } = subject()
  const down = Object.assign(new Error('no connection'), {
    name: 'McpClientError',
    code: 'UNREACHABLE',
  })
  server.list = down
  server.callTool = () => Promise.reject(down)
  await expect(tool.invoke({ item: 'apple' })).resolves.toMatch(/cannot be reached/)
  expect(entries).toMatchObject([{ level: 'info', code: 'LIST_FAILED' }])
})
