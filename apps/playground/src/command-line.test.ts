import { expect, test } from 'vitest'
import { demoArgumentsFrom } from './command-line.ts'

test('without options the demo is the sample, in color, as text', () => {
  expect(demoArgumentsFrom([], {})).toEqual({
    help: false,
    json: false,
    color: true,
    agent: undefined,
    servers: undefined,
    db: undefined,
    executionType: 'playground',
  })
})

test('takes the execution type from its option, else from the environment', () => {
  const environment = { AGENT_EXECUTION_TYPE: 'eval' }
  expect(demoArgumentsFrom([], environment)).toMatchObject({ executionType: 'eval' })
  expect(demoArgumentsFrom(['--execution-type', 'runtime'], environment)).toMatchObject({
    executionType: 'runtime',
  })
  expect(() => demoArgumentsFrom(['--execution-type', 'prod'], {})).toThrow(
    '--execution-type is "prod": it must be one of playground, runtime, eval',
  )
})

test('options are read, also behind the -- that pnpm hands on', () => {
  expect(demoArgumentsFrom(['--', '--json', '--no-color', '--db', 'x.db'])).toMatchObject({
    json: true,
    color: false,
    db: 'x.db',
  })
})

test('an unknown option is named, with where to look', () => {
  expect(() => demoArgumentsFrom(['--bogus'])).toThrow(/^Unknown option '--bogus'.*--help/)
})
