import { expect, test } from 'vitest'
import { toInputRequired } from './input-required.ts'

test('returns the state alone if the server only asks for a repetition', () => {
  const result = { content: [], resultType: 'input_required', requestState: 'later' }
  expect(toInputRequired(result)).toEqual({ type: 'input_required', requestState: 'later' })
})
