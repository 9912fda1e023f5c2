import { describe, expect, test } from 'vitest'
import { SchemaCheck } from './schema-check.ts'

test('reports the place of an error', () => {
  const check = new SchemaCheck({ properties: { a: { items: { type: 'string' } } } })
  expect(check.locatedErrors({ a: ['x', 7] })).toMatchObject([{ place: '#/a/1' }])
})

test('leaves multiplying references to the server at once', () => {
  const $defs: Record<string, unknown> = { d60: { type: 'string' } }
  for (let index = 0; index < 60; index++) {
    const next = { $ref: `#/$defs/d${index + 1}` }
    $defs[`d${index}`] = { anyOf: [next, next] }
  }
  expect(new SchemaCheck({ $ref: '#/$defs/d0', $defs }).errors(7)).toEqual([])
})

describe('a pattern', () => {
  const check = new SchemaCheck({
    properties: {
      slow: { pattern: '^(a+)+$' },
      mail: { pattern: '^\\w+@\\w+\\.\\w+$' },
      word: { pattern: '\\w+!' },
      yes: { pattern: '^yes' },
    },
    patternProperties: { '^(b+)+$': false },
    additionalProperties: false,
  })

  test.each<[what: string, value: Record<string, unknown>]>([
    ['that backtracks without bound', { slow: `${'a'.repeat(5000)}!` }],
    ['that backtracks without bound, for the name of a property', { [`${'b'.repeat(50)}!`]: 1 }],
    ['whose time grows with a long text', { word: 'a'.repeat(5_000_000) }],
  ])('%s is left to the server', (_, value) => {
    expect(check.errors(value)).toEqual([])
  })

  test('is checked if it is fast', () => {
    expect(check.errors({ mail: 'nobody' })).toHaveLength(1)
    expect(check.errors({ mail: 'a@b.c', yes: 'no' })).toHaveLength(1)
    expect(check.errors({ mail: 'a@b.c', yes: 'n'.repeat(5000) })).toHaveLength(1)
    expect(check.errors({ mail: 'a@b.c', yes: 'yes' })).toEqual([])
  })

  test('is checked beside a long text if it is fast for that text', () => {
    const twoTexts = new SchemaCheck({
      properties: { path: { pattern: '^[a-z]+$' }, to: { pattern: '^[^@]+@[^@]+$' }, body: {} },
    })
    const errors = twoTexts.errors({ path: '../../etc', to: 'ann', body: 'x'.repeat(5_000_000) })
    expect(errors).toHaveLength(1) // not `to`, whose time grows with the square
    expect(twoTexts.errors({ path: '../../etc', to: 'ann' })).toHaveLength(2)
  })
})

test('checks other values after one that is nested too deeply to be checked', () => {
  const check = new SchemaCheck({ properties: { n: { type: 'number' }, a: { $ref: '#' } } })
  let deep: unknown = {}
  for (let depth = 0; depth < 20_000; depth++) deep = { a: deep }
  expect(check.errors(deep)).toEqual([])
  expect(check.errors({ n: 'x' })).toHaveLength(1)
})

/** A schema for lists, which the check of a value follows twice at each level. */
const doubled = { allOf: [{ $ref: '#' }, { $ref: '#' }] }

function nestedLists(depth: number): unknown {
  let value: unknown = []
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

/** A schema for lists with a definition for each level, each of which refers twice to the next one. */
function doubledOften(levels: number): Readonly<Record<string, unknown>> {
  const $defs: Record<string, unknown> = { [`d${levels}`]: {} }
  for (let level = 0; level < levels; level++) {
    const next = { $ref: `#/$defs/d${level + 1}` }
    $defs[`d${level}`] = { items: { allOf: [next, next] } }
  }
  return { $ref: '#/$defs/d0', $defs }
}

test.each<[what: string, schema: Readonly<Record<string, unknown>>, value: unknown]>([
  ['recursion that doubles at each level of the value', { items: doubled }, nestedLists(60)],
  ['references that double at each level of the value', doubledOften(40), nestedLists(40)],
  [
    'different items in a long list',
    { uniqueItems: true },
    Array.from({ length: 20_000 }, (_, at) => ({ at, name: 'item' })),
  ],
  [
    'a pattern for each of many texts',
    { items: { pattern: '\\w+@' } },
    Array.from({ length: 20_000 }, () => 'c'.repeat(3000)),
  ],
  [
    'a pattern in the value of an unknown keyword',
    { $ref: '#/x-schemas/slow', 'x-schemas': { slow: { pattern: '^(a+)+$' } } },
    `${'a'.repeat(40)}!`,
  ],
  [
    'a pattern in data',
    { $ref: '#/examples/0', examples: [{ pattern: '^(a+)+$' }] },
    `${'a'.repeat(40)}!`,
  ],
  [
    'many alternatives for many items',
    { items: { anyOf: Array.from({ length: 5000 }, () => ({ type: 'string' })) } },
    Array.from({ length: 20_000 }, () => 7),
  ],
  [
    'many alternatives for an object with many fields',
    { anyOf: Array.from({ length: 3000 }, () => ({ additionalProperties: false })) },
    Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`field${at}`, 1])),
  ],
])('gives up %s soon', (_, schema, value) => {
  expect(new SchemaCheck(schema).errors(value)).toEqual([]) // without a limit: minutes
})

test('does not let one text with the format of a URL block the process', () => {
  const check = new SchemaCheck({ properties: { u: { format: 'url' }, n: { type: 'number' } } })
  expect(check.errors({ u: `http://${'a'.repeat(60)}!`, n: 'x' })).toHaveLength(1)
})

test('ignores a format that has the name of a method of objects', () => {
  const check = new SchemaCheck({ format: '__defineGetter__', minLength: 2 })
  expect(check.errors('a')).toHaveLength(1)
  expect(check.errors('bc')).toEqual([])
})

test.each<[what: string, schema: Readonly<Record<string, unknown>>]>([
  ['the value of an unknown keyword', { $ref: '#/x-a/b', 'x-a': { b: { pattern: '^a+$' } } }],
  [
    'a schema with an id',
    { $ref: 'item#/$defs/a', $defs: { i: { $id: 'item', $defs: { a: { pattern: '^a+$' } } } } },
  ],
  ['an anchor', { $ref: '#a', $defs: { b: { $anchor: 'a', pattern: '^a+$' } } }],
])('checks a value by a reference to %s', (_, schema) => {
  const check = new SchemaCheck(schema)
  expect(check.errors('aaa')).toEqual([])
  expect(check.errors('abc')).toHaveLength(1)
})

test('checks a value by a schema whose $id is repeated by copies of it', () => {
  const price = { $id: 'https://schemas.example/price', type: 'number' }
  const check = new SchemaCheck({ properties: { old: price, new: { ...price } } })
  expect(check.errors({ old: 'x', new: 2 })).toHaveLength(1)
})

test('does not let an invalid pattern behind a reference switch off the other checks', () => {
  const check = new SchemaCheck({
    properties: { a: { $ref: '#/x-a' }, b: { type: 'number' } },
    'x-a': { pattern: '(' },
  })
  expect(check.errors({ a: 'x', b: 'x' })).toHaveLength(1)
})

describe.each<[what: string, unchecked: Readonly<Record<string, unknown>>, fits: string]>([
  ['an invalid pattern', { pattern: '(?i)^test' }, 'pay-1'],
  ['an invalid pattern behind a reference', { $ref: '#/$defs/invalid' }, 'pay-1'],
  ['a format that is not checked', { format: 'url' }, 'pay-1'],
  ['a dynamic reference', { $dynamicRef: '#never' }, 'pay-1'],
])('with %s', (_, unchecked, fits) => {
  const $defs = {
    invalid: { pattern: '(?i)^test' },
    never: { $dynamicAnchor: 'never', not: {} },
  }

  test.each<
    [
      keyword: string,
      schema: Readonly<Record<string, unknown>>,
      values: readonly [fits: unknown, wrong: unknown],
    ]
  >([
    ['not', { type: 'string', not: unchecked }, [fits, 7]],
    ['oneOf', { type: 'string', oneOf: [unchecked, {}] }, [fits, 7]],
    [
      'then',
      {
        type: 'string',
        if: unchecked,
        ...(JSON.parse('{"then":{"maxLength":3}}') as Readonly<Record<string, unknown>>),
      },
      [fits, 7],
    ],
    ['else', { if: { not: unchecked }, else: { maxLength: 3 }, type: 'string' }, [fits, 7]],
    [
      'maxContains',
      { contains: unchecked, maxContains: 1, maxItems: 2 },
      [
        [fits, 'b'],
        [1, 2, 3],
      ],
    ],
    [
      'unevaluatedProperties',
      {
        type: 'object',
        if: { properties: { a: unchecked } },
        else: { properties: { b: {} } },
        unevaluatedProperties: false,
      },
      [{ a: fits, b: 1 }, 7],
    ],
    [
      'unevaluatedItems',
      {
        type: 'array',
        if: { prefixItems: [unchecked] },
        else: { prefixItems: [{}, {}] },
        unevaluatedItems: false,
      },
      [[fits, 1], 7],
    ],
  ])('accepts by %s what could be valid', (_keyword, schema, [value, wrong]) => {
    const check = new SchemaCheck({ ...schema, $defs })
    expect(check.errors(value)).toEqual([])
    expect(check.errors(wrong)).not.toEqual([])
  })
})

test('checks alternatives beside one that cannot be checked completely', () => {
  const check = new SchemaCheck({
    allOf: [{ type: 'object' }],
    oneOf: [
      { required: ['a'], properties: { a: { pattern: '(?i)x' } } },
      { required: ['b'], properties: { b: { type: 'number' } } },
    ],
  })
  expect(check.errors({ a: 'x' })).toEqual([])
  expect(check.errors({ b: 'x' })).not.toEqual([])
  expect(check.errors([])).not.toEqual([])
})

test('checks a pattern that is only valid without Unicode mode', () => {
  const check = new SchemaCheck({
    oneOf: [{ pattern: '^pay\\-[0-9\\_]+$' }, { pattern: '^ref\\-\\d+$' }],
    not: { pattern: '\\\\-' },
  })
  expect(check.errors('pay-1_2')).toEqual([])
  expect(check.errors('pay-')).not.toEqual([])
  expect(check.errors('ref-x')).not.toEqual([])
})

test.each<[union: string, schema: Readonly<Record<string, unknown>>]>([
  ['anyOf', { anyOf: [{ type: 'string' }, { type: 'number' }], nullable: true }],
  ['oneOf', { oneOf: [{ type: 'string' }, { type: 'number' }], nullable: true }],
])('accepts null for %s with nullable', (_, schema) => {
  const check = new SchemaCheck(schema)
  expect(check.errors(null)).toEqual([])
  expect(check.errors('x')).toEqual([])
  expect(check.errors([])).not.toEqual([])
})

describe('a schema of plain types', () => {
  const schema = {
    type: 'object',
    description: 'An order',
    properties: {
      name: { type: 'string' },
      size: { type: 'string', enum: ['S', 'M'] },
      count: { type: 'integer' },
      price: { type: 'number' },
      isGift: { type: 'boolean' },
      note: {},
      tags: { type: 'array', items: { type: 'string' } },
      to: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
    required: ['name'],
    additionalProperties: false,
  }
  // The keyword `format` makes it a schema for the validator.
  const checks = [schema, { ...schema, format: 'unknown' }].map((one) => new SchemaCheck(one))
  const order = { name: 'Ada', size: 'S', count: 2, price: 1.5, isGift: true, note: [null] }

  test.each<[value: unknown, isAccepted: boolean]>([
    [{ ...order, tags: ['a'], to: { city: 'Bonn', zip: 1 } }, true],
    [{ name: '' }, true],
    [{ size: 'S' }, false],
    [{ ...order, name: 7 }, false],
    [{ ...order, size: 'L' }, false],
    [{ ...order, count: 1.5 }, false],
    [{ ...order, count: '2' }, false],
    [{ ...order, price: '1' }, false],
    [{ ...order, isGift: 'yes' }, false],
    [{ ...order, tags: ['a', 1] }, false],
    [{ ...order, tags: 'a' }, false],
    [{ ...order, to: {} }, false],
    [{ ...order, other: 1 }, false],
    [JSON.parse('{ "name": "Ada", "__proto__": 1 }'), false],
    [[order], false],
    [null, false],
  ])('accepts the values that the validator accepts: %j, %s', (value, isAccepted) => {
    for (const check of checks) expect(check.errors(value).length === 0).toBe(isAccepted)
  })

  test.each([
    [{ type: 'string', minLength: 2 }, 'a'],
    [{ type: 'number', maximum: 2 }, 3],
    [{ type: 'array', maxItems: 1 }, [1, 2]],
    [{ type: 'object', minProperties: 1 }, {}],
    [{ type: 'object', additionalProperties: { type: 'string' } }, { a: 1 }],
    [{ properties: { a: { type: 'string' } } }, { a: 1 }],
  ])('is not one with another keyword: %j', (other, value) => {
    expect(new SchemaCheck(other).errors(value)).not.toEqual([])
  })
})
