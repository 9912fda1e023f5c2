import { expect, test } from 'vitest'
import { isPublicAddress } from './public-address.ts'

test.each(['8.8.8.8', '93.184.216.34', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '2a00::1'])(
  'treats %s as public',
  (address) => {
    expect(isPublicAddress(address)).toBe(true)
  },
)

test.each(['', 'example.org', 'fe80::1%eth0', '2606:4700::1%eth0', '127.1'])(
  'does not treat %j as a public address',
  (address) => {
    expect(isPublicAddress(address)).toBe(false)
  },
)

test.each([
  '0.0.0.1',
  '10.0.0.1',
  '100.64.0.1',
  '127.0.0.1',
  '168.63.129.16',
  '169.254.169.254',
  '172.16.0.1',
  '192.0.0.1',
  '192.88.99.1',
  '192.168.0.1',
  '198.19.0.1',
  '203.0.113.1',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:8.8.8.8',
  '64:ff9b::808:808',
  '2001::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:808:808::1',
  '3fff::1',
  'fc00::1',
  'fe80::1',
  'ff02::1',
])('does not treat %s as public, which has a special purpose', (address) => {
  expect(isPublicAddress(address)).toBe(false)
})
