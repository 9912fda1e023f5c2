import { expect, test } from 'vitest'
import { SessionContinuity } from './session-continuity.ts'

const lost = (epoch: number) => ({ epoch, reason: 'the server forgot it' })

test('a caller is told once of the session that it lost', () => {
  const continuity = new SessionContinuity(10)
  expect(continuity.startOf('s', 'ada')()).toBeUndefined()
  continuity.replaced('s', lost(2))
  expect(continuity.startOf('s', 'ada')()).toEqual(lost(2))
  expect(continuity.startOf('s', 'ada')()).toBeUndefined()
})

test('callers that share a session are told one by one', () => {
  const continuity = new SessionContinuity(10)
  for (const caller of ['ada', 'bob']) continuity.startOf('s', caller)()
  continuity.replaced('s', lost(2))
  expect(continuity.startOf('s', 'ada')()).toEqual(lost(2))
  expect(continuity.startOf('s', 'bob')()).toEqual(lost(2))
})

test('one that comes later had nothing to lose', () => {
  const continuity = new SessionContinuity(10)
  continuity.replaced('s', lost(2))
  expect(continuity.startOf('s', 'ada')()).toBeUndefined()
})

test('a loss during the first call of a process is told: the session was that of the process before', () => {
  const continuity = new SessionContinuity(10)
  const end = continuity.startOf('s', 'ada')
  continuity.replaced('s', lost(2))
  expect(end()).toEqual(lost(2))
})

test('of several losses the last is told', () => {
  const continuity = new SessionContinuity(10)
  continuity.startOf('s', 'ada')()
  continuity.replaced('s', lost(2))
  continuity.replaced('s', lost(3))
  expect(continuity.startOf('s', 'ada')()).toEqual(lost(3))
  expect(continuity.startOf('s', 'ada')()).toBeUndefined()
})

test('that of one scope is no news in another', () => {
  const continuity = new SessionContinuity(10)
  continuity.startOf('a', '')()
  continuity.replaced('b', lost(2))
  expect(continuity.startOf('a', '')()).toBeUndefined()
})

test('keeps no more than it may', () => {
  const continuity = new SessionContinuity(1)
  continuity.startOf('a', '')()
  continuity.startOf('b', '')()
  continuity.replaced('a', lost(2))
  expect(continuity.startOf('a', '')()).toBeUndefined() // forgotten, so a newcomer
})
