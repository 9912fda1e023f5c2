import { expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { eventsOf, inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'

test('who calls without a name takes no run from those elsewhere', async () => {
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ echo, endless })],
    http: { clientAddress: { header: 'x-forwarded-for' }, shutdownGraceMs: 0 },
    runs: { maxConcurrentPerPrincipal: 1, maxQueued: 0 },
  })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const call = async (address: string, name: string): Promise<Response> => {
    const from = { 'x-forwarded-for': address }
    const id = await openSession(fetch, from)
    return fetch(post(toolCall(1, name, 'Hello'), inSession(id, from)))
  }
  const running = eventsOf(await call('192.0.2.1', 'endless'))
  await running.next()
  expect(await (await call('192.0.2.1', 'echo')).text()).toContain('"reason":"busy"')
  expect(await (await call('192.0.2.2', 'echo')).text()).toContain('"text":"Hello"')
  await running.return(undefined)
})
