import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { outputProblem } from './output-check.ts'

const counter: Tool = {
  name: 'count',
  inputSchema: { type: 'object' },
  outputSchema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] },
}

test('outputProblem() describes output that does not fit, every time', () => {
  for (let n = 0; n < 2; n++) {
    const fault = outputProblem(counter, { content: [], structuredContent: { count: 'one' } })
    expect(fault).toContain('count')
  }
})

test('outputProblem() checks nothing without a usable schema', () => {
  const { outputSchema: _outputSchema, ...bare } = counter
  expect(outputProblem(bare, { content: [], structuredContent: { any: 1 } })).toBeUndefined()
  const broken: Tool = {
    ...counter,
    outputSchema: { type: 'object', properties: { count: { $ref: '#/nowhere' } } },
  }
  expect(outputProblem(broken, { content: [], structuredContent: { count: 1 } })).toBeUndefined()
})

test.each([
  ['uuid', 'urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6'],
  ['date-time', '2024-01-01T10:00:00+01'],
  ['hostname', 'example.com.'],
  ['regex', '^pay\\-'],
])(
  'outputProblem() leaves the format %s to the server, because the tool was executed',
  (format, ref) => {
    const properties = { ref: { format }, other: { not: { format } }, count: { type: 'number' } }
    const paid: Tool = { ...counter, outputSchema: { type: 'object', properties } }
    const structuredContent = { ref, other: ref, count: 1 }
    expect(outputProblem(paid, { content: [], structuredContent })).toBeUndefined()
    const wrong = { ...structuredContent, count: 'one' }
    expect(outputProblem(paid, { content: [], structuredContent: wrong })).toContain('#/count')
  },
)

test('outputProblem() does not change the frozen schema of the cached list', () => {
  const frozen = { ...counter, outputSchema: Object.freeze({ type: 'object' as const }) }
  expect(outputProblem(frozen, { content: [], structuredContent: {} })).toBeUndefined()
})

test('outputProblem() keeps schemas of two servers apart that have the same $id', () => {
  const $id = 'https://schemas.example/result'
  const outputSchema = { $id, type: 'object' as const, properties: { total: { type: 'number' } } }
  const other: Tool = { ...counter, outputSchema }
  const first: Tool = { ...counter, outputSchema: { ...counter.outputSchema, type: 'object', $id } }
  expect(outputProblem(first, { content: [], structuredContent: { count: 1 } })).toBeUndefined()
  expect(outputProblem(other, { content: [], structuredContent: { total: 1 } })).toBeUndefined()
})

test('outputProblem() gives up a check that takes too long', () => {
  const outputSchema = { type: 'object' as const, properties: { a: { pattern: '^(a+)+$' } } }
  const slow: Tool = { ...counter, outputSchema }
  const structuredContent = { a: `${'a'.repeat(40)}!` }
  expect(outputProblem(slow, { content: [], structuredContent })).toBeUndefined()
})
