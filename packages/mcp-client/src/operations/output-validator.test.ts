import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { outputFault } from './output-validator.ts'

const tool: Tool = {
  name: 'count',
  inputSchema: { type: 'object' },
  outputSchema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] },
}

test('output that fits has no fault', () => {
  expect(outputFault(tool, { content: [], structuredContent: { count: 1 } })).toBeUndefined()
})

test('output that does not fit is told in words, time and again', () => {
  for (let n = 0; n < 2; n++) {
    const fault = outputFault(tool, { content: [], structuredContent: { count: 'one' } })
    expect(fault).toContain('count')
  }
})

test('a tool with a schema owes structured content, unless it failed', () => {
  expect(outputFault(tool, { content: [] })).toContain('no structured content')
  expect(outputFault(tool, { content: [], isError: true })).toBeUndefined()
})

test('without a schema, or with one that cannot be used, nothing is checked', () => {
  const { outputSchema: _outputSchema, ...bare } = tool
  expect(outputFault(bare, { content: [], structuredContent: { any: 1 } })).toBeUndefined()
  const broken: Tool = {
    ...tool,
    outputSchema: { type: 'object', properties: { count: { $ref: '#/nowhere' } } },
  }
  expect(outputFault(broken, { content: [], structuredContent: { count: 1 } })).toBeUndefined()
})

test('a frozen schema, as the list of tools gives it, is left as it is', () => {
  const frozen = Object.freeze({
    ...tool,
    outputSchema: Object.freeze({ type: 'object' as const }),
  })
  expect(outputFault(frozen, { content: [], structuredContent: {} })).toBeUndefined()
})
