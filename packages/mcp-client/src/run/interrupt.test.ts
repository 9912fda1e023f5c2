import { expect, test } from 'vitest'
import { isLangGraphInterrupt } from './interrupt.ts'

const interrupts = [{ value: 'Really?' }]

test.each([
  ['a result', { messages: [], __interrupt__: interrupts }, true],
  ['a chunk of one mode', { __interrupt__: interrupts }, true],
  ['a chunk of several modes', ['updates', { __interrupt__: interrupts }], true],
  ['a chunk of a subgraph', [['sub'], 'updates', { __interrupt__: interrupts }], true],
  ['a result at a breakpoint', { messages: [], __interrupt__: [] }, true],
  ['a result that is a list of chunks', [{ a: 1 }, { __interrupt__: interrupts }], true],
  ['an event', { event: 'on_chain_stream', data: { chunk: { __interrupt__: [] } } }, true],
  ['an event, v3', { method: 'values', params: { data: { __interrupt__: interrupts } } }, true],
  ['the error of a node', Object.assign(new Error('x'), { name: 'GraphInterrupt' }), true],
  ['a result without one', { messages: [] }, false],
  ['an error event', { event: 'on_chain_error', data: {} }, false],
  ['another error', new Error('__interrupt__'), false],
  ['a text', '__interrupt__', false],
  ['nothing', undefined, false],
  ['null', null, false],
])('%s', (_what, outcome, expected) => {
  expect(isLangGraphInterrupt(outcome)).toBe(expected)
})
