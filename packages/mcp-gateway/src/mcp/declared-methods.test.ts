import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { inSession, openSession, post } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'

const URI = 'artifact://aaaaaaaaaaaaaaaaaaaaaaaaaa/a.txt'

test.each([
  ['ping', {}],
  ['tools/list', {}],
  ['tools/call', { name: 'echo', arguments: { message: 'Hello' } }],
  ['prompts/list', {}],
  ['prompts/get', { name: 'none' }],
  ['resources/list', {}],
  ['resources/templates/list', {}],
  ['resources/read', { uri: URI }],
  ['resources/subscribe', { uri: URI }],
  ['resources/unsubscribe', { uri: URI }],
  ['logging/setLevel', { level: 'error' }],
  [
    'completion/complete',
    { ref: { type: 'ref/resource', uri: URI }, argument: { name: 'name', value: '' } },
  ],
])('answers %s, also as the first request of a session', async (method, params) => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const id = await openSession(gateway.fetch)
  const request = post({ jsonrpc: '2.0', id: 1, method, params }, inSession(id))
  const answer = await (await gateway.fetch(request)).text()
  expect(answer).toMatch(/"(?:result|error)":/)
  expect(answer).not.toContain('-32601')
})
