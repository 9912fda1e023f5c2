import { expect, test } from 'vitest'
import type { JsonSchema } from '../tool-source.ts'
import { breaksCalls, parameterText, schemaDefectOf } from './json-schema.ts'

test.each<[what: string, schema: unknown, reason: RegExp]>([
  ['a text', 'string', /not an object/],
  ['a list', [], /not an object/],
  ['arguments that are a list', { type: 'array' }, /of type "array"/],
  ['a text in place of a schema', { properties: { item: 'string' } }, /#\/properties\/item is not/],
])('refuses %s', (_, schema, reason) => {
  expect(schemaDefectOf(schema)).toMatch(reason)
})

test.each([{}, { type: ['object', 'null'] }])('accepts %j', (schema) => {
  expect(schemaDefectOf(schema)).toBeUndefined()
})

const text = { type: 'string' }
const older: JsonSchema = {
  type: 'object',
  properties: { item: text, count: { type: 'integer' } },
  required: ['item'],
}

const { properties, required } = older as { properties: object; required: string[] }

test.each<[what: string, newer: JsonSchema]>([
  ['nothing', older],
  [
    'the order of keys',
    { required, properties: { count: { type: 'integer' }, item: text }, type: 'object' },
  ],
  ['a new optional parameter', { ...older, properties: { ...properties, note: text } }],
  [
    'texts',
    { ...older, properties: { ...properties, item: { ...text, description: 'New' } }, title: 'T' },
  ],
  ['a parameter that is no longer required', { ...older, required: [] }],
])('calls still fit after a change of %s', (_, newer) => {
  expect(breaksCalls(older, newer)).toBe(false)
})

test.each<[what: string, newer: JsonSchema]>([
  ['is required', { ...older, properties: { ...properties, to: text }, required: ['item', 'to'] }],
  ['was optional', { ...older, required: ['item', 'count'] }],
  ['is dropped', { ...older, properties: { item: text } }],
  ['has another type', { ...older, properties: { item: text, count: text } }],
  ['has another type inside', { ...older, properties: { ...properties, item: { anyOf: [text] } } }],
  ['has another definition', { ...older, $defs: { item: text } }],
  ['is not allowed any more', { ...older, additionalProperties: false }],
  ['is the only one', {}],
])('calls may not fit if a parameter %s', (_, newer) => {
  expect(breaksCalls(older, newer)).toBe(true)
})

test('describes parameters as text', () => {
  expect(parameterText(older)).toBe('item (string), count (integer, optional)')
  const union = { anyOf: [text, { type: 'null' }] }
  expect(parameterText({ type: 'object', properties: { item: union } })).toBe('item (optional)')
  expect(parameterText({ type: 'object', required: ['a'] })).toBe('a')
  expect(parameterText({ type: 'object' })).toBe('no parameters')
})
