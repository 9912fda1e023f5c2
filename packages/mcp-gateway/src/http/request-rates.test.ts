import { expect, test } from 'vitest'

import { MemoryGatewayStore } from '../store/memory-gateway-store.ts'
import { RequestRates, subnetOf } from './request-rates.ts'

const caller = (id: string) => ({ id, scopes: [], isAnonymous: false, claims: {} })

test('who comes too often gets 429 and is told when to come back; others are not touched', async () => {
  let now = 0
  await using store = new MemoryGatewayStore({ now: () => now })
  const rates = new RequestRates(store, { requestsPerMinutePerPrincipal: 2 })
  expect(await rates.byPrincipal(caller('ann'))).toBeUndefined()
  expect(await rates.byPrincipal(caller('ann'))).toBeUndefined()
  const refused = await rates.byPrincipal(caller('ann'))
  expect(refused?.status).toBe(429)
  expect(refused?.headers.get('retry-after')).toBe('30')
  expect(await rates.byPrincipal(caller('bob'))).toBeUndefined()
  now = 30_000
  expect(await rates.byPrincipal(caller('ann'))).toBeUndefined()
})

test('addresses and new sessions are counted apart', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = new RequestRates(store, { requestsPerMinutePerIp: 1, initializePerMinutePerIp: 1 })
  expect(await rates.byAddress('192.0.2.1')).toBeUndefined()
  expect((await rates.byAddress('::ffff:192.0.2.1'))?.status).toBe(429)
  expect(await rates.byInitialize('192.0.2.1')).toBeUndefined()
  expect((await rates.byInitialize('192.0.2.1'))?.status).toBe(429)
  expect(await rates.byAddress(undefined)).toBeUndefined()
  expect(await rates.byInitialize(undefined)).toBeUndefined()
})

test('anonymous callers are not counted as one', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = new RequestRates(store, { requestsPerMinutePerPrincipal: 1 })
  const anonymous = { ...caller('mcp_user'), isAnonymous: true }
  await rates.byPrincipal(anonymous)
  expect(await rates.byPrincipal(anonymous)).toBeUndefined()
})

test('a store that cannot count refuses nobody, and is reported', async () => {
  const errors: unknown[] = []
  const down = new Error('down')
  const store = { rates: { take: () => Promise.reject(down) } }
  const rates = new RequestRates(store, { onError: (error) => errors.push(error) })
  expect(await rates.byAddress('192.0.2.1')).toBeUndefined()
  expect(errors).toEqual([down])
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
  ['2001:0db8:0001:0002::', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
])('%s belongs to %s', (address, subnet) => {
  expect(subnetOf(address)).toBe(subnet)
})
