import { describe, expect, test } from 'vitest'
import type { ErrorId } from '../legacy/session-loss.ts'
import { TransportError } from '../transport-error.ts'
import { isBeforeDispatch, looksLegacy } from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'

function answered(status: number, code: number, message: string): PostOutcome {
  const answer = { jsonrpc: '2.0', id: 'a-1', error: { code, message } } as const
  return { kind: 'answered', answer, status, headers: {} }
}

function withoutId(status: number, code: number, message: string): PostOutcome {
  return { ...answered(status, code, message), errorId: 'none' }
}

function failed(status: number | undefined, bodyText = '', errorId: ErrorId = 'none'): PostOutcome {
  const error = new TransportError('REJECTED', 'No', { status, bodyText })
  return { kind: 'failed', error, errorId }
}

describe('only a server with sessions says', () => {
  test.each([
    ['400 with -32000', answered(400, -32000, 'Bad Request: Server not initialized')],
    ['400 with -32000 and other words', answered(400, -32000, 'Bad Request')],
    ['a session in an error', answered(404, -32001, 'Session not found')],
    ['a session in plain text', failed(400, 'Invalid session ID')],
    ['a session in JSON', failed(400, '{"error":"No active session"}')],
    [
      'that a session is required',
      answered(400, -32600, 'Mcp-Session-Id header: session required'),
    ],
  ])('%s', (_name, outcome) => {
    expect(looksLegacy(outcome)).toBe(true)
  })
})

test('only a server with sessions assigns one to a request without', () => {
  const headers = { 'mcp-session-id': 'a-session-of-nobody' }
  expect(looksLegacy({ ...answered(200, -32602, 'Invalid request parameters'), headers })).toBe(
    true,
  )
})

describe('a refusal is given before the request is dispatched', () => {
  test.each([
    ['400 without an id', withoutId(400, -32000, 'Bad Request'), true],
    ['400 with the id of the request', answered(400, -32000, 'Session not found'), false],
    ['404 without an id', withoutId(404, -32001, 'Session not found'), true],
    ['404 with the id of the request', answered(404, -32001, 'Session not found'), false],
    ['200 with the id of the request', answered(200, -32602, 'Session not found'), false],
    ['the session in plain text', failed(400, 'Invalid session ID'), true],
    ['other plain text', failed(400, 'browser session not found'), false],
    ['a body that hides the id of the request', failed(404, 'Session not found', 'own'), false],
    ['no response', failed(undefined), false],
  ] satisfies [string, PostOutcome, boolean][])('or not: %s', (_name, outcome, expected) => {
    expect(isBeforeDispatch(outcome)).toBe(expected)
  })
})

describe('a modern server may say', () => {
  test.each([
    [
      'a result',
      { kind: 'answered', answer: { jsonrpc: '2.0', id: 1, result: {} }, status: 200, headers: {} },
    ],
    ['that a method is unknown', answered(404, -32601, 'Method not found')],
    ['that parameters are wrong', answered(400, -32602, 'sessionId is missing')],
    ['that a header is wrong', answered(400, -32020, 'The session header is invalid')],
    ['an error of a tool', answered(200, -32000, 'Session not found')],
    ['a bare 404 of a gateway', failed(404)],
    ['that credentials are wrong', failed(401, 'Session expired')],
    ['that it is busy', failed(429, 'Too many sessions: unknown')],
    ['that it fails', failed(500, 'Session not found')],
    ['nothing at all', failed(undefined)],
  ] satisfies [string, PostOutcome][])('%s', (_name, outcome) => {
    expect(looksLegacy(outcome)).toBe(false)
  })
})
