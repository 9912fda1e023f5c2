import { headerAnnotationForms } from '../../test/header-annotation-forms.ts'
import { describe, expect, test } from 'vitest'
import { compileToolHeaders, isToolHeaderMap, toolHeaderList } from './tool-headers.ts'

describe('an annotation', () => {
  test.each(Object.entries(headerAnnotationForms))('%s', (_name, { inputSchema, fault }) => {
    expect('invalid' in compileToolHeaders(inputSchema)).toBe(fault !== undefined)
  })

  test('is named by its name in lower case, and found by its path', () => {
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

  test('says what is wrong with it', () => {
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
  ])('is not %s', (_name, inputSchema) => {
    expect(compileToolHeaders(inputSchema)).toEqual({ headers: [] })
  })

  test('below a property that is called properties is reached through properties', () => {
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
    ['nothing', {}, []],
    ['an object', { a: {} }, []],
    ['both', { a: 'x', deep: { b: 'y' } }, ['mcp-param-a', 'x', 'mcp-param-b', 'y']],
    ['a path that ends early', { deep: 'b' }, []],
    ['arguments that are none', undefined, []],
    ['a name of the prototype', { deep: Object.create({ b: 'inherited' }) }, []],
  ])('%s', (_name, args, list) => {
    expect(toolHeaderList(headers, args)).toEqual(list)
  })
})

test.each([
  ['what was stored', { region: [{ name: 'mcp-param-region', path: ['region'] }] }, true],
  ['nothing', {}, true],
  ['another header', { region: [{ name: 'authorization', path: ['region'] }] }, false],
  ['a line break', { region: [{ name: 'mcp-param-a\r\nhost', path: [] }] }, false],
  ['a path of numbers', { region: [{ name: 'mcp-param-a', path: [1] }] }, false],
  ['no list', { region: {} }, false],
  ['no object', [], false],
])('a stored map with %s', (_name, value, is) => {
  expect(isToolHeaderMap(value)).toBe(is)
})
