import { ListToolsResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, test } from 'vitest'
import { bridgeTools, objectSchema, objectValue } from './tool-list.ts'

const inputSchema = { type: 'object' }

test('a tool that may not be offered is left out, with the reason; the others stay', () => {
  const bad = {
    name: 'bad',
    inputSchema: { type: 'object', properties: { a: { type: 'number', 'x-mcp-header': 'A' } } },
  }
  const { tools, leftOut } = bridgeTools([{ name: 'good', inputSchema }, bad])
  expect(tools).toEqual([{ name: 'good', inputSchema }])
  expect(leftOut).toEqual([{ name: 'bad', reason: expect.stringContaining('"A"') }])
})

test('a tool that nests without end is left out before anybody reads it', () => {
  let deep: object = { type: 'object' }
  for (let level = 0; level < 20_000; level++) deep = { type: 'object', properties: { a: deep } }
  const { tools, leftOut } = bridgeTools([{ name: 'deep', inputSchema: deep }])
  expect(tools).toEqual([])
  expect(leftOut).toEqual([{ name: 'deep', reason: expect.stringContaining('256') }])
})

test('what is no tool is left to the client', () => {
  expect(bridgeTools([7, { title: 'nameless' }]).tools).toEqual([7, { title: 'nameless' }])
})

test.each([
  true,
  false,
  {},
  { type: 'string' },
  { anyOf: [{ type: 'object' }] },
  { type: ['object', 'null'] },
])('the client of SDK v1 takes a list with the output schema %j', (outputSchema) => {
  const properties = { any: true, none: false, deep: { properties: { any: true } } }
  const tool = { name: 'a', inputSchema: { type: 'object', properties }, outputSchema }
  expect(ListToolsResultSchema.safeParse({ tools: [tool] }).success).toBe(false)
  const bridged = ListToolsResultSchema.safeParse({ tools: bridgeTools([tool]).tools })
  expect(bridged.error).toBeUndefined()
})

const wrapped = (schema: unknown): unknown =>
  (objectSchema(schema) as { properties: { result: unknown } }).properties.result

describe('a schema', () => {
  test('of an object stays, but for boolean properties', () => {
    const schema = { type: 'object', properties: { any: true, none: false }, required: ['any'] }
    expect(objectSchema(schema)).toEqual({
      type: 'object',
      properties: { any: {}, none: { not: {} } },
      required: ['any'],
    })
  })

  test('of anything else becomes the one property of an object', () => {
    expect(objectSchema({ type: 'array', items: { type: 'number' } })).toEqual({
      type: 'object',
      properties: { result: { type: 'array', items: { type: 'number' } } },
      required: ['result'],
      additionalProperties: false,
    })
  })

  test('keeps its local references', () => {
    const schema = {
      $defs: { point: { type: 'object' }, default: { $ref: '#/$defs/point' } },
      type: 'array',
      items: { anyOf: [{ $ref: '#/$defs/point' }, { $ref: '#' }, { $ref: 'https://a.example/s' }] },
    }
    expect(wrapped(schema)).toEqual({
      $defs: { point: { type: 'object' }, default: { $ref: '#/properties/result/$defs/point' } },
      type: 'array',
      items: {
        anyOf: [
          { $ref: '#/properties/result/$defs/point' },
          { $ref: '#/properties/result' },
          { $ref: 'https://a.example/s' },
        ],
      },
    })
  })

  test('keeps what only looks like a reference', () => {
    const schema = { type: 'array', default: [{ $ref: '#/a' }], enum: [{ $ref: '#' }] }
    expect(wrapped(schema)).toEqual(schema)
    const withId = { $id: 'https://a.example/s', type: 'array', items: { $ref: '#/$defs/a' } }
    expect(wrapped(withId)).toEqual(withId)
  })
})

describe('a value', () => {
  test.each([0, false, null, '', [], 'text'])('%j is wrapped', (value) => {
    expect(objectValue(value, undefined)).toEqual({ result: value })
  })

  test('that is an object is wrapped where its schema was', () => {
    expect(objectValue({ a: 1 }, { isWrapped: true })).toEqual({ result: { a: 1 } })
    expect(objectValue({ a: 1 }, { isWrapped: false })).toEqual({ a: 1 })
    expect(objectValue({ a: 1 }, undefined)).toEqual({ a: 1 })
  })
})
