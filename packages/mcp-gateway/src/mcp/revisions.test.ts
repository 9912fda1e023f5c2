import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { post, toolCall } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { AgentUpdate } from '../agents/agent.ts'

function* giving(): Iterable<AgentUpdate> {
  yield {
    type: 'file',
    file: { name: 'a.zip', mimeType: 'application/zip', data: Buffer.from('PK') },
  }
  yield { type: 'done', text: 'Here' }
}

const LINK = '"type":"resource_link"'
const TEXT = String.raw`File \"a.zip\" (application/zip, 2 bytes): artifact://`

test.each([
  ['2025-03-26', TEXT],
  ['2025-06-18', LINK],
  ['2025-11-25', LINK],
])('names a large file in the form of revision %s', async (version, expected) => {
  const sources = [new AgentsAtHand({ giving })]
  await using gateway = createGateway({ sources, inline: { binaryMaxBytes: 1 } })
  const clientInfo = { name: 'test', version: '1.0.0' }
  const params = { protocolVersion: version, capabilities: {}, clientInfo }
  const opened = await gateway.fetch(post({ jsonrpc: '2.0', id: 0, method: 'initialize', params }))
  await opened.text()
  const headers = {
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': version,
  }
  await gateway.fetch(post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers))
  const answer = await gateway.fetch(post(toolCall(1, 'giving', 'Go'), headers))
  expect(await answer.text()).toContain(expected)
})
