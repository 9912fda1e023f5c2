import { expect, test } from 'vitest'
import { secureUrl } from './secure-url.ts'

const local = new URL('http://127.0.0.1:3000/mcp')
const remote = new URL('https://mcp.test/mcp')

test.each([
  ['https://as.test/token', remote],
  ['https://as.test/token', local],
  ['http://localhost:9/token', local],
  ['http://[::1]:9/token', local],
  ['http://127.0.0.9/token', local],
])('%s may be used for %s', (url, server) => {
  expect(secureUrl(url, server).href).toBe(url)
})

test.each([
  ['http://as.test/token', remote],
  ['http://as.test/token', local],
  ['http://localhost:9/token', remote],
  ['http://127.0.0.1.evil.test/', local],
  ['javascript:alert(1)', local],
])('%s may not be used for %s', (url, server) => {
  expect(() => secureUrl(url, server)).toThrow(
    expect.objectContaining({ name: 'AuthError', code: 'INSECURE_URL' }),
  )
})
