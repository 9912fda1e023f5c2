import { expect, test } from 'vitest'

import { gatewayWith } from '../src/gateway.ts'
import type { CallEnd } from '../src/internal/observer.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { WireSession } from './wire-session.ts'

test('says why a call ends whose question nobody answers in time, and frees the run', async () => {
  const forgotten: unknown[] = []
  const source = new AgentsAtHand({
    shop: () => [
      { type: 'asked', questions: [{ id: 'q', message: 'Which size?' }], state: { thread: 't' } },
    ],
  })
  Object.assign(source, {
    forget: async (_agentId: string, state: unknown) => void forgotten.push(state),
  })
  const outcomes: string[] = []
  const observer = { callEnded: (_: unknown, { outcome }: CallEnd) => void outcomes.push(outcome) }
  await using gateway = gatewayWith({ sources: [source], observer }, { questionTimeoutMs: 50 })
  const { url } = await gateway.listen({ port: 0 })
  const session = await WireSession.open(url, { capabilities: { elicitation: {} } })
  const params = { name: 'shop', arguments: { message: 'A shirt' } }
  const { message } = await session.ask(url, {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params,
  })
  expect(message).toMatchObject({
    id: 1,
    result: {
      isError: true,
      content: [{ text: expect.stringContaining('Nobody answered the question') }],
      _meta: { reason: 'expired', runId: expect.stringMatching(/^run_/) },
    },
  })
  expect(forgotten).toEqual([{ thread: 't' }])
  expect(outcomes).toEqual(['asked', 'expired'])
})
