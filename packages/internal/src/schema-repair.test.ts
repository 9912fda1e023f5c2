import { describe, expect, test } from 'vitest'
import { documentOf } from './json-schema.ts'
import { objectSchema } from './schema-repair.ts'

function repaired(schema: unknown): Readonly<Record<string, unknown>> {
  return objectSchema(structuredClone(schema)) as Readonly<Record<string, unknown>>
}

/** The schema of the argument `a`, repaired. */
function argument(a: unknown): unknown {
  const schema = repaired({ type: 'object', properties: { a } })
  expect(documentOf(schema).defect).toBeUndefined()
  return (schema['properties'] as { readonly a: unknown }).a
}

describe('a keyword of another type than JSON Schema says', () => {
  test.each<[sent: object, wanted: object]>([
    [{ minLength: '1', maxLength: 10.5 }, { minLength: 1 }],
    [{ minItems: -1, maxItems: 'many', minContains: '2' }, { minContains: 2 }],
    [
      { minimum: '0', maximum: 'x', exclusiveMaximum: '5' },
      { minimum: 0, exclusiveMaximum: 5 },
    ],
    [
      { exclusiveMinimum: true, minimum: 1 },
      { exclusiveMinimum: true, minimum: 1 },
    ],
    [{ multipleOf: 0 }, {}],
    [{ multipleOf: '0.5' }, { multipleOf: 0.5 }],
    [
      { uniqueItems: 'true', deprecated: 'yes', readOnly: 'false' },
      { uniqueItems: true, readOnly: false },
    ],
    [{ format: 5, pattern: {}, $comment: 1 }, {}],
    [{ examples: 'x' }, {}],
    [{ examples: { first: { value: 1 } } }, {}],
    [{ required: 'b' }, { required: ['b'] }],
    [{ required: ['b', 'b', 1, 'c'] }, { required: ['b', 'c'] }],
    [{ required: 'true' }, {}],
    [
      { dependentRequired: { b: 'c', d: ['e', 'e'], f: 1 } },
      { dependentRequired: { b: ['c'], d: ['e'] } },
    ],
    [{ additionalProperties: 'false' }, { additionalProperties: false }],
    [{ additionalProperties: [] }, { additionalProperties: {} }],
    [{ enum: { 0: 'x', 1: 'y' } }, { enum: ['x', 'y'] }],
    [{ enum: { X: 'x' } }, {}],
    [{ enum: 'x' }, { enum: ['x'] }],
    [{ enum: ['x', 'x', null] }, { enum: ['x', null] }],
    [{ enum: [] }, {}],
    [{ anyOf: [], allOf: [] }, {}],
    [{ oneOf: { type: 'string' } }, { oneOf: [{ type: 'string' }] }],
    [{ oneOf: [] }, {}],
    [{ anyOf: { 0: {}, 1: { minLength: '1' } } }, { anyOf: [{}, { minLength: 1 }] }],
    [{ items: [], prefixItems: [] }, { items: {} }],
    [
      { contains: 'int', propertyNames: { minLength: '1' }, unevaluatedProperties: 'false' },
      {
        contains: { type: 'integer' },
        propertyNames: { minLength: 1 },
        unevaluatedProperties: false,
      },
    ],
    [
      { if: { required: 'b' }, else: { minProperties: '1' } },
      { if: { required: ['b'] }, else: { minProperties: 1 } },
    ],
  ])('is read, or left out: %j', (sent, wanted) => {
    expect(argument(sent)).toEqual(wanted)
  })

  test.each<[type: unknown, wanted: unknown]>([
    ['STRING', 'string'],
    ['int', 'integer'],
    ['Float', 'number'],
    ['bool', 'boolean'],
    ['dict', 'object'],
    ['list', 'array'],
    ['file', 'string'],
    [
      ['string', 'str', 'null'],
      ['string', 'null'],
    ],
    ['any', undefined],
    ['None', undefined],
    [['string', 'any'], undefined],
    [[], undefined],
    [{ type: 'string' }, undefined],
    ['toString', undefined],
  ])('is read as a type: %j', (type, wanted) => {
    expect(argument({ type })).toEqual(wanted === undefined ? {} : { type: wanted })
  })

  test.each<[sent: object, wanted: object]>([
    [{ not: { type: 'anything' } }, {}],
    [{ not: { enum: ['x'] } }, { not: { enum: ['x'] } }],
    [{ if: { minLength: 'many' }, else: { const: 'x' } }, { else: { const: 'x' } }],
    [{ not: { type: ['string', 'null'], title: null } }, { not: { type: ['string', 'null'] } }],
    [
      { oneOf: [{ type: 'datetime' }, { type: 'string', maxLength: 3 }] },
      { anyOf: [{ type: 'string' }, { type: 'string', maxLength: 3 }] },
    ],
    [{ oneOf: [{ type: 'string' }, {}] }, { oneOf: [{ type: 'string' }, {}] }],
  ])('refuses no value because a restriction is left out: %j', (sent, wanted) => {
    expect(argument(sent)).toEqual(wanted)
  })

  test.each(['$defs', 'definitions'])('refuses no value because one in %s is left out', (name) => {
    const reference = { $ref: `#/${name}/day` }
    const sent = { not: reference, oneOf: [reference, { type: 'null' }] }
    const ofDay = (day: object): unknown => repaired({ type: 'object', ...sent, [name]: { day } })
    expect(ofDay({ type: 'anything' })).toEqual({
      type: 'object',
      anyOf: sent.oneOf,
      [name]: { day: {} },
    })
    const kept = { type: 'object', ...sent, [name]: { day: { type: 'string' } } }
    expect(ofDay({ type: 'string' })).toEqual(kept)
  })

  test('may be a type in place of a schema', () => {
    expect(argument('string')).toEqual({ type: 'string' })
    expect(argument({ items: 'int' })).toEqual({ items: { type: 'integer' } })
    expect(argument('anything')).toEqual({})
    expect(objectSchema('{"type":"object"}')).toBe('{"type":"object"}')
  })

  test('is repaired at the root, too', () => {
    expect(repaired({ type: 'OBJECT', required: ['a', 'a'], anyOf: [] })).toEqual({
      type: 'object',
      required: ['a'],
    })
  })
})

test('names of arguments and values in a schema are no keywords', () => {
  const schema = {
    type: 'object',
    properties: { type: { type: 'string' }, enum: { default: { minLength: '1' } } },
    default: { type: 'int', enum: [] },
  }
  expect(repaired(schema)).toEqual(schema)
})
