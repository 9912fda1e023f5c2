import { describe, expect, test } from 'vitest'
import type { Refusal } from '../http/answer-reader.ts'
import type { TransportError } from '../transport-error.ts'
import { resolveLimits } from '../transport-options.ts'
import { LegacySession } from './legacy-session.ts'
import { lossVerdict, okRefusal, parseEvidence, toRefusalError } from './session-loss.ts'
import type { LossEvidence, LossVerdict } from './session-loss.ts'

describe('the verdict about a response', () => {
  const OWN_ID = 7

  const rpc = (code: number, message: string, id: number | string | null = null): string =>
    JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })

  const own = (code: number, message: string): string => rpc(code, message, OWN_ID)

  function verdictOn(
    status: number,
    body: string,
    more: Partial<Pick<LossEvidence, 'challenged' | 'unproven'>> = {},
  ): LossVerdict {
    const evidence = parseEvidence(body, OWN_ID)
    return lossVerdict({ status, ...evidence, challenged: false, unproven: false, ...more })
  }

  /** Origin, status, body, verdict. */
  type Row = readonly [name: string, status: number, body: string, verdict: LossVerdict]

  const refusals: readonly Row[] = [
    ['yantrikdb PR #28', 404, rpc(-32600, 'Session not found'), 'lost'],
    ['a Python server', 404, rpc(-32600, 'Session has been terminated'), 'lost'],
    ['a text of a gateway', 404, 'Not Found', 'lost'],
    ['an HTML page of a gateway', 404, '<html><h1>Not Found</h1></html>', 'lost'],
    ['an empty 404 that a bridge converted', 404, rpc(-32601, 'Not Found'), 'ambiguous'],
    ['404 -32601 that names the session', 404, rpc(-32601, 'Session not found'), 'lost'],
    ['410 with text', 410, 'Gone', 'lost'],
    ['410 with an error', 410, rpc(-32600, 'whatever'), 'lost'],
    ['another 4xx', 422, rpc(-32600, 'Unknown session id'), 'ambiguous'],
    ['mcp-go, after it', 404, 'Session not found', 'lost'],
    [
      'fastmcp #121',
      500,
      rpc(-32603, 'Upstream: 400 Bad Request: No valid session ID provided'),
      'ambiguous',
    ],
    ['an error that is text', 400, '{"error":"Session not found"}', 'lost'],
    ['a session without initialize', 400, 'Session not initialized', 'lost'],
    ['FastAPI', 400, '{"detail":"Session not found"}', 'lost'],
    [
      'an error with another code',
      400,
      '{"error":{"code":"x","message":"Missing session"}}',
      'lost',
    ],
    ['plain text in a 200', 200, 'SESSION NOT FOUND', 'ambiguous'],
    ['python-sdk #3556', 200, rpc(32600, 'Session terminated'), 'ambiguous'],
    ['status 200 with error -32600', 200, rpc(-32600, 'Session not found'), 'ambiguous'],
    ['status 200 with error -32000', 200, rpc(-32000, 'No valid session ID provided'), 'ambiguous'],
    ['status 200 with error -32001', 200, rpc(-32001, 'Session not found'), 'ambiguous'],
    ['a Python server, with another id', 404, rpc(-32600, 'Gone', 'server-error'), 'lost'],
    ['helidon-mcp, before #152', 404, '{"jsonrpc":"2.0","id":7}', 'lost'],
    ['a framework that copies the id', 404, own(-32600, 'Session not found'), 'lost'],
    ['a guard in Express', 404, own(-32001, 'Session not found'), 'lost'],
    [
      'a guard in Express, after a byte order mark',
      404,
      `\uFEFF${own(-32001, 'Session not found')}`,
      'lost',
    ],
    ['tower-mcp #65', 404, own(-32005, 'Session not found or expired'), 'lost'],
    ['an id as text', 404, rpc(-32000, 'Unknown session ID', '7'), 'lost'],
    ['403 of a gateway', 403, 'Unknown session', 'lost'],
  ]

  /** Errors of tools that have run, with texts like those of a lost session. */
  const toolFailures: readonly Row[] = [
    ['a paid checkout', 500, 'Checkout session expired after the card was charged', 'ambiguous'],
    ['a database', 500, 'database session expired while committing order 17', 'ambiguous'],
    ['a gateway cookie', 502, 'unknown session affinity cookie', 'ambiguous'],
    ['a game', 422, 'game session is invalid', 'ambiguous'],
    ['a browser, without an id', 400, 'browser session not found', 'ambiguous'],
    ['a tool that asks a person to sign in', 401, 'Your session has expired', 'ambiguous'],
    [
      'the words of a lost session, with the id of the request',
      400,
      own(-32000, 'Session not found'),
      'ambiguous',
    ],
    ['an error of a tool with status 410', 410, own(-32001, 'Session not found'), 'ambiguous'],
    ['a tool with a cart', 404, own(-32001, 'Cart session not found'), 'ambiguous'],
    ['a tool that finds nothing', 404, own(-32001, 'Invoice 17 not found'), 'ambiguous'],
    ['a failed tool', 404, own(-32603, 'Session not found'), 'ambiguous'],
    ['an error of a tool with status 401', 401, own(-32000, 'Session not found'), 'ambiguous'],
    [
      'an error with the id of the request as text',
      400,
      rpc(-32000, 'Session not found', '7'),
      'ambiguous',
    ],
    [
      'an error with another id',
      400,
      rpc(-32000, 'Session not found', 'server-error'),
      'ambiguous',
    ],
  ]

  const lookAlikes: readonly Row[] = [
    ['an unknown method at 404', 404, rpc(-32601, 'Method not found'), 'not-lost'],
    ['a method about sessions', 404, own(-32601, 'Method not found: session/list'), 'not-lost'],
    ['initialize in a live session', 400, rpc(-32600, 'Server already initialized'), 'not-lost'],
    [
      'a session that is already initialized',
      400,
      'Session already initialized: invalid request',
      'not-lost',
    ],
    ['overload', 429, 'Session limit: unknown client, slow down', 'not-lost'],
    ['overload of a gateway', 503, 'No active session backend', 'not-lost'],
    ['bad parameters', 400, rpc(-32602, 'Invalid params'), 'not-lost'],
    [
      'a parameter that is called session_id',
      400,
      rpc(-32602, 'Missing parameter session_id'),
      'not-lost',
    ],
    ['a bad request', 400, rpc(-32600, 'Invalid Request'), 'not-lost'],
    [
      'an unknown method with "session" in its name',
      400,
      rpc(-32601, 'Unknown method session/get'),
      'not-lost',
    ],
    ['broken JSON', 400, rpc(-32700, 'Parse error: session is invalid JSON'), 'not-lost'],
    ['credentials', 401, 'Unauthorized', 'not-lost'],
    [
      'an HTML page that mentions a session',
      500,
      '<html>Your session is invalid or expired</html>',
      'not-lost',
    ],
    ['a login page', 200, '<html>Your session has expired: sign in</html>', 'not-lost'],
    ['an internal error', 500, 'Internal Server Error', 'not-lost'],
    ['a bad gateway', 502, 'Bad Gateway', 'not-lost'],
    ['an error of a tool', 200, rpc(-32603, 'Database session expired'), 'not-lost'],
    ['status 200 with another error', 200, rpc(-32000, 'The cart is full'), 'not-lost'],
    ['"session" alone', 400, 'The session is busy', 'not-lost'],
  ]

  /** Errors of tools with the id of the request in an unusual place. */
  const hiddenIds: readonly Row[] = [
    ['an event', 404, `event: message\ndata: ${own(-32001, 'Session not found')}\n\n`, 'ambiguous'],
    ['an event after another', 404, `data: {}\n\ndata: ${own(-32001, 'Gone')}\n\n`, 'ambiguous'],
    ['a batch', 410, `[${own(-32001, 'Session not found')}]`, 'ambiguous'],
    ['JSON as text in JSON', 404, JSON.stringify({ detail: own(-32001, 'Gone') }), 'ambiguous'],
    ['a byte order mark', 404, `\uFEFF${own(-32001, 'Cart session not found')}`, 'ambiguous'],
    ['an event that belongs to no request', 404, `data: ${rpc(-32001, 'Gone')}\n\n`, 'lost'],
    ['a longer number', 404, `data: ${rpc(-32001, 'Gone', OWN_ID * 10)}\n\n`, 'lost'],
  ]

  test.each(hiddenIds)(
    'is found for an error with the id of the request in %s',
    (...[, status, body, verdict]) => {
      expect(verdictOn(status, body)).toBe(verdict)
    },
  )

  test.each<readonly [string, LossVerdict]>([
    ['', 'ambiguous'],
    ['{"jsonrpc":"2.0","error":{"code":-32001,"mess', 'ambiguous'],
    ['\uFEFF[{"jsonrpc":', 'ambiguous'],
    ['event: message\nda', 'ambiguous'],
    ['<html><title>Not Fou', 'lost'],
    ['Session not fou', 'lost'],
  ])(
    'is found for a response with status 404 whose body was read only in part: %j',
    (body, verdict) => {
      const evidence = { challenged: false, unproven: false, ...parseEvidence(body, OWN_ID, true) }
      expect(lossVerdict({ status: 404, ...evidence })).toBe(verdict)
    },
  )

  test.each([...refusals, ...toolFailures, ...lookAlikes])(
    'is found for %s (HTTP %i)',
    (...[, status, body, verdict]) => {
      expect(verdictOn(status, body)).toBe(verdict)
    },
  )

  describe('and facts outside of the body', () => {
    test.each([401, 403])('is not-lost for status %i with a challenge', (status) => {
      expect(verdictOn(status, 'Session not found', { challenged: true })).toBe('not-lost')
    })

    test('is ambiguous for an unknown method with status 404 while no request has succeeded in a stored session', () => {
      const body = own(-32601, 'Method not found')
      expect(verdictOn(404, body, { unproven: true })).toBe('ambiguous')
      expect(verdictOn(404, body, { unproven: false })).toBe('not-lost')
    })
  })
})

describe('the error for a refused request', () => {
  const url = 'https://shop.example/mcp'
  const id = '1868a90c-6e1f-4f3a-9c5d-0d2f1b7e3a11'
  const session = new LegacySession({
    id,
    epoch: 4,
    protocolVersion: '2025-11-25',
    isResumed: false,
  })

  function errorOn(
    refusal: Partial<Refusal>,
    context: Parameters<typeof toRefusalError>[2] = {},
    limits = resolveLimits(),
  ): TransportError {
    return toRefusalError(
      { ...okRefusal(''), status: 400, ...refusal },
      { url: { display: url }, limits },
      { session, ...context },
    )
  }

  test.each([
    [401, 'UNAUTHORIZED'],
    [403, 'UNAUTHORIZED'],
    [400, 'REJECTED'],
    [413, 'REJECTED'],
    [500, 'REJECTED'],
    [503, 'REJECTED'],
    [200, 'UNEXPECTED_RESPONSE'],
    [202, 'UNEXPECTED_RESPONSE'],
  ])('has for status %d the code %s', (status, code) => {
    expect(errorOn({ status })).toMatchObject({ code, status, url })
  })

  describe('for a lost session', () => {
    test('has the generation of the session, and is certain', () => {
      const error = errorOn({ status: 404 })
      expect(error).toMatchObject({ code: 'SESSION_LOST', certain: true, epoch: 4, status: 404 })
    })

    test('is not certain after a message for the request', () => {
      expect(errorOn({ status: 404 }, { isStarted: true })).toHaveProperty('certain', false)
    })

    test.each([
      ['', false],
      ['<html>Not Found</html>', false],
      ['Not Found', false],
      ['Browser session not found', false],
      ['{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}', false],
      ['{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}', true],
      ['Session not found', true],
    ])('is certain in a new session only if the refusal names it: %j', (text, certain) => {
      const { epoch, protocolVersion } = session
      const own = new LegacySession({ id, epoch, protocolVersion, isResumed: false })
      own.isDoubtful = true
      const error = errorOn({ status: 404, text }, { session: own, requestId: 7 })
      expect(error).toMatchObject({ code: 'SESSION_LOST', certain })
    })

    test('is REJECTED if the request had no session', () => {
      expect(errorOn({ status: 404 }, { session: undefined })).toHaveProperty('code', 'REJECTED')
    })
  })

  describe('for a server that was replaced by one of another version', () => {
    const refused = (rpcId: number | null, error: object): string =>
      JSON.stringify({ jsonrpc: '2.0', id: rpcId, error })
    const unsupported = { code: -32022, message: 'Unsupported protocol version' }
    const stateless = { supported: ['2026-07-28'], requested: '2025-11-25' }

    test.each([
      ['a stateless one', refused(7, { ...unsupported, data: stateless }), true],
      ['a stateless one without a list', refused(7, unsupported), false],
      [
        'one that supports ours',
        refused(7, { ...unsupported, data: { supported: ['2025-11-25'] } }),
        false,
      ],
      [
        'one that misses headers',
        refused(7, { code: -32020, message: 'Mcp-Method is missing' }),
        false,
      ],
      [
        'an older one',
        refused(null, { code: -32000, message: 'Unsupported protocol version: 2025-11-25' }),
        true,
      ],
      [
        'a tool that says so',
        refused(7, { code: -32000, message: 'Unsupported protocol version of the device' }),
        false,
      ],
      ['text that names no version of MCP', 'Unsupported protocol version: TLS 1.0', false],
    ])('is SESSION_LOST: %s', (_name, text, certain) => {
      for (const sessionId of [session.id, undefined]) {
        const { epoch, protocolVersion, isResumed } = session
        const own = new LegacySession({ id: sessionId, epoch, protocolVersion, isResumed })
        expect(errorOn({ text }, { requestId: 7, session: own })).toMatchObject({
          code: 'SESSION_LOST',
          certain,
        })
      }
    })

    test('is not certain after a message for the request', () => {
      const text = refused(7, { ...unsupported, data: stateless })
      expect(errorOn({ text }, { requestId: 7, isStarted: true })).toHaveProperty('certain', false)
    })

    test('is not certain in a new session', () => {
      const { epoch, protocolVersion } = session
      const own = new LegacySession({ id, epoch, protocolVersion, isResumed: false })
      own.isDoubtful = true
      const text = refused(null, {
        code: -32000,
        message: 'Unsupported protocol version: 2025-11-25',
      })
      expect(errorOn({ text }, { session: own })).toHaveProperty('certain', false)
    })

    test('is REJECTED for another status than 400', () => {
      const text = refused(7, { ...unsupported, data: stateless })
      expect(errorOn({ text, status: 500 }, { requestId: 7 })).toHaveProperty('code', 'REJECTED')
    })
  })

  test('contains the description of an error of OAuth', () => {
    const text = JSON.stringify({ error: 'invalid_token', error_description: 'It expired' })
    expect(errorOn({ status: 401, text }).message).toContain(
      '(HTTP 401: invalid_token: It expired)',
    )
  })

  test('contains the unchanged error of the server', () => {
    const text = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32602, message: 'Bad cart', data: { field: 'item' } },
    })
    const error = errorOn({ text })
    expect(error.serverError).toEqual({
      code: -32602,
      message: 'Bad cart',
      data: { field: 'item' },
    })
    expect(error.message).toContain(`${url} rejected the request (HTTP 400: Bad cart)`)
  })

  test('contains Retry-After in milliseconds', () => {
    const headers = { 'retry-after': '3' }
    expect(errorOn({ status: 503, headers })).toHaveProperty('retryAfterMs', 3000)
  })

  describe('and the text of the server', () => {
    test('is cut off with a mark', () => {
      const limits = resolveLimits({ errorTextBytes: 10 })
      const error = errorOn({ text: '→'.repeat(1000) }, {}, limits)
      expect(error.bodyText).toBe('→→→… (cut)')
      expect(error.message.length).toBeLessThan(400)
    })

    test('contains no complete session id', () => {
      const body = {
        jsonrpc: '2.0',
        id: 1,
        error: { code: -32001, message: `Session ${id} expired` },
      }
      const error = errorOn({ status: 404, text: JSON.stringify(body) })
      expect(error.message).toContain('Session 1868…(36) expired')
      expect(JSON.stringify([error, error.message, error.stack])).not.toContain(id)
    })

    test('contains no markup', () => {
      const error = errorOn({ status: 502, text: '<html><body>Bad Gateway</body></html>' })
      expect(error.message).not.toContain('<')
      expect(error.message).toContain('is this the URL of an MCP endpoint?')
    })

    test('is shortened to one line', () => {
      expect(errorOn({ text: 'a\n\n  b' }).message).toContain('(HTTP 400: a b)')
    })
  })
})
