import { isRecord } from '@x/internal'
import { describe, expect, test } from 'vitest'
import { AnsweringSource, toolCall, toolOver } from '../../test/answering-source.ts'
import type { JsonSchema } from '../tool-source.ts'
import type { SchemaProjection } from './schema-projection.ts'
import { withShownNames } from './shown-names.ts'

const text = { type: 'string' }

function namesIn(schema: object): string[] {
  const properties = 'properties' in schema ? schema.properties : undefined
  return isRecord(properties) ? Object.keys(properties) : []
}

function shown(names: readonly string[]): string[] {
  const properties = Object.fromEntries(names.map((name) => [name, text]))
  return namesIn(withShownNames({ type: 'object', properties }).schema)
}

test.each([
  ['$filter', 'filter'],
  ['page[size]', 'page_size'],
  ['@type', 'type'],
  ['x y', 'x_y'],
  ['größe', 'gr_e'],
  ['$ref', 'ref'],
  ['名前', 'argument'],
  ['', 'argument'],
  ['a'.repeat(70), 'a'.repeat(60)],
  ['a.b-c_1', 'a.b-c_1'],
])('shows the argument %j as %j', (name, expected) => {
  expect(shown([name])).toEqual([expected])
})

test('shows arguments whose names become equal with a number', () => {
  expect(shown(['$a', 'a', '@a', '名前', '道具'])).toEqual([
    'a_2',
    'a',
    'a_3',
    'argument',
    'argument_2',
  ])
})

test('gives each argument the same name in any order', () => {
  const schemaOf = (names: readonly string[]): JsonSchema => {
    return { type: 'object', properties: Object.fromEntries(names.map((name) => [name, text])) }
  }
  const names = ['名前', '@a', '道具', '$a']
  const one = withShownNames(schemaOf(names)).names
  const other = withShownNames(schemaOf(names.toReversed())).names
  expect(new Map(one)).toEqual(new Map(other))
})

test('renames them in conditions', () => {
  const schema: JsonSchema = {
    type: 'object',
    properties: { $kind: text, $sum: { type: 'object', properties: { $kind: text } } },
    if: { properties: { $kind: { const: 'x' } } },
    ...JSON.parse('{"then":{"allOf":[{"required":["$sum"]}]}}'),
    dependentSchemas: { $sum: { required: ['$kind'] } },
  }
  expect(withShownNames(schema).schema).toEqual({
    type: 'object',
    properties: {
      kind: { type: 'string', description: '$kind' },
      sum: { type: 'object', properties: { $kind: text }, description: '$sum' },
    },
    if: { properties: { kind: { const: 'x' } } },
    ...JSON.parse('{"then":{"allOf":[{"required":["sum"]}]}}'),
    dependentSchemas: { sum: { required: ['kind'] } },
  })
})

test('renames them in other keywords, and says their name on the server', () => {
  const schema: JsonSchema = {
    type: 'object',
    properties: { $top: { type: 'integer', description: 'Limit' }, $skip: text, ok: text },
    required: ['$top', 'ok'],
    dependentRequired: { $skip: ['$top'] },
  }
  expect(withShownNames(schema).schema).toEqual({
    type: 'object',
    properties: {
      top: { type: 'integer', description: '$top: Limit' },
      skip: { type: 'string', description: '$skip' },
      ok: text,
    },
    required: ['top', 'ok'],
    dependentRequired: { skip: ['top'] },
  })
})

test('leaves a schema alone whose names all providers accept', () => {
  const schema = { type: 'object', properties: { a: { type: 'object', properties: { $b: text } } } }
  expect(withShownNames(schema).schema).toBe(schema)
})

describe('a tool', () => {
  const inputSchema = {
    type: 'object',
    properties: { $filter: text, 'page[size]': { type: 'integer' }, item: text },
    required: ['$filter'],
    additionalProperties: false,
  }

  async function sent(
    args: unknown,
    schemaFor?: SchemaProjection,
    schema: JsonSchema = inputSchema,
  ) {
    const source = new AnsweringSource()
    await toolOver(source, { inputSchema: schema }, { schemaFor }).invoke({ ...toolCall({}), args })
    return source.calls.map(({ args: given }) => given)
  }

  test.each([undefined, 'openai', 'anthropic'] as const)(
    'is called with the names of its server, for %s',
    async (schemaFor) => {
      const { schema } = toolOver(new AnsweringSource(), { inputSchema }, { schemaFor })
      expect(namesIn(schema)).toEqual(['filter', 'page_size', 'item'])
      const args = { filter: 'x', page_size: '2', item: 'y' }
      const expected = { $filter: 'x', 'page[size]': 2, item: 'y' }
      expect(await sent(args, schemaFor)).toEqual([expected])
    },
  )

  test.each([
    ['a text', '{"filter":"x","item":"y"}'],
    ['a description of the call', { name: 'add_item', arguments: { filter: 'x', item: 'y' } }],
  ])('is called with these names, too, if %s has the arguments', async (_what, args) => {
    const open = { type: 'object', properties: { $filter: text, item: text }, required: ['item'] }
    expect(await sent(args, undefined, open)).toEqual([{ $filter: 'x', item: 'y' }])
  })

  test('takes the names of its server, too', async () => {
    expect(await sent({ $filter: 'x' })).toEqual([{ $filter: 'x' }])
    expect(await sent({ $filter: 'x' }, 'google')).toEqual([{ $filter: 'x' }])
  })
})
