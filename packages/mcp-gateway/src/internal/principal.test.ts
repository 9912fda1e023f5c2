import { afterEach, expect, test, vi } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { initialize } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import { anyAuth } from '../http/auth/combine.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { anonymousPrincipal, isPrincipal } from './principal.ts'

afterEach(() => {
  vi.unstubAllGlobals()
})

test.each([
  ['one authenticator', bearerAuth('a-token-of-some-length')],
  [
    'several authenticators',
    anyAuth(bearerAuth('a-token-of-some-length'), bearerAuth('another-long-token')),
  ],
])('refuses a caller also where a server has replaced Response, with %s', async (_, auth) => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })], auth })
  // As `@hono/node-server` 1 does when it begins to listen; so does `http.app` of a langgraph.json.
  vi.stubGlobal('Response', class extends Response {})
  expect((await gateway.fetch(initialize())).status).toBe(401)
  expect((await gateway.fetch(initialize({ authorization: 'Bearer wrong' }))).status).toBe(401)
  const known = initialize({ authorization: 'Bearer a-token-of-some-length' })
  const answer = await gateway.fetch(known)
  expect(await answer.text()).toContain('serverInfo')
})

test('tells a principal from a response', async () => {
  expect(isPrincipal(anonymousPrincipal())).toBe(true)
  expect(isPrincipal(new Response())).toBe(false)
})
