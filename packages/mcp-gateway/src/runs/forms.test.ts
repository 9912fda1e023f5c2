import { isSpecType } from '@modelcontextprotocol/server'
import { beforeAll, expect, test } from 'vitest'

import { AgentsAtHand, type Behaviour } from '../../test/agents-at-hand.ts'
import { inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { callRuns, requestOf, ScriptedSource, tool } from '../../test/scripted-source.ts'
import { callsOf } from '../../test/settings.ts'
import { EventReader } from '../../test/wire-session.ts'
import type { JsonSchema } from '../agents/agent.ts'
import { schemaMismatch, whenSchemasChecked } from '../agents/schemas.ts'
import { createGateway } from '../gateway.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { asksForSecret, readForm, toForm } from './forms.ts'

beforeAll(whenSchemasChecked)

const question = (schema?: JsonSchema) => ({ id: 'q', message: 'Size?', schema })

const deep = { type: 'object', properties: { lines: { type: 'array', items: { type: 'object' } } } }

test.each([
  {
    title: 'a question without a schema becomes one text field',
    schema: undefined,
    form: { properties: { answer: { type: 'string' } }, required: ['answer'] },
  },
  {
    title: 'a flat schema stays, without keywords that forms do not have',
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
    title: 'a deeper schema becomes one text field for JSON',
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
    title: 'choices with and without titles',
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
    title: 'a multiple choice whose items have no type',
    property: { type: 'array', items: { enum: ['a'], examples: ['a'] }, default: ['a'] },
    field: { type: 'array', items: { type: 'string', enum: ['a'] }, default: ['a'] },
  },
  {
    title: 'a title, a description and a number with a text as default',
    property: { type: 'string', title: 5, description: null, default: null },
    field: { type: 'string' },
  },
  {
    title: 'a number with a text as default',
    property: { type: 'integer', default: '3', minimum: 1 },
    field: { type: 'integer', minimum: 1 },
  },
])('makes a field that every client accepts: $title', ({ property, field }) => {
  const schema = { type: 'object', properties: { p: property } }
  const { properties } = toForm(question(schema), 0).requestedSchema
  expect(properties).toEqual({ p: field })
  expect(isSpecType.PrimitiveSchemaDefinition(properties['p'])).toBe(true)
})

test('asks an older client for a multiple choice as JSON, and for a choice by its values', () => {
  const colours = { type: 'string', oneOf: [{ const: 'r', title: 'Red' }, { const: 'b' }] }
  const one = { type: 'object', properties: { colour: colours } }
  expect(toForm(question(one), 0, false).requestedSchema.properties).toEqual({
    colour: { type: 'string', enum: ['r', 'b'] },
  })
  expect(readForm(question(one), { colour: 'r' })).toEqual({ colour: 'r' })
  const tags = { type: 'array', items: { type: 'string', enum: ['a', 'b'] } }
  const many = { type: 'object', properties: { tags } }
  const { properties } = toForm(question(many), 0, false).requestedSchema
  expect(properties).toMatchObject({ answer: { title: 'Answer (JSON)' } })
  const read = { tags: ['a'] }
  expect(readForm(question(many), { answer: '{"tags":["a"]}' })).toEqual(read)
  expect(readForm(question(many), { tags: ['a'] })).toEqual(read)
  expect(readForm(question(many), { tags: ['c'] })).toEqual(expect.any(String))
})

test.each([
  { properties: { p: { type: 'string', oneOf: [{ minLength: 3 }, { pattern: 'x' }] } } },
  { properties: { p: { type: 'string', minLength: '3' } } },
  { properties: { p: { type: 'array', items: { anyOf: [{ type: 'string' }] } } } },
  { properties: { p: { type: ['string', 'null'] } } },
  { properties: { p: { type: 'string' } }, required: ['q'] },
])('makes one text field for JSON of $properties with $required', (schema) => {
  const form = toForm(question({ type: 'object', ...schema }), 0)
  expect(form.requestedSchema.properties).toMatchObject({ answer: { title: 'Answer (JSON)' } })
})

test('leaves out other keywords of the schema', () => {
  const schema = { type: 'object', properties: { a: { type: 'string', 'x-secret': 1 } }, $id: 'x' }
  expect(toForm(question(schema), 0).requestedSchema).toEqual({
    type: 'object',
    properties: { a: { type: 'string' } },
  })
})

test.each([
  { schema: undefined, content: { answer: 'L' }, read: { answer: 'L' } },
  { schema: undefined, content: {}, read: expect.any(String) },
  { schema: deep, content: { answer: '{"lines":[]}' }, read: { lines: [] } },
  { schema: deep, content: { lines: [{}] }, read: { lines: [{}] } },
  { schema: deep, content: { answer: '{"lines":[1]}' }, read: expect.any(String) },
  {
    schema: { type: 'array' },
    content: { answer: '[1]' },
    read: { answer: [1] },
  },
  { schema: { type: 'array' }, content: { answer: 'not JSON' }, read: expect.any(String) },
])('reads $content by $schema', ({ schema, content, read }) => {
  expect(readForm(question(schema), content)).toEqual(read)
})

test.each([
  ['https://id.example/a?b=c', 'https://id.example/a?b=c'],
  ['http://127.0.0.1:4444/', 'http://127.0.0.1:4444/'],
  ['javascript:alert(1)', undefined],
  ['file:///etc/passwd', undefined],
  ['vscode://extension/run', undefined],
  ['https:id.example', undefined],
  ['//id.example', undefined],
])('sends a client to web pages only: %s', (url, expected) => {
  expect(toForm({ id: 'q', message: 'Visit', url }, 0).url).toBe(expected)
})

const secret = { type: 'object', properties: { key: { type: 'string', format: 'password' } } }

test.each([
  [secret, true],
  [{ type: 'object', properties: { key: { type: 'string', writeOnly: true } } }, true],
  [{ type: 'array', items: { anyOf: [secret, { type: 'null' }] } }, true],
  [{ type: 'object', properties: { password: { type: 'string' } } }, false],
  [undefined, false],
])('%j asks for a secret: %s', (schema, expected) => {
  expect(asksForSecret(schema)).toBe(expected)
})

test.each(['__proto__', 'constructor', 'toString'])('asks for JSON if a type is "%s"', (type) => {
  const schema = { type: 'object', properties: { a: { type } } }
  const { properties } = toForm(question(schema), 0).requestedSchema
  expect(properties).toMatchObject({ answer: { type: 'string', title: 'Answer (JSON)' } })
})

test('ends a run that asks for a secret, and shows the question to nobody', async () => {
  await using store = new MemoryGatewayStore()
  const questions = [{ id: 'q', message: 'Your key?', schema: secret }]
  const source = new ScriptedSource(() => [{ type: 'asked', questions, state: { thread: 't' } }])
  const runs = callsOf({ agents: source, records: store.records })
  const outcome = await callRuns(runs, tool, requestOf('Go', { canAsk: true }))
  expect(outcome).toMatchObject({
    result: { isError: true, _meta: { reason: 'agent_failed' } },
  })
  expect(JSON.stringify(outcome)).toContain('secret')
  expect(source.forgotten).toEqual([{ thread: 't' }])
  expect(await store.records.list('')).toEqual([])
  await runs.close()
})

test('names the path of a value that does not match', () => {
  const schema = { type: 'object', properties: { size: { enum: ['S', 'M'] } } }
  expect(schemaMismatch(schema, { size: 'M' })).toBeUndefined()
  expect(schemaMismatch(schema, { size: 'XL' })).toMatch(/^\/size /)
})

test('skips an expression that would take long, and accepts every value for an invalid schema', () => {
  const slow = { type: 'string', pattern: '^(a+)+$' }
  expect(schemaMismatch(slow, `${'a'.repeat(100)}!`)).toBeUndefined()
  expect(schemaMismatch({ type: 'text' }, 'any')).toBeUndefined()
})

const tags = { type: 'array', items: { type: 'string', enum: ['a', 'b'] } }
const withTags = { type: 'object', properties: { tags }, required: ['tags'] }

const asking: Behaviour = function* ask({ resume }) {
  if (resume) yield { type: 'done', text: JSON.stringify(resume.answers) }
  else
    yield {
      type: 'asked',
      questions: [{ id: 'q', message: 'Which?', schema: withTags }],
      state: {},
    }
}

test.each([
  ['2025-06-18', { answer: { title: 'Answer (JSON)' } }, { answer: '{"tags":["a"]}' }],
  ['2025-11-25', { tags }, { tags: ['a'] }],
])('asks a session of %s in fields of its revision', async (version, properties, content) => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ asking })] })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const handshake = { protocolVersion: version, capabilities: { elicitation: {} } }
  const id = await openSession(fetch, {}, handshake)
  const headers = inSession(id, { 'mcp-protocol-version': version })
  const call = new EventReader(await fetch(post(toolCall(1, 'asking', 'Go'), headers)))
  const { id: askedAs, params: asked } = await call.until(
    (one) => one.method === 'elicitation/create',
  )
  expect(asked).toMatchObject({ requestedSchema: { properties } })
  const result = { action: 'accept', content }
  await fetch(post({ jsonrpc: '2.0', id: askedAs, result }, headers))
  const end = await call.until((one) => one.id === 1)
  expect(end.result).toMatchObject({ content: [{ text: expect.stringContaining('["a"]') }] })
})
