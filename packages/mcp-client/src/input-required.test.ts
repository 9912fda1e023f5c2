import { expect, test } from 'vitest'
import { toInputRequired, isInputRequired } from './input-required.ts'

const asked = { confirm: { method: 'elicitation/create', params: { message: 'Sure?' } } }

test('questions and state are handed up as plain data', () => {
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

test('a server may want nothing but to be asked again', () => {
  const result = { content: [], resultType: 'input_required', requestState: 'later' }
  expect(toInputRequired(result)).toEqual({ type: 'input_required', requestState: 'later' })
})

test('a result is a result', () => {
  const result = { content: [{ type: 'text' as const, text: 'done' }] }
  expect(toInputRequired(result)).toBeUndefined()
  expect(isInputRequired(result)).toBe(false)
})
