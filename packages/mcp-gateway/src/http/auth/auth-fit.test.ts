import { expect, test } from 'vitest'

import { checkAuthFits } from './auth-fit.ts'
import { bearerAuth } from './bearer-auth.ts'
import { devModeAuth } from './dev-mode.ts'

const token = bearerAuth('s3cret')
const dev = devModeAuth({ onWarning: () => undefined })
const http = (host: string): { type: 'http'; host: string } => ({ type: 'http', host })

test('stdio with auth is refused: there is nothing to check', () => {
  expect(() => checkAuthFits({ auth: token, transport: { type: 'stdio' } })).toThrow('stdio')
  expect(() => checkAuthFits({ auth: undefined, transport: { type: 'stdio' } })).not.toThrow()
})

test('a public address needs auth, or to be told so by name', () => {
  for (const host of ['0.0.0.0', '::', '192.168.1.7', 'gateway.example', '']) {
    expect(() => checkAuthFits({ auth: undefined, transport: http(host) })).toThrow('--insecure')
    expect(() =>
      checkAuthFits({ auth: undefined, transport: http(host), isInsecureAllowed: true }),
    ).not.toThrow()
    expect(() => checkAuthFits({ auth: token, transport: http(host) })).not.toThrow()
  }
})

test('development mode is never public, not even when told so', () => {
  expect(() =>
    checkAuthFits({ auth: dev, transport: http('0.0.0.0'), isInsecureAllowed: true }),
  ).toThrow(expect.objectContaining({ code: 'CONFIG', path: 'auth.devMode' }))
  expect(() => checkAuthFits({ auth: dev, transport: http('127.0.0.1') })).not.toThrow()
})

test('development mode accepts everybody, and warns loudly once', async () => {
  const warnings: string[] = []
  const auth = devModeAuth({ onWarning: (message) => warnings.push(message) })
  const headers = new Headers({ authorization: 'Bearer whatever' })
  const request = { method: 'POST', url: 'http://127.0.0.1/mcp', headers }
  await expect(auth.authenticate(request)).resolves.toMatchObject({
    id: 'mcp_user',
    isAnonymous: true,
  })
  await auth.authenticate(request)
  expect(warnings).toEqual([expect.stringMatching(/^DEVELOPMENT MODE: /)])
})
