import { expect, test } from 'vitest'
import { parseServerUrl } from './server-url.ts'

test('splits an endpoint into parts', () => {
  expect(parseServerUrl('https://shop.example:8443/mcp')).toEqual({
    origin: 'https://shop.example:8443',
    path: '/mcp',
    display: 'https://shop.example:8443/mcp',
    identity: 'https://shop.example:8443/mcp',
  })
})

test('sends the query, hides it in messages, and treats endpoints with other queries as different', () => {
  const one = parseServerUrl('https://shop.example/mcp?token=abc')
  const other = parseServerUrl(new URL('https://shop.example/mcp?token=def'))
  expect(one.path).toBe('/mcp?token=abc')
  expect(one.display).toBe('https://shop.example/mcp')
  expect(one.identity).toMatch(/^https:\/\/shop\.example\/mcp\?sha256=[0-9a-f]{16}$/)
  expect(one.identity).not.toBe(other.identity)
})

test('removes a fragment', () => {
  expect(parseServerUrl('https://shop.example/mcp#a')).toEqual(
    parseServerUrl('https://shop.example/mcp'),
  )
})

test.each([
  ['no protocol', 'shop.example/mcp'],
  ['another protocol', 'ftp://shop.example/mcp'],
  ['the protocol file:', 'file:///etc/passwd'],
  ['a user', 'https://user@shop.example/mcp'],
  ['a password', 'https://user:secret@shop.example/mcp'],
])('refuses a URL with %s', (_name, url) => {
  expect(() => parseServerUrl(url)).toThrow(TypeError)
})

test('leaves credentials out of the error', () => {
  expect(() => parseServerUrl('https://user:secret@shop.example/mcp')).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('secret') }),
  )
})
