import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { settled } from '../../test/manual-clock.ts'
import { initialize, inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../../test/two-replicas.ts'
import { createGateway } from '../gateway.ts'

test('sends progress and log messages of a call before its answer, also with a slow store', async () => {
  const agents = new AgentsAtHand({
    *talking() {
      yield { type: 'status', text: 'still' }
      yield { type: 'done', text: 'finished' }
    },
  })
  const options = { sources: [agents], streaming: { channel: 'both' as const } }
  await using w = twoReplicas(options, (store) => {
    return withLogs(store, {
      append: async (...event) => {
        await settled()
        return store.logs.append(...event)
      },
    })
  })
  const headers = inSession(await openSession(w.a))
  const params = { level: 'debug' }
  const level = { jsonrpc: '2.0', id: 9, method: 'logging/setLevel', params }
  await (await w.a(post(level, headers))).text()
  const text = await (await w.a(post(toolCall(1, 'talking', 'Go'), headers))).text()
  const told = [...text.matchAll(/notifications\/(\w+)|"(finished)"/g)].map(
    ([, notice, answer]) => notice ?? answer,
  )
  expect(told).toEqual(['progress', 'message', 'progress', 'message', 'finished'])
})

test('sends nothing before the answer on the channel "none"', async () => {
  const agents = new AgentsAtHand({
    *talking() {
      yield { type: 'status', text: 'still' }
      yield { type: 'done', text: 'finished' }
    },
  })
  const options = { sources: [agents], streaming: { channel: 'none' as const } }
  await using gateway = createGateway(options)
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const headers = inSession(await openSession(fetch))
  const text = await (await fetch(post(toolCall(1, 'talking', 'Go'), headers))).text()
  expect(text).toContain('finished')
  expect(text).not.toContain('notifications/')
})

test.each([
  ['progress', false],
  ['log', true],
  ['both', true],
  ['none', false],
] as const)('declares log messages only where it sends them: %s', async (channel, isDeclared) => {
  await using gateway = createGateway({ sources: [new AgentsAtHand()], streaming: { channel } })
  const answer = await (await gateway.fetch(initialize())).json()
  expect(answer).toHaveProperty('result.capabilities')
  expect(JSON.stringify(answer).includes('"logging":{}')).toBe(isDeclared)
})
