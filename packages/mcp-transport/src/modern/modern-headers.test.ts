import { expect, test } from 'vitest'
import { modernHeaders } from './modern-headers.ts'

const header = { name: 'mcp-param-a', path: ['a'] }

function headersOf(method: string, params: Record<string, unknown>): Headers {
  const list = modernHeaders({ jsonrpc: '2.0', id: 1, method, params }, '2026-07-28', [header])
  return new Headers(
    list.flatMap((name, at) =>
      at % 2 === 0 ? [[name, list[at + 1] ?? ''] as [string, string]] : [],
    ),
  )
}

test('every request names its version and method, and takes both forms of an answer', () => {
  const headers = headersOf('tools/list', { name: 'no name of this method' })
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
  expect(headersOf(method, params).get('mcp-name')).toBe(name)
})

test('only calls of tools have headers of tools', () => {
  const params = { name: 'echo', arguments: { a: 'x' } }
  expect(headersOf('tools/call', params).get('mcp-param-a')).toBe('x')
  expect(headersOf('prompts/get', params).get('mcp-param-a')).toBeNull()
})
