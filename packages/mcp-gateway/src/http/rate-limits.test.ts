import { Hono } from 'hono'
import { expect, test } from 'vitest'

import { initialize } from '../../test/rpc-requests.ts'

import { subnetOf, type Principal } from '../internal/principal.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { createGateway } from '../gateway.ts'
import type { GatewayOptions } from '../options.ts'
import { forwardedAddress, RateLimits } from './rate-limits.ts'

const caller = (id: string): Principal => ({ id, scopes: [], isAnonymous: false, claims: {} })

const unexpected = (error: Error): never => {
  throw error
}

const ratesOf = (store: MemoryGatewayStore, requestsPerMinute: number): RateLimits =>
  new RateLimits(store.rates, requestsPerMinute, unexpected)

test('answers 429 with Retry-After to a caller with too many requests, and serves the others', async () => {
  let now = 0
  await using store = new MemoryGatewayStore({ now: () => now })
  const [one, other] = [ratesOf(store, 2), ratesOf(store, 2)]
  expect(await one.byCaller(caller('ann'), '192.0.2.1')).toBeUndefined()
  expect(await other.byCaller(caller('ann'), '192.0.2.2')).toBeUndefined()
  const refused = await one.byCaller(caller('ann'), '192.0.2.3')
  expect(refused?.status).toBe(429)
  expect(refused?.headers?.['retry-after']).toBe('30')
  expect(await one.byCaller(caller('bob'), '192.0.2.1')).toBeUndefined()
  now = 30_000
  expect(await one.byCaller(caller('ann'), '192.0.2.1')).toBeUndefined()
})

test('counts callers without a name and wrong credentials by network', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = ratesOf(store, 2)
  const anonymous = { ...caller('mcp_user'), isAnonymous: true }
  expect(await rates.byCaller(anonymous, '192.0.2.1')).toBeUndefined()
  expect(await rates.wrongCredential('192.0.2.1')).toBeUndefined()
  expect((await rates.byCaller(anonymous, '::ffff:192.0.2.1'))?.status).toBe(429)
  expect((await rates.wrongCredential('192.0.2.1'))?.status).toBe(429)
  expect(await rates.byCaller(caller('ann'), '192.0.2.1')).toBeUndefined()
  expect(await rates.byCaller(anonymous, '192.0.2.2')).toBeUndefined()
  for (let n = 0; n < 3; n++) expect(await rates.byNetwork(undefined)).toBeUndefined()
})

test('limits only wrong credentials with a limit of 0', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = ratesOf(store, 0)
  for (let n = 0; n < 600; n++) {
    expect(await rates.byCaller(caller('ann'), undefined)).toBeUndefined()
    expect(await rates.byNetwork('192.0.2.1')).toBeUndefined()
    expect(await rates.wrongCredential('192.0.2.1')).toBeUndefined()
  }
  expect(await rates.byCaller(caller('ann'), undefined)).toBeUndefined()
  expect(await rates.byNetwork('192.0.2.1')).toBeUndefined()
  expect((await rates.wrongCredential('192.0.2.1'))?.status).toBe(429)
})

test('refuses nothing while the store cannot count, and reports the failure', async () => {
  const errors: Error[] = []
  const cause = new Error('down')
  const take = (): Promise<never> => Promise.reject(cause)
  const onError = (error: Error): void => void errors.push(error)
  const rates = new RateLimits({ take }, 1, onError)
  expect(await rates.byNetwork('192.0.2.1')).toBeUndefined()
  expect(errors).toMatchObject([{ cause }])
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
  ['2001:0db8:0001:0002::', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
])('counts %s as %s', (address, subnet) => {
  expect(subnetOf(address)).toBe(subnet)
})

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
])('reads the header "%s" behind %i proxies as %s', (forwarded, proxies, address) => {
  const headers = new Headers(forwarded ? { 'x-forwarded-for': forwarded } : {})
  expect(forwardedAddress(headers, proxies)).toBe(address)
})

/** Returns the statuses of handshakes from these addresses, with a limit of one request per minute. */
async function handshakes(
  options: GatewayOptions,
  places: readonly string[],
): Promise<readonly number[]> {
  await using gateway = createGateway({ ...options, requestsPerMinute: 1 })
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

test('limits handshakes of a mounted gateway by the address that the application gives', async () => {
  const clientAddress = (_request: Request, address: unknown): string => String(address)
  const places = ['192.0.2.1', '192.0.2.1', '192.0.2.2']
  expect(await handshakes({ clientAddress }, places)).toEqual([200, 429, 200])
})

test('uses the entry of the own proxy in a header, not those of the client', async () => {
  const places = ['192.0.2.1, 192.0.2.9', '192.0.2.2, 192.0.2.9', '192.0.2.9']
  expect(await handshakes({ http: { proxies: 1 } }, places)).toEqual([200, 429, 429])
})

test('ignores the header without the setting', async () => {
  const places = ['192.0.2.1', '192.0.2.1']
  expect(await handshakes({}, places)).toEqual([200, 200])
})
