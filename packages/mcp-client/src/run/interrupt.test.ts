import { expect, test } from 'vitest'
import { isLangGraphInterrupt } from './interrupt.ts'

const interrupts = [{ value: 'Really?' }]

test.each([
  ['a result', { messages: [], __interrupt__: interrupts }, true],
  ['a chunk of one mode', { __interrupt__: interrupts }, true],
  ['a chunk of several modes', ['updates', { __interrupt__: interrupts }], true],
  ['a chunk of a subgraph', [['sub'], 'updates', { __interrupt__: interrupts }], true],
  ['the error of a node', Object.assign(new Error('x'), { name: 'GraphInterrupt' }), true],
  ['a result without one', { messages: [] }, false],
  ['a result with none left', { __interrupt__: [] }, false],
  ['another error', new Error('__interrupt__'), false],
  ['a text', '__interrupt__', false],
  ['nothing', undefined, false],
  ['null', null, false],
])('%s', (_what, outcome, expected) => {
  expect(isLangGraphInterrupt(outcome)).toBe(expected)
})
