import { expect, test } from 'vitest'

import { complaintOf } from './answer-schema.ts'

test('an answer that does not fit is told where', () => {
  const schema = { type: 'object', properties: { size: { enum: ['S', 'M'] } } }
  expect(complaintOf(schema, { size: 'M' })).toBeUndefined()
  expect(complaintOf(schema, { size: 'XL' })).toMatch(/^\/size /)
})

test('an expression of an agent holds nobody up, and a schema that is none stops no answer', () => {
  const slow = { type: 'string', pattern: '^(a+)+$' }
  expect(complaintOf(slow, `${'a'.repeat(100)}!`)).toBeUndefined()
  expect(complaintOf({ type: 'text' }, 'any')).toBeUndefined()
})
