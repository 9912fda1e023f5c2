import { expect, test } from 'vitest'
import { AuthAttempts } from './auth-attempts.ts'

const scope = (scopes?: string): { error: string; scope: string | undefined } => ({
  error: 'insufficient_scope',
  scope: scopes,
})

test('one other token for a 401', () => {
  const attempts = new AuthAttempts()
  expect(attempts.next(401, undefined)).toBe('renew')
  expect(attempts.next(401, undefined)).toBeUndefined()
})

test('a 401 may be followed by a step-up', () => {
  const attempts = new AuthAttempts()
  expect(attempts.next(401, { error: 'invalid_token' })).toBe('renew')
  expect(attempts.next(403, scope('a'))).toBe('step-up')
})

test('each set of scopes once, whatever their order', () => {
  const attempts = new AuthAttempts()
  expect(attempts.next(403, scope('a b'))).toBe('step-up')
  expect(attempts.next(403, scope('b a'))).toBeUndefined()
  expect(attempts.next(403, scope('c'))).toBe('step-up')
})

test('three attempts in all', () => {
  const attempts = new AuthAttempts()
  const all = ['a', 'b', 'c', 'd'].map((one) => attempts.next(403, scope(one)))
  expect(all).toEqual(['step-up', 'step-up', 'step-up', undefined])
  expect(attempts.next(401, undefined)).toBeUndefined()
})

test.each([
  [403, undefined],
  [403, { error: 'invalid_token' }],
  [200, scope('a')],
  [500, undefined],
])('%i with %j is final', (status, challenge) => {
  expect(new AuthAttempts().next(status, challenge)).toBeUndefined()
})
