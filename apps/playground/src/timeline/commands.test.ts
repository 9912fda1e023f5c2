import { expect, test } from 'vitest'
import { executionTypeFrom } from './commands.ts'

test.each([
  ['playground', 'playground'],
  ['runtime', 'runtime'],
  ['eval', 'runtime'],
  [undefined, 'runtime'],
])('takes AGENT_EXECUTION_TYPE %s as %s', (value, type) => {
  expect(executionTypeFrom(value)).toBe(type)
})

test.each(['Playground', 'debug', ''])(
  'refuses AGENT_EXECUTION_TYPE "%s", and lists the valid ones',
  (value) => {
    expect(() => executionTypeFrom(value)).toThrow(
      `AGENT_EXECUTION_TYPE is "${value}": it must be one of playground, runtime, eval`,
    )
  },
)
