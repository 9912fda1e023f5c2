import { expect, test } from 'vitest'
import type { JsonSchema } from '../base/tool-source.ts'
import { breakingChanges, parameterText } from './definition-drift.ts'

const text = { type: 'string' }
const older: JsonSchema = {
  type: 'object',
  properties: { item: text, count: { type: 'integer' } },
  required: ['item'],
}

function changes(
  inputSchema: JsonSchema | undefined,
  from: JsonSchema | undefined = older,
): string[] {
  return breakingChanges({ name: 't', inputSchema: from }, { name: 't', inputSchema })
}

function withItem(item: unknown): JsonSchema {
  return { type: 'object', properties: { item } }
}

test.each<[what: string, newer: JsonSchema]>([
  ['nothing', older],
  [
    'another order',
    { required: ['item'], properties: { count: { type: 'integer' }, item: text }, type: 'object' },
  ],
  [
    'a new optional parameter',
    { ...older, properties: { item: text, count: { type: 'integer' }, note: text } },
  ],
  [
    'other words',
    { ...older, properties: { item: { ...text, description: 'New' }, count: { type: 'integer' } } },
  ],
  ['a parameter that is no longer required', { ...older, required: [] }],
  [
    'a reference in place of a type',
    {
      type: 'object',
      properties: { item: { $ref: '#/$defs/item' }, count: { type: 'integer' } },
      required: ['item'],
      $defs: { item: text },
    },
  ],
])('accepts calls after %s', (_, newer) => {
  expect(changes(newer)).toEqual([])
})

test.each<[what: string, newer: JsonSchema | undefined, said: string]>([
  [
    'a newly required parameter',
    {
      ...older,
      properties: { item: text, count: { type: 'integer' }, to: text },
      required: ['item', 'to'],
    },
    '"to" is now required',
  ],
  ['one that was optional', { ...older, required: ['item', 'count'] }, '"count" is now required'],
  [
    'a dropped parameter',
    { type: 'object', properties: { item: text }, required: ['item'] },
    '"count" no longer exists',
  ],
  [
    'another type',
    { ...older, properties: { item: text, count: text } },
    '"count" is now of type string, was integer',
  ],
  ['no parameters any more', undefined, '"item" no longer exists'],
])('reports %s as breaking', (_, newer, said) => {
  expect(changes(newer)).toContain(said)
})

test('reports a renamed parameter as a removed and perhaps a required one', () => {
  expect(
    changes({
      type: 'object',
      properties: { sku: text, count: { type: 'integer' } },
      required: ['sku'],
    }),
  ).toEqual(['"item" no longer exists', '"sku" is now required'])
})

test('compares unions as sets, with their references and without descriptions', () => {
  const union = withItem({ anyOf: [text, { type: 'null', description: 'none' }] })
  expect(changes(withItem({ type: ['null', 'string'] }), union)).toEqual([])
  const circle = { type: 'object', properties: { radius: { type: 'number' } } }
  const shapes = withItem({ anyOf: [circle, text] })
  const named: JsonSchema = {
    ...withItem({ anyOf: [text, { $ref: '#/$defs/circle' }] }),
    $defs: { circle: { ...circle, title: 'Circle' } },
  }
  expect(changes(named, shapes)).toEqual([])
  const other = { type: 'object', properties: { radius: text } }
  expect(changes(withItem({ anyOf: [other, text] }), shapes)).toHaveLength(1)
})

test('compares recursive unions without endless recursion', () => {
  const tree: JsonSchema = {
    ...withItem({ anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] }),
    $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' } } } },
  }
  expect(changes(structuredClone(tree), tree)).toEqual([])
})

test('compares references that multiply in a union without endless work', () => {
  const $defs: Record<string, unknown> = { d40: { type: 'string' } }
  for (let index = 0; index < 40; index++) {
    const next = { $ref: `#/$defs/d${index + 1}` }
    $defs[`d${index}`] = { type: 'object', properties: { a: next, b: next } }
  }
  const schema: JsonSchema = { ...withItem({ anyOf: [{ $ref: '#/$defs/d0' }, text] }), $defs }
  expect(changes(structuredClone(schema), schema)).toEqual([])
})

test('describes parameters as text', () => {
  expect(parameterText(older)).toBe('item (string), count (integer, optional)')
  expect(parameterText(withItem({ anyOf: [text, { type: 'null' }] }))).toBe('item (optional)')
  expect(parameterText({ type: 'object', required: ['a'] })).toBe('a')
  expect(parameterText({ type: 'object' })).toBe('no parameters')
})
