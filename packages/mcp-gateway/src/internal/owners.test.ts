import { expect, test } from 'vitest'

import { accountOf, anonymousPrincipal, ownerOf, type Caller } from './principal.ts'

const nobody = anonymousPrincipal()
const ada = { id: 'ada', scopes: [], isAnonymous: false, claims: {} }
const from = (address?: string): string => accountOf({ principal: nobody, address })

test('counts a principal by its name, from any address', () => {
  expect(accountOf({ principal: ada, address: '192.0.2.1' })).toBe(
    accountOf({ principal: ada, address: '192.0.2.2' }),
  )
  expect(accountOf({ principal: ada })).not.toBe(accountOf({ principal: { ...ada, id: 'bob' } }))
})

test('counts callers without a name by address, and by /64 for IPv6', () => {
  expect(from('192.0.2.1')).not.toBe(from('192.0.2.2'))
  expect(from('::ffff:192.0.2.1')).toBe(from('192.0.2.1'))
  expect(from('2001:db8::1')).toBe(from('2001:db8:0:0:ffff::2'))
  expect(from('2001:db8::1')).not.toBe(from('2001:db8:0:1::1'))
  expect(from()).not.toBe(from('192.0.2.1'))
})

test('gives each name and each session an owner of its own, and none to other callers', () => {
  const callers: readonly Caller[] = [
    { principal: ada },
    { principal: { ...ada, id: 'bob' } },
    { principal: { ...ada, id: nobody.id } },
    { principal: nobody, scope: 'a'.repeat(26) },
    { principal: nobody, scope: 'b'.repeat(26) },
  ]
  const owners = callers.map(ownerOf)
  expect(owners).toEqual(callers.map(() => expect.stringMatching(/^[\w-]{22}$/)))
  expect(new Set(owners).size).toBe(callers.length)
  expect(ownerOf({ principal: { ...ada }, address: '192.0.2.1' })).toBe(owners[0])
  expect(ownerOf({ principal: nobody, address: '192.0.2.1' })).toBeUndefined()
})
