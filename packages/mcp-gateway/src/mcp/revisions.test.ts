import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { post, toolCall } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { GatewayOptions } from '../options.ts'
import type { AgentUpdate } from '../agents/agent.ts'

function* giving(): Iterable<AgentUpdate> {
  yield {
    type: 'file',
    file: { name: 'a.zip', mimeType: 'application/zip', data: Buffer.from('PK') },
  }
  yield { type: 'done', text: 'Here' }
}

function serve(options: GatewayOptions = {}) {
  const sources = [new AgentsAtHand({ giving })]
  return createGateway({ sources, inline: { binaryMaxBytes: 1 }, ...options })
}

async function textOf(answer: Promise<Response>): Promise<string> {
  return (await answer).text()
}

const LINK = '"type":"resource_link"'
const TEXT = String.raw`File \"a.zip\" (application/zip, 2 bytes): artifact://`

test.each([
  ['2025-03-26', TEXT],
  ['2025-06-18', LINK],
  ['2025-11-25', LINK],
])('names a large file in the form of revision %s', async (version, expected) => {
  await using gateway = serve()
  const clientInfo = { name: 'test', version: '1.0.0' }
  const params = { protocolVersion: version, capabilities: {}, clientInfo }
  const opened = await gateway.fetch(post({ jsonrpc: '2.0', id: 0, method: 'initialize', params }))
  await opened.text()
  const headers = {
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': version,
  }
  await gateway.fetch(post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers))
  const answer = await textOf(gateway.fetch(post(toolCall(1, 'giving', 'Go'), headers)))
  expect(answer).toContain(expected)
})

test.each([
  [{}, TEXT],
  [{ 'mcp-protocol-version': '2025-11-25' }, LINK],
])(
  'names a large file in the form of a client without a session: %j',
  async (headers, expected) => {
    await using gateway = serve({ eras: { legacy: 'stateless' } })
    const answer = await textOf(gateway.fetch(post(toolCall(1, 'giving', 'Go'), headers)))
    expect(answer).toContain(expected)
  },
)
