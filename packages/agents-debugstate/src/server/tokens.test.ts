import { expect, test } from 'vitest'
import { createAccessCheck } from './tokens.ts'

const getAccess = createAccessCheck([
  { token: 'token-of-agent-one', agentIds: ['one'] },
  { token: 'token-of-everybody', agentIds: '*' },
])

test('gives a token access to its agents only', () => {
  const one = getAccess('Bearer token-of-agent-one')
  expect([one?.('one'), one?.('two')]).toEqual([true, false])
  const all = getAccess('bearer  token-of-everybody')
  expect([all?.('one'), all?.('two')]).toEqual([true, true])
})

test.each([
  null,
  '',
  'Bearer',
  'Bearer token-of-agent',
  'Bearer token-of-agent-one ',
  'Basic token-of-agent-one',
])('gives no access for %j', (authorization) => {
  expect(getAccess(authorization)).toBeUndefined()
})

test.each([
  [[]],
  [[{ token: '', agentIds: '*' }]],
  [[{ token: 'too-short', agentIds: '*' }]],
  [[{ token: 'token-of-nobody-at-all', agentIds: [] }]],
  [[{ token: 'token-of-a-misspelt-agent', agentIds: ['one two'] }]],
  [
    [
      { token: 'token-of-agent-one', agentIds: ['one'] },
      { token: 'token-of-agent-one', agentIds: '*' },
    ],
  ],
] as const)('refuses the list %j', (grants) => {
  expect(() => createAccessCheck(grants)).toThrow(TypeError)
})
