import { isRecord } from '@x/internal'
import { startRedisServer } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { afterAll, expect, test, vi } from 'vitest'

import { GatewayError } from '../src/errors.ts'
import { createGateway } from '../src/gateway.ts'
import { AgentsAtHand, asking, endless } from './agents-at-hand.ts'
import { settled } from './manual-clock.ts'
import { redisStore } from './redis-store.ts'
import { eventsOf } from './rpc-requests.ts'
import {
  accepted,
  call,
  cancel,
  get,
  keyed,
  REPLAYED,
  request,
  send,
  update,
  type Fetch,
  type Json,
} from './task-requests.ts'
import { twoReplicas, type TwoReplicas } from './two-replicas.ts'

const redis = await startRedisServer()
afterAll(async () => redis?.[Symbol.asyncDispose]())

test('notifies listeners at every replica of the changes of their own tasks', async () => {
  await using world = twoReplicas()
  world.agents.join('asking', asking)
  const { result } = await call(world.a, 'asking')
  const taskId = String(result?.['taskId'])
  const listening = (fetch: Fetch, notifications: Json): Promise<Response> =>
    fetch(request('subscriptions/listen', { notifications }))
  const missing = request(
    'subscriptions/listen',
    { notifications: { taskIds: [taskId] } },
    { extensions: {} },
  )
  expect(await send(world.b, missing)).toMatchObject({ status: 400, error: { code: -32_021 } })
  const wrong = request('subscriptions/listen', {
    notifications: { taskIds: [taskId], resourceSubscriptions: 1 },
  })
  expect(await send(world.b, wrong)).toMatchObject({ error: { code: -32_602 } })
  const streams = [
    await listening(world.a, { taskIds: [taskId, 'task_unknown'] }),
    await listening(world.b, { taskIds: [taskId], toolsListChanged: true }),
  ].map((response) => messagesOf(response))
  const asked = { status: 'input_required', inputRequests: { '1.i0': {}, '1.i1': {} } }
  for (const [index, stream] of streams.entries()) {
    const filter =
      index === 0 ? { taskIds: [taskId] } : { taskIds: [taskId], toolsListChanged: true }
    const acknowledged = await stream.next()
    expect(acknowledged.value).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: { _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } },
    })
    expect(acknowledged.value?.['params']).toHaveProperty('notifications', filter)
    const { value } = await stream.next()
    expect(value).toMatchObject({ method: 'notifications/tasks', params: { taskId, ...asked } })
  }
  world.agents.join('another', asking)
  await world.clock.advance(2000)
  expect((await streams[1]?.next())?.value).toMatchObject({
    method: 'notifications/tools/list_changed',
  })
  await cancel(world.b, taskId)
  for (const stream of streams) {
    const { value } = await stream.next()
    expect(value).toMatchObject({
      method: 'notifications/tasks',
      params: { status: 'cancelled', _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } },
    })
    await stream.return(undefined)
  }
})

test('tells listeners of an end whose write or reading failed, when the store is back', async () => {
  await using world = twoReplicas({ tools: { tasks: 'always' } })
  const { go, stream, taskId } = await followedTask(world)
  const { records } = world.store
  const [put, read] = [records.put.bind(records), records.get.bind(records)]
  let failures = 0
  const fail = (): never => {
    failures++
    throw new GatewayError('UNAVAILABLE', 'Away')
  }
  // The end is stored, and its answer is lost. Then the store is away for two reads.
  vi.spyOn(records, 'put').mockImplementationOnce(async (...entry) => {
    await put(...entry)
    return fail()
  })
  vi.spyOn(records, 'get').mockImplementation(async (key) =>
    failures === 1 || failures === 2 ? fail() : read(key),
  )
  go.resolve()
  const next = stream.next()
  for (let waited = 0; waited < 8; waited++) {
    await settled()
    await world.clock.advance(250)
  }
  expect((await next).value).toMatchObject({ params: { taskId, status: 'completed' } })
  expect(failures).toBe(3)
  await stream.return(undefined)
})

test('tells listeners of an end although its process died right after it stored the end', async () => {
  await using world = twoReplicas({ tools: { tasks: 'always' } })
  const { go, stream, taskId } = await followedTask(world)
  const { logs, records } = world.store
  const put = records.put.bind(records)
  vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    const version = await put(key, ...entry)
    // Nothing comes from the process any more.
    if (key.startsWith('task:')) {
      vi.spyOn(logs, 'append').mockReturnValue(new Promise(() => {}))
    }
    return version
  })
  go.resolve()
  expect((await stream.next()).value).toMatchObject({ params: { taskId, status: 'completed' } })
  await stream.return(undefined)
})

test.each([
  [999, true],
  [1000, false],
])(
  'follows the first 1,000 tasks that a client names: one after %i others',
  async (others, isFollowed) => {
    await using world = twoReplicas()
    world.agents.join('asking', asking)
    const { result } = await call(world.a, 'asking')
    const taskId = String(result?.['taskId'])
    const taskIds = [...Array.from({ length: others }, (_, index) => `task_${index}`), taskId]
    const stream = messagesOf(
      await world.a(request('subscriptions/listen', { notifications: { taskIds } })),
    )
    expect((await stream.next()).value).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: { taskIds: isFollowed ? [taskId] : [] } },
    })
    await stream.return(undefined)
  },
)

test.runIf(redis)('shares tasks, their changes and keys by Redis', async () => {
  const agents = new AgentsAtHand({ asking, endless })
  const replica = () => {
    const store = redisStore({ url: redis?.url, prefix: 'tasks', timeoutMs: 10_000 })
    const gateway = createGateway({
      sources: [agents],
      store,
      tools: { overrides: { endless: { tasks: 'always' } } },
      secrets: { stateKey: 'the same in all processes, and long enough' },
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
  const notifications = { taskIds: [taskId] }
  const stream = messagesOf(await b.fetch(request('subscriptions/listen', { notifications })))
  const next = async (): Promise<unknown> => (await stream.next()).value?.['params']
  await next()
  expect(await next()).toMatchObject({ taskId, status: 'input_required' })
  const [one, two] = ['1.i0', '1.i1'].map((key) => ({ [key]: accepted({ answer: 'red' }) }))
  await update(b.fetch, taskId, one ?? {})
  await next()
  await update(a.fetch, taskId, two ?? {})
  let last: unknown
  do last = await next()
  while (isWorking(last))
  expect(last).toMatchObject({ taskId, status: 'completed' })
  await stream.return(undefined)
  await cancel(b.fetch, running?.['taskId'])
  await vi.waitUntil(() => agents.calls.some(({ signal }) => signal.aborted))
  expect((await get(a.fetch, running?.['taskId'])).result).toMatchObject({ status: 'cancelled' })
  expect(agents.calls.map(({ agentId }) => agentId)).toEqual(['endless', 'asking', 'asking'])
})

function isWorking(task: unknown): boolean {
  return isRecord(task) && task['status'] !== 'completed'
}

async function* messagesOf(response: Response): AsyncGenerator<Json> {
  for await (const { data } of eventsOf(response)) yield JSON.parse(data) as Json
}

/** Begins a task at one replica, and listens to it at the other one. The task ends when `go` is resolved. */
async function followedTask({ a, agents, b }: TwoReplicas) {
  const go = deferred()
  agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  const { result } = await call(a, 'slow')
  const taskId = String(result?.['taskId'])
  const listening = request('subscriptions/listen', { notifications: { taskIds: [taskId] } })
  const stream = messagesOf(await b(listening))
  await stream.next()
  expect((await stream.next()).value).toMatchObject({ params: { status: 'working' } })
  return { go, stream, taskId }
}
