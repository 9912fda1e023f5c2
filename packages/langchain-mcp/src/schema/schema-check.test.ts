import { describe, expect, test } from 'vitest'
import { goldenSchemas } from '../../test/golden-schemas.ts'
import { SchemaCheck } from './schema-check.ts'

describe.each(Object.entries(goldenSchemas))('%s', (_, { schema, fits, misfits }) => {
  test('validates the whole schema', () => {
    const check = new SchemaCheck(schema)
    const accepted = [...fits, ...misfits].filter((value) => check.errors(value).length === 0)
    expect(accepted).toEqual(fits)
  })

  test('does not write into the schema', () => {
    const before = JSON.stringify(schema)
    new SchemaCheck(schema).errors(fits[0])
    expect(JSON.stringify(schema)).toBe(before)
    expect(Reflect.ownKeys(schema)).toEqual(Object.keys(schema))
  })
})

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
      yes: { pattern: '^yes' },
    },
    patternProperties: { '^(b+)+$': false },
    additionalProperties: false,
  })

  test.each<[what: string, value: Record<string, unknown>]>([
    ['that backtracks without bound', { slow: `${'a'.repeat(5000)}!` }],
    ['that backtracks without bound, for the name of a property', { [`${'b'.repeat(50)}!`]: 1 }],
    ['whose time grows with a long text', { mail: `${'a'.repeat(5_000_000)}!` }],
  ])('%s is left to the server', (_, value) => {
    expect(check.errors(value)).toEqual([])
  })

  test('is checked if it is fast', () => {
    expect(check.errors({ mail: 'nobody' })).toHaveLength(1)
    expect(check.errors({ mail: 'a@b.c', yes: 'no' })).toHaveLength(1)
    expect(check.errors({ mail: 'x'.repeat(5000), yes: 'n'.repeat(5000) })).toHaveLength(1)
    expect(check.errors({ mail: 'a@b.c', yes: 'yes' })).toEqual([])
  })

  test('is checked beside a text that is too long for it', () => {
    const twoTexts = new SchemaCheck({
      properties: { path: { pattern: '^[a-z]+$' }, to: { pattern: '^[^@]+@[^@]+$' }, body: {} },
    })
    const errors = twoTexts.errors({ path: '../../etc', to: 'ann', body: 'x'.repeat(5_000_000) })
    expect(errors).toHaveLength(2)
  })
})

test('checks other values after one that is nested too deeply to be checked', () => {
  const check = new SchemaCheck({ properties: { n: { type: 'number' }, a: { $ref: '#' } } })
  let deep: unknown = {}
  for (let depth = 0; depth < 20_000; depth++) deep = { a: deep }
  expect(check.errors(deep)).toEqual([])
  expect(check.errors({ n: 'x' })).toHaveLength(1)
})
