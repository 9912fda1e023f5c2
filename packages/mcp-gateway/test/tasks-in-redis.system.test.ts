import { isRecord } from '@x/internal'
import { startRedisServer } from '@x/internal/testing'
import { afterAll, expect, test } from 'vitest'

import { createGateway } from '../src/gateway.ts'
import { AgentsAtHand, asking, endless } from './agents-at-hand.ts'
import { redisStore } from './redis-store.ts'
import {
  accepted,
  call,
  cancel,
  get,
  keyed,
  REPLAYED,
  send,
  update,
  type Fetch,
} from './task-requests.ts'

const redis = await startRedisServer()
afterAll(async () => redis?.[Symbol.asyncDispose]())

test.runIf(redis)('shares tasks, their changes and keys by Redis', async () => {
  const agents = new AgentsAtHand({ asking, endless })
  const replica = () => {
    const store = redisStore({ url: redis?.url, prefix: 'tasks', timeoutMs: 300_000 })
    const gateway = createGateway({
      sources: [agents],
      store,
      tools: { overrides: { endless: { tasks: 'always' } } },
      stateKey: 'the same in all processes, and long enough',
    })
    const close = async (): Promise<void> => {
      await gateway.close()
      await store.close()
    }
    return { fetch: (message: Request) => gateway.fetch(message), [Symbol.asyncDispose]: close }
  }
  await using a = replica()
  await using b = replica()
  const { result: running } = await send(a.fetch, keyed('endless'))
  const { result: repeated } = await send(b.fetch, keyed('endless'))
  expect(repeated).toMatchObject({ taskId: running?.['taskId'], _meta: REPLAYED })
  const { result } = await call(a.fetch, 'asking')
  const taskId = String(result?.['taskId'])
  const stateAt = async (fetch: Fetch): Promise<unknown> => (await get(fetch, taskId)).result
  expect(await stateAt(b.fetch)).toMatchObject({ taskId, status: 'input_required' })
  for (const [key, fetch] of [['1.i0', b.fetch] as const, ['1.i1', a.fetch] as const]) {
    await update(fetch, taskId, { [key]: accepted({ answer: 'red' }) })
  }
  const isDone = (state: unknown): boolean => isRecord(state) && state['status'] === 'completed'
  await expect.poll(async () => isDone(await stateAt(b.fetch))).toBe(true)
  await cancel(b.fetch, running?.['taskId'])
  await expect.poll(() => agents.calls.some(({ signal }) => signal.aborted)).toBe(true)
  expect((await get(a.fetch, running?.['taskId'])).result).toMatchObject({ status: 'cancelled' })
  expect(agents.calls.map(({ agentId }) => agentId)).toEqual(['endless', 'asking', 'asking'])
})
