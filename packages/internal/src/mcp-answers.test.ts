import * as schemas from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, test } from 'vitest'
import { parseMessage, repairMessage, repairResult } from './mcp-answers.ts'

const RESULT_SCHEMAS: Readonly<Record<string, { parse(value: unknown): unknown }>> = {
  initialize: schemas.InitializeResultSchema,
  'tools/list': schemas.ListToolsResultSchema,
  'tools/call': schemas.CallToolResultSchema,
  'resources/list': schemas.ListResourcesResultSchema,
  'resources/templates/list': schemas.ListResourceTemplatesResultSchema,
  'resources/read': schemas.ReadResourceResultSchema,
  'prompts/list': schemas.ListPromptsResultSchema,
  'prompts/get': schemas.GetPromptResultSchema,
  'completion/complete': schemas.CompleteResultSchema,
  ping: schemas.EmptyResultSchema,
  'tasks/get': schemas.GetTaskResultSchema,
}

const input = { type: 'object' }
const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' }
const task = {
  taskId: 't',
  status: 'working',
  ttl: null,
  createdAt: '2026-01-01T00:00:00Z',
  lastUpdatedAt: '2026-01-01T00:00:00Z',
}
const greeting = { protocolVersion: '2025-11-25', serverInfo: { name: 's', version: '1' } }

/** Method, what a server sent, and what the schema of the SDK gets. */
const table: readonly (readonly [method: string, sent: unknown, read: unknown])[] = [
  ['ping', [], {}],
  ['ping', null, {}],
  ['ping', { _meta: null }, {}],
  ['initialize', { ...greeting, capabilities: [] }, { ...greeting, capabilities: {} }],
  ['initialize', { ...greeting, capabilities: null }, { ...greeting, capabilities: {} }],
  [
    'initialize',
    { ...greeting, capabilities: { tools: [], prompts: null, logging: [], completions: null } },
    { ...greeting, capabilities: { tools: {}, logging: {} } },
  ],
  [
    'initialize',
    { ...greeting, capabilities: { tools: { listChanged: null } }, instructions: null, _meta: [] },
    { ...greeting, capabilities: { tools: {} }, _meta: {} },
  ],
  ...[
    [{ capabilities: true }, {}],
    [{ serverInfo: undefined }, { serverInfo: { name: 'unknown', version: '0' } }],
    [{ serverInfo: 'a server' }, { serverInfo: { name: 'unknown', version: '0' } }],
    [{ serverInfo: { name: 's' } }, { serverInfo: { name: 's', version: '0' } }],
    [
      { serverInfo: { name: null, version: 1.2 } },
      { serverInfo: { name: 'unknown', version: '1.2' } },
    ],
  ].map(
    ([sent, wanted]) =>
      [
        'initialize',
        { ...greeting, capabilities: {}, ...sent },
        { ...greeting, capabilities: {}, ...wanted },
      ] as const,
  ),
  ['initialize', greeting, { ...greeting, capabilities: {} }],
  ['tools/list', { tools: [], nextCursor: 2 }, { tools: [], nextCursor: '2' }],
  ['tools/list', { tools: [], nextCursor: false }, { tools: [] }],
  ['tools/list', { tools: [], _meta: 'x' }, { tools: [] }],
  ['tools/call', { content: [], _meta: ['x'] }, { content: [] }],
  ['tools/list', { tools: [], nextCursor: null, _meta: null }, { tools: [] }],
  ['tools/list', { tools: null }, { tools: [] }],
  ['resources/list', { resources: null }, { resources: [] }],
  ['resources/templates/list', { resourceTemplates: null }, { resourceTemplates: [] }],
  ['prompts/list', { prompts: null }, { prompts: [] }],
  ['tools/list', { tools: [], nextCursor: '' }, { tools: [] }],
  [
    'tools/list',
    { tools: { 0: { name: 'a', inputSchema: input } } },
    { tools: [{ name: 'a', inputSchema: input }] },
  ],
  ...[
    { title: null },
    { description: null },
    { annotations: null },
    { icons: null },
    { execution: null },
    { _meta: null },
    { outputSchema: null },
    { annotations: { title: null, readOnlyHint: null } },
    { execution: { taskSupport: null } },
  ].map((fields) => {
    const [[name, value] = ['', null]] = Object.entries(fields)
    const left = value === null ? {} : { [name]: {} }
    return [
      'tools/list',
      { tools: [{ name: 'a', inputSchema: input, ...fields }] },
      { tools: [{ name: 'a', inputSchema: input, ...left }] },
    ] as const
  }),
  ...[
    [[], input],
    [{}, input],
    [
      { type: 'object', properties: [] },
      { type: 'object', properties: {} },
    ],
    [{ type: 'object', properties: null, required: null }, input],
    [
      { type: 'object', required: { 0: 'a' } },
      { type: 'object', required: ['a'] },
    ],
    [
      { type: 'object', properties: { a: { required: true }, b: { required: false } } },
      { type: 'object', properties: { a: {}, b: {} }, required: ['a'] },
    ],
    [
      { type: 'object', properties: { a: { required: true } }, required: ['a'] },
      { type: 'object', properties: { a: {} }, required: ['a'] },
    ],
    [
      {
        properties: { a: { required: true, properties: { b: { required: true } } } },
        required: { 0: 'c' },
      },
      {
        type: 'object',
        properties: { a: { properties: { b: {} }, required: ['b'] } },
        required: ['c', 'a'],
      },
    ],
    [{ type: 'object', required: true }, input],
    [
      { type: 'object', properties: { title: { type: 'string', title: 5, description: ['x'] } } },
      { type: 'object', properties: { title: { type: 'string' } } },
    ],
    [
      { type: 'object', properties: { a: [], b: true, c: null } },
      { type: 'object', properties: { a: {}, b: {}, c: {} } },
    ],
    [
      {
        type: 'object',
        properties: {
          a: { type: 'string', title: null, default: null, enum: [null, 'x'], const: null },
          b: { type: 'object', properties: [], additionalProperties: null },
          c: { anyOf: [[], { type: 'array', items: [] }], description: null },
        },
        $defs: [],
      },
      {
        type: 'object',
        properties: {
          a: { type: 'string', default: null, enum: [null, 'x'], const: null },
          b: { type: 'object', properties: {} },
          c: { anyOf: [{}, { type: 'array', items: {} }] },
        },
        $defs: {},
      },
    ],
  ].map(
    ([inputSchema, wanted]) =>
      [
        'tools/list',
        { tools: [{ name: 'a', inputSchema }] },
        { tools: [{ name: 'a', inputSchema: wanted }] },
      ] as const,
  ),
  // A call may be repeated because of a hint, so nothing but a boolean counts as one.
  [
    'tools/list',
    { tools: [{ name: 'a', inputSchema: input, annotations: { readOnlyHint: 'true' } }] },
    { tools: [{ name: 'a', inputSchema: input, annotations: {} }] },
  ],
  [
    'tools/list',
    { tools: [{ name: 'a', inputSchema: input, icons: [{ src: 'x', sizes: '16x16 32x32' }, {}] }] },
    {
      tools: [{ name: 'a', inputSchema: input, icons: [{ src: 'x', sizes: ['16x16', '32x32'] }] }],
    },
  ],
  [
    'tools/call',
    { content: null, isError: null, structuredContent: null, _meta: null },
    { content: [] },
  ],
  ['tools/call', { content: [], structuredContent: [] }, { content: [], structuredContent: {} }],
  [
    'tools/call',
    { content: [], structuredContent: [1] },
    { content: [], structuredContent: { result: [1] } },
  ],
  ['tools/call', { content: 'hi' }, { content: [{ type: 'text', text: 'hi' }] }],
  [
    'tools/call',
    { success: true, isError: false, _meta: {} },
    {
      success: true,
      isError: false,
      _meta: {},
      content: [{ type: 'text', text: '{"success":true}' }],
    },
  ],
  [
    'tools/call',
    { toolResult: 'hi' },
    { toolResult: 'hi', content: [{ type: 'text', text: 'hi' }] },
  ],
  ['tools/call', { content: image }, { content: [image] }],
  ['tools/call', { content: { 0: image } }, { content: [image] }],
  ['tools/call', { content: [], isError: 'false' }, { content: [], isError: false }],
  ['tools/call', { content: [], isError: 'true' }, { content: [], isError: true }],
  ['tools/call', { content: [], isError: 1 }, { content: [], isError: true }],
  ...[
    ['hi', { type: 'text', text: 'hi' }],
    [
      { type: 'text', text: 'a', annotations: null, _meta: null },
      { type: 'text', text: 'a' },
    ],
    [
      { type: 'text', text: 'a', annotations: { audience: ['all', 'user'], priority: 5 } },
      { type: 'text', text: 'a', annotations: { audience: ['user'], priority: 1 } },
    ],
    [
      { type: 'error', text: 'no' },
      { type: 'text', text: '{"type":"error","text":"no"}' },
    ],
    [
      { type: 'json', json: { a: null } },
      { type: 'text', text: '{"type":"json","json":{"a":null}}' },
    ],
    [{ text: 'a' }, { type: 'text', text: '{"text":"a"}' }],
    [null, { type: 'text', text: 'null' }],
    [7, { type: 'text', text: '7' }],
    [
      { type: 'text', text: null },
      { type: 'text', text: '' },
    ],
    [
      { type: 'image', data: 'no base64!', mimeType: 'image/png' },
      { type: 'text', text: '{"type":"image","data":"no base64!","mimeType":"image/png"}' },
    ],
    [{ ...image, data: 'data:image/png;base64,aGk=' }, image],
    [{ ...image, data: 'data:;base64,aG\r\nk=\n' }, image],
    [
      { ...image, data: '-_-_' },
      { ...image, data: '+/+/' },
    ],
    [{ ...image, data: 'aGk' }, image],
    [
      { ...image, data: 'aA' },
      { ...image, data: 'aA==' },
    ],
    [{ type: 'image', data: 'data:image/png;base64,aGk=' }, image],
    // A media type has a limit, because the search for its end must not take seconds.
    [
      { type: 'image', data: `data:image/${'a'.repeat(200)};base64,aGk=` },
      { ...image, mimeType: 'image/*' },
    ],
    [
      { type: 'resource', resource: { uri: 'a:b', blob: 'data:image/png;base64,aGk=' } },
      { type: 'resource', resource: { uri: 'a:b', blob: 'aGk=' } },
    ],
    [
      { type: 'image', data: 'aGk=', mimeType: null },
      { type: 'image', data: 'aGk=', mimeType: 'image/*' },
    ],
    [
      { type: 'resource_link', uri: 'a:b', name: null, size: null },
      { type: 'resource_link', uri: 'a:b', name: 'a:b' },
    ],
    [
      { type: 'resource', resource: { uri: 'a:b', text: 'x', blob: null, mimeType: null } },
      { type: 'resource', resource: { uri: 'a:b', text: 'x' } },
    ],
  ].map(([sent, wanted]) => ['tools/call', { content: [sent] }, { content: [wanted] }] as const),
  [
    'resources/list',
    { resources: [{ uri: 'a:b', name: 'a', size: null, title: null }], nextCursor: null },
    { resources: [{ uri: 'a:b', name: 'a' }] },
  ],
  [
    'resources/templates/list',
    { resourceTemplates: [{ uriTemplate: 'a:{b}', name: 'a', annotations: [], mimeType: null }] },
    { resourceTemplates: [{ uriTemplate: 'a:{b}', name: 'a', annotations: {} }] },
  ],
  [
    'resources/read',
    { contents: [{ uri: 'a:b', text: null, blob: 'aGk=', _meta: null }] },
    { contents: [{ uri: 'a:b', blob: 'aGk=' }] },
  ],
  [
    'prompts/list',
    { prompts: [{ name: 'p', arguments: [{ name: 'a', required: null }], description: null }] },
    { prompts: [{ name: 'p', arguments: [{ name: 'a' }] }] },
  ],
  ['prompts/list', { prompts: [{ name: 'p', arguments: null }] }, { prompts: [{ name: 'p' }] }],
  [
    'prompts/get',
    { description: null, messages: [{ role: 'user', content: 'hi' }] },
    { messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }] },
  ],
  [
    'completion/complete',
    { completion: { values: ['a'], total: null, hasMore: null } },
    { completion: { values: ['a'] } },
  ],
  ['tasks/get', { ...task, pollInterval: null, statusMessage: null }, task],
]

/** Returns the result of a response that was read as the transports read it. */
function read(method: string, sent: unknown): unknown {
  const message = { jsonrpc: '2.0', id: 1, result: structuredClone(sent) }
  repairMessage(message)
  repairResult(method, message.result as object)
  return message.result
}

describe('the result of', () => {
  test.each(table)('%s is read: %j', (method, sent, wanted) => {
    expect(read(method, sent)).toEqual(wanted)
    expect(RESULT_SCHEMAS[method]?.parse(read(method, sent))).toEqual(wanted)
  })

  test.each([
    ['tools/list', { tools: 'none' }],
    ['tools/call', { content: 7 }],
    ['initialize', { capabilities: {} }],
  ])('%s that cannot be read stays for the schema: %j', (method, sent) => {
    expect(read(method, sent)).toEqual(sent)
    expect(() => RESULT_SCHEMAS[method]?.parse(read(method, sent))).toThrow(/expected/)
  })

  test('a tool of 2026-07-28 keeps structured content of any kind', () => {
    for (const structuredContent of [[], null, [1], 'a']) {
      const result = { content: [], structuredContent }
      repairResult('tools/call', result, { hasAnyStructure: true })
      expect(result).toEqual({ content: [], structuredContent })
    }
  })

  test('another method is left alone', () => {
    const sent = { content: [{ id: 1 }], tools: null }
    expect(read('acme/list', sent)).toEqual(sent)
  })

  test('a tool keeps what belongs to the server and to the user', () => {
    const sent = {
      tools: [
        {
          name: 'a',
          inputSchema: {
            type: 'object',
            properties: { a: { default: null, examples: [null, []] } },
          },
          _meta: { 'acme/a': null, 'acme/b': [] },
          'x-acme': null,
        },
      ],
    }
    expect(read('tools/list', sent)).toEqual(sent)
    const result = { content: [], structuredContent: { a: null, b: [] } }
    expect(read('tools/call', result)).toEqual(result)
  })

  test('a schema of any depth is repaired without an error', () => {
    let inputSchema: Record<string, unknown> = { type: 'object', properties: [] }
    for (let depth = 0; depth < 5000; depth++) {
      inputSchema = { type: 'object', properties: { a: inputSchema } }
    }
    expect(() => repairResult('tools/list', { tools: [{ name: 'a', inputSchema }] })).not.toThrow()
  })
})

describe('the parameters of', () => {
  test.each([
    [
      'notifications/progress',
      { progressToken: 1, progress: '0.5', total: null, message: null },
      { progressToken: 1, progress: 0.5 },
    ],
    [
      'notifications/message',
      { level: 'WARN', logger: null, data: null },
      { level: 'warning', data: null },
    ],
    ['notifications/tools/list_changed', null, undefined],
    ['notifications/tools/list_changed', [], {}],
    [
      'elicitation/create',
      {
        message: 'a',
        requestedSchema: {
          type: 'object',
          properties: { a: { type: 'string', title: null } },
          required: null,
        },
      },
      { message: 'a', requestedSchema: { type: 'object', properties: { a: { type: 'string' } } } },
    ],
    // Of clients.
    ['tools/list', null, undefined],
    ['tools/list', { cursor: null, _meta: null }, {}],
    ['resources/list', { cursor: '', _meta: [] }, { _meta: {} }],
    ['ping', { _meta: { progressToken: null, other: null } }, { _meta: { other: null } }],
    [
      'initialize',
      { capabilities: [], clientInfo: { name: 'a', version: '1', title: null } },
      { capabilities: {}, clientInfo: { name: 'a', version: '1' } },
    ],
    [
      'initialize',
      { capabilities: { roots: { listChanged: null }, sampling: null, elicitation: { form: [] } } },
      { capabilities: { roots: {}, elicitation: { form: {} } } },
    ],
    [
      'tools/call',
      {
        _meta: {
          'io.modelcontextprotocol/clientCapabilities': { extensions: { a: [], b: null } },
        },
      },
      { _meta: { 'io.modelcontextprotocol/clientCapabilities': { extensions: { a: {} } } } },
    ],
    [
      'tools/call',
      { name: 'a', arguments: null, requestState: null, inputResponses: null },
      { name: 'a' },
    ],
    ['tools/call', { arguments: { a: null, b: [] } }, { arguments: { a: null, b: [] } }],
    ['prompts/get', { name: 'a', arguments: [] }, { name: 'a', arguments: {} }],
    ['completion/complete', { context: null }, {}],
    ['completion/complete', { context: { arguments: [] } }, { context: { arguments: {} } }],
  ])('%s are read: %j', (method, params, wanted) => {
    const message: Record<string, unknown> = { jsonrpc: '2.0', method, params }
    repairMessage(message)
    expect(message['params']).toEqual(wanted)
  })
})

test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])(
  'the name %s means nothing',
  (name) => {
    const request = { jsonrpc: '2.0', id: 1, method: name, params: { a: null } }
    repairMessage(request)
    expect(request.params).toEqual({ a: null })
    const log = { jsonrpc: '2.0', method: 'notifications/message', params: { level: name } }
    repairMessage(log)
    expect(log.params.level).toBe(name)
    const properties = JSON.parse(`{"${name}":{"type":"string","${name}":"x"}}`) as object
    const inputSchema = JSON.parse(`{"type":"object","${name}":"x"}`) as object
    const listed = { tools: [{ name: 'a', inputSchema: { ...inputSchema, properties } }] }
    const before = JSON.stringify(listed)
    repairResult('tools/list', listed)
    repairResult(name, listed)
    expect(JSON.stringify(listed)).toBe(before)
  },
)

test.each([
  [
    { id: 1, result: { a: 1 }, error: null },
    { id: 1, result: { a: 1 } },
  ],
  [
    { id: 1, method: null, result: {} },
    { id: 1, result: {} },
  ],
  [
    { id: 1, result: null },
    { id: 1, result: {} },
  ],
  [
    { id: 1, result: [] },
    { id: 1, result: {} },
  ],
  [
    { id: 1, result: null, error: { code: 1, message: 'no' } },
    { id: 1, error: { code: 1, message: 'no' } },
  ],
  [
    { id: 1, error: 'no' },
    { id: 1, error: { code: -32603, message: 'no' } },
  ],
  [
    { id: 1, error: { code: '-7' } },
    { id: 1, error: { code: -7, message: '{"code":"-7"}' } },
  ],
  [
    { id: 1, error: { message: 'no' } },
    { id: 1, error: { code: -32603, message: 'no' } },
  ],
  [{ id: null, method: 'notifications/x' }, { method: 'notifications/x' }],
])('the message %j is read', (sent, wanted) => {
  const message = structuredClone({ jsonrpc: '2.0', ...sent })
  repairMessage(message)
  expect(message).toEqual({ jsonrpc: '2.0', ...wanted })
})

test('reads numbers that JSON does not have as null, outside of texts', () => {
  const given = String.raw`{"a":NaN,"b":[-Infinity,Infinity,1],"c":"NaN \"NaN\" \\","d":NaN}`
  const wanted = { a: null, b: [null, null, 1], c: String.raw`NaN "NaN" ${'\\'}`, d: null }
  expect(parseMessage(given)).toEqual(wanted)
  for (const text of ['{"a":NaN', 'NaNa', String.raw`[NaN,\x]`, '{"a":"NaN}', 'Infinity:']) {
    expect(() => parseMessage(text)).toThrow(SyntaxError)
  }
  const long = `"${String.raw`\"`.repeat(1_000_000)}NaN`
  expect(() => parseMessage(long)).toThrow(SyntaxError) // in a time that grows with its length
})
