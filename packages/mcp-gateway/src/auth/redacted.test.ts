import { expect, test } from 'vitest'

import { auditEntry } from './audit-entry.ts'
import { redacted, shortened } from './redacted.ts'

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
  `code_verifier=${SECRET}`,
  `see x-eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ${SECRET}.x, which is odd`,
  `token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJTM0NSRVRzM2NyZXQifQ.${SECRET} is odd`,
])('nothing of the secret is left: %s', (text) => {
  expect(redacted(text)).not.toContain(SECRET)
  expect(redacted(text)).toContain('[redacted]')
})

test.each(['a-', 'a.', 'eyJ-', 'http://a.', 'token', 'token ', 'bearer ', '"', 'a://'])(
  'a long text of %s is read once, not from each of its characters on',
  (piece) => {
    const text = piece.repeat(2 ** 20 / piece.length)
    const startedAt = process.cpuUsage()
    redacted(text)
    const { user } = process.cpuUsage(startedAt)
    // Read again from each character, it takes half an hour.
    expect(user / 1_000_000).toBeLessThan(20)
  },
)

test('an ordinary text stays as it is', () => {
  const text = 'Agent "shop" at https://shop.example/a2a failed after 300 ms: no route'
  expect(redacted(text)).toBe(text)
})

test('an id is shown by its beginning and its length', () => {
  expect(shortened('0123456789abcdef')).toBe('0123…(16)')
})

test('the audit line says who, what and how it ended, and nothing of what was said', () => {
  const entry = auditEntry({
    principal: {
      id: 'https://login.example|ann',
      scopes: ['a'],
      isAnonymous: false,
      claims: { email: SECRET },
    },
    tool: `shop_order\n{"event":"audit","tool":"fake"}${'x'.repeat(300)}`,
    runId: 'run_0123456789abcdef',
    outcome: 'ok',
    durationMs: 12.6,
    requestBytes: 40,
    resultBytes: 900,
  })
  expect(entry).toMatchObject({
    event: 'audit',
    principal: 'https://login.example|ann',
    run: 'run_0123456789abcdef',
    outcome: 'ok',
    ms: 13,
    bytesIn: 40,
    bytesOut: 900,
  })
  expect(entry.tool).toHaveLength(128)
  expect(entry.tool).not.toContain('\n')
  expect(JSON.stringify(entry)).not.toContain(SECRET)
})
