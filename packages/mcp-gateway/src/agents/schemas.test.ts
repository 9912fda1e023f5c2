import { beforeAll, expect, test } from 'vitest'
import { refusalsOf, validatorFor, whenSchemasChecked } from './schemas.ts'

beforeAll(whenSchemasChecked)

/** A tree of operations. Each level of a value fits both alternatives up to its `op`. */
const treeOf = (union: string, place: string, name: string): Record<string, unknown> => {
  const reference = { $ref: `#/${place}/tree` }
  const node = (op: string) => ({ properties: { [name]: reference, op: { const: op } } })
  return {
    properties: { tree: reference },
    [place]: { tree: { [union]: [node('add'), node('mul')] } },
  }
}

function tree(levels: number, name: string): object {
  let value: object = { op: 'mul' }
  for (let level = 1; level < levels; level++) value = { [name]: value, op: 'mul' }
  return { tree: value }
}

// Without a limit, each level doubles the work: the test would not end.
test.each([
  ['anyOf', '$defs', 'left'],
  ['oneOf', '$defs', 'const'],
  ['anyOf', 'definitions', 'enum'],
  ['oneOf', 'components', 'left'],
])('refuses a value that needs too much work: %s in %s, by "%s"', (union, place, name) => {
  const fits = validatorFor(treeOf(union, place, name))
  expect(fits(tree(10, name))).toBeUndefined()
  expect(fits(tree(100, name))).toBe('/ needs too much work to be checked: nest it less deeply')
  expect(fits(tree(10, name))).toBeUndefined()
  expect(fits({ tree: { op: 'div' } })).toContain('/tree')
  expect(refusalsOf(treeOf(union, place, name), tree(100, name))).toEqual([])
})

test('takes a long list whose items are references', () => {
  const schema = {
    properties: { a: { items: { $ref: '#/$defs/one' } } },
    $defs: {
      one: { anyOf: [{ $ref: '#/$defs/text' }, { type: 'object' }] },
      text: { type: 'string' },
    },
  }
  expect(validatorFor(schema)({ a: Array.from({ length: 50_000 }, () => ({})) })).toBeUndefined()
})

test('keeps references in values of the schema', () => {
  const value = { $ref: '#/a' }
  const fits = validatorFor({ properties: { a: { const: value }, b: { enum: [value] } } })
  expect(fits({ a: value, b: value })).toBeUndefined()
})

test.each([undefined, 'http://json-schema.org/draft-07/schema#'])(
  'finds equal items of a list of any length: %s',
  (dialect) => {
    const schema = { properties: { a: { uniqueItems: true }, b: { uniqueItems: false } } }
    const fits = validatorFor({ ...schema, ...(dialect !== undefined && { $schema: dialect }) })
    // If each item were compared with each other one, the test would not end.
    const items = Array.from({ length: 100_000 }, (_, n) => ({ n, b: [n] }))
    expect(fits({ a: items })).toBeUndefined()
    expect(fits({ a: [...items, { b: [7], n: 7 }] })).toBe('/a must not have equal items')
    expect(fits({ a: [1, '1', 1.5, null, [], {}], b: [1, 1] })).toBeUndefined()
    expect(fits({ a: [1, 1.0] })).toBeDefined()
    expect(fits({ a: 'text' })).toBeUndefined()
  },
)
