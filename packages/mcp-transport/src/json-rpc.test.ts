import { withTraceContext } from '@x/internal'
import { describe, expect, test } from 'vitest'
import { isRequest, isResponse, messageFrom, versionOf } from './json-rpc.ts'

describe('json rpc', () => {
  describe('messageFrom', () => {
    test.each([
      ['request', { jsonrpc: '2.0', id: 0, method: 'ping' }],
      ['request with params', { jsonrpc: '2.0', id: 'a', method: 'ping', params: {} }],
      ['notification', { jsonrpc: '2.0', method: 'notifications/initialized' }],
      ['result', { jsonrpc: '2.0', id: 0, result: {} }],
      ['error', { jsonrpc: '2.0', id: 1, error: { code: -32000, message: 'no' } }],
      ['error without an id', { jsonrpc: '2.0', error: { code: -32000, message: 'no' } }],
      ['error with a null id', { jsonrpc: '2.0', id: null, error: { code: -1, message: '' } }],
      ['unknown fields are kept', { jsonrpc: '2.0', id: 1, result: { a: 1 }, extra: true }],
    ])('accepts: %s', (_name, value) => {
      expect(messageFrom(value)).toBe(value)
    })

    test.each([
      ['null', null],
      ['text', 'ping'],
      ['array', [{ jsonrpc: '2.0', id: 0, method: 'ping' }]],
      ['no version', { id: 0, method: 'ping' }],
      ['another version', { jsonrpc: '1.0', id: 0, method: 'ping' }],
      ['nothing in it', { jsonrpc: '2.0' }],
      ['only an id', { jsonrpc: '2.0', id: 1 }],
      ['an id that is an object', { jsonrpc: '2.0', id: {}, method: 'ping' }],
      ['a request with a null id', { jsonrpc: '2.0', id: null, method: 'ping' }],
      ['params that are a list', { jsonrpc: '2.0', id: 1, method: 'ping', params: [1] }],
      ['a result without an id', { jsonrpc: '2.0', result: {} }],
      ['a result that is no object', { jsonrpc: '2.0', id: 1, result: 'ok' }],
      [
        'both result and error',
        { jsonrpc: '2.0', id: 1, result: {}, error: { code: 1, message: '' } },
      ],
      ['an error that is a list', { jsonrpc: '2.0', id: 1, error: ['Session not found'] }],
    ])('refuses: %s', (_name, value) => {
      expect(messageFrom(value)).toBeUndefined()
    })
  })

  test('classifies every message as a request, a notification or a response', () => {
    const request = { jsonrpc: '2.0', id: 0, method: 'ping' } as const
    const notification = { jsonrpc: '2.0', method: 'notifications/progress' } as const
    const response = { jsonrpc: '2.0', id: 0, result: {} } as const
    const kinds = [request, notification, response].map((message) => [
      isRequest(message),
      isResponse(message),
    ])
    expect(kinds).toEqual([
      [true, false],
      [false, false],
      [false, true],
    ])
  })
})

describe('trace context', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'pay' } } as const

  test('adds the trace to an existing _meta', () => {
    const message = { ...call, params: { ...call.params, _meta: { progressToken: 1 } } }
    expect(withTraceContext(message, () => ({ traceparent, tracestate: 'a=b' }))).toEqual({
      ...call,
      params: { name: 'pay', _meta: { progressToken: 1, traceparent, tracestate: 'a=b' } },
    })
  })

  test('keeps a trace context of the caller', () => {
    const message = { ...call, params: { ...call.params, _meta: { traceparent: 'mine' } } }
    expect(withTraceContext(message, () => ({ traceparent }))).toBe(message)
  })

  test('changes nothing without a trace, and for a response', () => {
    expect(withTraceContext(call, undefined)).toBe(call)
    expect(withTraceContext(call, () => undefined)).toBe(call)
    const answer = { jsonrpc: '2.0', id: 1, result: {} } as const
    expect(withTraceContext(answer, () => ({ traceparent }))).toBe(answer)
  })
})

test.each([
  [{ _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }, '2026-07-28'],
  [{ _meta: { 'io.modelcontextprotocol/protocolVersion': 7 } }, undefined],
  [{ _meta: {} }, undefined],
  [{}, undefined],
  [undefined, undefined],
])('returns the version of a request with the parameters %j: %s', (params, version) => {
  expect(versionOf({ jsonrpc: '2.0', id: 0, method: 'initialize', params })).toBe(version)
})
