import { expect, test } from 'vitest'
import { tokenEndpointAuthMethod } from './client-authentication.ts'

const client_secret = 's'

test.each([
  [{}, undefined, 'none'],
  [{}, ['client_secret_basic'], 'none'],
  [{ client_secret: '' }, ['client_secret_basic'], 'none'],
  [{ client_secret }, undefined, 'client_secret_basic'],
  [{ client_secret }, ['client_secret_post', 'client_secret_basic'], 'client_secret_basic'],
  [{ client_secret }, ['client_secret_post'], 'client_secret_post'],
  [{ client_secret }, ['none'], 'none'],
  [{ client_secret }, ['private_key_jwt'], 'client_secret_basic'],
  [
    { client_secret, token_endpoint_auth_method: 'client_secret_post' },
    undefined,
    'client_secret_post',
  ],
  [
    { client_secret, token_endpoint_auth_method: 'client_secret_post' },
    ['client_secret_basic', 'client_secret_post'],
    'client_secret_post',
  ],
  [
    { client_secret, token_endpoint_auth_method: 'client_secret_post' },
    ['client_secret_basic'],
    'client_secret_basic',
  ],
  [{ client_secret, token_endpoint_auth_method: 'none' }, ['none', 'client_secret_post'], 'none'],
] as const)('%j at a server with %j: %s', (client, supported, expected) => {
  expect(tokenEndpointAuthMethod(client, supported)).toBe(expected)
})
