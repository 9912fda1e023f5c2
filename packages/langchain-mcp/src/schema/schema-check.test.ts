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
