import { handlerDispatcher } from '@x/internal/testing/undici'
import { expect, test } from 'vitest'
import { createOAuthFetch } from '../http/http-client.ts'
import type { TokenProvider } from './auth-provider.ts'
import { Authorizer } from './authorizer.ts'
import { bearer } from './providers.ts'

const serverUrl = new URL('https://mcp.test/mcp')
const fetch = createOAuthFetch(handlerDispatcher(() => new Response('from the network')))

async function refuse(provider: TokenProvider, refused: string): Promise<void> {
  await new Authorizer(provider, serverUrl, fetch).renew({
    signal: new AbortController().signal,
    refused,
    isStepUp: false,
    refusal: { status: 401, headers: { 'x-why': 'old' }, text: 'no' },
  })
}

test('calls the function once for all refused requests, with the refused token', async () => {
  const events: (string | undefined)[] = []
  let token = 'old'
  const provider = bearer(({ refused }) => {
    events.push(refused)
    if (refused === token) token = 'new'
    return token
  })
  await Promise.all([refuse(provider, 'old'), refuse(provider, 'old'), refuse(provider, 'old')])
  expect(new Set(events)).toEqual(new Set(['old']))
  expect(token).toBe('new')
})

test.each([
  ['the same token again', bearer('old')],
  ['no token', bearer(() => undefined)],
])('rejects with TOKEN_REFUSED if the function returns %s', async (what, provider) => {
  await expect(refuse(provider, 'old')).rejects.toMatchObject({
    code: 'TOKEN_REFUSED',
    message: expect.stringContaining(what),
  })
})

test('passes the response and a fetch function of the transport to onUnauthorized', async () => {
  let token = 'old'
  const seen: unknown[] = []
  const provider: TokenProvider = {
    token: () => token,
    async onUnauthorized({ response, serverUrl: url, fetchFn }) {
      seen.push(response.status, response.headers.get('x-why'), await response.text(), url.href)
      seen.push(await (await fetchFn('https://login.test/', { method: 'POST', body: 'x' })).text())
      token = 'new'
    },
  }
  await refuse(provider, 'old')
  expect(seen).toEqual([401, 'old', 'no', 'https://mcp.test/mcp', 'from the network'])
})

test('throws a TypeError from finishAuth()', async () => {
  const authorizer = new Authorizer(bearer('x'), serverUrl, fetch)
  await expect(authorizer.finish('code')).rejects.toThrow(TypeError)
})
