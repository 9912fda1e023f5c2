import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
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
  await using gateway = createGateway({ sources, inline: { fileMaxBytes: 1 } })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const id = await openSession(fetch, {}, { protocolVersion: version })
  const headers = inSession(id, { 'mcp-protocol-version': version })
  const answer = await fetch(post(toolCall(1, 'giving', 'Go'), headers))
  expect(await answer.text()).toContain(expected)
})
