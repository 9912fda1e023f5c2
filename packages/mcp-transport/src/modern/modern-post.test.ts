import { describe, expect, test } from 'vitest'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ErrorId } from '../legacy/session-loss.ts'
import { TransportError } from '../transport-error.ts'
import {
  isBeforeDispatch,
  looksLegacy,
  toIdentity,
  META,
  withIdentity,
  modernHeaders,
} from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'

describe('the outcome of a modern request', () => {
  type Answered = Extract<PostOutcome, { kind: 'answered' }>

  function answered(status: number, code: number, message: string): Answered {
    const answer = { jsonrpc: '2.0', id: 'a-1', error: { code, message } } as const
    return { kind: 'answered', answer, status, headers: {}, errorId: 'own' }
  }

  function withoutId(status: number, code: number, message: string): Answered {
    return { ...answered(status, code, message), errorId: 'none' }
  }

  function failed(
    status: number | undefined,
    bodyText = '',
    errorId: ErrorId = 'none',
  ): PostOutcome {
    const error = new TransportError('REJECTED', 'No', { status, bodyText })
    return { kind: 'refused', error, headers: {}, errorId }
  }

  describe('shows a legacy server', () => {
    test.each([
      ['400 with -32000', answered(400, -32000, 'Bad Request: Server not initialized')],
      ['400 with -32000 and another text', answered(400, -32000, 'Bad Request')],
      ['a session in an error', answered(404, -32001, 'Session not found')],
      ['a session in plain text', failed(400, 'Invalid session ID')],
      ['a 404 without words', failed(404)],
      ['a 405 without words', failed(405)],
      ['a page', failed(404, '<html>Not Found</html>')],
      ['a session in JSON', failed(400, '{"error":"No active session"}')],
      [
        'an error that requires a session',
        answered(400, -32600, 'Mcp-Session-Id header: session required'),
      ],
    ])('for %s', (_name, outcome) => {
      expect(looksLegacy(outcome)).toBe(true)
    })
  })

  test('shows a legacy server for an assigned session id', () => {
    const headers = { 'mcp-session-id': 'a-session-of-nobody' }
    expect(looksLegacy({ ...answered(200, -32602, 'Invalid request parameters'), headers })).toBe(
      true,
    )
  })

  describe('shows whether a refusal came before the dispatch', () => {
    test.each([
      ['400 without an id', withoutId(400, -32000, 'Bad Request'), true],
      ['400 with the id of the request', answered(400, -32000, 'Session not found'), false],
      ['404 without an id', withoutId(404, -32001, 'Session not found'), true],
      ['404 with the id of the request', answered(404, -32001, 'Session not found'), false],
      ['200 with the id of the request', answered(200, -32602, 'Session not found'), false],
      ['the session in plain text', failed(400, 'Invalid session ID'), true],
      ['a 404 without words', failed(404), true],
      ['a 405 without words', failed(405), true],
      ['other plain text', failed(400, 'browser session not found'), false],
      ['a body that hides the id of the request', failed(404, 'Session not found', 'own'), false],
      ['no response', failed(undefined), false],
    ] satisfies [string, PostOutcome, boolean][])('for %s', (_name, outcome, expected) => {
      expect(isBeforeDispatch(outcome)).toBe(expected)
    })
  })

  describe('does not show a legacy server', () => {
    test.each([
      [
        'a result',
        {
          kind: 'answered',
          answer: { jsonrpc: '2.0', id: 1, result: {} },
          status: 200,
          headers: {},
          errorId: 'own',
        },
      ],
      ['an unknown method', answered(404, -32601, 'Method not found')],
      ['invalid parameters', answered(400, -32602, 'sessionId is missing')],
      ['an invalid header', answered(400, -32020, 'The session header is invalid')],
      ['an error of a tool', answered(200, -32000, 'Session not found')],
      ['refused credentials', failed(401, 'Session expired')],
      ['an overloaded server', failed(429, 'Too many sessions: unknown')],
      ['an internal error', failed(500, 'Session not found')],
      ['no response', failed(undefined)],
    ] satisfies [string, PostOutcome][])('for %s', (_name, outcome) => {
      expect(looksLegacy(outcome)).toBe(false)
    })
  })
})

describe('the parts of a modern request', () => {
  describe('meta', () => {
    const initialize = (params?: Record<string, unknown>): JsonRpcRequest => ({
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params,
    })

    describe('has the identity of the client, which', () => {
      test('comes from initialize, without fields of other revisions', () => {
        const capabilities = {
          elicitation: { form: {} },
          roots: { listChanged: true },
          tasks: { list: {} },
        }
        const clientInfo = { name: 'app', version: '1' }
        expect(toIdentity(initialize({ capabilities, clientInfo }), '2026-07-28')).toEqual({
          protocolVersion: '2026-07-28',
          capabilities: { elicitation: { form: {} }, roots: {} },
          meta: {
            [META.protocolVersion]: '2026-07-28',
            [META.clientCapabilities]: { elicitation: { form: {} }, roots: {} },
            [META.clientInfo]: clientInfo,
          },
        })
      })

      test.each([undefined, {}, { capabilities: 'none' }])(
        'has no capabilities for the initialize parameters %j',
        (params) => {
          expect(toIdentity(initialize(params), '2026-07-28').capabilities).toEqual({})
        },
      )
    })

    describe('has the identity in _meta, which', () => {
      const identity = toIdentity(initialize({ clientInfo: { name: 'a' } }), '2026-07-28')

      test("is merged into the client's _meta, and has priority", () => {
        const given = { progressToken: 7, [META.protocolVersion]: '1999-01-01' }
        expect(withIdentity({ name: 'echo', _meta: given }, identity)).toEqual({
          name: 'echo',
          _meta: {
            progressToken: 7,
            [META.protocolVersion]: '2026-07-28',
            [META.clientCapabilities]: {},
            [META.clientInfo]: { name: 'a' },
          },
        })
      })

      test('has no log level before the client sets one', () => {
        expect(withIdentity(undefined, identity)['_meta']).not.toHaveProperty([META.logLevel])
      })

      test('has no clientInfo if the client gave none', () => {
        const nobody = toIdentity(initialize({}), '2026-07-28')
        expect(withIdentity({}, nobody)['_meta']).not.toHaveProperty([META.clientInfo])
      })
    })
  })

  describe('modern headers', () => {
    const meta = { [META.protocolVersion]: '2026-07-28' }

    function getHeaders(method: string, given: Record<string, unknown>): Headers {
      const params = { ...given, _meta: meta }
      const list = modernHeaders({ jsonrpc: '2.0', id: 1, method, params })
      return new Headers(
        list.flatMap((name, at) =>
          at % 2 === 0 ? [[name, list[at + 1] ?? ''] as [string, string]] : [],
        ),
      )
    }

    test('have version, method and both accepted response types', () => {
      const headers = getHeaders('tools/list', { name: 'no name of this method' })
      expect(Object.fromEntries(headers)).toEqual({
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/list',
      })
    })

    test.each([
      ['tools/call', { name: 'echo' }, 'echo'],
      ['prompts/get', { name: 'größe' }, '=?base64?Z3LDtsOfZQ==?='],
      ['resources/read', { uri: 'file:///a' }, 'file:///a'],
      ['resources/read', { uri: 7 }, null],
      ['completion/complete', { name: 'echo' }, null],
    ])('of %s with %j have the name %j', (method, params, name) => {
      expect(getHeaders(method, params).get('mcp-name')).toBe(name)
    })
  })
})
