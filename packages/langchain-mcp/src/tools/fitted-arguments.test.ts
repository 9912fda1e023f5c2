import { SchemaCheck } from '@x/internal/schema-check'
import { describe, expect, test } from 'vitest'
import type { JsonSchema } from '../tool-source.ts'
import { fittedArguments } from './fitted-arguments.ts'

const read = (given: unknown, schema: JsonSchema): ReturnType<typeof fittedArguments> =>
  fittedArguments(given, { schema, check: new SchemaCheck(schema), names: ['tool', 'the tool'] })

const fitted = (given: unknown, schema: JsonSchema): unknown => read(given, schema).value

const object = (properties: JsonSchema, required: readonly string[] = []): JsonSchema => ({
  type: 'object',
  properties,
  required,
})

/** `a` is a number if `kind` is `x`. */
function conditional(properties: JsonSchema): JsonSchema {
  const branch = JSON.parse('{"then":{"properties":{"a":{"type":"integer"}}}}') as JsonSchema
  return { ...object(properties), if: { properties: { kind: { const: 'x' } } }, ...branch }
}

const text = { type: 'string' }
const count = { type: 'integer' }
const list = { type: 'array', items: count }
const nullable = { anyOf: [count, { type: 'null' }] }

describe('null', () => {
  test.each([
    ['a text', text],
    ['a number', { type: 'number' }],
    ['one of some texts', { enum: ['a', 'b'] }],
    ['an object', object({ a: text })],
    ['a reference', { $ref: '#/$defs/count' }],
    ['a union of other types', { anyOf: [text, count] }],
    ['a type behind allOf', { allOf: [text, { minLength: 1 }] }],
  ])('is left out for %s that is optional (NeMo#1269)', (_what, schema) => {
    const whole = { ...object({ a: schema, b: text }), $defs: { count } }
    expect(fitted({ a: null, b: 'x' }, whole)).toEqual({ b: 'x' })
    expect(fitted({ a: 'null' }, { ...object({ a: count }), $defs: { count } })).toEqual({})
  })

  test('is left out in objects, in lists of objects, and behind references', () => {
    const item = object({ sku: text, note: text }, ['sku'])
    const schema = {
      ...object({
        filter: object({ a: text }),
        items: { type: 'array', items: { $ref: '#/$defs/item' } },
      }),
      $defs: { item },
    }
    const given = { filter: { a: null }, items: [{ sku: 'x', note: null }, { sku: 'y' }] }
    expect(fitted(given, schema)).toEqual({ filter: {}, items: [{ sku: 'x' }, { sku: 'y' }] })
  })

  test.each<[string, JsonSchema, (string | null)?]>([
    ['the schema allows null', object({ a: nullable })],
    ['the types contain null', object({ a: { type: ['integer', 'null'] } })],
    ['the values contain null', object({ a: { enum: ['x', null] } })],
    ['OpenAPI allows null', object({ a: { type: 'integer', nullable: true } })],
    ['nothing is said of the type', object({ a: { description: 'anything' } })],
    ['it is a text, and the schema allows null', object({ a: nullable }), 'null'],
    ['it is that of Python, and the schema allows null', object({ a: nullable }), 'None'],
    ['the parameter is required', object({ a: count }, ['a'])],
    ['the parameter is unknown', { ...object({ b: count }), additionalProperties: false }],
  ])('stays if %s', (_why, schema, given = null) => {
    expect(fitted({ a: given }, schema)).toEqual({ a: null })
  })

  test('stays in a list, and in an object with any names', () => {
    const schema = object({ list, map: { type: 'object', additionalProperties: count } })
    const given = { list: [1, null], map: { x: null } }
    expect(fitted(given, schema)).toBe(given)
  })
})

describe('text', () => {
  test.each<[string, JsonSchema, string, unknown]>([
    ['a list (LibreChat#11905)', list, '[1, 2]', [1, 2]],
    ['a list, with space around it', list, ' [1]\n', [1]],
    ['an object', object({ n: count }), '{"n":1}', { n: 1 }],
    ['a list that may be null', { anyOf: [list, { type: 'null' }] }, '[1]', [1]],
    [
      'one of two objects',
      { oneOf: [object({ n: count }, ['n']), object({ m: text }, ['m'])] },
      '{"m":"x"}',
      { m: 'x' },
    ],
    ['an integer (claude-code#59227)', count, '42', 42],
    ['a number', { type: 'number' }, '-1.5e3', -1500],
    ['one of some numbers', { enum: [1, 2] }, '2', 2],
    ['true', { type: 'boolean' }, 'true', true],
    ["Python's False", { type: 'boolean' }, 'False', false],
    ['a constant', { const: 3 }, '3', 3],
    ['a number in an object as text', object({ n: count }), '{"n":"1"}', { n: 1 }],
    [
      'an object with a number of all digits, and with digits in a text',
      object({ n: { type: 'number' }, id: text }),
      '{"n":0.30000000000000004,"id":"\\"12345678901234567890"}',
      { n: 0.30000000000000004, id: '"12345678901234567890' },
    ],
    ['a list as text in a list as text', { type: 'array', items: list }, '["[1]"]', [[1]]],
  ])('becomes the value of %s', (...[, schema, given, expected]) => {
    expect(fitted({ a: given }, object({ a: schema }, ['a']))).toEqual({ a: expected })
  })

  test.each<[string, JsonSchema, string]>([
    ['a text fits too', { anyOf: [list, text] }, '[1]'],
    ['a text is due, of another form', { ...text, maxLength: 1 }, '[1]'],
    ['another text is due', { enum: ['1', '2', 3] }, '3'],
    ['nothing is said of the type', {}, '[1]'],
    ['it is no JSON', list, '1, 2'],
    ['it is the JSON of another type', list, '{"a":1}'],
    ['a number has more digits than a number keeps', count, '12345678901234567890'],
    ['a number in it has more', object({ id: count }), '{"id":12345678901234567890}'],
    ['it is a number of another spelling', count, '0x10'],
    ['it is a word for a truth', { type: 'boolean' }, 'yes'],
  ])('stays if %s', (_why, schema, given) => {
    expect(fitted({ a: given }, object({ a: schema }))).toEqual({ a: given })
  })

  test('becomes a value in lists, and in objects with any names', () => {
    const schema = object({
      list: { type: 'array', prefixItems: [text], items: count },
      map: { type: 'object', additionalProperties: count },
      'a/b ~#': count,
    })
    const given = { list: ['1', '2'], map: { x: '1' }, 'a/b ~#': '3' }
    expect(fitted(given, schema)).toEqual({
      list: ['1', 2],
      map: { x: 1 },
      'a/b ~#': 3,
    })
  })

  test('becomes the value of a list in draft-07 with a schema for each item', () => {
    const schema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      ...object({ old: { type: 'array', items: [text, count] } }),
    }
    expect(fitted({ old: ['1', '2'] }, schema)).toEqual({ old: ['1', 2] })
  })

  test('becomes the arguments, if a model writes all of them as text', () => {
    expect(fitted('{"a":"1"}', object({ a: count }))).toEqual({ a: 1 })
  })
})

describe('a blank text', () => {
  test.each<[string, JsonSchema, unknown]>([
    ['a number', count, ''],
    ['a list', list, ''],
    ['one of some texts (metamcp#365)', { enum: ['a', 'b'] }, ' '],
    ['a text with a length', { ...text, minLength: 1 }, ''],
    ['a text with a pattern (oh-my-pi#2981)', { ...text, pattern: '^a' }, ''],
    ['a date', { ...text, format: 'date' }, ''],
    ['an object', object({ a: text }), ''],
    ["Python's None", count, 'None'],
    ['undefined', count, 'undefined'],
    ['a list where none fits', object({ a: text }), []],
  ])('is left out for %s that is optional (coder/xum#2887)', (_what, schema, given) => {
    expect(fitted({ a: given, b: 'x' }, object({ a: schema, b: text }))).toEqual({ b: 'x' })
  })

  test.each<[string, JsonSchema, unknown]>([
    ['any text fits', object({ a: text }), ''],
    ['None is one of the texts', object({ a: { enum: ['None', 'b'] } }), 'None'],
    ['it is a word', object({ a: { enum: ['email', 'sms'] } }), 'none'],
    ['the parameter is required', object({ a: count }, ['a']), ''],
    ['a list fits', object({ a: list }), []],
  ])('stays if %s', (_why, schema, given) => {
    expect(fitted({ a: given }, schema)).toEqual({ a: given })
  })

  test('becomes an empty list where a list fits', () => {
    expect(fitted({ a: '[]' }, object({ a: list }))).toEqual({ a: [] })
  })

  test('becomes an object where PHP writes an empty list', () => {
    expect(fitted({ a: [] }, object({ a: object({}) }, ['a']))).toEqual({ a: {} })
  })

  test.each(['', ' ', 'null', '[]', []])('in place of all arguments is none: %j', (given) => {
    expect(fitted(given, object({ a: text }))).toEqual({})
  })
})

describe('JSON that is not exact', () => {
  const fence = '```'
  test.each<[string, JsonSchema, string, unknown]>([
    ['a fence', list, `${fence}json\n[1, 2]\n${fence}`, [1, 2]],
    ['a fence without a language', list, `${fence}\n[1]\n${fence}`, [1]],
    ['a comma at the end', object({ n: text }), '{"n": ",]", }', { n: ',]' }],
    ['both', list, `${fence}json\n[\n1,\n]\n${fence}`, [1]],
  ])('becomes its value: %s', (...[, schema, given, expected]) => {
    expect(fitted({ a: given }, object({ a: schema }))).toEqual({ a: expected })
  })

  test.each(["{'n': 'x'}", '[1, 2', '[1] and more', '[1,,2]'])('stays: %s', (given) => {
    const schema = object({ a: { anyOf: [list, object({ n: text })] } })
    expect(fitted({ a: given }, schema)).toEqual({ a: given })
  })

  test('stays if a text in it has no end', () => {
    const given = `["${'x'.repeat(12_000_000)}`
    expect(fitted({ a: given }, object({ a: list }))).toEqual({ a: given })
  })
})

describe('an integer, or a truth', () => {
  test('becomes a text where only texts fit (exa-mcp-server#202)', () => {
    const schema = object({ a: text, b: { enum: ['1', '2'] }, c: { type: ['string', 'null'] } })
    expect(fitted({ a: 42, b: 2, c: true }, schema)).toEqual({ a: '42', b: '2', c: 'true' })
  })

  test.each<[JsonSchema, unknown]>([
    [{ anyOf: [text, { type: 'integer', minimum: 5 }] }, 1],
    [{ ...text, maxLength: 1 }, 42],
    [{ enum: ['1'] }, 2],
    [text, 2 ** 60],
    [text, 3.1],
  ])('is refused if it does not fit then: %j', (schema, given) => {
    const whole = object({ a: schema })
    expect(read({ a: given }, whole).errors).not.toEqual([])
  })
})

describe('a description of the call', () => {
  const schema = { ...object({ a: count }, ['a']), additionalProperties: false }
  test.each<[string, unknown]>([
    ['name and arguments (firecrawl-mcp-server#279)', { name: 'tool', arguments: { a: 1 } }],
    ['the name on the server', { name: 'the tool', arguments: { a: 1 } }],
    ['parameters, with a number as text', { parameters: { a: '1' } }],
    ['input as text', { input: '{"a":1}' }],
  ])('is replaced by its arguments: %s', (_what, given) => {
    expect(fitted(given, schema)).toEqual({ a: 1 })
  })

  test.each<[string, JsonSchema, unknown]>([
    [
      'a parameter has such a name',
      object({ input: object({ a: count }, ['a']) }),
      { input: { b: 1 } },
    ],
    [
      'an alternative has such a parameter',
      {
        ...object({}),
        anyOf: [object({ input: object({ a: count }, ['a', 'b']) }, ['input']), schema],
      },
      { input: { a: 1 } },
    ],
    [
      'parameters have any name',
      { ...object({}), additionalProperties: text },
      { input: { a: 'x' } },
    ],
    [
      'parameters have names of a pattern',
      { ...object({}), patternProperties: { '^i': text } },
      { input: { a: 'x' } },
    ],
    ['another tool is meant', schema, { name: 'other', arguments: { a: 1 } }],
    ['it has other fields', schema, { arguments: { a: 1 }, b: 2 }],
    ['it has two of them', schema, { arguments: { a: 1 }, input: { a: 2 } }],
    ['the schema accepts it', object({ a: count }), { arguments: { a: 1 } }],
  ])('stays if %s', (_why, given, value) => {
    expect(fitted(value, given)).toBe(value)
  })
})

describe('arguments that fit', () => {
  test.each<[unknown, JsonSchema]>([
    [{ a: null, b: '[1]', c: '1' }, object({ b: text })],
    [{ kind: 'y', a: '5' }, conditional({ kind: text })],
    [{ __proto__: null, a: '1' }, object({ a: text })],
  ])('are the same object: %j', (given, schema) => {
    expect(fitted(given, schema)).toBe(given)
  })

  test('stay where another argument is repaired', () => {
    const schema = conditional({ kind: text, n: count })
    expect(fitted({ kind: 'y', a: '5', n: '1' }, schema)).toEqual({ kind: 'y', a: '5', n: 1 })
  })

  test.each([{ $ref: '#/nowhere' }, { properties: 'none' }])(
    'of a schema with a defect are left to the server: %j',
    (schema) => {
      const given = { a: null }
      expect(fitted(given, { type: 'object', ...schema })).toBe(given)
    },
  )

  test('ends for a schema that contains itself', () => {
    const node = { ...object({ next: { $ref: '#/$defs/node' }, n: count }) }
    const schema = { ...object({ root: { $ref: '#/$defs/node' } }), $defs: { node } }
    expect(fitted({ root: { next: { next: null, n: '1' } } }, schema)).toEqual({
      root: { next: { n: 1 } },
    })
  })
})
