import { expect, test } from 'vitest'

import { AgentsAtHand, type Behaviour } from '../../test/agents-at-hand.ts'
import { post, toolCall } from '../../test/rpc-requests.ts'
import { EventReader } from '../../test/wire-session.ts'
import { createGateway } from '../gateway.ts'

const tags = { type: 'array', items: { type: 'string', enum: ['a', 'b'] } }
const schema = { type: 'object', properties: { tags }, required: ['tags'] }

const asking: Behaviour = function* ask({ resume }) {
  if (resume) yield { type: 'done', text: JSON.stringify(resume.answers) }
  else yield { type: 'asked', questions: [{ id: 'q', message: 'Which?', schema }], state: {} }
}

test.each([
  ['2025-06-18', { answer: { title: 'Answer (JSON)' } }, { answer: '{"tags":["a"]}' }],
  ['2025-11-25', { tags }, { tags: ['a'] }],
])('asks a session of %s in fields of its revision', async (version, properties, content) => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ asking })] })
  const clientInfo = { name: 'test', version: '1.0.0' }
  const params = { protocolVersion: version, capabilities: { elicitation: {} }, clientInfo }
  const initialize = post({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  const opened = await gateway.fetch(initialize)
  await opened.text()
  const headers = {
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': version,
  }
  await gateway.fetch(post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers))
  const call = new EventReader(await gateway.fetch(post(toolCall(1, 'asking', 'Go'), headers)))
  const { id, params: asked } = await call.until((one) => one.method === 'elicitation/create')
  expect(asked).toMatchObject({ requestedSchema: { properties } })
  const result = { action: 'accept', content }
  await gateway.fetch(post({ jsonrpc: '2.0', id, result }, headers))
  const end = await call.until((one) => one.id === 1)
  expect(end.result).toMatchObject({ content: [{ text: expect.stringContaining('["a"]') }] })
})
