import { expect, test } from 'vitest'
import { documentOf } from './json-schema.ts'

type JsonSchema = Readonly<Record<string, unknown>>

function objectWith(item: unknown, more: JsonSchema = {}): JsonSchema {
  return { type: 'object', properties: { item }, ...more }
}

function nested(depth: number): JsonSchema {
  let schema: JsonSchema = { type: 'object' }
  for (let level = 0; level < depth; level++) schema = objectWith(schema)
  return schema
}

/** Each definition refers twice to the next one, so that 2 ** 100 schemas apply to one value. */
function doubling(): JsonSchema {
  const $defs: Record<string, unknown> = { d100: { type: 'string' } }
  for (let index = 0; index < 100; index++) {
    const next = { $ref: `#/$defs/d${index + 1}` }
    $defs[`d${index}`] = { allOf: [next, next] }
  }
  return objectWith({ $ref: '#/$defs/d0' }, { $defs })
}

/** Each definition refers only to the next one. Following a long chain would overflow the stack. */
function chain(length: number): JsonSchema {
  const $defs: Record<string, unknown> = { [`d${length}`]: { type: 'string' } }
  for (let index = 0; index < length; index++)
    $defs[`d${index}`] = { $ref: `#/$defs/d${index + 1}` }
  return objectWith({ $ref: '#/$defs/d0' }, { $defs })
}

test.each<[what: string, schema: JsonSchema, reason: RegExp]>([
  ['a text in place of a schema', objectWith('string'), /#\/properties\/item is not a schema/],
  ['an unknown type', objectWith({ type: 'any' }), /#\/properties\/item\/type/],
  [
    'a boolean in place of required names',
    objectWith({ type: 'string', required: true }),
    /not a list of names/,
  ],
  ['a list in place of properties', { properties: ['item'] }, /#\/properties/],
  ['an empty union', objectWith({ anyOf: [] }), /anyOf is not a list/],
  [
    'a broken reference',
    objectWith({ $ref: '#/$defs/none' }),
    /does not lead to one schema \("#\/\$defs\/none"\)/,
  ],
  ['a broken anchor', objectWith({ $ref: '#none' }), /does not lead to one schema/],
  ['a reference that is a number', objectWith({ $ref: 7 }), /not a text/],
  [
    'a reference to another document',
    objectWith({ $ref: 'https://schemas.example/item.json?token=abc' }),
    /another document \("https:\/\/schemas\.example\/item\.json"\), which is not fetched/,
  ],
  ['a circle of aliases', objectWith({ $ref: '#/properties/item' }), /leads back to itself/],
  [
    'a circle through a union',
    objectWith(
      { $ref: '#/$defs/a' },
      {
        $defs: {
          a: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/b' }] },
          b: { $ref: '#/$defs/a' },
        },
      },
    ),
    /leads back to itself/,
  ],
  ['too many levels', nested(200), /more than 128 levels/],
  [
    'too many nodes',
    objectWith({ anyOf: Array.from({ length: 10_001 }, () => ({})) }),
    /10000 nodes/,
  ],
  ['references that multiply', doubling(), /multiply without bound/],
  ['a long chain of references', chain(9900), /follow each other more than 500 times/],
  [
    'a circle through an example that a reference uses as a schema',
    objectWith({ $ref: '#/examples/0' }, { examples: [{ $ref: '#/properties/item' }] }),
    /leads back to itself/,
  ],
  [
    'a broken reference in a default that a reference uses as a schema',
    objectWith({ $ref: '#/default' }, { default: { $ref: '#/none' } }),
    /does not lead to one schema/,
  ],
  [
    'an invalid value in an unknown keyword that a reference uses as a schema',
    objectWith({ $ref: '#/x-a/b' }, { 'x-a': { b: { type: 'any' } } }),
    /#\/x-a\/b\/type is not a type/,
  ],
  [
    'a reference to an $id of different schemas',
    {
      properties: {
        a: { $id: 'x', type: 'string' },
        b: { $id: 'x', type: 'number' },
        c: { $ref: 'x' },
      },
    },
    /#\/properties\/c\/\$ref does not lead to one schema \("x"\)/,
  ],
  [
    'a reference to an anchor of different schemas',
    {
      properties: {
        a: { $anchor: 'x', type: 'string' },
        b: { $anchor: 'x', type: 'number' },
        c: { $ref: '#x' },
      },
    },
    /#\/properties\/c\/\$ref does not lead to one schema \("#x"\)/,
  ],
  ['data of too many levels', objectWith({ default: nested(200) }), /more than 128 levels/],
  ['too much data', objectWith({ enum: Array.from({ length: 10_001 }, () => []) }), /10000 nodes/],
  [
    'a pointer with invalid percent-encoding',
    objectWith({ $ref: '#/%E0%A4%A' }),
    /#\/properties\/item\/\$ref does not lead to one schema/,
  ],
])('refuses %s', (_, schema, reason) => {
  expect(documentOf(schema).defect).toMatch(reason)
})

test.each<[what: string, schema: JsonSchema]>([
  ['an empty schema', {}],
  ['recursion', objectWith({ $ref: '#' })],
  [
    'mutual recursion through lists',
    objectWith(
      { $ref: '#/$defs/a' },
      {
        $defs: {
          a: { type: 'array', items: { $ref: '#/$defs/b' } },
          b: { type: 'object', properties: { a: { $ref: '#/$defs/a' } } },
        },
      },
    ),
  ],
  [
    'a reference into properties',
    objectWith({ type: 'string' }, { allOf: [{ $ref: '#/properties/item' }] }),
  ],
  ['an escaped pointer', objectWith({ $ref: '#/$defs/a~1b%20c' }, { $defs: { 'a/b c': {} } })],
  ['a pointer beside names', objectWith({ $ref: '#/$defs/a' }, { $defs: { a: { $anchor: 'x' } } })],
  ['an anchor', objectWith({ $ref: '#here' }, { $defs: { a: { $anchor: 'here' } } })],
  [
    'an embedded document',
    objectWith(
      { $ref: 'https://schemas.example/item.json#/$defs/x' },
      {
        $defs: {
          a: { $id: 'https://schemas.example/item.json', $defs: { x: { type: 'string' } } },
        },
      },
    ),
  ],
  ['a property named definitions', { properties: { definitions: { type: 'string' }, $ref: {} } }],
  [
    'data that looks like a schema',
    objectWith({ default: { $ref: 'nowhere' }, examples: [{ type: 7 }] }),
  ],
  [
    'copies of a schema with an $id',
    { properties: { a: { $id: 'x', type: 'string' }, b: { type: 'string', $id: 'x' } } },
  ],
  [
    'an $id of different schemas that no reference uses',
    objectWith({ $id: 'x', title: 'From' }, { $defs: { to: { $id: 'x', title: 'To' } } }),
  ],
  [
    'an anchor of different schemas that no reference uses',
    objectWith({ $anchor: 'x', title: 'From' }, { $defs: { to: { $anchor: 'x', title: 'To' } } }),
  ],
  ['boolean schemas', { properties: { any: true, never: false } }],
  ['a definition of 120 levels', nested(59)],
  ['a short chain of references', chain(400)],
])('accepts %s', (_, schema) => {
  expect(documentOf(schema).defect).toBeUndefined()
})

test('refuses a schema that contains itself', () => {
  const schema: Record<string, unknown> = { type: 'object' }
  schema['properties'] = { self: schema }
  expect(documentOf(schema).defect).toMatch(/levels/)
})
