import { beforeAll, expect, test } from 'vitest'
import { readForm, toForm } from '../../runs/forms.ts'
import type { Answer } from '../agent.ts'
import { whenSchemasChecked } from '../schemas.ts'
import { askingOf } from './interrupts.ts'

beforeAll(whenSchemasChecked)

function accepted(content: Readonly<Record<string, unknown>>): Answer {
  return { action: 'accept', content }
}

const middleware = {
  actionRequests: [{ name: 'pay', args: { sum: 3 }, description: 'Pay 3' }],
  reviewConfigs: [{ actionName: 'pay', allowedDecisions: ['approve', 'edit', 'reject'] }],
}

test.each([
  { value: 'Which size?', message: 'Which size?', schema: undefined },
  { value: { question: 'Which?' }, message: 'Which?', schema: undefined },
  { value: { amount: 3 }, message: '{\n  "amount": 3\n}', schema: undefined },
  {
    value: { message: 'Size?', schema: { type: 'object', properties: { size: {} } } },
    message: 'Size?',
    schema: { type: 'object', properties: { size: {} } },
  },
  {
    value: { message: 'How many?', schema: { type: 'integer' } },
    message: 'How many?',
    schema: { type: 'object', properties: { answer: { type: 'integer' } }, required: ['answer'] },
  },
  {
    value: ['yes', 'no'],
    message: 'Choose one.',
    schema: { properties: { answer: { type: 'string', enum: ['yes', 'no'] } } },
  },
  {
    value: { prompt: 'Go on?', options: [true, false] },
    message: 'Go on?',
    schema: { properties: { answer: { type: 'boolean' } } },
  },
  {
    value: middleware,
    message: 'Pay 3',
    schema: {
      properties: {
        decision: { type: 'string', enum: ['approve', 'edit', 'reject'] },
        edit: { type: 'string' },
        message: { type: 'string' },
      },
      required: ['decision'],
    },
  },
])('an interrupt with $value asks "$message"', ({ value, message, schema }) => {
  const [question, ...more] = askingOf({ value }, 0).questions
  expect(more).toEqual([])
  expect(question).toMatchObject({ message, schema })
})

test.each([
  { value: 'Which size?', answer: accepted({ answer: 'L' }), resume: 'L' },
  {
    value: { message: 'Size?', schema: { type: 'object', properties: { size: {} } } },
    answer: accepted({ size: 'L' }),
    resume: { size: 'L' },
  },
  { value: [true, false], answer: accepted({ answer: false }), resume: false },
  {
    value: { message: 'Size?', takesRefusal: true },
    answer: { action: 'decline' as const },
    resume: { action: 'decline' },
  },
  {
    value: middleware,
    answer: accepted({ decision: 'approve' }),
    resume: { decisions: [{ type: 'approve' }] },
  },
  {
    value: middleware,
    answer: accepted({ decision: 'edit', edit: '{"sum":2}' }),
    resume: { decisions: [{ type: 'edit', editedAction: { name: 'pay', args: { sum: 2 } } }] },
  },
  {
    value: middleware,
    answer: accepted({ decision: 'reject', message: 'Too much' }),
    resume: { decisions: [{ type: 'reject', message: 'Too much' }] },
  },
  {
    value: middleware,
    answer: { action: 'decline' as const },
    resume: { decisions: [{ type: 'reject' }] },
  },
])('$answer to $value resumes with $resume', ({ value, answer, resume }) => {
  expect(askingOf({ value }, 0).resume({ 0: answer })).toEqual(resume)
})

test.each([
  { content: { decision: 'edit', edit: '{"sum":2}' }, ok: true },
  { content: { decision: 'approve', edit: '' }, ok: true },
  { content: { decision: 'edit', edit: '{"sum":2' }, ok: false },
  { content: { decision: 'edit', edit: '2' }, ok: false },
  { content: { decision: 'edit', edit: '' }, ok: false },
  { content: { decision: 'edit' }, ok: false },
])('accepts $content as an answer to a review: $ok', ({ content, ok }) => {
  const [question] = askingOf({ value: middleware }, 0).questions
  const read = question && readForm(question, content)
  expect(typeof read === 'object').toBe(ok)
  const { requestedSchema } = toForm(question ?? { id: '', message: '' }, 0)
  expect(Object.keys(requestedSchema.properties)).toEqual(['decision', 'edit', 'message'])
})

test('asks for the decisions of two actions in one form', () => {
  const value = {
    actionRequests: [
      { name: 'pay', args: {} },
      { name: 'mail', args: {} },
    ],
    reviewConfigs: [],
  }
  const [question] = askingOf({ value }, 0).questions
  expect(question?.schema?.['required']).toEqual(['decision_1', 'decision_2'])
  const answer = accepted({ decision_1: 'approve', decision_2: 'reject' })
  expect(askingOf({ value }, 0).resume({ 0: answer })).toEqual({
    decisions: [{ type: 'approve' }, { type: 'reject' }],
  })
})

test('asks something also where an MCP server asks nothing, and relays no answer', () => {
  const value = { type: 'mcp_elicitation', key: 'k', inputRequests: {} }
  const { questions, resume } = askingOf({ value }, 0)
  expect(questions).toMatchObject([{ id: '0', message: expect.stringContaining('again') }])
  expect(resume({ '0': accepted({}) })).toEqual({ key: 'k', responses: {} })
})

test('relays questions of an MCP server and their answers unchanged', () => {
  const value = {
    type: 'mcp_elicitation',
    key: 'call1:1',
    inputRequests: {
      size: {
        method: 'elicitation/create',
        params: { message: 'Size?', requestedSchema: { type: 'object', properties: { s: {} } } },
      },
      page: {
        method: 'elicitation/create',
        params: { mode: 'url', message: 'Visit', url: 'https://a.test' },
      },
    },
  }
  expect(askingOf({ value }, 1).questions).toMatchObject([
    { id: '1.size', message: 'Size?', takesRefusal: true },
    { id: '1.page', message: 'Visit', url: 'https://a.test' },
  ])
  const answers = { '1.size': accepted({ s: 'L' }) }
  expect(askingOf({ value }, 1).resume(answers)).toEqual({
    key: 'call1:1',
    responses: { size: accepted({ s: 'L' }), page: { action: 'cancel' } },
  })
})
