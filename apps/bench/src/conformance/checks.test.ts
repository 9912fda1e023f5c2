import { expect, test } from 'vitest'
import { checksFrom, failedChecks, hasSucceeded } from './checks.ts'

const check = { name: 'Initialize', status: 'SUCCESS', description: 'The client initializes' }

test('a failure and a warning are both held against what was tried', () => {
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

test('checks may stand between other lines', () => {
  const list = JSON.stringify([check], null, 2)
  const headline = "Running client scenario 'ping' against server: http://[::1]:1/mcp"
  const stdout = `${headline}\n${list}\n\nTest Results:\nPassed: 1/1, 0 failed, 0 warnings\n`
  expect(checksFrom(stdout)).toEqual([check])
})
