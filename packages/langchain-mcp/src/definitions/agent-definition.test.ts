import { expect, test } from 'vitest'
import { AgentDefinitionError } from './agent-definition.ts'
import { agentDefinitionFrom } from './agent-definition.ts'
import { discoveryModeOf, isMcpResource, type McpResourceDefinition } from './agent-definition.ts'

const shop = { $resourceType: 'mcp', name: 'Shop', slug: 'shop', folderPath: 'Shared' }
const add = { name: 'add', description: 'Adds', inputSchema: { type: 'object' } }

function firstMcpResource(resource: unknown): McpResourceDefinition {
  const found = agentDefinitionFrom({ resources: [resource] }).resources?.find(isMcpResource)
  if (found === undefined) throw new Error('no MCP resource')
  return found
}

function errorOf(value: unknown): AgentDefinitionError {
  try {
    agentDefinitionFrom(value, { source: 'agent.json' })
  } catch (error) {
    if (error instanceof AgentDefinitionError) return error
    throw error
  }
  throw new Error('no error')
}

test('fills in defaults', () => {
  const agent = agentDefinitionFrom({ resources: [{ ...shop, availableTools: [add] }] })
  expect(agent.version).toBe('1.0.0')
  expect(agent.resources?.[0]).toMatchObject({
    isEnabled: true,
    availableTools: [{ ...add, argumentProperties: {} }],
  })
  expect(agentDefinitionFrom({}).resources).toEqual([])
})

test('keeps unknown fields, on every level', () => {
  const agent = {
    colour: 'blue',
    resources: [
      { ...shop, icon: 'cart', availableTools: [{ ...add, rank: 1 }] },
      { $resourceType: 'escalation', channels: [{ name: 'mail' }] },
      { note: 'without a type' },
    ],
    settings: { model: 'm', seed: 7 },
  }
  expect(agentDefinitionFrom(agent)).toMatchObject(agent)
})

test('does not change the definition', () => {
  const agent = { resources: [{ ...shop, available_tools: [add] }] }
  const before = structuredClone(agent)
  agentDefinitionFrom(agent)
  expect(agent).toEqual(before)
})

test('reads snake_case names, and does not change schemas', () => {
  const inputSchema = { type: 'object', properties: { folder_path: { type: 'string' } } }
  const resource = firstMcpResource({
    $resource_type: 'MCP',
    name: 'Shop',
    slug: 'shop',
    folder_path: 'Shared',
    is_enabled: false,
    available_tools: [{ name: 'add', input_schema: inputSchema, output_schema: null }],
    tools_configuration: { discovery_mode: { type: 'dynamic', allow_all: true } },
  })
  expect(resource).toMatchObject({
    folderPath: 'Shared',
    isEnabled: false,
    availableTools: [{ name: 'add', inputSchema }],
    toolsConfiguration: { discoveryMode: { type: 'dynamic', allowAll: true } },
  })
  expect(resource).not.toHaveProperty('folder_path')
})

test('prefers camelCase if both spellings are present', () => {
  const resource = firstMcpResource({
    ...shop,
    folder_path: 'Old',
    availableTools: [],
  })
  expect(resource.folderPath).toBe('Shared')
})

/** Adds a field in snake_case whose camelCase field exists. It must not change anything else. */
function withOtherSpelling(tool: object): object {
  return { ...tool, argument_properties: { left: 'alone' } }
}

test.each<[what: string, tool: object]>([
  ['only a name', { name: 'add' }],
  ['all fields', { ...add, title: 'Add', outputSchema: { type: 'object' }, _meta: { a: 1 } }],
  ['fixed arguments', { ...add, argumentProperties: { '$.a': { variant: 'static', value: 1 } } }],
  ['annotations', { ...add, annotations: { readOnlyHint: true, title: 'Add', other: [1] } }],
  ['unknown fields', { ...add, rank: 1, nested: { input_schema: 1 } }],
  ['undefined fields', { ...add, title: undefined, annotations: undefined }],
])('reads a tool with %s in both spellings', (_, tool) => {
  const { argument_properties: _own, ...rest } = { argument_properties: {}, ...tool }
  const snapshots = [rest, withOtherSpelling({ argumentProperties: {}, ...rest })]
  const [plain, withBoth] = snapshots.map(
    (one) => firstMcpResource({ ...shop, availableTools: [one] }).availableTools?.[0],
  )
  const { argument_properties: _left, ...expected } = { argument_properties: {}, ...withBoth }
  expect(plain).toEqual(expected)
})

test.each<[fields: object, path: string, expected: RegExp]>([
  [{ name: 4 }, '.name', /expected string, received number/],
  [{ description: [] }, '.description', /expected string, received array/],
  [{ outputSchema: [] }, '.outputSchema', /expected object, received array/],
  [{ argumentProperties: 'x' }, '.argumentProperties', /expected object, received string/],
  [
    { argumentProperties: { '$.tags': { variant: 'arrayBuilder' } } },
    '.argumentProperties["$.tags"]',
    /"arrayBuilder" is not supported/,
  ],
  [
    { argumentProperties: { '$.lines[*].id': { variant: 'static', value: 1 } } },
    '.argumentProperties["$.lines[*].id"]',
    /a path with \[\*\] is not supported/,
  ],
  [{ annotations: 'x' }, '.annotations', /expected object, received string/],
  [
    { annotations: { readOnlyHint: 'yes' } },
    '.annotations.readOnlyHint',
    /expected boolean, received string/,
  ],
  [{ annotations: { title: 1 } }, '.annotations.title', /expected string, received number/],
  [{ _meta: 1 }, '._meta', /expected object, received number/],
])('refuses a tool with %j at its %s', (fields, path, expected) => {
  const error = errorOf({ resources: [{ ...shop, availableTools: [add, { ...add, ...fields }] }] })
  expect(error.path).toBe(`$.resources[0].availableTools[1]${path}`)
  expect(error.message).toMatch(expected)
})

test.each([
  [{}, { type: 'cached' }],
  [{ toolsConfiguration: {} }, { type: 'cached' }],
  [
    { toolsConfiguration: { discoveryMode: { type: 'dynamic' } } },
    { type: 'dynamic', allowAll: false },
  ],
  [{ dynamicTools: 'none' }, { type: 'cached' }],
  [{ dynamicTools: 'schema' }, { type: 'dynamic', allowAll: false }],
  [{ dynamicTools: 'all' }, { type: 'dynamic', allowAll: true }],
  [
    { dynamicTools: 'all', toolsConfiguration: { discoveryMode: { type: 'cached' } } },
    { type: 'cached', refreshSchemaBeforeCall: true },
  ],
])('reads %j as %j', (fields, mode) => {
  const resource = firstMcpResource({ ...shop, availableTools: [], ...fields })
  expect(discoveryModeOf(resource)).toEqual(mode)
})

test('needs no stored tools if all tools of the server are allowed', () => {
  const toolsConfiguration = { discoveryMode: { type: 'dynamic', allowAll: true } }
  expect(firstMcpResource({ ...shop, toolsConfiguration }).availableTools).toBeUndefined()
})

test.each<[value: unknown, path: string, expected: RegExp]>([
  ['text', '$', /expected object, received string/],
  [null, '$', /expected object/],
  [{ resources: {} }, '$.resources', /expected array, received object/],
  [{ resources: [4] }, '$.resources[0]', /expected object, received number/],
  [
    { resources: [{ ...shop, name: 4 }] },
    '$.resources[0].name',
    /expected string, received number/,
  ],
  [{ resources: [{ ...shop, slug: '' }] }, '$.resources[0].slug', /not empty/],
  [{ resources: [shop] }, '$.resources[0].availableTools', /expected an array/],
  [
    { resources: [{ ...shop, availableTools: [add, {}] }] },
    '$.resources[0].availableTools[1].name',
    /expected string, but it is missing/,
  ],
  [
    { resources: [{ ...shop, availableTools: [{ ...add, inputSchema: 'x' }] }] },
    '$.resources[0].availableTools[0].inputSchema',
    /expected object, received string/,
  ],
  [
    { resources: [{ ...shop, toolsConfiguration: { discoveryMode: { type: 'live' } } }] },
    '$.resources[0].toolsConfiguration.discoveryMode.type',
    /'cached' \| 'dynamic'/,
  ],
  [{ settings: { maxIterations: 0 } }, '$.settings.maxIterations', />0/],
])('refuses %j at %s', (value, path, expected) => {
  const error = errorOf(value)
  expect(error.code).toBe('INVALID_DEFINITION')
  expect(error.path).toBe(path)
  expect(error.message).toMatch(expected)
  expect(error.message).toMatch(/^agent\.json: \$/)
  expect(error.message).not.toContain('\n')
  expect(error.cause).toBeDefined()
})
