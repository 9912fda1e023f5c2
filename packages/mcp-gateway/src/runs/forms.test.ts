import { isSpecType } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'

import type { JsonSchema } from '../agents/agent.ts'
import { toForm, readForm } from './forms.ts'

const question = (schema?: JsonSchema) => ({ id: 'q', message: 'Size?', schema })

const deep = { type: 'object', properties: { lines: { type: 'array', items: { type: 'object' } } } }

test.each([
  {
    title: 'no schema is one text',
    schema: undefined,
    form: { properties: { answer: { type: 'string' } }, required: ['answer'] },
  },
  {
    title: 'a flat schema stays as it is, without what clients do not know',
    schema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        mail: { type: 'string', format: 'email', pattern: '@', title: 'Mail' },
        code: { type: 'string', format: 'ipv4' },
        count: { type: 'integer', minimum: 1 },
        ok: { type: 'boolean', default: true },
        size: { enum: ['S', 'L'] },
        tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
      },
      required: ['mail'],
      additionalProperties: false,
    },
    form: {
      type: 'object',
      properties: {
        mail: { type: 'string', format: 'email', title: 'Mail' },
        code: { type: 'string' },
        count: { type: 'integer', minimum: 1 },
        ok: { type: 'boolean', default: true },
        size: { type: 'string', enum: ['S', 'L'] },
        tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
      },
      required: ['mail'],
    },
  },
  {
    title: 'a deeper one is one text of JSON',
    schema: deep,
    form: {
      properties: { answer: { description: expect.stringContaining('"lines"') } },
      required: ['answer'],
    },
  },
])('$title', ({ schema, form }) => {
  expect(toForm(question(schema), 2)).toMatchObject({
    key: 'i2',
    message: 'Size?',
    requestedSchema: form,
  })
})

test.each([
  {
    title: 'a choice with titles, and without',
    property: { type: 'string', oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] },
    field: {
      type: 'string',
      oneOf: [
        { const: 'a', title: 'A' },
        { const: 'b', title: 'b' },
      ],
    },
  },
  {
    title: 'a choice of many, whose type goes without saying',
    property: { type: 'array', items: { enum: ['a'], examples: ['a'] }, default: ['a'] },
    field: { type: 'array', items: { type: 'string', enum: ['a'] }, default: ['a'] },
  },
  {
    title: 'what is said beside it, and is not as clients know it',
    property: { type: 'string', title: 5, description: null, default: null },
    field: { type: 'string' },
  },
  {
    title: 'a default of another type',
    property: { type: 'integer', default: '3', minimum: 1 },
    field: { type: 'integer', minimum: 1 },
  },
])('a field has only what every client knows: $title', ({ property, field }) => {
  const schema = { type: 'object', properties: { p: property } }
  const { properties } = toForm(question(schema), 0).requestedSchema
  expect(properties).toEqual({ p: field })
  expect(isSpecType.PrimitiveSchemaDefinition(properties['p'])).toBe(true)
})

test('of a client that knows no choices of many they are asked as text, and titles as it knows them', () => {
  const colours = { type: 'string', oneOf: [{ const: 'r', title: 'Red' }, { const: 'b' }] }
  const one = { type: 'object', properties: { colour: colours } }
  const older = { knowsChoices: false }
  expect(toForm(question(one), 0, older).requestedSchema.properties).toEqual({
    colour: { type: 'string', enum: ['r', 'b'], enumNames: ['Red', 'b'] },
  })
  expect(readForm(question(one), { colour: 'r' })).toMatchObject({ ok: true })
  const tags = { type: 'array', items: { type: 'string', enum: ['a', 'b'] } }
  const many = { type: 'object', properties: { tags } }
  const { properties } = toForm(question(many), 0, older).requestedSchema
  expect(properties).toMatchObject({ answer: { title: 'Answer (JSON)' } })
  const read = { ok: true, content: { tags: ['a'] } }
  expect(readForm(question(many), { answer: '{"tags":["a"]}' })).toEqual(read)
  expect(readForm(question(many), { tags: ['a'] })).toEqual(read)
  expect(readForm(question(many), { tags: ['c'] })).toMatchObject({ ok: false })
})

test.each([
  { properties: { p: { type: 'string', oneOf: [{ minLength: 3 }, { pattern: 'x' }] } } },
  { properties: { p: { type: 'string', minLength: '3' } } },
  { properties: { p: { type: 'array', items: { anyOf: [{ type: 'string' }] } } } },
  { properties: { p: { type: ['string', 'null'] } } },
  { properties: { p: { type: 'string' } }, required: ['q'] },
])('$properties with $required is more than a form can ask', (schema) => {
  const form = toForm(question({ type: 'object', ...schema }), 0)
  expect(form.requestedSchema.properties).toMatchObject({ answer: { title: 'Answer (JSON)' } })
})

test('a form never shows what the schema holds beside its fields', () => {
  const schema = { type: 'object', properties: { a: { type: 'string', 'x-secret': 1 } }, $id: 'x' }
  expect(toForm(question(schema), 0).requestedSchema).toEqual({
    type: 'object',
    properties: { a: { type: 'string' } },
  })
})

test.each([
  { schema: undefined, content: { answer: 'L' }, read: { ok: true, content: { answer: 'L' } } },
  { schema: undefined, content: {}, read: { ok: false } },
  { schema: deep, content: { answer: '{"lines":[]}' }, read: { ok: true, content: { lines: [] } } },
  { schema: deep, content: { lines: [{}] }, read: { ok: true, content: { lines: [{}] } } },
  { schema: deep, content: { answer: '{"lines":[1]}' }, read: { ok: false } },
  {
    schema: { type: 'array' },
    content: { answer: '[1]' },
    read: { ok: true, content: { answer: [1] } },
  },
  { schema: { type: 'array' }, content: { answer: 'not JSON' }, read: { ok: false } },
])('$content is read by $schema', ({ schema, content, read }) => {
  expect(readForm(question(schema), content)).toMatchObject(read)
})

test.each([
  ['https://id.example/a?b=c', 'https://id.example/a?b=c'],
  ['http://127.0.0.1:4444/', 'http://127.0.0.1:4444/'],
  ['javascript:alert(1)', undefined],
  ['file:///etc/passwd', undefined],
  ['vscode://extension/run', undefined],
  ['https:id.example', undefined],
  ['//id.example', undefined],
])('of %s a client is sent to a page of the web, or nowhere', (url, expected) => {
  expect(toForm({ id: 'q', message: 'Visit', url }, 0).url).toBe(expected)
})
