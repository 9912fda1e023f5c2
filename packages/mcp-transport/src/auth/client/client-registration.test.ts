import { expect, test } from 'vitest'
import { handlerDispatcher } from '@x/internal/testing/undici'
import type { AuthorizationServer } from '../discovery/authorization-server.ts'
import { applicationTypeOf, registerClient, registrationMetadata } from './client-registration.ts'
import { createOAuthFetch } from '../oauth-fetch.ts'

const server: AuthorizationServer = {
  issuer: 'https://as.test',
  metadata: { issuer: 'https://as.test', token_endpoint_auth_methods_supported: ['none'] },
  authorizationEndpoint: undefined,
  tokenEndpoint: new URL('https://as.test/token'),
  registrationEndpoint: new URL('https://as.test/register'),
}
const metadata = { redirect_uris: ['http://127.0.0.1:7/callback'], client_name: 'app' }

function register(answer: () => Response): ReturnType<typeof registerClient> {
  const fetch = createOAuthFetch({
    dispatcher: handlerDispatcher(answer),
    signal: new AbortController().signal,
  })
  return registerClient({ server, metadata, scope: undefined, fetch })
}

test.each([
  [['http://127.0.0.1:7/cb'], 'native'],
  [['http://localhost/cb', 'com.app:/cb'], 'native'],
  [['https://app.test/cb'], 'web'],
  [['http://localhost/cb', 'https://app.test/cb'], 'web'],
  [[], 'native'],
] as const)('redirects %j are those of a %s application', (uris, expected) => {
  expect(applicationTypeOf(uris)).toBe(expected)
})

test('says all that the client leaves open', () => {
  expect(registrationMetadata(metadata, { server, scope: 's' })).toEqual({
    redirect_uris: ['http://127.0.0.1:7/callback'],
    client_name: 'app',
    application_type: 'native',
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    scope: 's',
  })
})

test('keeps what the client says', () => {
  const own = {
    ...metadata,
    application_type: 'web',
    grant_types: ['authorization_code'],
    token_endpoint_auth_method: 'client_secret_post',
    logo_uri: undefined,
  }
  expect(registrationMetadata(own, { server, scope: undefined })).toEqual({
    redirect_uris: ['http://127.0.0.1:7/callback'],
    client_name: 'app',
    application_type: 'web',
    token_endpoint_auth_method: 'client_secret_post',
    grant_types: ['authorization_code'],
    response_types: ['code'],
  })
})

test('takes the answers that servers give, 200 and no expiry included', async () => {
  const answer = { client_id: 'c', client_secret: 's', token_endpoint_auth_method: 'none', x: 1 }
  await expect(register(() => Response.json(answer))).resolves.toEqual({
    client_id: 'c',
    client_secret: 's',
    token_endpoint_auth_method: 'none',
  })
})

test.each([
  [
    'says why',
    () => Response.json({ error: 'invalid_redirect_uri' }, { status: 400 }),
    'invalid_redirect_uri',
  ],
  ['is no JSON', () => new Response('<html>', { status: 403 }), undefined],
  ['has no id', () => Response.json({ client_id: 7 }, { status: 201 }), undefined],
])('a refusal that %s', async (_what, answer, oauthError) => {
  await expect(register(answer)).rejects.toMatchObject({ code: 'NOT_REGISTERED', oauthError })
})

test('a server without registration says what to do', async () => {
  const fetch = createOAuthFetch({
    dispatcher: handlerDispatcher(() => new Response()),
    signal: new AbortController().signal,
  })
  const closed = { ...server, registrationEndpoint: undefined }
  await expect(
    registerClient({ server: closed, metadata, scope: undefined, fetch }),
  ).rejects.toThrow('pass its client id')
})
