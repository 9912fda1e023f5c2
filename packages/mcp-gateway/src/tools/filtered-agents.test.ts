import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../../test/mcp-clients.ts'
import { createGateway } from '../gateway.ts'

test.each(CLIENT_KINDS)(
  'an agent that is left out comes and goes, and nobody is told (%s)',
  async (kind) => {
    const agents = new AgentsAtHand({ echo, hidden: echo })
    const warnings: string[] = []
    await using gateway = createGateway({
      sources: [agents],
      tools: { exclude: ['^hidden'] },
      registry: { debounceMs: 0 },
      secrets: { stateKey: 'long enough for whoever signs with it' },
      onWarning: (message) => warnings.push(message),
    })
    const { url } = await gateway.listen({ port: 0 })
    const changed = deferred()
    let changes = 0
    const onToolsChanged = (): void => {
      changes++
      changed.resolve()
    }
    await using client = await connect(kind, url, { onToolsChanged })
    const names = async (): Promise<readonly string[]> =>
      (await client.listTools()).tools.map(({ name }) => name)
    expect(await names()).toEqual(['echo'])
    agents.leave('hidden')
    agents.leave('hidden')
    agents.join('hidden_later', echo)
    agents.leave('hidden_later')
    agents.join('shown', echo)
    await changed.promise
    expect(await names()).toEqual(['echo', 'shown'])
    expect(changes).toBe(1)
    expect(warnings).toEqual([])
  },
)
