import { expect, test } from 'vitest'
import { failedChecks, hasSucceeded, namesFor, parseChecks, requiredNames } from './suite.ts'

const check = { name: 'Initialize', status: 'SUCCESS', description: 'The client initializes' }

test('lists failures and warnings', () => {
  const checks = parseChecks(
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

test('finds no success in the output of a skipped scenario', () => {
  expect(hasSucceeded(parseChecks("SKIPPED: scenario 'x' is not applicable"))).toBe(false)
  expect(hasSucceeded(parseChecks('[]'))).toBe(false)
  expect(hasSucceeded(parseChecks(JSON.stringify([check])))).toBe(true)
})

test('parses checks between other lines', () => {
  const list = JSON.stringify([check], null, 2)
  const headline = "Running client scenario 'ping' against server: http://[::1]:1/mcp"
  const stdout = `${headline}\n${list}\n\nTest Results:\nPassed: 1/1, 0 failed, 0 warnings\n`
  expect(parseChecks(stdout)).toEqual([check])
})

test('parses the names of each side', () => {
  const text = `Required for 2025-11-25 (4 scenarios, frozen):

Server scenarios (test against a server):
  - ping

Client scenarios (test against a client):
  - initialize
  - auth/basic-cimd

Run and reported, but never scored:
  extension (1):
    - auth/dpop [client]
`
  expect(requiredNames(text, 'client')).toEqual(['initialize', 'auth/basic-cimd'])
  expect(requiredNames(text, 'server')).toEqual(['ping'])
})

test('parses the names of a revision', () => {
  const text = `Client scenarios (test against a client):
  - initialize [2025-06-18,2025-11-25]
  - sse-retry [2025-11-25]
  - auth/dpop [extension]
`
  expect(namesFor(text, '2025-06-18')).toEqual(['initialize'])
  expect(namesFor(text, '2025-11-25')).toEqual(['initialize', 'sse-retry'])
})

test('returns no names for another text', () => {
  expect(requiredNames('No requirement set for 2020-01-01.', 'server')).toEqual([])
})
