import { expect, test } from 'vitest'

import { anonymousPrincipal } from '../internal/principal.ts'
import { accountOf } from './namespaces.ts'

const ada = { id: 'ada', scopes: [], isAnonymous: false, claims: {} }
const from = (address?: string): string => accountOf({ principal: anonymousPrincipal(), address })

test('counts files of a principal by its name, from any address', () => {
  expect(accountOf({ principal: ada, address: '192.0.2.1' })).toBe(
    accountOf({ principal: ada, address: '192.0.2.2' }),
  )
  expect(accountOf({ principal: ada })).not.toBe(accountOf({ principal: { ...ada, id: 'bob' } }))
})

test('counts files of callers without a name by address, and by /64 for IPv6', () => {
  expect(from('192.0.2.1')).not.toBe(from('192.0.2.2'))
  expect(from('::ffff:192.0.2.1')).toBe(from('192.0.2.1'))
  expect(from('2001:db8::1')).toBe(from('2001:db8:0:0:ffff::2'))
  expect(from('2001:db8::1')).not.toBe(from('2001:db8:0:1::1'))
  expect(from()).not.toBe(from('192.0.2.1'))
})
