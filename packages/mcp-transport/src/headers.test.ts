import { expect, test, describe } from 'vitest'
import {
  userHeaderList,
  withoutHeaderValues,
  headerValue,
  mediaType,
  retryAfterMs,
} from './headers.ts'

describe('request headers', () => {
  test('have names in lower case and unchanged values', () => {
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
  ])('cannot replace %s, which the transport sets', (name) => {
    expect(userHeaderList({ [name]: 'mine', 'x-other': '1' })).toEqual(['x-other', '1'])
  })

  test.each([
    ['a space in the name', { 'x y': '1' }],
    ['an empty name', { '': '1' }],
    ['a line break in the value', { 'x-a': 'a\r\nx-b: 1' }],
    ['a NUL in the value', { 'x-a': '\0' }],
    ['a character beyond Latin-1', { 'x-a': '→' }],
    ['a value that is no text', { 'x-a': 1 as unknown as string }],
  ])('rejects the headers: %s', (_name, headers) => {
    expect(() => userHeaderList(headers)).toThrow(TypeError)
  })

  test('leaves an invalid value out of the error', () => {
    expect(() => userHeaderList({ authorization: 'Bearer secret\n' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') }),
    )
  })

  test.each([
    ['Token s3cret-token expired', 'Token [removed] expired'],
    ['got "Bearer s3cret-token"', 'got "[removed]"'],
    ['tenant acme, application/json, 0123456789', 'tenant acme, application/json, 0123456789'],
  ])('removes repeated headers of the caller from a text of the server: %s', (text, shown) => {
    const list = ['authorization', 'Bearer s3cret-token', 'x-tenant', 'acme']
    const ours = ['content-type', 'application/json', 'mcp-session-id', '0123456789']
    expect(withoutHeaderValues(text, [...list, ...ours])).toBe(shown)
  })
})

describe('response headers', () => {
  const now = (): number => Date.parse('2026-11-20T10:00:00.000Z')

  test.each([
    ['seconds', '120', 120_000],
    ['zero', '0', 0],
    ['spaces around', ' 5 ', 5000],
    ['a date', 'Fri, 20 Nov 2026 10:00:07 GMT', 7000],
    ['a date in the past', 'Fri, 20 Nov 2026 09:00:00 GMT', 0],
    ['a date of RFC 850', 'Friday, 20-Nov-26 10:00:07 GMT', 7000],
    ['a date of ISO 8601', '2026-11-20T10:00:07Z', 7000],
    ['a fraction of a second', '0.2501', 251],
    ['a negative number', '-5', undefined],
    ['more digits than a date has', '99999999999', undefined],
    ['nonsense', 'soon', undefined],
    ['nonsense with a number', 'in 5', undefined],
    ['nothing', undefined, undefined],
  ])('Retry-After: %s', (_name, value, expected) => {
    expect(retryAfterMs({ 'retry-after': value }, now)).toBe(expected)
  })

  test.each([
    ['application/json', 'application/json'],
    ['Application/JSON; charset=utf-8', 'application/json'],
    [' text/event-stream ;x', 'text/event-stream'],
    [undefined, ''],
  ])('media type of %j', (value, expected) => {
    expect(mediaType({ 'content-type': value })).toBe(expected)
  })

  test('uses the first value of a repeated header', () => {
    expect(headerValue({ a: ['1', '2'] }, 'a')).toBe('1')
  })
})
