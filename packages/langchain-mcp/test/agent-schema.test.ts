// The schema for editors and the schema of the code must be equal.
import { readFile } from 'node:fs/promises'
import { Validator } from '@langchain/core/utils/json_schema'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { agentDefinitionFrom } from '../src/index.ts'
import { agentDefinitionSchema } from '../src/definitions/agent-definition.ts'

const published = JSON.parse(
  await readFile(new URL('../agent.schema.json', import.meta.url), 'utf8'),
) as Fields

const tools = { availableTools: [{ name: 'cart_add' }] }
const shop = { $resourceType: 'mcp', name: 'Shop', ...tools }
const mode = (discoveryMode: unknown): object => ({ toolsConfiguration: { discoveryMode } })

const GOOD: readonly object[] = [
  {},
  { resources: [shop], features: [], guardrails: { any: 'thing' } },
  { resources: [{ ...shop, $resourceType: 'MCP', slug: 'shop', folderPath: 'Shared' }] },
  { resources: [{ $resourceType: 'context', name: 3 }, {}] },
  {
    resources: [{ $resourceType: 'mcp', name: 'S', ...mode({ type: 'dynamic', allowAll: true }) }],
  },
  { resources: [{ $resourceType: 'mcp', name: 'S', dynamicTools: 'all' }] },
  { resources: [{ ...shop, ...mode({ type: 'cached', refreshSchemaBeforeCall: false }) }] },
  { resources: [{ ...shop, slug: null, isEnabled: null, toolsConfiguration: null }] },
  { messages: [{ role: 'system', content: 'Help.', extra: 1 }], unknown: true },
  { settings: { engine: 'e', model: 'm', maxTokens: 9, temperature: 0.1, maxIterations: 25 } },
  { metadata: { isConversational: true, storageVersion: '1' }, version: null },
  { inputSchema: { type: 'object' }, outputSchema: null },
]

const BAD: readonly object[] = [
  { id: 3 },
  { version: 1 },
  { messages: {} },
  { messages: [{ role: 'system' }] },
  { resources: [3] },
  { resources: [{ $resourceType: 'mcp', ...tools }] },
  { resources: [{ ...shop, name: '' }] },
  { resources: [{ ...shop, slug: '' }] },
  { resources: [{ ...shop, isEnabled: 'yes' }] },
  { resources: [{ $resourceType: 'mcp', name: 'S' }] },
  { resources: [{ $resourceType: 'mcp', name: 'S', ...mode({ type: 'dynamic' }) }] },
  {
    resources: [
      { $resourceType: 'mcp', name: 'S', dynamicTools: 'all', ...mode({ type: 'cached' }) },
    ],
  },
  { resources: [{ ...shop, ...mode({ type: 'live' }) }] },
  { resources: [{ ...shop, dynamicTools: 'some' }] },
  { resources: [{ ...shop, availableTools: [{ description: 'no name' }] }] },
  { resources: [{ ...shop, availableTools: [{ name: 'a', annotations: { readOnlyHint: 1 } }] }] },
  { resources: [{ ...shop, availableTools: [{ name: 'a', inputSchema: [] }] }] },
  ...[
    { 'no path': { variant: 'static', value: 1 } },
    { '$.a[*].b': { variant: 'static', value: 1 } },
    { '$.a': { variant: 'argument', argumentPath: '$.b[*]' } },
    { '$.a': { variant: 'arrayBuilder' } },
  ].map((argumentProperties) => ({
    resources: [{ ...shop, availableTools: [{ name: 'a', argumentProperties }] }],
  })),
  { settings: { maxIterations: 0 } },
  { settings: { maxIterations: 1.5 } },
  { metadata: { isConversational: 'no' } },
]

const validator = new Validator(published, '2020-12', false)

test.each(GOOD)('the schema and agentDefinitionFrom() both accept %j', (definition) => {
  expect(validator.validate(definition).errors).toEqual([])
  expect(() => agentDefinitionFrom(definition)).not.toThrow()
})

test.each(BAD)('the schema and agentDefinitionFrom() both refuse %j', (definition) => {
  expect(validator.validate(definition).valid).toBe(false)
  expect(() => agentDefinitionFrom(definition)).toThrow(
    expect.objectContaining({ name: 'AgentDefinitionError' }),
  )
})

interface Fields {
  readonly properties?: Readonly<Record<string, Fields>>
}

/** Paths of all fields. Omits array items, which the examples above check. */
function fieldPaths({ properties = {} }: Fields, prefix = ''): string[] {
  return Object.entries(properties)
    .flatMap(([name, inner]) => [prefix + name, ...fieldPaths(inner, `${prefix}${name}.`)])
    .toSorted()
}

test('the schema and agentDefinitionFrom() have the same fields, also in nested objects', () => {
  const checked = z.toJSONSchema(agentDefinitionSchema, { io: 'input' }) as Fields
  expect(fieldPaths(published)).toContain('settings.maxIterations')
  expect(fieldPaths(published)).toEqual(fieldPaths(checked))
})

test('accepts the agent of the playground', async () => {
  const file = new URL('../../../apps/playground/agent.json', import.meta.url)
  const sample: unknown = JSON.parse(await readFile(file, 'utf8'))
  expect(validator.validate(sample).errors).toEqual([])
})
