import { expect, test } from 'vitest'

import { schemaMismatch } from '../agents/schema-validator.ts'

test('an answer that does not fit is told where', () => {
  const schema = { type: 'object', properties: { size: { enum: ['S', 'M'] } } }
  expect(schemaMismatch(schema, { size: 'M' })).toBeUndefined()
  expect(schemaMismatch(schema, { size: 'XL' })).toMatch(/^\/size /)
})

test('an expression of an agent holds nobody up, and a schema that is none stops no answer', () => {
  const slow = { type: 'string', pattern: '^(a+)+$' }
  expect(schemaMismatch(slow, `${'a'.repeat(100)}!`)).toBeUndefined()
  expect(schemaMismatch({ type: 'text' }, 'any')).toBeUndefined()
})
