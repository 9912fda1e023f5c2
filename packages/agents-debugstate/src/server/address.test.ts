import { expect, test } from 'vitest'
import { getProblem } from '../../test/get-problem.ts'
import { parseAddress } from './protocol.ts'

test.each([
  ['agent/mcpsession%3Af1%3Ashop', { agentId: 'agent', key: 'mcpsession:f1:shop' }],
  ['agent/a%2Fb', { agentId: 'agent', key: 'a/b' }],
  ['agent/a%252Fb', { agentId: 'agent', key: 'a%2Fb' }],
  ['agent/%C3%BC', { agentId: 'agent', key: 'ü' }],
  [`agent/${'x'.repeat(1024)}`, { agentId: 'agent', key: 'x'.repeat(1024) }],
])('decodes %s once', (path, address) => {
  expect(parseAddress(path)).toEqual(address)
})

test.each([
  ['', 'BAD_AGENT_ID'],
  ['/key', 'BAD_AGENT_ID'],
  ['.hidden/key', 'BAD_AGENT_ID'],
  ['a%2Fb/key', 'BAD_AGENT_ID'],
  ['%zz/key', 'BAD_AGENT_ID'],
  [`${'a'.repeat(129)}/key`, 'BAD_AGENT_ID'],
  ['agent', 'BAD_KEY'],
  ['agent/', 'BAD_KEY'],
  ['agent/a/b', 'BAD_KEY'],
  ['agent/%zz', 'BAD_KEY'],
  ['agent/%ff', 'BAD_KEY'],
  ['agent/a%0Ab', 'BAD_KEY'],
  [`agent/${'x'.repeat(1025)}`, 'KEY_TOO_LONG'],
  [`agent/${'%C3%BC'.repeat(513)}`, 'KEY_TOO_LONG'],
])('refuses %s as %s, and names the rule', async (path, code) => {
  expect(await getProblem(() => parseAddress(path))).toMatchObject({
    code,
    detail: expect.stringMatching(/^An? /),
  })
})
