import { describe, expect, test } from 'vitest'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { INPUT_META_KEY, takeInputInstructions } from './surfaced-input.ts'

const request = (params?: Record<string, unknown>): JsonRpcRequest => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params,
})

test('a request without instructions is the same request', () => {
  for (const one of [request(), request({}), request({ _meta: { progressToken: 1 } })]) {
    expect(takeInputInstructions(one)).toEqual({ request: one, instructions: {} })
  }
})

test('the instructions are taken out; the rest of _meta stays', () => {
  const instruction = { [INPUT_META_KEY]: { surface: true } }
  expect(takeInputInstructions(request({ name: 'a', _meta: instruction }))).toEqual({
    request: request({ name: 'a' }),
    instructions: { surface: true },
  })
  const among = { ...instruction, progressToken: 1 }
  expect(takeInputInstructions(request({ _meta: among })).request).toEqual(
    request({ _meta: { progressToken: 1 } }),
  )
})

const taken = (given: unknown): unknown =>
  takeInputInstructions(request({ _meta: { [INPUT_META_KEY]: given } })).instructions

describe('instructions', () => {
  test.each([
    [{ surface: true }, { surface: true }],
    [{ surface: 'yes' }, { surface: false }],
    [
      { answers: { inputResponses: { a: {} }, requestState: 's' } },
      { surface: false, answers: { inputResponses: { a: {} }, requestState: 's' } },
    ],
    [{ answers: { requestState: '' } }, { surface: false, answers: { requestState: '' } }],
    [
      { surface: true, answers: { inputResponses: [], requestState: 7, method: 'x' } },
      { surface: true, answers: {} },
    ],
    ['surface', {}],
    [null, {}],
  ])('%j', (given, instructions) => {
    expect(taken(given)).toEqual(instructions)
  })
})
