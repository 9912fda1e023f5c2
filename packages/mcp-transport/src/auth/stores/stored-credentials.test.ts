import { expect, test } from 'vitest'
import { storedCredentialsFrom } from './stored-credentials.ts'

test('takes what is whole, and leaves out what is broken', () => {
  expect(
    storedCredentialsFrom({
      v: 1,
      client: { client_id: 7 },
      tokens: { access_token: 'a', token_type: 'Bearer', refresh_token: 5 },
      codeVerifier: 'v',
      discovery: { authorizationServerUrl: 'https://as.test', authorizationServerMetadata: 'x' },
    }),
  ).toEqual({
    v: 1,
    codeVerifier: 'v',
    discovery: { authorizationServerUrl: 'https://as.test' },
  })
})

test.each([undefined, null, [], 'x', {}, { v: 2, tokens: {} }])('%j is none', (value) => {
  expect(storedCredentialsFrom(value)).toBeUndefined()
})
