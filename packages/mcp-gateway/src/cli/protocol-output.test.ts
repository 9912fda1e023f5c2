import { expect, test } from 'vitest'
import { isPassedOn } from './protocol-output.ts'

test.each([
  ['linux', false, ['SIGINT', 'SIGTERM', 'SIGHUP']],
  ['darwin', true, ['SIGTERM', 'SIGHUP']],
  ['win32', false, []],
] as const)('on %s, with a terminal: %s, passes on %j', (platform, isTerminal, passedOn) => {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  expect(signals.filter((signal) => isPassedOn(signal, platform, isTerminal))).toEqual(passedOn)
})
