import { isRecord } from '@x/internal'
import { describe, expect, test } from 'vitest'
import { SchemaCheck } from '@x/internal/schema-check'
import type { JsonSchema } from '../tool-source.ts'
import { goldenSchemas } from '../../test/golden-schemas.ts'
import { schemaDefectOf } from './json-schema.ts'
import {
  projectedSchema,
  type ProjectedSchema,
  type SchemaProjection,
} from './schema-projection.ts'

function golden(name: string, projection: SchemaProjection = 'common'): ProjectedSchema {
  const { schema } = goldenSchemas[name] ?? {}
  if (schema === undefined) throw new Error(`No golden schema "${name}"`)
  return projectedSchema(schema, projection)
}

const REFUSED = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'enum', 'const', '$schema', '$id']

describe.each(Object.entries(goldenSchemas))('%s', (_, { schema, fits, misfits }) => {
  test('is checked as a whole, without a change', () => {
    const before = JSON.stringify(schema)
    const check = new SchemaCheck(schema)
    const accepted = [...fits, ...misfits].filter((value) => check.errors(value).length === 0)
    expect(accepted).toEqual(fits)
    expect(JSON.stringify(schema)).toBe(before)
    expect(Reflect.ownKeys(schema)).toEqual(Object.keys(schema))
  })

  test.each(['common', 'openai', 'anthropic', 'google'] as const)(
    'becomes an object for %s, with all definitions that it refers to',
    (projection) => {
      const { schema: shown } = projectedSchema(schema, projection)
      expect(shown['type']).toBe('object')
      expect(isRecord(shown['properties'])).toBe(true)
      expect(Object.keys(shown).filter((keyword) => REFUSED.includes(keyword))).toEqual([])
      expect(schemaDefectOf(shown)).toBeUndefined()
    },
  )

  test.each(['common', 'anthropic'] as const)('accepts for %s the same arguments', (projection) => {
    const check = new SchemaCheck(projectedSchema(schema, projection).schema)
    expect(fits.flatMap((value) => check.errors(value))).toEqual([])
  })

  test("is not changed, and is returned unchanged with 'none'", () => {
    const before = JSON.stringify(schema)
    for (const projection of ['common', 'google'] as const) projectedSchema(schema, projection)
    expect(JSON.stringify(schema)).toBe(before)
    expect(projectedSchema(schema, 'none')).toEqual({ schema, notes: [] })
    expect(projectedSchema(schema, 'none').schema).toBe(schema)
  })
})

describe('common', () => {
  test.each(['a nullable field', 'text or number', 'conditions', 'recursion', 'a tuple'])(
    'leaves %s unchanged',
    (name) => {
      const { schema, notes } = golden(name)
      expect(schema).toBe(goldenSchemas[name]?.schema)
      expect(notes).toEqual([])
    },
  )

  test('shows a choice of constants with their types', () => {
    expect(golden('a choice of constants')).toEqual({
      schema: {
        type: 'object',
        properties: {
          a: {
            oneOf: [
              { type: 'string', const: 'x', title: 'X' },
              { type: 'string', const: 'y' },
            ],
          },
        },
      },
      notes: [],
    })
  })

  test('shows recursion of the root as a definition, as llama.cpp refuses other references', () => {
    const object = {
      type: 'object',
      properties: { next: { $ref: '#/$defs/root' } },
      additionalProperties: false,
    }
    expect(golden('recursion of the root')).toEqual({
      schema: { ...object, $defs: { root: object } },
      notes: [],
    })
  })

  test('shows a union at the root as one object, with a sentence about its alternatives', () => {
    expect(golden('a discriminated union at the root')).toEqual({
      schema: {
        type: 'object',
        description: 'Give one of these sets of fields: (kind, radius) or (kind, side).',
        properties: {
          kind: { type: 'string', enum: ['circle', 'square'] },
          radius: { type: 'number' },
          side: { type: 'number' },
        },
        required: ['kind'],
      },
      notes: [
        '#: "oneOf" is not shown',
        '#: alternatives are shown as one object with the fields of all of them',
      ],
    })
  })

  test('keeps all fields of an intersection, and their required state', () => {
    const { schema, notes } = golden('an intersection')
    expect(schema).toMatchObject({
      properties: { a: { type: 'string' }, b: { type: 'integer' } },
      required: ['a', 'b'],
    })
    expect(notes).toEqual([])
  })

  test('follows a reference at the root, also a recursive one', () => {
    const { schema } = golden('a reference at the root')
    expect(schema).toMatchObject({
      type: 'object',
      properties: { a: { type: 'string' }, again: { $ref: '#/$defs/root' } },
      required: ['a'],
      $defs: { root: { $ref: '#/$defs/input' } },
    })
  })

  test('moves targets of other references into the definitions', () => {
    expect(golden('a reference into properties').schema).toMatchObject({
      properties: { a: { type: 'object' }, b: { $ref: '#/$defs/a' } },
      $defs: { a: { type: 'object', properties: { x: { type: 'string' } } } },
    })
  })

  test('converts older dialects to 2020-12', () => {
    expect(golden('a tuple of draft-07').schema).toMatchObject({
      properties: {
        pair: { prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false },
      },
      dependentRequired: { pair: ['other'] },
    })
    expect(golden('limits of draft-04').schema).toMatchObject({
      properties: { a: { type: 'number', exclusiveMinimum: 0 } },
    })
    expect(golden('nullable as OpenAPI has it').schema).toMatchObject({
      properties: { a: { type: ['string', 'null'] } },
    })
  })

  test('leaves out an invalid pattern, with a note', () => {
    const { schema, notes } = golden('a pattern that is no JavaScript expression')
    expect(schema).toMatchObject({ properties: { a: { type: 'string', maxLength: 3 } } })
    expect(JSON.stringify(schema)).not.toContain('pattern')
    expect(notes).toEqual([expect.stringMatching(/^#\/properties\/a: "pattern"/)])
  })

  test('adds items to every list, and properties to a tool without parameters', () => {
    const list: JsonSchema = { type: 'object', properties: { a: { type: 'array' }, b: true } }
    expect(projectedSchema(list, 'common').schema).toMatchObject({
      type: 'object',
      properties: { a: { type: 'array', items: {} }, b: {} },
    })
    expect(projectedSchema({}, 'common').schema).toEqual({ type: 'object', properties: {} })
  })

  test.each([
    [{ prefixItems: [{ type: 'number' }] }, {}],
    [{ type: 'array', prefixItems: [{ type: 'number' }], items: true }, {}],
    [{ type: 'array', items: [{ type: 'number' }] }, {}],
    [{ type: 'array', items: [{ type: 'number' }], additionalItems: false }, false],
  ])('adds items to a tuple: %j', (tuple, items) => {
    const { schema } = projectedSchema({ type: 'object', properties: { a: tuple } }, 'common')
    expect(schema).toMatchObject({
      properties: { a: { prefixItems: [{ type: 'number' }], items } },
    })
  })

  test('moves definitions of draft-07, as Moonshot refuses references to them', () => {
    const schema = {
      type: 'object',
      properties: { a: { $ref: '#/definitions/A' }, b: { $ref: '#/$defs/A' } },
      definitions: {
        A: { type: 'array', items: { $ref: '#/definitions/B' } },
        B: { type: 'null' },
        unused: {},
      },
      $defs: { A: { type: 'string' } },
    }
    expect(projectedSchema(schema, 'common').schema).toEqual({
      type: 'object',
      properties: { a: { $ref: '#/$defs/A_2' }, b: { $ref: '#/$defs/A' } },
      $defs: {
        A: { type: 'string' },
        A_2: { type: 'array', items: { $ref: '#/$defs/B' } },
        B: { type: 'null' },
      },
    })
  })

  test('moves a long chain of targets into the definitions', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 2500 }, (_, at) => {
        const next = { $ref: `#/properties/p${(at + 1) % 2500}` }
        return [`p${at}`, { type: 'object', properties: { next } }]
      }),
    )
    const { schema } = projectedSchema({ type: 'object', properties }, 'common')
    expect(schema).toMatchObject({
      properties: { p0: { properties: { next: { $ref: '#/$defs/p1' } } } },
      $defs: { p2499: { properties: { next: { $ref: '#/$defs/p0' } } } },
    })
  })

  test('allows an argument called __proto__', () => {
    const schema: JsonSchema = JSON.parse(
      '{"anyOf":[{"properties":{"__proto__":{"type":"string"}}}]}',
    )
    expect(JSON.stringify(projectedSchema(schema, 'common').schema)).toContain('"__proto__"')
  })
})

describe('a field that a condition restricts', () => {
  const kinds = { kind: { type: 'string' }, size: { type: 'integer' } }
  const then = JSON.parse('{"then":{"required":["size"]}}') as JsonSchema
  const condition = { properties: { kind: { const: 'x' } } }

  test.each<[string, JsonSchema]>([
    ['if', { if: condition, ...then, anyOf: [{ required: ['kind'] }] }],
    ['one of two alternatives', { anyOf: [condition, { required: ['size'] }] }],
    ['dependentSchemas', { dependentSchemas: { size: condition }, not: { required: ['z'] } }],
  ])('is shown as it is described without: %s', (_what, more) => {
    const schema = { type: 'object', properties: kinds, ...more }
    for (const projection of ['common', 'google'] as const) {
      expect(projectedSchema(schema, projection).schema).toMatchObject({ properties: kinds })
    }
  })

  test('is shown as the alternatives describe it, if it is described nowhere else', () => {
    const size = { type: 'integer' }
    const one = { properties: { size }, required: ['size'] }
    const schema = { type: 'object', anyOf: [one, { required: ['kind'] }] }
    expect(projectedSchema(schema, 'google').schema).toMatchObject({ properties: { size } })
  })
})

describe('google', () => {
  const KNOWN = new Set([
    'type',
    'title',
    'description',
    'nullable',
    'enum',
    'format',
    'items',
    'properties',
    'required',
    'anyOf',
    'pattern',
    ...['min', 'max'].flatMap((limit) => [
      `${limit}imum`,
      `${limit}Items`,
      `${limit}Length`,
      `${limit}Properties`,
    ]),
  ])

  function expectKnown(schema: unknown): void {
    if (!isRecord(schema)) throw new Error('Gemini does not accept boolean schemas')
    expect(Object.keys(schema).filter((keyword) => !KNOWN.has(keyword))).toEqual([])
    const { properties = {}, items, anyOf = [] } = schema
    if (isRecord(properties)) Object.values(properties).forEach(expectKnown)
    if (items !== undefined) expectKnown(items)
    if (Array.isArray(anyOf)) anyOf.forEach(expectKnown)
  }

  test.each(Object.keys(goldenSchemas))('reads every keyword of %s', (name) => {
    expectKnown(golden(name, 'google').schema)
  })

  test('shows nullable, lists of texts, and unions', () => {
    expect(golden('a nullable field', 'google').schema).toMatchObject({
      properties: { a: { type: 'string', nullable: true } },
    })
    expect(golden('a choice of constants', 'google').schema).toMatchObject({
      properties: { a: { type: 'string', enum: ['x', 'y'] } },
    })
    expect(golden('text or number', 'google').schema).toMatchObject({
      properties: { a: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
    })
    expect(golden('a discriminated union', 'google').schema).toMatchObject({
      properties: {
        shape: {
          anyOf: [
            { properties: { kind: { enum: ['circle'] } }, required: ['kind', 'radius'] },
            { properties: { kind: { enum: ['square'] } }, required: ['kind', 'side'] },
          ],
        },
      },
    })
  })

  test('shows several types of a value as a union, with notes for its own place', () => {
    const a = { type: ['string', 'array', 'null'], description: 'A', uniqueItems: 1, title: 'T' }
    expect(projectedSchema({ type: 'object', properties: { a } }, 'google')).toEqual({
      schema: {
        type: 'object',
        properties: {
          a: {
            anyOf: [
              { type: 'string', title: 'T', description: 'A', nullable: true },
              {
                type: 'array',
                title: 'T',
                description: 'A',
                items: { type: 'string' },
                nullable: true,
              },
            ],
          },
        },
      },
      notes: ['#/properties/a: "uniqueItems" is not shown'],
    })
  })

  test.each<[what: string, given: JsonSchema, shown: JsonSchema]>([
    ['an empty text', { enum: ['', 'a'] }, { type: 'string', description: 'One of: "", "a".' }],
    [
      'a constant',
      { const: '', description: 'A.' },
      { type: 'string', description: 'A. One of: "".' },
    ],
    [
      'a list of null',
      { type: ['string', 'null'], enum: [null] },
      { type: 'string', nullable: true },
    ],
    ['a repeated text', { enum: ['a', 'a'] }, { type: 'string', enum: ['a'] }],
  ])('refuses empty texts and lists as enum, and gets none for %s', (_what, given, shown) => {
    const schema = { type: 'object', properties: { a: given } }
    expect(projectedSchema(schema, 'google').schema).toEqual({
      type: 'object',
      properties: { a: shown },
    })
  })

  test.each([
    ['string', 'date-time', true],
    ['string', 'int64', false],
    ['string', 'enum', false],
    ['integer', 'int64', true],
    ['integer', 'date-time', false],
    ['integer', 'float', false],
    ['number', 'double', true],
    [['integer', 'null'], 'int32', true],
  ])('shows for the type %j the format %s: %j', (type, format, isShown) => {
    const { schema, notes } = projectedSchema(
      { type: 'object', properties: { a: { type, format } } },
      'google',
    )
    expect(JSON.stringify(schema).includes(format)).toBe(isShown)
    expect(notes).toEqual(isShown ? [] : ['#/properties/a: "format" is not shown'])
  })

  test('shows nothing beside a union, whose members repeat its description and limits', () => {
    const a = {
      description: 'A',
      minLength: 1,
      anyOf: [{ type: 'string' }, { type: 'integer', description: 'B' }, { type: 'null' }],
    }
    expect(projectedSchema({ type: 'object', properties: { a } }, 'google').schema).toEqual({
      type: 'object',
      properties: {
        a: {
          anyOf: [
            { type: 'string', description: 'A', minLength: 1, nullable: true },
            { type: 'integer', description: 'A\nB', minLength: 1, nullable: true },
          ],
        },
      },
    })
  })

  test.each<[what: string, given: JsonSchema]>([
    ['a reference', { $ref: '#/$defs/u' }],
    ['an intersection', { allOf: [{ $ref: '#/$defs/u' }], title: 'U' }],
    ['a single member', { anyOf: [{ $ref: '#/$defs/u' }] }],
    ['another union', { anyOf: [{ type: 'string' }, { $ref: '#/$defs/number' }] }],
  ])('shows nothing beside the union behind %s', (_what, given) => {
    const number = { anyOf: [{ type: 'integer' }, { type: 'boolean' }] }
    const u = { anyOf: [{ type: 'string' }, ...number.anyOf] }
    const properties = { a: { ...given, description: 'A' } }
    const schema = { type: 'object', properties, $defs: { u, number } }
    expect(projectedSchema(schema, 'google').schema['properties']).toEqual({
      a: {
        anyOf: [
          { type: 'string', description: 'A' },
          { type: 'integer', description: 'A' },
          { type: 'boolean', description: 'A' },
        ],
      },
    })
  })

  test('shows a schema of items without a type as a list', () => {
    const schema = { type: 'object', properties: { a: { items: { type: 'integer' } } } }
    expect(projectedSchema(schema, 'google').schema).toMatchObject({
      properties: { a: { type: 'array', items: { type: 'integer' } } },
    })
  })

  const count = { type: 'integer' }
  const either = { anyOf: [{ type: 'string' }, { type: 'object', properties: { n: count } }] }
  test.each<[string, JsonSchema, unknown]>([
    [
      'a type beside a limit in allOf',
      { allOf: [count, { minimum: 1 }] },
      { type: 'integer', minimum: 1 },
    ],
    ['a type beside nothing in allOf', { allOf: [{ $ref: '#/$defs/count' }, {}] }, count],
    ['a limit alone in allOf', { allOf: [{ minLength: 1 }] }, { type: 'string', minLength: 1 }],
    ['a union in allOf', { allOf: [{ $ref: '#/$defs/either' }, {}] }, either],
    ['a reference that may be null', { $ref: '#/$defs/count', nullable: true }, { nullable: true }],
    ['a reference to one', { $ref: '#/$defs/maybe' }, { ...count, nullable: true }],
    [
      'one of some texts, or null',
      { anyOf: [{ enum: ['a'] }, { enum: ['b', null] }] },
      { enum: ['a', 'b'], nullable: true },
    ],
  ])('shows all values that fit: %s', (_what, a, expected) => {
    const maybe = { $ref: '#/$defs/count', nullable: true }
    const schema = { type: 'object', properties: { a }, $defs: { count, either, maybe } }
    expect(projectedSchema(schema, 'google').schema).toMatchObject({ properties: { a: expected } })
  })

  test('shows recursion one level deep, with a note', () => {
    const { schema, notes } = golden('recursion', 'google')
    expect(schema).toMatchObject({
      properties: {
        tree: {
          properties: { name: { type: 'string' }, children: { items: { type: 'object' } } },
          required: ['name'],
        },
      },
    })
    expect(notes).toEqual([expect.stringContaining('recursion is shown one level deep')])
  })

  test('notes only the parts that it cannot show', () => {
    expect(golden('conditions', 'google').notes).toContain('#: "if" is not shown')
    expect(golden('names by pattern', 'google').notes).toContain(
      '#: "patternProperties" is not shown',
    )
    expect(golden('a nullable field', 'google').notes).toEqual([])
  })
})

test('uses the schema and the notes of a function', () => {
  const projected = projectedSchema({ type: 'object', title: 'T' }, (_schema, note) => {
    note('#: "title" is not shown')
    return { type: 'object' }
  })
  expect(projected).toEqual({ schema: { type: 'object' }, notes: ['#: "title" is not shown'] })
})

test('limits the growth of inlined references', () => {
  const $defs: Record<string, unknown> = { d12: { type: 'string' } }
  for (let index = 0; index < 12; index++) {
    const next = { $ref: `#/$defs/d${index + 1}` }
    $defs[`d${index}`] = { type: 'object', properties: { a: next, b: next, c: next } }
  }
  const { schema, notes } = projectedSchema(
    { type: 'object', properties: { x: { $ref: '#/$defs/d0' } }, $defs },
    'google',
  )
  expect(JSON.stringify(schema).length).toBeLessThan(2_000_000)
  expect(notes.join()).toContain('too large')
})

test('limits the time to simplify long chains of references', () => {
  const name = (index: number): string => `#/$defs/d${index}`
  const $defs: Record<string, unknown> = { d300: { type: 'string' } }
  for (let index = 0; index < 300; index++) {
    const next = { $ref: name(index + 1) }
    $defs[`d${index}`] = { allOf: [next], properties: { [`x${index}`]: next } }
  }
  const parameters = Array.from({ length: 50 }, (_, at) => [`p${at}`, { $ref: name(52) }])
  const properties = Object.fromEntries(parameters)
  const { schema, notes } = projectedSchema({ type: 'object', properties, $defs }, 'google') // without a limit: minutes
  expect(JSON.stringify(schema).length).toBeLessThan(2_000_000)
  expect(notes.join()).toContain('too large')
})

const ARRAYS = `${'{"type":"array","items":'.repeat(20)}{"type":"string"}${'}'.repeat(20)}`

test.each<[string, (next: JsonSchema) => JsonSchema, string]>([
  ['references', (next) => next, ARRAYS],
  ['references and intersections', (next) => ({ allOf: [next] }), '{"type":"object"}'],
])('limits a chain of 9,000 %s by their number, not by the stack', (_of, step, shown) => {
  const definitions = Array.from({ length: 9000 }, (_, at): [string, JsonSchema] => {
    const next = { $ref: `#/$defs/d${at + 1}` }
    return [`d${at}`, at % 450 === 449 ? { type: 'array', items: next } : step(next)]
  })
  const $defs = { ...Object.fromEntries(definitions), d9000: { type: 'string' } }
  const given = { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs }
  const { schema, notes } = projectedSchema(given, 'google')
  expect(JSON.stringify(schema['properties'])).toBe(`{"a":${shown}}`)
  expect(notes.length).toBe(shown === ARRAYS ? 0 : 1)
})
