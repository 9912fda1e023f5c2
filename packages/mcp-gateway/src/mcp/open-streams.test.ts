import { expect, test } from 'vitest'

import { anonymousPrincipal } from '../internal/anonymous.ts'
import type { Caller } from './caller.ts'
import { OpenStreams } from './open-streams.ts'

const limits = { perPrincipal: 1, perAddress: 2 }
const ada: Caller = { principal: { id: 'ada', scopes: [], isAnonymous: false, claims: {} } }
const from = (address?: string): Caller => ({ principal: anonymousPrincipal(), address })

test('a caller has as many as it may, wherever it is, and room again when one ends', () => {
  const streams = new OpenStreams(limits)
  const leave = streams.enter({ ...ada, address: '192.0.2.1' })
  expect(streams.enter({ ...ada, address: '192.0.2.2' })).toBeUndefined()
  leave?.()
  leave?.() // what ends twice makes room for one
  expect(streams.enter(ada)).toBeDefined()
  expect(streams.enter(ada)).toBeUndefined()
})

test('callers without a name are told apart by where they are', () => {
  const streams = new OpenStreams(limits)
  const leave = streams.enter(from('2001:db8::1'))
  expect(streams.enter(from('2001:db8::2'))).toBeDefined()
  // One customer has a whole /64.
  expect(streams.enter(from('2001:db8::3'))).toBeUndefined()
  expect(streams.enter(from('2001:db8:0:1::1'))).toBeDefined()
  leave?.()
  expect(streams.enter(from('2001:db8::3'))).toBeDefined()
})

test('where addresses are not known there is no such limit', () => {
  const streams = new OpenStreams(limits)
  for (let n = 0; n < 10; n++) expect(streams.enter(from())).toBeDefined()
})
