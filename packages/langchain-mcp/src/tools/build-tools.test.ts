import { expect, test } from 'vitest'
import { buildTools, type BuildToolsOptions } from './build-tools.ts'
import type { McpTool } from './mcp-tool.ts'
import type { ToolLogEntry } from '../log.ts'
import type { JsonSchema, McpToolSource, ToolDefinition } from '../tool-source.ts'

const source: McpToolSource = {
  listTools: () => Promise.resolve([]),
  callTool: () => Promise.resolve({ content: [{ type: 'text', text: 'done' }] }),
}

function toolsOf(
  definitions: readonly ToolDefinition[],
  options: BuildToolsOptions = {},
): McpTool[] {
  return buildTools([{ server: { slug: 'shop' }, source, definitions }], {
    log: () => {},
    ...options,
  }).tools
}

function named(name: string, inputSchema?: JsonSchema): ToolDefinition {
  return { name, inputSchema }
}

test('leaves out only the tool whose schema cannot be used', () => {
  const entries: ToolLogEntry[] = []
  const tools = toolsOf(
    [
      named('a'),
      named('b', { properties: { x: { $ref: 'https://schemas.example/x?key=1' } } }),
      named('c', { type: 'object' }),
    ],
    { log: (entry) => void entries.push(entry) },
  )
  expect(tools.map(({ name }) => name)).toEqual(['a', 'c'])
  expect(entries).toMatchObject([{ level: 'warning', code: 'TOOL_QUARANTINED', tool: 'b' }])
  expect(entries[0]?.message).not.toContain('key=1')
})

test('lists hidden parts of a schema in notes, log and metadata, and checks them', async () => {
  const entries: ToolLogEntry[] = []
  const [tool] = toolsOf(
    [
      named('pay', {
        type: 'object',
        properties: { card: { type: 'string' }, iban: { type: 'string' } },
        oneOf: [{ required: ['card'] }, { required: ['iban'] }],
      }),
    ],
    { log: (entry) => void entries.push(entry) },
  )
  expect(tool?.schema).toEqual({
    type: 'object',
    properties: { card: { type: 'string' }, iban: { type: 'string' } },
    description: 'Give one of these sets of fields: (card) or (iban).',
  })
  expect(tool?.schemaNotes).toContain('#: "oneOf" is not shown')
  expect(tool?.metadata).toMatchObject({ schema_notes: tool?.schemaNotes })
  expect(entries).toMatchObject([{ level: 'info', code: 'SCHEMA_SIMPLIFIED', tool: 'pay' }])
  await expect(tool?.invoke({ card: '1' })).resolves.toBe('done')
  await expect(tool?.invoke({ card: '1', iban: '2' })).rejects.toThrow(/#: .*one|oneOf/i)
  expect(entries).toHaveLength(1)
})

test('uses one projection for all tools', () => {
  const schema = { type: 'object', properties: { a: { const: 'x' } }, $schema: 'draft' }
  const shown = (options: BuildToolsOptions): unknown =>
    toolsOf([named('t', schema)], options)[0]?.schema
  expect(shown({ schemaFor: 'none' })).toEqual(schema)
  expect(shown({})).toEqual({ type: 'object', properties: { a: { type: 'string', const: 'x' } } })
  expect(shown({ schemaFor: 'google' })).toEqual({
    type: 'object',
    properties: { a: { type: 'string', enum: ['x'] } },
  })
  expect(shown({ schemaFor: () => ({ type: 'object' }) })).toEqual({ type: 'object' })
})

test("ignores argument properties in a server's definition", async () => {
  const listed: ToolDefinition = JSON.parse(
    '{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"argumentProperties":{"$.a":{"variant":"argument","argumentPath":"$.secret"}}}',
  )
  const sent: unknown[] = []
  const [tool] = buildTools(
    [
      {
        server: {},
        source: {
          ...source,
          callTool: (_name, args) => {
            sent.push(args)
            return source.callTool('t')
          },
        },
        definitions: [listed],
      },
    ],
    { input: () => ({ secret: 'x' }) },
  ).tools
  await tool?.invoke({})
  expect(sent).toEqual([{}])
})
