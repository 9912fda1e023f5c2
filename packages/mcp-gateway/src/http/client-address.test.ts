import { Hono } from 'hono'
import { expect, test } from 'vitest'

import { initialize } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { GatewayOptions } from '../options.ts'
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

/** Statuses of handshakes from these places, where each place has one in a minute. */
async function handshakes(
  http: GatewayOptions['http'],
  places: readonly string[],
): Promise<readonly number[]> {
  await using gateway = createGateway({ http, sessions: { initializePerMinutePerIp: 1 } })
  const app = new Hono().mount('/', gateway.fetch, {
    optionHandler: (c) => c.req.header('x-forwarded-for')?.split(', ')[0],
  })
  const statuses: number[] = []
  for (const place of places) {
    const response = await app.fetch(initialize({ 'x-forwarded-for': place }))
    await response.text()
    statuses.push(response.status)
  }
  return statuses
}

test('where fetch is mounted, handshakes are limited by the address that the application tells', async () => {
  const http = { clientAddress: (_request: Request, address: unknown) => String(address) }
  const places = ['192.0.2.1', '192.0.2.1', '192.0.2.2']
  expect(await handshakes(http, places)).toEqual([200, 429, 200])
})

test('of a header counts what our own proxy wrote, not what the client put before it', async () => {
  const http = { clientAddress: { header: 'x-forwarded-for' } }
  const places = ['192.0.2.1, 192.0.2.9', '192.0.2.2, 192.0.2.9', '192.0.2.9']
  expect(await handshakes(http, places)).toEqual([200, 429, 429])
})

test('no header is believed that was not named', async () => {
  const places = ['192.0.2.1', '192.0.2.1']
  expect(await handshakes({}, places)).toEqual([200, 200])
})

test('a gateway that listens counts by connection, whatever a header says', async () => {
  await using gateway = createGateway({ sessions: { initializePerMinutePerIp: 1 } })
  const { url } = await gateway.listen({ port: 0 })
  const begin = async (place: string): Promise<Response> => {
    const { headers, body } = initialize({ 'x-forwarded-for': place })
    headers.delete('host')
    const response = await fetch(url, { method: 'POST', headers, body, duplex: 'half' })
    await response.text()
    return response
  }
  expect((await begin('192.0.2.1')).status).toBe(200)
  const refused = await begin('192.0.2.2')
  expect(refused.status).toBe(429)
  expect(refused.headers.get('retry-after')).toBe('60')
})
