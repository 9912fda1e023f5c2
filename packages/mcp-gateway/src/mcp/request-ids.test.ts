import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { inSession, openSession, post } from '../../test/rpc-requests.ts'
import { twoReplicas } from '../../test/two-replicas.ts'

const call = (id: number, name: string): object => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: { message: name } },
})

function slowly(finish: Promise<unknown>): AgentsAtHand {
  return new AgentsAtHand({
    echo,
    async *slow() {
      await finish
      yield { type: 'done', text: 'finished' }
    },
  })
}

test('refuses a request id that is in flight, and answers the first call', async () => {
  const finish = deferred()
  const agents = slowly(finish.promise)
  await using w = twoReplicas({ sources: [agents] })
  const headers = inSession(await openSession(w.a))
  const first = await w.a(post(call(1, 'slow'), headers))
  const again = await w.a(post(call(1, 'echo'), headers))
  expect(again.status).toBe(400)
  expect(await again.json()).toMatchObject({ error: { code: -32_600 } })
  finish.resolve()
  expect(await first.text()).toContain('finished')
  expect(agents.calls).toHaveLength(1)
})

test('accepts a request id again after its answer or cancellation', async () => {
  const finish = deferred()
  const agents = slowly(finish.promise)
  await using w = twoReplicas({ sources: [agents] })
  const headers = inSession(await openSession(w.a))
  for (let n = 0; n < 2; n++) {
    expect(await (await w.a(post(call(1, 'echo'), headers))).text()).toContain('echo')
  }
  const slow = await w.a(post(call(1, 'slow'), headers))
  const params = { requestId: 1 }
  await w.a(post({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, headers))
  await slow.text()
  expect(await (await w.a(post(call(1, 'echo'), headers))).text()).toContain('echo')
  finish.resolve()
})
