import { describe, expect, test } from 'vitest'
import type { Refusal } from './http/answer-reader.ts'
import type { TransportError } from './transport-error.ts'
import { LegacySession } from './legacy/legacy-session.ts'
import { refusalErrorFrom } from './refusal-error.ts'
import { RequestIds } from './legacy/request-ids.ts'

const url = 'https://shop.example/mcp'
const id = '1868a90c-6e1f-4f3a-9c5d-0d2f1b7e3a11'
const session = new LegacySession({
  id,
  epoch: 4,
  protocolVersion: '2025-11-25',
  isResumed: false,
  ids: RequestIds.asTheyAre(),
})

function errorOn(
  refusal: Partial<Refusal>,
  context: Partial<Parameters<typeof refusalErrorFrom>[1]> = {},
): TransportError {
  return refusalErrorFrom(
    { status: 400, headers: {}, text: '', ...refusal },
    { url, session, errorTextBytes: 2048, ...context },
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
])('HTTP %d is %s', (status, code) => {
  expect(errorOn({ status })).toMatchObject({ code, status, url })
})

describe('a lost session', () => {
  test('says of which session, and that nothing was executed', () => {
    const error = errorOn({ status: 404 })
    expect(error).toMatchObject({ code: 'SESSION_LOST', certain: true, epoch: 4, status: 404 })
  })

  test('is not certain after something has come for the request', () => {
    expect(errorOn({ status: 404 }, { isHeard: true })).toHaveProperty('certain', false)
  })

  test('needs a session that was sent', () => {
    expect(errorOn({ status: 404 }, { session: undefined })).toHaveProperty('code', 'REJECTED')
  })
})

describe('a server that was replaced by one of another version', () => {
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
  ])('ends the session: %s', (_name, text, certain) => {
    for (const sessionId of [session.id, undefined]) {
      const { epoch, protocolVersion, isResumed, ids } = session
      const own = new LegacySession({ id: sessionId, epoch, protocolVersion, isResumed, ids })
      expect(errorOn({ text }, { requestId: 7, session: own })).toMatchObject({
        code: 'SESSION_LOST',
        certain,
      })
    }
  })

  test('is not certain after something has come for the request', () => {
    const text = refused(7, { ...unsupported, data: stateless })
    expect(errorOn({ text }, { requestId: 7, isHeard: true })).toHaveProperty('certain', false)
  })

  test('is not certain in a session that was only just opened', () => {
    const { epoch, protocolVersion, ids } = session
    const own = new LegacySession({ id, epoch, protocolVersion, isResumed: false, ids })
    own.isDoubtful = true
    const text = refused(null, {
      code: -32000,
      message: 'Unsupported protocol version: 2025-11-25',
    })
    expect(errorOn({ text }, { session: own })).toHaveProperty('certain', false)
  })

  test('needs status 400', () => {
    const text = refused(7, { ...unsupported, data: stateless })
    expect(errorOn({ text, status: 500 }, { requestId: 7 })).toHaveProperty('code', 'REJECTED')
  })
})

test('the error of the server is there as it wrote it', () => {
  const text = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32602, message: 'Bad cart', data: { field: 'item' } },
  })
  const error = errorOn({ text })
  expect(error.serverError).toEqual({ code: -32602, message: 'Bad cart', data: { field: 'item' } })
  expect(error.message).toBe(`${url} rejected the request (HTTP 400: Bad cart)`)
})

test('Retry-After is there in milliseconds', () => {
  const headers = { 'retry-after': '3' }
  expect(errorOn({ status: 503, headers })).toHaveProperty('retryAfterMs', 3000)
})

describe('what the server says', () => {
  test('is cut, and says so', () => {
    const error = errorOn({ text: '→'.repeat(1000) }, { errorTextBytes: 10 })
    expect(error.bodyText).toBe('→→→… (cut)')
    expect(error.message.length).toBeLessThan(300)
  })

  test('holds no whole session id, wherever it stands', () => {
    const body = {
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32001, message: `Session ${id} expired` },
    }
    const error = errorOn({ status: 404, text: JSON.stringify(body) })
    expect(error.message).toContain('Session 1868…(36) expired')
    expect(JSON.stringify([error, error.message, error.stack])).not.toContain(id)
  })

  test('is no page of markup', () => {
    const error = errorOn({ status: 502, text: '<html><body>Bad Gateway</body></html>' })
    expect(error.message).not.toContain('<')
    expect(error.message).toContain('is this the URL of an MCP endpoint?')
  })

  test('is one line', () => {
    expect(errorOn({ text: 'a\n\n  b' }).message).toContain('(HTTP 400: a b)')
  })
})
