import { expect, test } from 'vitest'

import { anyAuth } from './any-auth.ts'
import { bearerAuth } from './bearer-auth.ts'
import { devModeAuth } from './dev-mode.ts'
import { jwtAuth } from './jwt-auth.ts'

const resource = 'https://gateway.example/mcp'
const jwt = jwtAuth({
  issuers: [{ issuer: 'https://login.example', audience: resource }],
  resource,
  fetch: () => Promise.reject(new Error('no network')),
})
const auth = anyAuth(bearerAuth('s3cret'), jwt)

const answerTo = (token?: string) =>
  auth.authenticate({
    method: 'POST',
    url: resource,
    headers: new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  })

test('a token of either is accepted', async () => {
  await expect(answerTo('s3cret')).resolves.toMatchObject({ id: 'token' })
})

test('a refusal says where a token is to be had, whoever was asked first', async () => {
  for (const token of [undefined, 'wrong']) {
    const refused = await answerTo(token)
    expect(refused).toMatchObject({ status: 401 })
    expect((refused as Response).headers.get('www-authenticate')).toContain('resource_metadata=')
  }
  const request = { method: 'POST', url: resource, headers: new Headers() }
  const missing = auth.refuseScopes?.(request, ['a'])
  expect(missing?.headers.get('www-authenticate')).toContain('resource_metadata=')
})

test('who could not look has not said no', async () => {
  const claims = Buffer.from('{"iss":"https://login.example"}').toString('base64url')
  await expect(answerTo(`eyJhbGciOiJFUzI1NiJ9.${claims}.AAAA`)).resolves.toMatchObject({
    status: 503,
  })
})

test('documents are served, and development mode is not hidden', async () => {
  const [path = ''] = auth.paths ?? []
  const document = await auth.handle?.(new Request(`https://gateway.example${path}`))
  expect(document?.status).toBe(200)
  expect(await auth.handle?.(new Request(resource))).toBeUndefined()
  expect(auth.isDevMode).toBe(false)
  expect(anyAuth(jwt, devModeAuth({ onWarning: () => undefined })).isDevMode).toBe(true)
})
