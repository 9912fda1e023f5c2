import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { createGateway } from '../gateway.ts'

test.each(['legacy', { pin: '2026-07-28' }] as const)(
  'executes a call once that is repeated with its key in _meta: %j',
  async (mode) => {
    const agents = new AgentsAtHand({ echo })
    await using gateway = createGateway({
      sources: [agents],
      auth: bearerAuth('a-token-of-some-length'),
    })
    const { url } = await gateway.listen({ port: 0 })
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
    const requestInit = { headers: { authorization: 'Bearer a-token-of-some-length' } }
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
    const call = (key: unknown) => {
      const meta = { 'io.github.x-mcp/idempotency-key': key }
      return client.callTool({ name: 'echo', arguments: { message: 'Buy' }, _meta: meta })
    }
    const [first, again] = [await call('order-1'), await call('order-1')]
    expect(again.content).toEqual(first.content)
    expect(agents.calls).toHaveLength(1)
    await call('order-2')
    expect(agents.calls).toHaveLength(2)
    // If the key were ignored, the call would be executed twice.
    expect(await call(7)).toMatchObject({ isError: true, _meta: { reason: 'invalid_arguments' } })
    await client.close()
  },
)
