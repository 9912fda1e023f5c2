import { expect, test } from 'vitest'
import * as surface from './index.ts'
import type { TransportErrorCode } from './index.ts'

test('exports exactly these names', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'Call',
    'FileSessionInfo',
    'McpConnection',
    'SessionInfo',
    'SessionSettings',
    'StreamableHttpTransport',
    'ToolListRecord',
    'TransportError',
    'createDispatcher',
    'reserveAuthProvider',
    'sessionRecordFrom',
    'transportOptionChecks',
  ])
})

test('has exactly these error codes', () => {
  // Does not compile if a code is added or removed.
  const codes: Record<TransportErrorCode, true> = {
    CLOSED: true,
    SESSION_LOST: true,
    UNREACHABLE: true,
    OUTCOME_UNKNOWN: true,
    UNAUTHORIZED: true,
    REJECTED: true,
    UNEXPECTED_RESPONSE: true,
    LIMIT: true,
    TIMEOUT: true,
    CONFIG: true,
    RECORD_UNUSABLE: true,
    TOOL_LEFT_OUT: true,
  }
  expect(Object.keys(codes)).toHaveLength(12)
})

test('has a public brand for errors, which other copies of the package check', () => {
  const brand = Symbol.for('mcp-transport.TransportError')
  expect(brand in new surface.TransportError('CLOSED', 'x')).toBe(true)
})

test('has the members that clients use', () => {
  const transport = new surface.StreamableHttpTransport('http://server.test/mcp')
  expect(transport).toMatchObject({
    start: expect.any(Function),
    send: expect.any(Function),
    close: expect.any(Function),
    terminateSession: expect.any(Function),
    setProtocolVersion: expect.any(Function),
    [Symbol.asyncDispose]: expect.any(Function),
    isResumed: false,
  })
  expect(transport.sessionId).toBeUndefined()
  expect(transport.era).toBeUndefined()
  expect(transport.protocolVersion).toBeUndefined()
  expect(transport.epoch).toBeUndefined()
})
