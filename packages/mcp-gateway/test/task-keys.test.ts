import { once } from 'node:events'

import { deferred } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'

import type { AgentUpdate } from '../src/agents/agent.ts'
import { GatewayError } from '../src/errors.ts'
import { listAll } from '../src/store/gateway-store.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { AgentsAtHand, endless } from './agents-at-hand.ts'
import { startKillableGateway } from './killable-gateway.ts'
import { ManualClock, settled } from './manual-clock.ts'
import {
  accepted,
  EXTENSION,
  get,
  keyed,
  REPLAYED,
  request,
  send,
  update,
} from './task-requests.ts'
import { twoReplicas } from './two-replicas.ts'

const endlessCall = { name: 'endless', arguments: { message: 'Hi' } }

test('advertises that it honours keys for as long as results are kept', async () => {
  await using world = twoReplicas({ resultTtlMs: 60_000 })
  const { result } = await send(world.a, request('server/discover', {}))
  expect(result?.['capabilities']).toMatchObject({
    extensions: {
      [EXTENSION]: {},
      'io.github.x-mcp/idempotency': { retentionMs: 60_000, inFlight: 'join' },
    },
  })
})

test('gives all calls with one key the same task, and the same result', async () => {
  const go = deferred()
  await using world = twoReplicas()
  world.agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  const calls = [
    send(world.a, keyed('slow')),
    send(world.a, keyed('slow')),
    send(world.b, keyed('slow')),
  ]
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  for (let ms = 0; ms < 3000; ms += 500) await world.clock.advance(500)
  const tasks = await Promise.all(calls)
  tasks.push(await send(world.b, keyed('slow')))
  const [taskId, ...others] = new Set(tasks.map(({ result }) => result?.['taskId']))
  expect(others).toEqual([])
  expect(tasks.at(-1)?.result).toMatchObject({ resultType: 'task', taskId, _meta: REPLAYED })
  go.resolve()
  await settled()
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'completed' })
  expect((await send(world.b, keyed('slow'))).result).toMatchObject({ taskId, status: 'completed' })
  const plain = await send(world.b, keyed('slow', 'Hi', { extensions: {} }))
  expect(plain.result).toMatchObject({ content: [{ text: 'Three' }], _meta: REPLAYED })
  expect(await send(world.b, keyed('slow', 'Other'))).toMatchObject({
    error: { code: -32_602, data: { reason: 'idempotency_conflict' } },
  })
  expect(world.agents.calls).toHaveLength(1)
})

test('gives a repeat the task of a call that was answered and ended within two seconds', async () => {
  await using world = twoReplicas()
  const { result: task } = await send(world.a, keyed('asking'))
  expect(task).toMatchObject({ resultType: 'task' })
  const answer = accepted({ answer: 'red' })
  await update(world.b, task?.['taskId'], { '1.i0': answer, '1.i1': answer })
  await expect.poll(() => world.agents.calls).toHaveLength(2)
  await settled()
  const { result: again } = await send(world.b, keyed('asking'))
  expect(again).toMatchObject({ resultType: 'task', taskId: task?.['taskId'], status: 'completed' })
})

test('lets a client come back with its key to a call that it lost', async () => {
  const go = deferred()
  await using world = twoReplicas()
  world.agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  const left = new AbortController()
  const lost = world.a(
    new Request(keyed('slow', 'Hi', { extensions: {} }), { signal: left.signal }),
  )
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  left.abort()
  await world.clock.advance(5000)
  const again = send(world.b, keyed('slow', 'Hi', { extensions: {} }))
  await settled()
  go.resolve()
  await settled()
  await world.clock.advance(500)
  expect((await again).result).toMatchObject({ content: [{ text: 'Three' }], _meta: REPLAYED })
  await lost
  expect(world.agents.calls).toHaveLength(1)
})

test('does not stop a call that became a task by a repeat, when the first client leaves', async () => {
  const go = deferred()
  await using world = twoReplicas({}, (store) => ({ ...store, isShared: false }))
  world.agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  const left = new AbortController()
  const first = keyed('slow', 'Hi', { extensions: {} })
  const lost = world.a(new Request(first, { signal: left.signal }))
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  left.abort()
  const again = send(world.a, keyed('slow'))
  await settled()
  await world.clock.advance(2000)
  const taskId = (await again).result?.['taskId']
  await world.clock.advance(10_000)
  expect(world.agents.calls.map(({ signal }) => signal.aborted)).toEqual([false])
  go.resolve()
  await lost
  await settled()
  expect((await get(world.a, taskId)).result).toMatchObject({
    status: 'completed',
    result: { content: [{ text: 'Three' }] },
  })
})

test('answers `outcome_unknown` for a call that is no task, whose agent is elsewhere and whose process died', async () => {
  await using world = twoReplicas({ tasks: { maxPerPrincipal: 1 } })
  world.agents.join('far', async function* (call) {
    await call.remote?.store({ run: 'r1' })
    yield* endless(call)
  })
  const [other, dying] = [
    send(world.a, request('tools/call', endlessCall)),
    send(world.a, keyed('far')),
  ]
  await settled()
  await world.clock.advance(3000)
  expect((await other).result).toMatchObject({ resultType: 'task' })
  for (const { key } of await world.store.records.list('process:')) {
    await world.store.records.delete(key)
  }
  const repeated = send(world.b, keyed('far'))
  await settled()
  expect((await repeated).result).toMatchObject({ _meta: { reason: 'outcome_unknown' } })
  const closing = world.assemblies[0].close()
  await settled()
  await world.clock.advance(30_000)
  await Promise.all([closing, dying])
})

/** A call with a key whose agent waits for `go`. With `isTask`, a second request for it has made it a task. */
async function runningCall(
  world: ReturnType<typeof twoReplicas>,
  last: AgentUpdate,
  isTask: boolean,
) {
  const go = deferred()
  world.agents.join('slow', async function* () {
    await go.promise
    yield last
  })
  const plain = () => keyed('slow', 'Hi', { extensions: {} })
  const first = send(world.a, plain())
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  const second = isTask ? send(world.a, keyed('slow')) : undefined
  await settled()
  for (let ms = 0; ms < 3000; ms += 500) await world.clock.advance(500)
  return { go, plain, first, task: await second }
}

test.each([
  ['that became a task', true],
  ['with a key', false],
])(
  'answers a call %s while the store is away, and repeats of it afterwards',
  async (_title, isTask) => {
    await using world = twoReplicas()
    const { go, plain, first } = await runningCall(world, { type: 'done', text: 'Three' }, isTask)
    const { records } = world.store
    const put = records.put.bind(records)
    const away = vi.spyOn(records, 'put').mockImplementation((...record) => {
      const isCall = record[0].startsWith('call:')
      return isCall ? Promise.reject(new GatewayError('UNAVAILABLE', 'Away')) : put(...record)
    })
    go.resolve()
    expect((await first).result).toMatchObject({ content: [{ text: 'Three' }] })
    away.mockRestore()
    await world.clock.advance(1000)
    await settled()
    const repeated = await send(world.b, plain())
    expect(repeated.result).toMatchObject({ content: [{ text: 'Three' }], _meta: REPLAYED })
    expect(world.agents.calls).toHaveLength(1)
  },
)

test.each([
  ['that became a task', true],
  ['with a key', false],
])(
  'answers a call %s that asks while the store is away, and stores its question afterwards',
  async (_title, isTask) => {
    await using world = twoReplicas()
    const questions = [{ id: 'name', message: 'Name?' }]
    const asked = { type: 'asked', questions, state: {} } as const
    const { go, plain, first, task } = await runningCall(world, asked, isTask)
    const away = vi.spyOn(world.store.records, 'put').mockImplementation(async () => {
      throw new GatewayError('UNAVAILABLE', 'Away')
    })
    go.resolve()
    expect((await first).result).toMatchObject({ _meta: { reason: 'unavailable' } })
    away.mockRestore()
    await world.clock.advance(1000)
    await settled()
    const { taskId } = task?.result ?? {}
    const { result } = await (isTask ? get(world.b, taskId) : send(world.b, plain()))
    expect(Object.values(result?.['inputRequests'] ?? {})).toMatchObject([
      { params: { message: 'Name?' } },
    ])
    expect(world.agents.calls).toHaveLength(1)
  },
)

test('answers a call with a key although the store has lost its data', async () => {
  const go = deferred()
  await using world = twoReplicas()
  world.agents.join('slow', async function* ({ signal }) {
    await Promise.race([go.promise, once(signal, 'abort')])
    yield { type: 'done', text: 'Three' }
  })
  await send(world.a, request('tools/call', { name: 'asking', arguments: { message: 'Hi' } })) // follows the log
  const first = send(world.a, keyed('slow', 'Hi', { extensions: {} }))
  await expect.poll(() => world.agents.calls).toHaveLength(2)
  const { logs, records } = world.store
  const runId = world.agents.calls.at(-1)?.runId
  await records.delete(`call:${runId}`)
  const limits = { maxEvents: 10, ttlMs: 60_000 }
  await logs.append('calls', { runId, by: 'another process' }, { limits, isLast: false })
  await settled()
  go.resolve()
  expect((await first).result).toMatchObject({ content: [{ text: 'Three' }] })
})

test('lets a call be made again that its agent did not get while the store was away', async () => {
  await using world = twoReplicas({ runs: { maxConcurrentPerPrincipal: 1 } })
  const left = new AbortController()
  const other = request('tools/call', endlessCall, { extensions: {} })
  const first = world.a(new Request(other, { signal: left.signal }))
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  const plain = () => keyed('echo', 'Hi', { extensions: {} })
  const second = send(world.a, plain())
  await settled()
  const away = vi.spyOn(world.store.records, 'delete').mockImplementation(async () => {
    throw new GatewayError('UNAVAILABLE', 'Away')
  })
  await world.clock.advance(30_000)
  expect((await second).result).toMatchObject({ isError: true, _meta: { reason: 'busy' } })
  left.abort()
  await first
  away.mockRestore()
  await world.clock.advance(10_000)
  expect((await send(world.b, plain())).result).toMatchObject({ content: [{ text: 'Hi' }] })
})

test('asks a store that is away for one record at a time', async () => {
  const go = deferred()
  await using world = twoReplicas()
  world.agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  const first = send(world.a, keyed('slow', 'Hi', { extensions: {} }))
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  const absent = async () => {
    throw new GatewayError('UNAVAILABLE', 'Away')
  }
  const put = vi.spyOn(world.store.records, 'put').mockImplementation(absent)
  const reads = vi.spyOn(world.store.records, 'get').mockImplementation(absent)
  go.resolve()
  await first
  const countIn = async (ms: number) => {
    reads.mockClear()
    await world.clock.advance(ms)
    return reads.mock.calls.length
  }
  const counts = [await countIn(10_000), await countIn(10_000), await countIn(10_000)]
  put.mockRestore()
  reads.mockRestore()
  await world.clock.advance(1000)
  expect(new Set(counts)).toHaveLength(1)
})

test('cancels a call with a key whose client does not come back', async () => {
  await using world = twoReplicas()
  const left = new AbortController()
  const lost = world.a(
    new Request(keyed('endless', 'Hi', { extensions: {} }), { signal: left.signal }),
  )
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  left.abort()
  await world.clock.advance(10_000)
  await lost
  expect(world.agents.calls.map(({ signal }) => signal.aborted)).toEqual([true])
})

test('refuses keys that it could not honour', async () => {
  await using world = twoReplicas()
  for (const key of ['short', 'ä'.repeat(30), 'x'.repeat(256), 1]) {
    const meta = { 'io.github.x-mcp/idempotency-key': key }
    const params = { name: 'echo', arguments: { message: 'Hi' }, _meta: meta }
    expect(await send(world.a, request('tools/call', params))).toMatchObject({
      result: { isError: true, _meta: { reason: 'invalid_arguments' } },
    })
  }
  expect(world.agents.calls).toEqual([])
})

test('executes a call once if its first process died before the key named it', async () => {
  await using memory = new MemoryGatewayStore()
  const { records, logs, blobs, rates } = memory
  const flags = { isDurable: true, isShared: true, isReady: async () => true }
  const store = { records, logs, blobs, rates, ...flags, close: async () => {} }
  const clock = new ManualClock()
  const agents = new AgentsAtHand({ endless })
  const start = () => startKillableGateway(store, () => agents, { clock })
  const first = start()
  const claims = deferred()
  const put = records.put.bind(records)
  const spy = vi.spyOn(records, 'put').mockImplementation((key, ...entry) => {
    if (!key.startsWith('call-key:')) return put(key, ...entry)
    claims.resolve()
    return new Promise(() => {}) // the process dies here
  })
  void send(first.fetch, keyed('endless')).catch(() => {})
  await claims.promise
  await first.kill()
  spy.mockRestore()
  await using second = start()
  await send(second.fetch, keyed('endless'))
  await clock.advance(60_000)
  expect(agents.calls).toHaveLength(1)
  const { value: only } = await listAll(records, 'call:').next()
  expect(only?.key).toBe(`call:${agents.calls[0]?.runId}`)
  expect(await records.count('call:')).toBe(1)
  await first[Symbol.asyncDispose]()
})
