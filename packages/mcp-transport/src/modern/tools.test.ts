import { ListToolsResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, test } from 'vitest'
import { headerAnnotationForms } from '../../test/header-annotation-forms.ts'
import { isToolHeaderMap } from '../session-record.ts'
import {
  bridgeTools,
  objectSchema,
  objectValue,
  compileToolHeaders,
  toolHeaderList,
  encodeHeaderValue,
} from './tools.ts'

describe('tool list', () => {
  const inputSchema = { type: 'object' }

  test('leaves out an invalid tool with a reason, and keeps the others', () => {
    const bad = {
      name: 'bad',
      inputSchema: { type: 'object', properties: { a: { type: 'number', 'x-mcp-header': 'A' } } },
    }
    const { tools, leftOut } = bridgeTools([{ name: 'good', inputSchema }, bad])
    expect(tools).toEqual([{ name: 'good', inputSchema }])
    expect(leftOut).toEqual([{ name: 'bad', reason: expect.stringContaining('"A"') }])
  })

  test('leaves out a tool that is nested too deeply', () => {
    let deep: object = { type: 'object' }
    for (let level = 0; level < 20_000; level++) deep = { type: 'object', properties: { a: deep } }
    const { tools, leftOut } = bridgeTools([{ name: 'deep', inputSchema: deep }])
    expect(tools).toEqual([])
    expect(leftOut).toEqual([{ name: 'deep', reason: expect.stringContaining('256') }])
  })

  test('keeps entries that are not tools', () => {
    expect(bridgeTools([7, { title: 'nameless' }]).tools).toEqual([7, { title: 'nameless' }])
  })

  test.each([
    true,
    false,
    {},
    { type: 'string' },
    { anyOf: [{ type: 'object' }] },
    { type: ['object', 'null'] },
  ])('converts the output schema %j to one that the client of SDK v1 accepts', (outputSchema) => {
    const properties = { any: true, none: false, deep: { properties: { any: true } } }
    const tool = { name: 'a', inputSchema: { type: 'object', properties }, outputSchema }
    expect(ListToolsResultSchema.safeParse({ tools: [tool] }).success).toBe(false)
    const bridged = ListToolsResultSchema.safeParse({ tools: bridgeTools([tool]).tools })
    expect(bridged.error).toBeUndefined()
  })

  const wrapped = (schema: unknown): unknown =>
    (objectSchema(schema) as { properties: { result: unknown } }).properties.result

  describe('the output schema', () => {
    test('is unchanged for an object, except for boolean properties', () => {
      const schema = { type: 'object', properties: { any: true, none: false }, required: ['any'] }
      expect(objectSchema(schema)).toEqual({
        type: 'object',
        properties: { any: {}, none: { not: {} } },
        required: ['any'],
      })
    })

    test('becomes the only property of an object for other types', () => {
      expect(objectSchema({ type: 'array', items: { type: 'number' } })).toEqual({
        type: 'object',
        properties: { result: { type: 'array', items: { type: 'number' } } },
        required: ['result'],
        additionalProperties: false,
      })
    })

    test('keeps its local references', () => {
      const schema = {
        $defs: { point: { type: 'object' }, default: { $ref: '#/$defs/point' } },
        type: 'array',
        items: {
          anyOf: [{ $ref: '#/$defs/point' }, { $ref: '#' }, { $ref: 'https://a.example/s' }],
        },
      }
      expect(wrapped(schema)).toEqual({
        $defs: { point: { type: 'object' }, default: { $ref: '#/properties/result/$defs/point' } },
        type: 'array',
        items: {
          anyOf: [
            { $ref: '#/properties/result/$defs/point' },
            { $ref: '#/properties/result' },
            { $ref: 'https://a.example/s' },
          ],
        },
      })
    })

    test('keeps data that looks like a reference', () => {
      const schema = { type: 'array', default: [{ $ref: '#/a' }], enum: [{ $ref: '#' }] }
      expect(wrapped(schema)).toEqual(schema)
      const withId = { $id: 'https://a.example/s', type: 'array', items: { $ref: '#/$defs/a' } }
      expect(wrapped(withId)).toEqual(withId)
    })
  })

  describe('a structured result', () => {
    test.each([0, false, null, '', [], 'text'])('is wrapped if it is %j', (value) => {
      expect(objectValue(value, undefined)).toEqual({ result: value })
    })

    test('is wrapped if it is an object whose schema was wrapped', () => {
      expect(objectValue({ a: 1 }, true)).toEqual({ result: { a: 1 } })
      expect(objectValue({ a: 1 }, false)).toEqual({ a: 1 })
      expect(objectValue({ a: 1 }, undefined)).toEqual({ a: 1 })
    })
  })
})

describe('tool headers', () => {
  describe('a header annotation', () => {
    test.each(Object.entries(headerAnnotationForms))(
      'is valid or not in the form: %s',
      (_name, { inputSchema, fault }) => {
        expect('invalid' in compileToolHeaders(inputSchema)).toBe(fault !== undefined)
      },
    )

    test('becomes a header name in lower case and a path', () => {
      const inputSchema = {
        properties: {
          region: { type: 'string', 'x-mcp-header': 'Region' },
          target: { properties: { zone: { type: 'integer', 'x-mcp-header': 'ZONE' } } },
        },
      }
      expect(compileToolHeaders(inputSchema)).toEqual({
        headers: [
          { name: 'mcp-param-region', path: ['region'] },
          { name: 'mcp-param-zone', path: ['target', 'zone'] },
        ],
      })
    })

    test('reports its error', () => {
      const inputSchema = { properties: { a: { type: 'number', 'x-mcp-header': 'A' } } }
      expect(compileToolHeaders(inputSchema)).toEqual({
        invalid: 'x-mcp-header "A" is not on a string, integer or boolean',
      })
    })

    test.each([
      ['a property of that name', { properties: { 'x-mcp-header': { type: 'string' } } }],
      ['a definition of that name', { $defs: { 'x-mcp-header': { type: 'string' } } }],
      ['an example that has it', { examples: [{ 'x-mcp-header': 'A' }] }],
      ['a default that has it', { properties: { a: { default: { 'x-mcp-header': 7 } } } }],
      ['a constant that has it', { const: { 'x-mcp-header': '' } }],
      ['no schema at all', undefined],
      ['a boolean schema', true],
    ])('is not found in %s', (_name, inputSchema) => {
      expect(compileToolHeaders(inputSchema)).toEqual({ headers: [] })
    })

    test('is found below a property that is called "properties"', () => {
      const a = { type: 'string', 'x-mcp-header': 'A' }
      expect(compileToolHeaders({ properties: { properties: { properties: { a } } } })).toEqual({
        headers: [{ name: 'mcp-param-a', path: ['properties', 'a'] }],
      })
    })
  })

  describe('the headers of a call', () => {
    const headers = [
      { name: 'mcp-param-a', path: ['a'] },
      { name: 'mcp-param-b', path: ['deep', 'b'] },
    ]

    test.each([
      ['text', { a: 'west' }, ['mcp-param-a', 'west']],
      ['text that must be encoded', { a: 'ü' }, ['mcp-param-a', '=?base64?w7w=?=']],
      ['empty text', { a: '' }, ['mcp-param-a', '=?base64??=']],
      ['an integer', { a: -7 }, ['mcp-param-a', '-7']],
      ['the largest integer', { a: 2 ** 53 - 1 }, ['mcp-param-a', '9007199254740991']],
      ['zero', { a: 0 }, ['mcp-param-a', '0']],
      ['true', { a: true }, ['mcp-param-a', 'true']],
      ['false', { a: false }, ['mcp-param-a', 'false']],
      ['null', { a: null }, []],
      ['no value', {}, []],
      ['an object', { a: {} }, []],
      ['both', { a: 'x', deep: { b: 'y' } }, ['mcp-param-a', 'x', 'mcp-param-b', 'y']],
      ['a path that ends early', { deep: 'b' }, []],
      ['undefined arguments', undefined, []],
      ['a name of the prototype', { deep: Object.create({ b: 'inherited' }) }, []],
    ])('for %s', (_name, args, list) => {
      expect(toolHeaderList(headers, args)).toEqual(list)
    })
  })

  test.each([
    ['a stored annotation', { region: [{ name: 'mcp-param-region', path: ['region'] }] }, true],
    ['no entries', {}, true],
    ['another header', { region: [{ name: 'authorization', path: ['region'] }] }, false],
    ['a line break', { region: [{ name: 'mcp-param-a\r\nhost', path: [] }] }, false],
    ['a path of numbers', { region: [{ name: 'mcp-param-a', path: [1] }] }, false],
    ['no list', { region: {} }, false],
    ['no object', [], false],
  ])('checks a stored map with %s', (_name, value, is) => {
    expect(isToolHeaderMap(value)).toBe(is)
  })
})

describe('header value', () => {
  test.each(['a', 'west-1', 'two words', '{"a":1}', '~', '=?base64?', '=?utf8?Zg==?='])(
    'leaves %j unchanged',
    (text) => {
      expect(encodeHeaderValue(text)).toBe(text)
    },
  )

  test.each([
    ['an empty text', ''],
    ['a leading space', ' a'],
    ['a trailing space', 'a '],
    ['a space', ' '],
    ['a tab', 'a\tb'],
    ['a line break', 'a\r\nHost: b'],
    ['a line break at the end', 'a\n'],
    ['a control character', 'a\u0000'],
    ['a delete', 'a\u007F'],
    ['more than ASCII', 'Zürich'],
    ['an emoji', '🦀'],
    ['text that looks encoded', '=?base64?YQ==?='],
    ['text that looks encoded, in capitals', '=?BASE64?YQ==?='],
  ])('encodes %s', (_name, text) => {
    const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(encodeHeaderValue(text)) ?? []
    expect(Buffer.from(encoded ?? 'not encoded', 'base64').toString('utf8')).toBe(text)
  })
})
