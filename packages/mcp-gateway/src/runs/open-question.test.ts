import { expect, test } from 'vitest'

import { AgentsAtHand, echo, type Behaviour } from '../../test/agents-at-hand.ts'
import { ManualClock } from '../../test/manual-clock.ts'
import { EventReader, WireSession } from '../../test/wire-session.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { createGateway } from '../gateway.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'

const asking: Behaviour = function* ask({ resume }) {
  if (resume) yield { type: 'done', text: JSON.stringify(resume.answers) }
  else yield { type: 'asked', questions: [{ id: 'q', message: 'Which size?' }], state: {} }
}

test('a run that waits for an answer takes no slot, and its time limits stand still', async () => {
  const clock = new ManualClock()
  await using store = new MemoryGatewayStore({ now: () => clock.now() })
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ asking, echo })],
    auth: bearerAuth('token-of-ada-0123456789'),
    runs: { maxConcurrent: 1, maxQueued: 0, timeoutMs: 1000, idleTimeoutMs: 500 },
    clock,
    store,
  })
  const { url } = await gateway.listen({ port: 0 })
  const session = await WireSession.open(url, { capabilities: { elicitation: {} } })
  const call = new EventReader(await session.call(url, 1, 'asking'))
  const question = await call.until(({ method }) => method === 'elicitation/create')
  const other = await session.ask(url, {
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { name: 'echo', arguments: { message: 'Hello' } },
  })
  expect(other.message.result).toMatchObject({ content: [{ text: 'Hello' }] })
  await clock.advance(60_000)
  const result = { action: 'accept', content: { answer: 'L' } }
  await session.post(url, { jsonrpc: '2.0', id: question.id, result })
  const end = await call.until(({ id }) => id === 1)
  expect(end.result).toMatchObject({
    content: [{ text: '{"q":{"action":"accept","content":{"answer":"L"}}}' }],
  })
})
