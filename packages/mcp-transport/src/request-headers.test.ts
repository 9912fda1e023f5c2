import { expect, test } from 'vitest'
import { userHeaderList } from './request-headers.ts'

test('names become lower-case, values stay', () => {
  expect(userHeaderList({ Authorization: 'Bearer a', 'X-Tenant': 'Ünïq' })).toEqual([
    'authorization',
    'Bearer a',
    'x-tenant',
    'Ünïq',
  ])
})

test.each([
  'Accept',
  'CONTENT-TYPE',
  'content-length',
  'Connection',
  'Host',
  'Last-Event-ID',
  'Mcp-Session-Id',
  'MCP-PROTOCOL-VERSION',
  'mcp-anything',
  'Transfer-Encoding',
  'TE',
  'Upgrade',
  'accept-encoding',
])('%s stays with the transport', (name) => {
  expect(userHeaderList({ [name]: 'mine', 'x-other': '1' })).toEqual(['x-other', '1'])
})

test.each([
  ['a space in the name', { 'x y': '1' }],
  ['an empty name', { '': '1' }],
  ['a line break in the value', { 'x-a': 'a\r\nx-b: 1' }],
  ['a NUL in the value', { 'x-a': '\0' }],
  ['a character beyond Latin-1', { 'x-a': '→' }],
  ['a value that is no text', { 'x-a': 1 as unknown as string }],
])('refuses: %s', (_name, headers) => {
  expect(() => userHeaderList(headers)).toThrow(TypeError)
})

test('a refused value is not in the message', () => {
  expect(() => userHeaderList({ authorization: 'Bearer secret\n' })).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('secret') }),
  )
})
