import { expect, test } from 'vitest'
import { checksFrom, failedChecks, hasSucceeded } from './checks.ts'

const check = { name: 'Initialize', status: 'SUCCESS', description: 'The client initializes' }

test('a failure and a warning are both held against the client', () => {
  const checks = checksFrom(
    JSON.stringify([
      check,
      { ...check, status: 'FAILURE', errorMessage: 'it did not' },
      { ...check, status: 'WARNING' },
      { ...check, status: 'INFO' },
    ]),
  )
  expect(failedChecks(checks)).toEqual([
    'FAILURE Initialize: The client initializes: it did not',
    'WARNING Initialize: The client initializes',
  ])
})

test('a scenario that was skipped has checked nothing', () => {
  expect(hasSucceeded(checksFrom("SKIPPED: scenario 'x' is not applicable"))).toBe(false)
  expect(hasSucceeded(checksFrom('[]'))).toBe(false)
  expect(hasSucceeded(checksFrom(JSON.stringify([check])))).toBe(true)
})
