import { inspect } from 'node:util'

import { expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { createGateway } from '../src/gateway.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { CLIENT_KINDS, connect } from './mcp-clients.ts'

test.each(CLIENT_KINDS)(
  'an agent learns who calls, and nothing that it could call others with (%s)',
  async (kind) => {
    const agents = new AgentsAtHand({ echo })
    const token = 'the-token-of-ada-0123456789'
    const auth = bearerAuth({ ada: { token, scopes: ['*'] } })
    await using gateway = createGateway({ sources: [agents], auth })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url, { headers: { authorization: `Bearer ${token}` } })
    await client.callTool('echo', 'Hello')
    const [call] = agents.calls
    expect(call?.principal.id).toBe('ada')
    expect(inspect(call, { depth: null, showHidden: true })).not.toContain(token)
  },
)
