import { describe, expect, test } from 'vitest'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { toIdentity, isModernRequest, META, withIdentity, modernHeaders } from './modern-request.ts'

describe('meta', () => {
  const initialize = (params?: Record<string, unknown>): JsonRpcRequest => ({
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params,
  })

  describe('who the client is', () => {
    test('is what its initialize told, without what does not exist here', () => {
      const capabilities = {
        elicitation: { form: {} },
        roots: { listChanged: true },
        tasks: { list: {} },
      }
      const clientInfo = { name: 'app', version: '1' }
      expect(toIdentity(initialize({ capabilities, clientInfo }), '2026-07-28')).toEqual({
        protocolVersion: '2026-07-28',
        capabilities: { elicitation: { form: {} }, roots: {} },
        clientInfo,
      })
    })

    test.each([undefined, {}, { capabilities: 'none' }])(
      'of %j it is nobody in particular',
      (params) => {
        expect(toIdentity(initialize(params), '2026-07-28').capabilities).toEqual({})
      },
    )
  })

  describe('the identity in _meta', () => {
    const identity = { protocolVersion: '2026-07-28', capabilities: {}, clientInfo: { name: 'a' } }

    test('joins what the client has put there, and wins', () => {
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

    test('has a log level only where one was asked for', () => {
      expect(withIdentity(undefined, identity)['_meta']).not.toHaveProperty([META.logLevel])
      expect(withIdentity({}, { ...identity, logLevel: 'debug' })).toMatchObject({
        _meta: { [META.logLevel]: 'debug' },
      })
    })

    test('leaves out a client that does not say its name', () => {
      const nobody = { ...identity, clientInfo: undefined }
      expect(withIdentity({}, nobody)['_meta']).not.toHaveProperty([META.clientInfo])
    })
  })

  test.each([
    [{ _meta: { [META.protocolVersion]: '2026-07-28' } }, true],
    [{ _meta: { [META.protocolVersion]: 7 } }, false],
    [{ _meta: {} }, false],
    [{}, false],
    [undefined, false],
  ])('%j is of a client that speaks for itself: %s', (params, is) => {
    expect(isModernRequest(initialize(params))).toBe(is)
  })
})

describe('modern headers', () => {
  const header = { name: 'mcp-param-a', path: ['a'] }

  function getHeaders(method: string, params: Record<string, unknown>): Headers {
    const list = modernHeaders({ jsonrpc: '2.0', id: 1, method, params }, '2026-07-28', [header])
    return new Headers(
      list.flatMap((name, at) =>
        at % 2 === 0 ? [[name, list[at + 1] ?? ''] as [string, string]] : [],
      ),
    )
  }

  test('every request names its version and method, and takes both forms of an answer', () => {
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
  ])('%s %j has the name %j', (method, params, name) => {
    expect(getHeaders(method, params).get('mcp-name')).toBe(name)
  })

  test('only calls of tools have headers of tools', () => {
    const params = { name: 'echo', arguments: { a: 'x' } }
    expect(getHeaders('tools/call', params).get('mcp-param-a')).toBe('x')
    expect(getHeaders('prompts/get', params).get('mcp-param-a')).toBeNull()
  })
})
