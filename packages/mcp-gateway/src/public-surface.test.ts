import { expect, test } from 'vitest'

import * as adapter from './adapter.ts'
import * as surface from './index.ts'
import type { GatewayErrorCode } from './index.ts'

test('exports exactly this', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'AgentRegistry',
    'DiskGatewayStore',
    'GatewayError',
    'MemoryGatewayStore',
    'anyAuth',
    'bearerAuth',
    'callSpans',
    'createGateway',
    'createGuardedFetch',
    'isAllowed',
    'isFinal',
    'jwtAuth',
    'langGraphServerSource',
    'langGraphSource',
    'skillsOf',
    'tokenExchange',
  ])
  expect(Object.keys(adapter).toSorted()).toEqual([
    'FileBlobs',
    'MeasuredBytes',
    'ProtectedResource',
    'TokenBuckets',
    'abortable',
    'assertGatewayOptions',
    'authenticateToken',
    'challengeResponse',
    'credentialHeaders',
    'fetchForUser',
    'formatEventId',
    'headersNow',
    'originsCheck',
    'parseEventId',
    'parseFoundLog',
    'pathEnds',
    'pause',
    'publicDocument',
    'randomId',
    'readBounded',
    'readWebBody',
    'secureUrlFrom',
    'setting',
    'subnetOf',
    'systemClock',
    'toJsonText',
    'toLogTag',
    'valueFromJson',
    'warnAboutStore',
    'wellKnownPaths',
  ])
})

test('gives a gateway exactly these members', () => {
  const gateway = surface.createGateway({})
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(gateway))
  expect([...Object.keys(gateway), ...methods].toSorted()).toEqual([
    'close',
    'constructor',
    'fetch',
    'listen',
    'registry',
    'serveStdio',
    'work',
  ])
})

test('has exactly these error codes', () => {
  const codes: Record<GatewayErrorCode, true> = {
    CLOSED: true,
    CONFIG: true,
    EXCHANGE_REFUSED: true,
    LIMIT: true,
    LISTEN: true,
    NOT_FOUND: true,
    NO_USER: true,
    QUOTA: true,
    REFUSED: true,
    TOKEN_EXPIRED: true,
    UNAVAILABLE: true,
    WRONG_AUDIENCE: true,
  }
  expect(Object.keys(codes)).toHaveLength(12) // the compiler checks the names
})

test('recognises errors of another copy of this package', () => {
  const brand = Symbol.for('mcp-gateway.GatewayError')
  const foreign = Object.defineProperty(new Error('x'), brand, { value: true })
  expect(surface.GatewayError.is(foreign)).toBe(true)
  expect(surface.GatewayError.is(new Error('x'))).toBe(false)
})
