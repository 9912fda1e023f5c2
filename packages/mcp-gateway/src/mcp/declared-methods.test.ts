import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { inSession, modern, openSession, post } from '../../test/rpc-requests.ts'
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

test('offers the page of a tool to the callers that may use it', async () => {
  const ui = {
    resourceUri: 'ui://shop/cart',
    page: '<p>Cart</p>',
    meta: { csp: { connectDomains: [] } },
    visibility: ['model', 'app'] as const,
  }
  const agents = new AgentsAtHand()
  agents.join('shop', echo, { ui })
  agents.join('echo', echo)
  const principal = { id: 'ada', isAnonymous: false, claims: {} }
  for (const artifacts of [{}, { quota: 0 }]) {
    for (const agent of ['shop', 'echo']) {
      const scopes = [`agent:${agent}:call`]
      const auth = { authenticate: async () => ({ ...principal, scopes }) }
      await using gateway = createGateway({ sources: [agents], auth, artifacts, log: false })
      const ask = async (method: string, params: object): Promise<unknown> => {
        const message = modern(method, { ...params })
        return (await gateway.fetch(message)).json()
      }
      const mayUse = agent === 'shop'
      const shown = mayUse ? { ui: { resourceUri: ui.resourceUri, visibility: ui.visibility } } : {}
      expect(await ask('tools/list', {})).toMatchObject({
        result: { tools: [{ name: agent, _meta: { agent, ...shown } }] },
      })
      const page = { uri: ui.resourceUri, mimeType: 'text/html;profile=mcp-app', text: ui.page }
      const content = { ...page, _meta: { ui: ui.meta } }
      expect(await ask('resources/read', { uri: ui.resourceUri })).toMatchObject(
        mayUse ? { result: { contents: [content] } } : { error: { data: { uri: ui.resourceUri } } },
      )
      expect(await ask('resources/list', {})).toMatchObject({ result: { resources: [] } })
      expect(await ask('server/discover', {})).toMatchObject({
        result: { capabilities: { resources: {} } },
      })
    }
  }
})
