import { expect, test } from 'vitest'

import { clientAddressOf } from './client-address.ts'

const asked = (forwarded?: string): Request =>
  new Request('http://localhost/', { headers: forwarded ? { 'x-forwarded-for': forwarded } : {} })

test.each([
  ['192.0.2.1', 1, '192.0.2.1'],
  ['10.0.0.1, 192.0.2.1', 1, '192.0.2.1'],
  ['198.51.100.7, 192.0.2.1, 10.0.0.2', 2, '192.0.2.1'],
  ['192.0.2.1:4711', 1, '192.0.2.1'],
  ['[2001:db8::1]:4711', 1, '2001:db8::1'],
  ['2001:db8::1', 1, '2001:db8::1'],
  ['192.0.2.1', 2, 'unknown'],
  ['me', 1, 'unknown'],
  [undefined, 1, 'unknown'],
])('of "%s" behind %i proxies it is %s', (forwarded, proxies, address) => {
  const option = { header: 'x-forwarded-for', proxies }
  expect(clientAddressOf(option, { request: asked(forwarded) })).toBe(address)
})

test('a function is told what the application hands on', () => {
  const context = { incoming: { socket: { remoteAddress: '192.0.2.9' } } }
  const option = (_request: Request, given: unknown): string | undefined =>
    (given as typeof context).incoming.socket.remoteAddress
  expect(clientAddressOf(option, { request: asked(), context })).toBe('192.0.2.9')
})
