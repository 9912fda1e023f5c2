import { expect, test } from 'vitest'
import { toInputRequired, isInputRequired } from './input-required.ts'

const asked = { confirm: { method: 'elicitation/create', params: { message: 'Sure?' } } }

test('returns input requests and state as plain data', () => {
  const result = {
    content: [],
    resultType: 'input_required',
    inputRequests: asked,
    requestState: 'opaque',
  }
  const required = toInputRequired(result)
  expect(required).toEqual({
    type: 'input_required',
    inputRequests: asked,
    requestState: 'opaque',
  })
  expect(required && isInputRequired(required)).toBe(true)
})

test('returns the state alone if the server only asks for a repetition', () => {
  const result = { content: [], resultType: 'input_required', requestState: 'later' }
  expect(toInputRequired(result)).toEqual({ type: 'input_required', requestState: 'later' })
})

test('returns undefined for a result', () => {
  const result = { content: [{ type: 'text' as const, text: 'done' }] }
  expect(toInputRequired(result)).toBeUndefined()
  expect(isInputRequired(result)).toBe(false)
})
