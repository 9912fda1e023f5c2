import { isBlank } from '@x/internal'
import { beforeAll, describe, expect, test } from 'vitest'
import type { JsonSchema } from '../agents/agent.ts'
import { refusalsOf, whenSchemasChecked } from '../agents/schemas.ts'
import { argumentsFrom, fittedArguments, type Arguments } from './fitted-arguments.ts'

beforeAll(whenSchemasChecked)

const text = { type: 'string' }
const count = { type: 'integer' }
const list = { type: 'array', items: text }
const choice = { type: 'string', enum: ['a', 'b'] }

function object(properties: JsonSchema, required: readonly string[] = []): JsonSchema {
  return { type: 'object', properties, required, additionalProperties: false }
}

const point = object({ x: count, note: text, tags: list }, ['x'])

function fitted(given: Arguments, schema: JsonSchema) {
  return fittedArguments(given, schema, (value) => refusalsOf(schema, value))
}

describe('a value that stands for no value', () => {
  const optional: readonly (readonly [string, JsonSchema])[] = [
    ['a number', count],
    ['a boolean', { type: 'boolean' }],
    ['a choice', choice],
    ['a text that may not be empty', { type: 'string', minLength: 5 }],
    ['a text of a form', { type: 'string', pattern: '^[A-Z]{2}$' }],
    ['an object', point],
    ['a reference', { $ref: '#/$defs/count' }],
    ['a union', { anyOf: [count, { type: 'boolean' }] }],
    ['a union of a number and a choice', { anyOf: [count, choice] }],
    ['a part of allOf', { allOf: [count, { minimum: 1 }] }],
  ]
  const blanks = [null, '', ' ', '[]', '[ ]', 'null', []]

  test.each(
    optional.flatMap(([what, schema]) => blanks.map((blank) => [blank, what, schema] as const)),
  )('is left out: %j for %s that is optional', (blank, _what, schema) => {
    const whole = { ...object({ a: schema, b: text }), $defs: { count } }
    expect(fitted({ a: blank, b: '' }, whole)).toEqual({
      value: { b: '' },
      leftOut: [],
      refusals: [],
    })
  })

  test.each([null, '', '[]'])('is left out: %j for a list that is optional', (blank) => {
    expect(fitted({ a: blank }, object({ a: list })).value).toEqual({})
    expect(fitted({ a: blank }, object({ a: { ...list, minItems: 1 } })).value).toEqual({})
  })

  test('is left out in objects, in lists of objects, in branches, and behind references', () => {
    const schema = {
      ...object({
        one: point,
        many: { type: 'array', items: { $ref: '#/$defs/point' } },
        either: {
          oneOf: [object({ kind: { const: 'p' }, at: point }), object({ kind: { const: 'n' } })],
        },
        byName: { type: 'object', additionalProperties: point },
      }),
      $defs: { point },
    }
    const blank = { x: 1, note: null, tags: '' }
    const given = {
      one: blank,
      many: [blank, { x: 2 }],
      either: { kind: 'p', at: blank },
      byName: { 'a/b~': blank },
    }
    expect(fitted(given, schema).value).toEqual({
      one: { x: 1 },
      many: [{ x: 1 }, { x: 2 }],
      either: { kind: 'p', at: { x: 1 } },
      byName: { 'a/b~': { x: 1 } },
    })
  })

  test.each<[string, unknown, JsonSchema]>([
    ['a field may be null', null, { type: ['integer', 'null'] }],
    ['a field may be null in a branch', null, { anyOf: [count, { type: 'null' }] }],
    ['a choice has null', null, { enum: ['a', null] }],
    ['OpenAPI allows null', null, { anyOf: [count, { const: null }] }],
    ['a text may be empty', '', text],
    ['an empty text is a choice', '', { enum: ['', 'a'] }],
    ['a text holds JSON', '[]', text],
    ['a text is the word null', 'null', text],
    ['a list may be empty', [], list],
    ['nothing is said of the type', '', {}],
  ])('stays if %s', (_why, value, schema) => {
    const given = { a: value }
    // Another field is refused, so that the arguments are read.
    const whole = object({ a: schema, b: count })
    expect(fitted(given, whole).value).toBe(given)
    expect(fitted({ ...given, b: null }, whole).value).toEqual(given)
  })

  test.each([null, '', [], '[]'])('is refused for a field that is required: %j', (blank) => {
    const { refusals } = fitted({ a: blank }, object({ a: count }, ['a']))
    expect(refusals.map((each) => each.text())).toEqual(['/a must be integer'])
  })

  test('is refused in a list of values', () => {
    expect(
      fitted({ a: [1, null] }, object({ a: { type: 'array', items: count } })).refusals,
    ).toHaveLength(1)
  })
})

describe('JSON text', () => {
  test.each<[string, JsonSchema, string, unknown]>([
    ['a list', list, '["x"]', ['x']],
    ['a list with space around it', list, ' ["x"]\n', ['x']],
    ['an object', point, '{"x":1}', { x: 1 }],
    ['a list or null', { anyOf: [list, { type: 'null' }] }, '["x"]', ['x']],
    ['one of two objects', { oneOf: [point, object({ y: count }, ['y'])] }, '{"y":1}', { y: 1 }],
    [
      'an object in a list of texts',
      { type: 'array', items: point },
      '["{\\"x\\":1}"]',
      [{ x: 1 }],
    ],
    ['an object with blanks', point, '{"x":1,"note":null}', { x: 1 }],
    ['an empty list that is required', list, '[]', []],
    ['an empty object of PHP', { type: 'object' }, '[]', {}],
  ])('becomes %s', (...[, schema, given, expected]) => {
    expect(fitted({ a: given }, object({ a: schema }, ['a']))).toMatchObject({
      value: { a: expected },
      refusals: [],
    })
  })

  test.each<[string, JsonSchema, string]>([
    ['a text fits', { anyOf: [list, text] }, '["x"]'],
    ['a number is due', count, '5'],
    ['a boolean is due', { type: 'boolean' }, 'true'],
    ['a number is due, of a list', { type: 'number' }, '[5]'],
    ['a list is due, and it is no JSON', list, 'x, y'],
    ['a list is due, and it is one of brackets', list, '['.repeat(100_000)],
    ['a list is due, and it is nested too deeply', list, `${'['.repeat(200)}${']'.repeat(200)}`],
    ['a list is due, and it is an object', list, '{"x":1}'],
    ['an object is due, and it is a list', point, '[1]'],
    ['a list is due, and it is a number', list, '5'],
  ])('stays if %s', (_why, schema, given) => {
    expect(fitted({ a: given }, object({ a: schema }, ['a'])).value).toEqual({ a: given })
  })
})

test('an empty list of PHP becomes the empty object that is due', () => {
  const schema = object({ a: { type: 'object' }, b: object({ c: count }) }, ['a'])
  expect(fitted({ a: [], b: [] }, schema).value).toEqual({ a: {}, b: {} })
})

describe('a field that the schema does not allow', () => {
  test('is left out, and named', () => {
    const given = { x: 1, toolCallId: 'call_1', sessionId: 's', chatInput: 'Hi' }
    expect(fitted(given, point)).toEqual({
      value: { x: 1 },
      leftOut: ['toolCallId', 'sessionId', 'chatInput'],
      refusals: [],
    })
  })

  test('is left out with `unevaluatedProperties`, and in draft-07', () => {
    const { additionalProperties: _, ...open } = point
    const closed = { allOf: [open], unevaluatedProperties: false }
    expect(fitted({ x: 1, toolCallId: 'c' }, closed).value).toEqual({ x: 1 })
    const old = { $schema: 'http://json-schema.org/draft-07/schema#', ...point }
    expect(fitted({ x: 1, toolCallId: 'c' }, old).value).toEqual({ x: 1 })
  })

  test.each<[string, Arguments, JsonSchema]>([
    [
      'the schema allows others',
      { x: 1, toolCallId: 'c' },
      { type: 'object', properties: { x: count } },
    ],
    [
      'its name fits a pattern',
      { toolCallId: 'c' },
      { ...object({}), patternProperties: { '^tool': text } },
    ],
    ['a property may be meant that is missing', { x: 1, notes: 'n' }, point],
    [
      'another branch has it',
      { kind: 'b', y: 'no' },
      {
        type: 'object',
        oneOf: [object({ kind: { const: 'a' } }), object({ kind: { const: 'b' }, y: count })],
      },
    ],
    [
      'it is in an inner object',
      { x: 1, at: { x: 1, toolCallId: 'c' } },
      object({ x: count, at: point }),
    ],
    [
      'there are too many',
      Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`f${at}`, at])),
      point,
    ],
  ])('stays if %s', (_why, given, schema) => {
    expect(fitted(given, schema)).toMatchObject({ value: given, leftOut: [] })
  })

  test('is left out beside a property that is like it', () => {
    expect(fitted({ x: 1, note: 'n', notes: 'm' }, point).leftOut).toEqual(['notes'])
    const own = object({ session: text })
    expect(fitted({ sessionId: 's' }, own).leftOut).toEqual(['sessionId'])
  })
})

test.each([{ $ref: '#/nowhere' }, { properties: { a: 'none' } }])(
  'arguments stay if the schema has a defect: %j',
  (schema) => {
    const given = { a: null }
    expect(fittedArguments(given, schema, () => [{ place: '/a', text: () => '' }]).value).toBe(
      given,
    )
  },
)

test('arguments of a schema that contains itself are read to their end', () => {
  const node = object({ next: { $ref: '#/$defs/node' }, n: count })
  const schema = { ...object({ root: { $ref: '#/$defs/node' } }), $defs: { node } }
  const given = { root: { next: '{"next":null,"n":""}', n: null } }
  expect(fitted(given, schema).value).toEqual({ root: { next: {} } })
})

test.each([
  [undefined, {}],
  [null, {}],
  ['', {}],
  ['[]', {}],
  [[], {}],
  ['{}', {}],
  [' {"a":1} ', { a: 1 }],
  ['"a"', '"a"'],
  ['[1]', '[1]'],
  [[1], [1]],
  [7, 7],
  [`{"a":${'['.repeat(200)}${']'.repeat(200)}}`, `{"a":${'['.repeat(200)}${']'.repeat(200)}}`],
])('the arguments of a request: %j', (given, expected) => {
  expect(argumentsFrom(given)).toEqual(expected)
})

test('a long text of spaces is read in one pass', () => {
  expect(isBlank(`${' '.repeat(200_000)}x`)).toBe(false)
  expect(isBlank(`[${' '.repeat(200_000)}x]`)).toBe(false)
})
