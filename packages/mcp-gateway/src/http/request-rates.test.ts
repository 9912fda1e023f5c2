import { DEFAULTS } from '../../test/settings.ts'
import { expect, test } from 'vitest'

import type { Principal } from '../internal/principal.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { RequestRates } from './request-rates.ts'
import { subnetOf } from '../internal/principal.ts'

const caller = (id: string): Principal => ({ id, scopes: [], isAnonymous: false, claims: {} })

const unexpected = (error: Error): never => {
  throw error
}

test('who comes too often gets 429 and is told when to come back; others are not touched', async () => {
  let now = 0
  await using store = new MemoryGatewayStore({ now: () => now })
  const options = { ...DEFAULTS.limits, requestsPerMinutePerPrincipal: 2, onError: unexpected }
  const one = new RequestRates(store.rates, options)
  const other = new RequestRates(store.rates, options)
  expect(await one.byCaller(caller('ann'), '192.0.2.1')).toBeUndefined()
  expect(await other.byCaller(caller('ann'), '192.0.2.2')).toBeUndefined()
  const refused = await one.byCaller(caller('ann'), '192.0.2.3')
  expect(refused?.status).toBe(429)
  expect(refused?.headers.get('retry-after')).toBe('30')
  expect(await one.byCaller(caller('bob'), '192.0.2.1')).toBeUndefined()
  now = 30_000
  expect(await one.byCaller(caller('ann'), '192.0.2.1')).toBeUndefined()
})

test('anonymous callers are not counted as one, but by where they are', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = new RequestRates(store.rates, {
    ...DEFAULTS.limits,
    requestsPerMinutePerPrincipal: 1,
    onError: unexpected,
  })
  const anonymous = { ...caller('mcp_user'), isAnonymous: true }
  expect(await rates.byCaller(anonymous, '192.0.2.1')).toBeUndefined()
  expect((await rates.byCaller(anonymous, '::ffff:192.0.2.1'))?.status).toBe(429)
  expect(await rates.byCaller(anonymous, '192.0.2.2')).toBeUndefined()
  expect(await rates.byCaller(anonymous, undefined)).toBeUndefined()
})

test('an address is counted before anybody is known', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = new RequestRates(store.rates, {
    ...DEFAULTS.limits,
    requestsPerMinutePerIp: 1,
    onError: unexpected,
  })
  expect(await rates.byAddress('2001:db8::1')).toBeUndefined()
  expect((await rates.byAddress('2001:db8::2'))?.status).toBe(429)
  expect(await rates.byAddress(undefined)).toBeUndefined()
  expect(await rates.byCaller(caller('ann'), '2001:db8::1')).toBeUndefined()
})

test('a caller may come six hundred times in a minute, unless told otherwise; 0 is no limit', async () => {
  await using store = new MemoryGatewayStore({ now: () => 0 })
  const rates = new RequestRates(store.rates, { ...DEFAULTS.limits, onError: unexpected })
  const statuses = new Set<number | undefined>()
  for (let n = 0; n < 600; n++)
    statuses.add((await rates.byCaller(caller('ann'), undefined))?.status)
  expect([...statuses]).toEqual([undefined])
  expect((await rates.byCaller(caller('ann'), undefined))?.status).toBe(429)
  expect(await rates.byAddress('192.0.2.1')).toBeUndefined()
  rates.limit({ ...DEFAULTS.limits, requestsPerMinutePerPrincipal: 0 })
  expect(await rates.byCaller(caller('ann'), undefined)).toBeUndefined()
})

test('a store that cannot count refuses nobody, and is reported', async () => {
  const errors: Error[] = []
  const cause = new Error('down')
  const rates = new RequestRates(
    { take: () => Promise.reject(cause) },
    { ...DEFAULTS.limits, requestsPerMinutePerIp: 1, onError: (error) => errors.push(error) },
  )
  expect(await rates.byAddress('192.0.2.1')).toBeUndefined()
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
])('%s belongs to %s', (address, subnet) => {
  expect(subnetOf(address)).toBe(subnet)
})
