import { expect, test } from 'vitest'
import { inCall } from '../graph/call-context.ts'
import { withRunHeaders } from './server-clients.ts'

test.each([
  ['bob', 'bob', 'token of the caller'],
  ['bob', 'ada', 'nobody'],
])('gives headers for %s in a call of %s: %s', async (owner, caller, token) => {
  const url = 'https://shop.example/mcp'
  const server = withRunHeaders({
    url,
    headers: ({ configurable }) => ({
      user: configurable['token'] === undefined ? 'nobody' : 'token of the caller',
    }),
  })
  const call = { scope: { principal: caller }, store: undefined }
  const config = { configurable: { token: `token of ${caller}` } }
  const request = { httpMethod: 'DELETE', scope: { principal: owner } } as const
  if (!('headers' in server) || typeof server.headers !== 'function')
    throw new TypeError('no headers')
  const { headers } = server
  expect(await inCall({ ...call, config }, () => headers(request as never))).toEqual({
    user: token,
  })
})
