import { expect, test } from 'vitest'

import { redacted } from './redacted.ts'

const SECRET = 'S3CRETs3cret0123456789'

test.each([
  `Authorization: Bearer ${SECRET}`,
  `authorization=Basic ${SECRET}`,
  `{"authorization":"Bearer ${SECRET}"}`,
  `{"access_token":"${SECRET}","refresh_token": "${SECRET}"}`,
  `{'client_secret': '${SECRET}'}`,
  `GET https://gateway.example/oauth/callback?code=${SECRET}&state=${SECRET} failed`,
  `fetch https://files.example/a.png?sig=${SECRET}`,
  `password: ${SECRET}`,
  `api_key=${SECRET};`,
  `X-Api-Key: ${SECRET}`,
  `Mcp-Session-Id: ${SECRET}`,
  `Set-Cookie: ${SECRET}`,
  `redis://user:${SECRET}@cache.example:6379/0 refused`,
  `redis://user:p@${SECRET}@cache.example:6379/0 refused`,
  `code_verifier=${SECRET}`,
  `see x-eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ${SECRET}.x, which is odd`,
  `token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJTM0NSRVRzM2NyZXQifQ.${SECRET} is odd`,
])('removes the secret from %s', (text) => {
  expect(redacted(text)).not.toContain(SECRET)
  expect(redacted(text)).toContain('[redacted]')
})

test.each([
  'a-',
  'a.',
  'eyJ-',
  'http://a.',
  'token',
  'token ',
  'bearer ',
  '"',
  'a://',
  'a://b@',
  '@',
])('takes linear time for a long text of %s', (piece) => {
  const text = piece.repeat(2 ** 20 / piece.length)
  // With a match from each character, it would take half an hour, and fail by the time limit of a test.
  expect(redacted(text)).toBeDefined()
})

test('does not change a text without secrets', () => {
  const text = 'Agent "shop" at https://shop.example/a2a failed after 300 ms: no route'
  expect(redacted(text)).toBe(text)
})
