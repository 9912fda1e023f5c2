import { expect, test } from 'vitest'
import { maskHeaders, maskText, shortId } from './mask.ts'

const ID = '3f2a9c1d-0000-4000-8000-000000000001'
const NONE = { ids: [], secrets: [] }
const KNOWN = { ids: [ID], secrets: ['s3cret-value'] }

test('shows the first four characters of an id, and its length', () => {
  expect(shortId(ID)).toBe('3f2a… (36)')
  expect(shortId('abc')).toBe('abc')
})

test('masks headers that hold secrets, and shortens session ids', () => {
  const headers = {
    authorization: `Bearer ${ID}`,
    cookie: 'sid=1',
    'set-cookie': 'sid=1',
    'x-api-key': 'k',
    'mcp-session-id': ID,
    'last-event-id': 'post12-3456789',
    'content-type': 'application/json',
    referer: `http://localhost/?session=${ID}`,
  }
  expect(maskHeaders(headers, KNOWN)).toEqual({
    authorization: 'Bearer •••',
    cookie: '•••',
    'set-cookie': '•••',
    'x-api-key': '•••',
    'mcp-session-id': '3f2a… (36)',
    'last-event-id': 'post… (14)',
    'content-type': 'application/json',
    referer: 'http://localhost/?session=3f2a… (36)',
  })
})

test.each([
  [{ access_token: 'abc', expires_in: 1 }, '{"access_token":"•••","expires_in":1}'],
  [{ token: 'a"b\\c' }, '{"token":"•••"}'],
  [{ clientSecret: 'abc', password: 'x' }, '{"clientSecret":"•••","password":"•••"}'],
  [{ sessionId: 'abcdefgh' }, '{"sessionId":"abcd… (8)"}'],
  [
    { progressToken: 'abc', nextToken: 'x', maxTokens: 7 },
    '{"progressToken":"abc","nextToken":"x","maxTokens":7}',
  ],
  [
    { text: JSON.stringify({ token: 'a"b\\c', n: 1 }) },
    '{"text":"{\\"token\\":\\"•••\\",\\"n\\":1}"}',
  ],
  [{ url: 'https://a.example/?token=abc&n=1' }, '{"url":"https://a.example/?token=•••&n=1"}'],
  [{ text: 'Authorization is Bearer abcdefghijk.l' }, '{"text":"Authorization is Bearer •••"}'],
])('masks %j', (value, expected) => {
  expect(maskText(JSON.stringify(value), NONE)).toBe(expected)
})

test('finds known ids and secrets anywhere, also in events and in text', () => {
  expect(maskText(`id: ${ID}-7\ndata: the key is s3cret-value`, KNOWN)).toBe(
    'id: 3f2a… (36)-7\ndata: the key is •••',
  )
  expect(maskText(JSON.stringify({ sessionId: ID }), KNOWN)).toBe('{"sessionId":"3f2a… (36)"}')
})

test('leaves no beginning of an id or a secret where a body is cut off', () => {
  const body = JSON.stringify({ note: `session ${ID}`, token: 'abcdefghijklmnop' })
  const whole = body.indexOf(ID)
  expect(maskText(body.slice(0, whole + 20), KNOWN)).toBe('{"note":"session 3f2a… (36)')
  for (let length = body.indexOf('abcd'); length < body.length; length++) {
    expect(maskText(body.slice(0, length), KNOWN)).not.toMatch(/abc/)
  }
  const nested = JSON.stringify({ text: JSON.stringify({ token: 'abc"d\\ef' }) })
  for (let length = nested.indexOf('abc'); length < nested.length; length++) {
    expect(maskText(nested.slice(0, length), KNOWN)).not.toMatch(/abc|ef/)
  }
})

test.each([
  '"',
  '\\"',
  'a',
  '"token":"',
  '\\\\"',
  'Bearer ',
  '?a=',
  '{"a":"\\\\',
  '\\"token\\":\\"',
])('masks a secret behind 64 KiB of %j', (part) => {
  const body = `${part.repeat(65_536 / part.length)}s3cret-value`
  expect(maskText(body, KNOWN)).not.toContain('s3cret')
})
