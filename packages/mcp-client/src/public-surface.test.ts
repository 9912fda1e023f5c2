import { TransportError } from '@x/mcp-transport'
import { expect, test } from 'vitest'
import * as surface from './index.ts'
import type { McpClientErrorCode } from './index.ts'

test('exports exactly these names', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'McpClient',
    'McpClientError',
    'SessionInfoFactory',
    'StaticServerDirectory',
    'clientOptionChecks',
    'currentRun',
    'httpDirectory',
    'isInputRequired',
    'mcpJsonDirectory',
    'runIdOf',
    'runInSessionScope',
    'withOverrides',
  ])
})

test('has exactly these error codes', () => {
  const codes: Record<McpClientErrorCode, true> = {
    CLOSED: true,
    CONFIG: true,
    INVALID_LIST: true,
    INVALID_OUTPUT: true,
    LIMIT: true,
    NOT_FOUND: true,
    NO_RUN: true,
    OUTCOME_UNKNOWN: true,
    RECORD_UNUSABLE: true,
    REENTRANT: true,
    REJECTED: true,
    SESSION_LOST: true,
    TASK_CANCELLED: true,
    TASK_EXPIRED: true,
    TASK_FAILED: true,
    TASK_INPUT: true,
    TASK_REFERENCE: true,
    TASK_UNKNOWN: true,
    TIMEOUT: true,
    UNAUTHORIZED: true,
    UNEXPECTED_RESPONSE: true,
    UNREACHABLE: true,
  }
  expect(Object.keys(codes)).toHaveLength(22) // the compiler checks the names
})

test('recognizes errors of another copy of this package, and not errors of the transport', () => {
  const error = new surface.McpClientError('CLOSED', 'closed', { server: 'shop' })
  const foreign = Object.defineProperty(new Error('x'), Symbol.for('mcp-client.McpClientError'), {
    value: true,
  })
  expect(error).toMatchObject({ name: 'McpClientError', tool: undefined, outcome: undefined })
  expect('cause' in error).toBe(false)
  expect(surface.McpClientError.is(error)).toBe(true)
  expect(surface.McpClientError.is(foreign)).toBe(true)
  expect(surface.McpClientError.is(new TransportError('CLOSED', 'closed'))).toBe(false)
  expect(surface.McpClientError.is(undefined)).toBe(false)
})
