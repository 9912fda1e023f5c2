import { expect, test } from 'vitest'

import { inSession, post } from '../../../test/rpc-requests.ts'
import { loneRequestFrom } from './lone-request.ts'

const call = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'echo', arguments: { message: 'Hi' } },
}

function loneFrom(body: unknown, headers: Readonly<Record<string, string>> = {}): unknown {
  return loneRequestFrom(post(body, { ...inSession('session'), ...headers }), body)
}

test.each<[string, object]>([
  ['a call', call],
  ['a list', { jsonrpc: '2.0', id: 'a', method: 'tools/list' }],
  ['a call with something beside', { ...call, params: { ...call.params, _meta: { trace: 'x' } } }],
  ['a call that asks for progress', { ...call, params: { _meta: { progressToken: 1 } } }],
])('%s is alone', (_, body) => {
  expect(loneFrom(body)).toBe(body)
})

test('so is one of a client that names no revision', () => {
  const request = post(call, { 'mcp-session-id': 'session' })
  expect(loneRequestFrom(request, call)).toBe(call)
})

test.each<[string, unknown]>([
  ['a batch', [call]],
  ['a notification', { jsonrpc: '2.0', method: 'notifications/initialized' }],
  ['an answer', { jsonrpc: '2.0', id: 1, result: {} }],
  ['a handshake', { ...call, method: 'initialize' }],
  ['a call with an id that none can have', { ...call, id: 1.5 }],
  ['a call with no version of JSON-RPC', { ...call, jsonrpc: undefined }],
  ['a call with a key that none has', { ...call, extra: true }],
  ['a call with a list of parameters', { ...call, params: [] }],
  ['a call with a token that none can have', { ...call, params: { _meta: { progressToken: {} } } }],
  ['a call with a text beside', { ...call, params: { _meta: 'x' } }],
  [
    'a call of a task',
    { ...call, params: { _meta: { 'io.modelcontextprotocol/related-task': { taskId: 'x' } } } },
  ],
  ['no message', 'x'],
])('%s is not', (_, body) => {
  expect(loneFrom(body)).toBeUndefined()
})

test.each<[string, Readonly<Record<string, string>>]>([
  ['takes no stream', { accept: 'application/json' }],
  ['takes no JSON', { accept: 'text/event-stream' }],
  ['speaks a revision that is not known', { 'mcp-protocol-version': '2024-01-01' }],
])('nor is what %s', (_, headers) => {
  expect(loneFrom(call, headers)).toBeUndefined()
})
