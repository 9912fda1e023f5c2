import { expect, test } from 'vitest'
import { bearerAuth } from './bearer.ts'
import { anyAuth, checkAuthFits } from './combine.ts'
import { jwtAuth } from './jwt.ts'

const resource = 'https://gateway.example/mcp'
const jwt = jwtAuth({
  issuers: [{ issuer: 'https://login.example', audience: resource }],
  resource,
  fetch: () => Promise.reject(new Error('no network')),
})
const auth = anyAuth(bearerAuth('s3cret-0123456789'), jwt)

const answerTo = (token?: string) =>
  auth.authenticate({
    method: 'POST',
    url: resource,
    headers: new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  })

test('accepts a token of either authenticator', async () => {
  await expect(answerTo('s3cret-0123456789')).resolves.toMatchObject({ id: 'token' })
})

test('refuses with the challenge that names the metadata, in any order', async () => {
  for (const token of [undefined, 'wrong']) {
    const refused = await answerTo(token)
    expect(refused).toMatchObject({ status: 401 })
    expect((refused as Response).headers.get('www-authenticate')).toContain('resource_metadata=')
  }
  const request = { method: 'POST', url: resource, headers: new Headers() }
  const missing = auth.refuseScopes?.(request, ['a'])
  expect(missing?.headers.get('www-authenticate')).toContain('resource_metadata=')
})

test('answers 503 if one authenticator cannot check the token', async () => {
  const claims = Buffer.from('{"iss":"https://login.example"}').toString('base64url')
  await expect(answerTo(`eyJhbGciOiJFUzI1NiJ9.${claims}.AAAA`)).resolves.toMatchObject({
    status: 503,
  })
})

test('serves the documents of each', async () => {
  const [path = ''] = auth.paths ?? []
  const document = await auth.handle?.(new Request(`https://gateway.example${path}`))
  expect(document?.status).toBe(200)
  expect(await auth.handle?.(new Request(resource))).toBeUndefined()
})

const token = bearerAuth('s3cret-0123456789')
const http = (host: string, insecure = false) => ({ host, insecure })

test('refuses a public address without auth, unless --insecure is given', () => {
  for (const host of ['0.0.0.0', '::', '192.168.1.7', 'gateway.example', '']) {
    expect(() => checkAuthFits(undefined, http(host))).toThrow('--insecure')
    expect(() => checkAuthFits(undefined, http(host, true))).not.toThrow()
    expect(() => checkAuthFits(token, http(host))).not.toThrow()
  }
})
