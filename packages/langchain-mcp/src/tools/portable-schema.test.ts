import { isRecord } from '@x/internal'
import { SchemaCheck } from '@x/internal/schema-check'
import { describe, expect, test } from 'vitest'
import { goldenSchemas } from '../../test/golden-schemas.ts'
import type { JsonSchema } from '../tool-source.ts'
import { projectedSchema } from './schema-projection.ts'

const text = { type: 'string' }
const scalar = { type: ['string', 'number', 'boolean', 'object', 'null'] }
const row = { anyOf: [scalar, { type: 'array', items: scalar }] }
const anything = { anyOf: [scalar, { type: 'array', items: row }] }
const $defs = { A: { type: 'string', description: 'theirs', minLength: 1 }, N: { type: 'integer' } }

/** Returns what the model sees of an argument, and the notes. */
function shown(a: JsonSchema | boolean): {
  readonly a: unknown
  readonly notes: readonly string[]
} {
  const { schema, notes } = projectedSchema(
    { type: 'object', properties: { a, z: { $ref: '#/$defs/N' } }, $defs },
    'common',
  )
  const { properties } = schema
  return { a: isRecord(properties) ? properties['a'] : undefined, notes }
}

describe('a value without a type', () => {
  test.each<[string, JsonSchema | boolean, unknown]>([
    ['nothing', {}, anything],
    ['true', true, anything],
    ['a description', { description: 'D' }, { description: 'D', ...anything }],
    ['texts', { enum: ['x', 'y'] }, { type: 'string', enum: ['x', 'y'] }],
    ['a constant', { const: 7 }, { type: 'number', const: 7 }],
    ['fields', { properties: { b: text } }, { type: 'object', properties: { b: text } }],
    ['items', { items: text }, { type: 'array', items: text }],
    ['a format', { format: 'date' }, { type: 'string', format: 'date' }],
    ['a limit', { minimum: 1 }, { type: 'number', minimum: 1 }],
    ['a list of anything', { type: 'array' }, { type: 'array', items: anything }],
  ])('gets one: %s', (_what, given, expected) => {
    expect(shown(given)).toEqual({ a: expected, notes: [] })
  })

  test.each<[string, JsonSchema]>([
    ['a condition', { type: 'object', if: { required: ['b'] }, properties: { b: text } }],
    ['a part of an intersection', { allOf: [{ $ref: '#/$defs/N' }, { description: 'D' }] }],
    ['a negation', { not: {} }],
    ['any other field', { type: 'object', additionalProperties: {} }],
  ])('stays without: %s', (_what, given) => {
    expect(shown(given)).toEqual({ a: given, notes: [] })
  })
})

describe('several types', () => {
  test.each<[string, JsonSchema, unknown]>([
    [
      'a list or null',
      { type: ['null', 'array'], items: text },
      { anyOf: [{ type: 'null' }, { type: 'array', items: text }] },
    ],
    [
      'limits and a default',
      { type: ['integer', 'null'], minimum: 0, description: 'D', default: null },
      {
        description: 'D',
        default: null,
        anyOf: [{ type: 'integer', minimum: 0 }, { type: 'null' }],
      },
    ],
    [
      'mixed values',
      { enum: ['x', 1, null] },
      { anyOf: [{ type: 'string', enum: ['x'] }, { type: 'number', enum: [1] }, { type: 'null' }] },
    ],
    [
      'values of one of the types',
      { type: ['string', 'integer'], enum: [1, 2] },
      { type: 'integer', enum: [1, 2] },
    ],
    ['a list of one type', { type: ['string'], minLength: 1 }, { type: 'string', minLength: 1 }],
  ])('become a union beside other keywords: %s', (_what, given, expected) => {
    expect(shown(given)).toEqual({ a: expected, notes: [] })
  })

  test('stay alone, and beside a description', () => {
    const a = { type: ['string', 'boolean'], description: 'D' }
    expect(shown(a)).toEqual({ a, notes: [] })
  })
})

describe('a union', () => {
  test.each(['anyOf', 'oneOf'])('has the type and the fields in its members: %s', (union) => {
    const fields = { x: text, y: text }
    const a = {
      type: 'object',
      description: 'D',
      properties: fields,
      required: ['x'],
      [union]: [{ required: ['y'] }, { properties: { z: text } }],
    }
    expect(shown(a)).toEqual({
      a: {
        description: 'D',
        anyOf: [
          { type: 'object', properties: fields, required: ['x', 'y'] },
          { type: 'object', properties: { ...fields, z: text }, required: ['x'] },
        ],
      },
      notes: [],
    })
  })

  test('of objects whose fields are joined accepts a value that two of them accept then', () => {
    const closed = { properties: { z: text }, additionalProperties: false }
    const a = { type: 'object', properties: { x: text }, oneOf: [closed, { required: ['x'] }] }
    const of = (schema: unknown): JsonSchema => ({ type: 'object', properties: { a: schema } })
    for (const schema of [of(a), of(shown(a).a)]) {
      expect(new SchemaCheck(schema).errors({ a: { x: 'value' } })).toEqual([])
    }
  })

  test('of references has no type, and keeps its other keywords', () => {
    const members = [{ $ref: '#/$defs/A' }, { maxLength: 3 }]
    expect(shown({ type: 'string', minLength: 1, anyOf: members }).a).toEqual({
      minLength: 1,
      anyOf: [{ $ref: '#/$defs/A' }, { type: 'string', maxLength: 3 }],
    })
  })

  test('notes a limit that its members have, too', () => {
    const a = { type: 'string', minLength: 1, anyOf: [{ minLength: 2 }] }
    expect(shown(a)).toEqual({
      a: { anyOf: [{ type: 'string', minLength: 2 }] },
      notes: ['#/properties/a: "minLength" is shown as the members of the union have it'],
    })
  })

  test('does not repeat many fields in many members', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 100 }, (_, at): [string, unknown] => [`field_${at}`, text]),
    )
    const anyOf = Array.from({ length: 50 }, (_, at) => ({ required: [`field_${at}`] }))
    const { schema } = projectedSchema(
      { type: 'object', properties: { a: { type: 'object', properties, anyOf } } },
      'common',
    )
    expect(schema).toMatchObject({ properties: { a: { properties } } })
    expect(JSON.stringify(schema)).not.toContain('"type":"object","properties":{"field_0"')
  })
})

test('does not repeat unions inside of unions without a limit', () => {
  let schema: JsonSchema = text
  for (let depth = 0; depth < 14; depth++) {
    const anyOf = [{ minProperties: 1 }, { maxProperties: 3 }]
    schema = { type: 'object', properties: { p: schema }, anyOf }
  }
  expect(JSON.stringify(shown(schema)).length).toBeLessThan(200_000)
})

describe('a reference', () => {
  test.each<[string, JsonSchema, unknown]>([
    ['alone', { $ref: '#/$defs/A' }, { $ref: '#/$defs/A' }],
    [
      'beside other keywords',
      { $ref: '#/$defs/N', description: 'mine' },
      { $ref: '#/$defs/N', description: 'mine' },
    ],
    ['beside a type', { $ref: '#/$defs/A', type: 'string' }, { $ref: '#/$defs/A' }],
    [
      'beside keywords of its target',
      { $ref: '#/$defs/A', description: 'mine', minLength: 2 },
      { description: 'mine', minLength: 2, anyOf: [{ $ref: '#/$defs/A' }] },
    ],
  ])('stays, or becomes a union with one member: %s', (_what, given, expected) => {
    expect(shown(given)).toEqual({ a: expected, notes: [] })
  })

  test('that may be null leads to its definition in draft-07, too', () => {
    const given = {
      type: 'object',
      properties: { a: { $ref: '#/definitions/A', nullable: true } },
      definitions: { A: text },
    }
    expect(projectedSchema(given, 'common').schema).toEqual({
      type: 'object',
      properties: { a: { anyOf: [{ $ref: '#/$defs/A' }, { type: 'null' }] } },
      $defs: { A: text },
    })
  })
})

test('a required name without a property gets one', () => {
  const { a } = shown({ type: 'object', properties: { b: text }, required: ['b', '__proto__'] })
  expect(JSON.stringify(a)).toBe(
    JSON.stringify({
      type: 'object',
      properties: { b: text, ['__proto__']: anything },
      required: ['b', '__proto__'],
    }),
  )
})

test.each<[string, JsonSchema]>([
  ['description', { ...text, description: ['no text'] }],
  ['title', { ...text, title: 7 }],
  ['enum', { ...text, enum: [] }],
])('leaves out a %s that is not valid, with a note', (keyword, given) => {
  const notes = [`#/properties/a: "${keyword}" is not shown, because it is not valid`]
  expect(shown(given)).toEqual({ a: text, notes })
})

test.each<[string, JsonSchema, JsonSchema]>([
  [
    'lookahead',
    { pattern: '^(?!x)a$' },
    { description: 'Matches the regular expression ^(?!x)a$' },
  ],
  [
    'a part of the text',
    { pattern: 'a', description: 'D.' },
    { description: 'D. Matches the regular expression a' },
  ],
  ['a short form', { pattern: String.raw`^\d+$` }, { pattern: '^[0-9]+$' }],
  [
    'large limits of a text',
    { minLength: 501, maxLength: 10_000, description: 'D.' },
    { description: 'D. At least 501 characters. At most 10000 characters.' },
  ],
  ['other limits', { minLength: 1, maxLength: 500 }, { minLength: 1, maxLength: 500 }],
])('patterns and limits are for all providers, or a sentence: %s', (_what, given, expected) => {
  expect(shown({ ...text, ...given })).toEqual({ a: { ...text, ...expected }, notes: [] })
})

test('large limits of a list, and a long pattern of its items, are no keywords', () => {
  const items = { type: 'string', pattern: 'x'.repeat(201) }
  expect(shown({ type: 'array', items, maxItems: 1000 })).toEqual({
    a: { type: 'array', items: text, description: 'At most 1000 items.' },
    notes: ['#/properties/a/items: "pattern" is not shown, because it is long'],
  })
})

/** Returns where a schema that describes values breaks the rules of Moonshot. */
function problemsIn(schema: unknown, place = '#'): string[] {
  if (!isRecord(schema)) return [`${place} is not an object`]
  const { type, $ref, anyOf, oneOf, allOf, not, properties, required, items } = schema
  const fields = isRecord(properties) ? properties : {}
  const others = Object.keys(schema).filter((one) => !'type title description'.includes(one))
  const names: readonly unknown[] = Array.isArray(required) ? required : []
  const own = [
    [type, $ref, anyOf, oneOf, allOf, not].every((one) => one === undefined) && 'has no type',
    type !== undefined && (anyOf ?? $ref) !== undefined && 'has a type beside a union',
    Array.isArray(type) && others.length > 0 && 'has keywords beside several types',
    names.some((name) => !Object.hasOwn(fields, String(name))) && 'requires unknown names',
  ]
  const inner = [fields, schema['$defs'], anyOf, oneOf, items === false ? [] : items && [items]]
  return [
    ...own.filter((one) => one !== false).map((problem) => `${place} ${problem}`),
    ...inner.flatMap((part) =>
      Object.entries(part ?? {}).flatMap(([name, one]) => problemsIn(one, `${place}/${name}`)),
    ),
  ]
}

test.each(Object.entries(goldenSchemas))('keeps the rules of Moonshot: %s', (_name, { schema }) => {
  expect(problemsIn(projectedSchema(schema, 'common').schema)).toEqual([])
})
