import { isRecord } from '@x/internal'
import { startRedisServer } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { afterAll, expect, test, vi } from 'vitest'

import { GatewayError } from '../src/errors.ts'
import { createGateway } from '../src/gateway.ts'

import type { AgentUpdate } from '../src/agents/agent.ts'
import type { ExecuteRun, RunEngine } from '../src/runs/engine.ts'
import { AgentsAtHand, endless, type Behaviour } from './agents-at-hand.ts'
import { settled } from './manual-clock.ts'
import { redisStore } from './redis-store.ts'
import { eventsOf, post } from './rpc-requests.ts'
import {
  call,
  cancel,
  EXTENSION,
  get,
  request,
  send,
  update,
  type Fetch,
  type Json,
  type Message,
} from './task-requests.ts'
import { twoReplicas, type TwoReplicas } from './two-replicas.ts'

const redis = await startRedisServer()
afterAll(async () => redis?.[Symbol.asyncDispose]())

/** Begins a call that takes longer than two seconds. */
async function taskOf(world: TwoReplicas, name: string, over = {}): Promise<unknown> {
  const calling = call(world.a, name, over)
  await settled()
  await world.clock.advance(2000)
  const { result } = await calling
  expect(result).toMatchObject({ resultType: 'task', status: 'working' })
  return result?.['taskId']
}

const accepted = (content: Json): Json => ({ action: 'accept', content })

/** Asks for a name and a colour, and then answers with both. */
const asking: Behaviour = function* ({ resume }): Iterable<AgentUpdate> {
  if (resume) {
    yield { type: 'done', text: JSON.stringify(resume.answers) }
    return
  }
  const questions = [
    { id: 'name', message: 'Name?' },
    { id: 'colour', message: 'Colour?' },
  ]
  yield { type: 'asked', questions, state: { at: 1 } }
}

test('answers a quick call as ever, and a slow one with a task that every replica knows', async () => {
  const go = deferred()
  await using world = twoReplicas()
  world.agents.join('slow', async function* () {
    yield { type: 'status', text: 'Counting' }
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  expect(await call(world.a, 'echo')).toMatchObject({
    result: { resultType: 'complete', content: [{ text: 'Hi' }] },
  })
  const taskId = await taskOf(world, 'slow')
  await world.clock.advance(1000)
  expect(await get(world.b, taskId)).toMatchObject({
    status: 200,
    result: { resultType: 'complete', taskId, status: 'working', pollIntervalMs: 1000 },
  })
  go.resolve()
  await settled()
  const done = { status: 'completed', result: { content: [{ text: 'Three' }] } }
  expect((await get(world.b, taskId)).result).toMatchObject(done)
  expect((await get(world.a, taskId)).result).toMatchObject(done)
})

test('leaves a call without the extension, and one of a tool that never becomes a task, as it is', async () => {
  const go = deferred()
  await using world = twoReplicas({ tools: { overrides: { never: { tasks: 'never' } } } })
  const slow: Behaviour = async function* () {
    await go.promise
    yield { type: 'done', text: 'Late' }
  }
  world.agents.join('never', slow)
  world.agents.join('slow', slow)
  const calls = [call(world.a, 'never'), call(world.a, 'slow', { extensions: {} })]
  await settled()
  await world.clock.advance(5000)
  go.resolve()
  for (const { result } of await Promise.all(calls)) {
    expect(result).toMatchObject({ resultType: 'complete', content: [{ text: 'Late' }] })
  }
})

test('refuses a client without the extension where only a task is possible', async () => {
  await using world = twoReplicas({ tools: { overrides: { echo: { tasks: 'required' } } } })
  const missing = {
    status: 400,
    error: { code: -32_021, data: { requiredCapabilities: { extensions: { [EXTENSION]: {} } } } },
  }
  expect(await call(world.a, 'echo', { extensions: {} })).toMatchObject(missing)
  expect(await get(world.a, 'task_1', { extensions: {} })).toMatchObject(missing)
  expect(await call(world.a, 'echo')).toMatchObject({ result: { resultType: 'task' } })
})

test('gives the same answer for an unknown, a foreign and an expired task', async () => {
  const tokens: Readonly<Record<string, string>> = { 'token-of-ada': 'ada', 'token-of-bob': 'bob' }
  await using world = twoReplicas({
    tasks: { ttlMs: 60_000 },
    tools: { overrides: { echo: { tasks: 'always' } } },
    auth: {
      authenticate: async ({ headers }: Request) => {
        const id = tokens[headers.get('authorization')?.slice(7) ?? ''] ?? ''
        return { id, scopes: ['agent:echo:call'], isAnonymous: false, claims: {} }
      },
    },
  })
  const ada = { token: 'token-of-ada' }
  const { result } = await call(world.a, 'echo', ada)
  const taskId = String(result?.['taskId'])
  await settled()
  expect((await get(world.b, taskId, ada)).result).toMatchObject({ status: 'completed' })
  const unknown = await get(world.a, 'task_00', ada)
  expect(unknown.error).toMatchObject({ code: -32_602, data: { reason: 'unknown_task' } })
  const foreign = await get(world.a, taskId, { token: 'token-of-bob' })
  await world.clock.advance(400_000)
  const expired = await get(world.a, taskId, ada)
  for (const { error } of [foreign, expired]) expect(error?.['code']).toBe(-32_602)
  const withoutId = ({ error }: Message): string =>
    String(error?.['message']).replace(/"[^"]*"/, '')
  expect([foreign, expired].map(withoutId)).toEqual([unknown, unknown].map(withoutId))
})

test('continues a task with answers that come one by one, at another replica', async () => {
  await using world = twoReplicas()
  world.agents.join('asking', asking)
  const { result } = await call(world.a, 'asking')
  expect(result).toMatchObject({ resultType: 'task', status: 'input_required' })
  expect(result).not.toHaveProperty('inputRequests')
  expect(result).not.toHaveProperty('requestState')
  const taskId = result?.['taskId']
  const open = async (): Promise<readonly string[]> =>
    Object.keys((await get(world.a, taskId)).result?.['inputRequests'] ?? {})
  expect(await open()).toEqual(['1.i0', '1.i1'])
  expect(await update(world.b, taskId, { 'no key': accepted({}) })).toMatchObject({
    result: { resultType: 'complete' },
  })
  await update(world.b, taskId, { '1.i0': accepted({ answer: 'Ada' }) })
  expect(await open()).toEqual(['1.i1'])
  await update(world.b, taskId, {
    '1.i0': accepted({ answer: 'Bob' }),
    '1.i1': accepted({ answer: 'red' }),
  })
  await settled()
  const { result: done } = await get(world.a, taskId)
  expect(done).toMatchObject({ status: 'completed' })
  expect(JSON.stringify(done)).toContain('Ada')
  expect(JSON.stringify(done)).not.toContain('Bob')
  await update(world.a, taskId, { '1.i1': accepted({ answer: 'blue' }) })
  expect(world.agents.calls).toHaveLength(2)
})

test('continues a task once, whichever replicas get the last answer', async () => {
  await using world = twoReplicas()
  world.agents.join('asking', asking)
  const { result } = await call(world.a, 'asking')
  const taskId = result?.['taskId']
  const both = { '1.i0': accepted({ answer: 'Ada' }), '1.i1': accepted({ answer: 'red' }) }
  await Promise.all([world.a, world.b, world.a].map((fetch) => update(fetch, taskId, both)))
  await settled()
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'completed' })
  expect(world.agents.calls).toHaveLength(2)
})

test('keeps answers until there is room to continue the call', async () => {
  await using world = twoReplicas({ runs: { maxConcurrent: 1, maxQueued: 0 } })
  world.agents.join('asking', asking)
  const { result } = await call(world.a, 'asking')
  const taskId = result?.['taskId']
  const other = await taskOf(world, 'endless')
  const both = { '1.i0': accepted({ answer: 'Ada' }), '1.i1': accepted({ answer: 'red' }) }
  await update(world.a, taskId, both)
  await world.clock.advance(3000)
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'working' })
  await cancel(world.b, other)
  await world.clock.advance(1000)
  const { result: done } = await get(world.b, taskId)
  expect(done).toMatchObject({ status: 'completed' })
  expect(JSON.stringify(done)).toContain('Ada')
})

test('keeps answers for an agent that left a moment ago', async () => {
  await using world = twoReplicas()
  world.agents.join('asking', asking)
  const { result } = await call(world.a, 'asking')
  const taskId = result?.['taskId']
  world.agents.leave('asking')
  const both = { '1.i0': accepted({ answer: 'Ada' }), '1.i1': accepted({ answer: 'red' }) }
  await update(world.a, taskId, both)
  await world.clock.advance(1000)
  expect((await get(world.a, taskId)).result).toMatchObject({ status: 'working' })
  world.agents.join('asking', asking)
  await world.clock.advance(2000)
  const { result: done } = await get(world.a, taskId)
  expect(done).toMatchObject({ status: 'completed' })
  expect(JSON.stringify(done)).toContain('Ada')
})

test('ends a task with an error if its agent stays away', async () => {
  await using world = twoReplicas()
  world.agents.join('asking', asking)
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  world.agents.leave('asking')
  const both = { '1.i0': accepted({ answer: 'Ada' }), '1.i1': accepted({ answer: 'red' }) }
  await update(world.a, taskId, both)
  await world.clock.advance(61_000)
  expect((await get(world.b, taskId)).result).toMatchObject({
    status: 'completed',
    result: { isError: true, _meta: { reason: 'agent_gone' } },
  })
})

test('asks again, under another key, after an answer that does not fit', async () => {
  await using world = twoReplicas()
  const schema = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
  world.agents.join('age', function* ({ resume }) {
    if (resume) yield { type: 'done', text: JSON.stringify(resume.answers) }
    else yield { type: 'asked', questions: [{ id: 'age', message: 'Age?', schema }], state: {} }
  })
  const { result } = await call(world.a, 'age')
  const taskId = result?.['taskId']
  await update(world.a, taskId, { '1.i0': accepted({ age: 'old' }) })
  await settled()
  const { result: again } = await get(world.a, taskId)
  expect(again).toMatchObject({ status: 'input_required' })
  expect(Object.keys(again?.['inputRequests'] ?? {})).toEqual(['2.i0'])
  await update(world.b, taskId, { '2.i0': accepted({ age: 7 }) })
  await settled()
  expect((await get(world.a, taskId)).result).toMatchObject({ status: 'completed' })
})

test('asks in the answer to the call what is asked before the task', async () => {
  await using world = twoReplicas()
  const go = deferred()
  world.agents.join('first', async function* ({ resume }) {
    if (!resume) {
      const questions = [{ id: 'name', message: 'Name?', isBeforeTask: true }]
      yield { type: 'asked', questions, state: {} }
      return
    }
    await go.promise
    yield { type: 'done', text: JSON.stringify(resume.answers) }
  })
  const { result: round } = await call(world.a, 'first')
  expect(round).toMatchObject({ resultType: 'input_required', inputRequests: { i0: {} } })
  expect(round).not.toHaveProperty('taskId')
  const calling = send(
    world.b,
    request('tools/call', {
      name: 'first',
      arguments: { message: 'Hi' },
      requestState: round?.['requestState'],
      inputResponses: { i0: accepted({ answer: 'Ada' }) },
    }),
  )
  await vi.waitUntil(() => world.agents.calls.length === 2)
  await world.clock.advance(2000)
  const { result: task } = await calling
  expect(task).toMatchObject({ resultType: 'task' })
  go.resolve()
  await settled()
  const { result: done } = await get(world.a, task?.['taskId'])
  expect(JSON.stringify(done)).toContain('Ada')
})

test('cancels a task at another replica, and keeps the first end', async () => {
  await using world = twoReplicas()
  const taskId = await taskOf(world, 'endless')
  expect(await cancel(world.b, taskId)).toMatchObject({ status: 200 })
  expect((await get(world.a, taskId)).result).toMatchObject({ status: 'cancelled' })
  await settled()
  expect(world.agents.calls.map(({ signal }) => signal.aborted)).toEqual([true])
  expect((await cancel(world.a, taskId)).result).toMatchObject({ resultType: 'complete' })
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'cancelled' })
})

test('cancels a call whose client leaves before it is a task, and not a task', async () => {
  await using world = twoReplicas()
  const left = new AbortController()
  const message = request('tools/call', { name: 'endless', arguments: { message: 'Hi' } })
  const calling = world.a(new Request(message, { signal: left.signal }))
  await settled()
  left.abort()
  await calling
  expect(world.agents.calls.map(({ signal }) => signal.aborted)).toEqual([true])
  const taskId = await taskOf(world, 'endless')
  expect(world.agents.calls.map(({ signal }) => signal.aborted)).toEqual([true, false])
  await cancel(world.a, taskId)
})

test('ends the tasks of a dead process as failed, and those of a stopped one', async () => {
  await using world = twoReplicas()
  const [dead, stopped] = [await taskOf(world, 'endless'), await taskOf(world, 'endless')]
  // The process that dies renews its lease no more.
  for (const { key } of await world.store.records.list('process:')) {
    await world.store.records.delete(key)
  }
  expect((await get(world.b, dead)).result).toMatchObject({
    status: 'failed',
    error: { code: -32_603, data: { reason: 'outcome_unknown' } },
  })
  const closing = world.assemblies[0].close()
  await settled()
  await world.clock.advance(20_000)
  await closing
  expect((await get(world.b, stopped)).result).toMatchObject({
    status: 'failed',
    error: { data: { reason: 'cancelled' } },
  })
})

test('leaves a run that goes on elsewhere soon after it is stopped, and waits for the others', async () => {
  await using world = twoReplicas({ tools: { tasks: 'always' } })
  world.agents.join('remote', async function* (agentCall) {
    await agentCall.remote?.store({ run: 'r1' })
    yield* endless(agentCall)
  })
  const remote = (await call(world.a, 'remote')).result?.['taskId']
  await call(world.a, 'endless')
  await settled()
  const closing = world.assemblies[0].close()
  await settled()
  await world.clock.advance(1000)
  const isAborted = (): boolean[] => world.agents.calls.map(({ signal }) => signal.aborted)
  expect(isAborted()).toEqual([true, false])
  await world.clock.advance(20_000)
  await closing
  expect((await get(world.b, remote)).result).toMatchObject({ status: 'working' })
  await settled()
  expect(world.agents.calls.map(({ remote: own }) => own?.joined)).toEqual([
    undefined,
    undefined,
    { run: 'r1' },
  ])
  await cancel(world.b, remote)
})

test('closes while the store is away', async () => {
  await using world = twoReplicas({ tools: { tasks: 'always' } })
  await call(world.a, 'echo')
  await settled()
  const { records } = world.store
  const away = new GatewayError('UNAVAILABLE', 'Away')
  const methods = (['get', 'put', 'delete', 'list', 'count'] as const).map((method) =>
    vi.spyOn(records, method).mockRejectedValue(away),
  )
  await world.assemblies[0].close()
  expect(world.warnings).toContainEqual(expect.stringContaining('that this one has ended'))
  for (const method of methods) method.mockRestore()
})

test('reports an error of the gateway as failed, and an error of the agent as a result', async () => {
  await using world = twoReplicas({
    tools: { tasks: 'always' },
    onEvent: () => undefined,
  })
  world.agents.join('bad', function* () {
    yield { type: 'failed', reason: 'No luck' }
  })
  world.agents.join('big', function* () {
    yield { type: 'done', structured: { value: 1n } }
  })
  const tasks = [await call(world.a, 'bad'), await call(world.a, 'big')]
  await settled()
  const [bad, big] = await Promise.all(tasks.map(({ result }) => get(world.b, result?.['taskId'])))
  expect(bad?.result).toMatchObject({ status: 'completed', result: { isError: true } })
  expect(big?.result).toMatchObject({ status: 'failed', error: { code: -32_603 } })
})

test('leaves a call a call where its principal has too many tasks', async () => {
  await using world = twoReplicas({ tasks: { maxPerPrincipal: 1 }, tools: { tasks: 'always' } })
  expect(await call(world.a, 'echo')).toMatchObject({ result: { resultType: 'task' } })
  expect(await call(world.b, 'echo')).toMatchObject({ result: { resultType: 'complete' } })
})

test('counts tasks that are being stored for the limit of a principal', async () => {
  await using world = twoReplicas({ tasks: { maxPerPrincipal: 3 }, tools: { tasks: 'always' } })
  const answers = await Promise.all(Array.from({ length: 9 }, () => call(world.a, 'echo')))
  const tasks = answers.filter(({ result }) => result?.['resultType'] === 'task')
  expect(tasks).toHaveLength(3)
})

test('knows no methods of tasks in a session', async () => {
  await using world = twoReplicas()
  const message = { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { taskId: 'task_1' } }
  const response = await world.a(post(message, { 'mcp-protocol-version': '2025-11-25' }))
  expect(JSON.stringify(await response.json())).not.toContain('task_')
})

const KEY = 'a key of the client that is long enough to be unknown to others'.replaceAll(' ', '-')
const keyed = (name: string, message = 'Hi', over = {}): Request => {
  const meta = { 'io.github.x-mcp/idempotency-key': KEY }
  return request('tools/call', { name, arguments: { message }, _meta: meta }, over)
}
const REPLAYED = { 'io.github.x-mcp/idempotency': { replayed: true } }

test('advertises that it honours keys', async () => {
  await using world = twoReplicas()
  const { result } = await send(world.a, request('server/discover', {}))
  expect(result?.['capabilities']).toMatchObject({
    extensions: {
      [EXTENSION]: {},
      'io.github.x-mcp/idempotency': { retentionMs: 86_400_000, inFlight: 'join' },
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
  await vi.waitUntil(() => world.agents.calls.length === 1)
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
  await vi.waitUntil(() => world.agents.calls.length === 1)
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

test('cancels a call with a key whose client does not come back', async () => {
  await using world = twoReplicas()
  const left = new AbortController()
  const lost = world.a(
    new Request(keyed('endless', 'Hi', { extensions: {} }), { signal: left.signal }),
  )
  await vi.waitUntil(() => world.agents.calls.length === 1)
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
  const go = deferred()
  await using world = twoReplicas({ tools: { tasks: 'always' } })
  world.agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  const { result } = await call(world.a, 'slow')
  const taskId = String(result?.['taskId'])
  const listening = request('subscriptions/listen', { notifications: { taskIds: [taskId] } })
  const stream = messagesOf(await world.b(listening))
  await stream.next()
  expect((await stream.next()).value).toMatchObject({ params: { status: 'working' } })
  const { logs, records } = world.store
  const [put, append, read] = [
    records.put.bind(records),
    logs.append.bind(logs),
    records.get.bind(records),
  ]
  let failures = 0
  const fail = (): never => {
    failures++
    throw new GatewayError('UNAVAILABLE', 'Away')
  }
  // The end is stored, and its answer is lost. Then the store is away, until each operation has failed once.
  vi.spyOn(records, 'put').mockImplementationOnce(async (...entry) => {
    await put(...entry)
    return fail()
  })
  vi.spyOn(logs, 'append').mockImplementation(async (...entry) =>
    failures === 1 ? fail() : append(...entry),
  )
  vi.spyOn(records, 'get').mockImplementation(async (key) => (failures === 2 ? fail() : read(key)))
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

/** An engine in this process, whose runs the test executes. */
class EngineAtHand implements RunEngine {
  readonly queued = new Set<string>()
  execute: ExecuteRun | undefined
  isStopped = false
  onSubmit = (): void => {}

  async submit(runId: string): Promise<void> {
    this.queued.add(runId)
    this.onSubmit()
  }

  async cancel(): Promise<void> {}

  async work(execute: ExecuteRun): Promise<() => Promise<void>> {
    this.execute = execute
    return async () => {
      this.isStopped = true
    }
  }

  /** Executes the oldest queued run. */
  async next(signal: AbortSignal = new AbortController().signal): Promise<unknown> {
    const [runId = ''] = this.queued
    const end = await this.execute?.(runId, { signal })
    if (end === 'ended') this.queued.delete(runId)
    return end
  }
}

test('makes a call with a key where its principal has too many tasks for an engine', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({
    engine,
    tasks: { maxPerPrincipal: 1 },
    tools: { tasks: 'always' },
  })
  expect(await call(world.a, 'echo')).toMatchObject({ result: { resultType: 'task' } })
  const first = await send(world.a, keyed('echo'))
  expect(first.result).toMatchObject({ resultType: 'complete', content: [{ text: 'Hi' }] })
  const again = await send(world.b, keyed('echo'))
  expect(again.result).toMatchObject({ content: [{ text: 'Hi' }], _meta: REPLAYED })
  expect(world.agents.calls).toHaveLength(1)
})

test('waits with a call for a store that is away, and executes it once', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  const { records } = world.store
  const put = records.put.bind(records)
  let writes = 0
  // The first writes of the claim and of the task happen, but their answers are lost.
  const away = vi.spyOn(records, 'put').mockImplementation(async (...entry) => {
    const version = await put(...entry)
    if (++writes === 1 || writes === 3) throw new GatewayError('UNAVAILABLE', 'Away')
    return version
  })
  const calling = send(world.a, keyed('echo'))
  for (let waited = 0; waited < 4; waited++) {
    await settled()
    await world.clock.advance(250)
  }
  const { result } = await calling
  expect(result).toMatchObject({ resultType: 'task', status: 'working' })
  away.mockRestore()
  await world.assemblies[0].work()
  expect(engine.queued.size).toBe(1)
  expect(await engine.next()).toBe('ended')
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({ status: 'completed' })
  expect(world.agents.calls).toHaveLength(1)
})

test.each([
  { isRepeated: false, lost: 'task:' },
  { isRepeated: true, lost: 'process:' },
])('answers with the task if the store goes away behind it ($isRepeated)', async (row) => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'auto' } })
  const go = deferred()
  world.agents.join('long', async function* () {
    await go.promise
    yield { type: 'done', text: 'Long' }
  })
  await world.assemblies[0].work()
  const begin = async (fetch: Fetch): Promise<unknown> => {
    const calling = send(fetch, keyed('long'))
    await settled()
    await world.clock.advance(2000)
    return (await calling).result
  }
  if (row.isRepeated) await begin(world.b)
  const run = row.isRepeated ? engine.next() : undefined
  await settled()
  const { records } = world.store
  const read = records.get.bind(records)
  const away = vi.spyOn(records, 'get').mockImplementation(async (key) => {
    if (key.startsWith(row.lost)) throw new GatewayError('UNAVAILABLE', 'Away')
    return read(key)
  })
  expect(await begin(world.b)).toMatchObject({ resultType: 'task', status: 'working' })
  away.mockRestore()
  go.resolve()
  await run
})

test('hands a run of an engine over when the store fails at its start', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  await world.assemblies[0].work()
  const { result } = await call(world.a, 'echo')
  await world.clock.advance(1000)
  const { records } = world.store
  const put = records.put.bind(records)
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    if (key.startsWith('process:')) throw new GatewayError('UNAVAILABLE', 'Away')
    return put(key, ...entry)
  })
  let isReleased = false
  const attempt = engine.next().finally(() => {
    isReleased = true
  })
  await settled()
  expect(isReleased).toBe(false) // else processes would take it again and again while the store is away
  await world.clock.advance(1000)
  expect(await attempt).toBe('released')
  away.mockRestore()
  expect(await engine.next()).toBe('ended')
  expect(world.agents.calls).toHaveLength(1)
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({ status: 'completed' })
})

test('continues a run however often its processes are stopped', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  let stop = new AbortController()
  world.agents.join(
    'long',
    function* ({ attempt = 0, signal }) {
      if (world.agents.calls.length <= 8) {
        stop.abort('stopping')
        signal.throwIfAborted()
      }
      yield { type: 'done', text: `Attempt ${attempt}` }
    },
    { canContinue: true },
  )
  await world.assemblies[0].work()
  const long = (await call(world.a, 'long')).result?.['taskId']
  while (engine.queued.size > 0) {
    stop = new AbortController()
    await engine.next(stop.signal)
  }
  // Each later process knows that it continues the call.
  expect((await get(world.b, long)).result).toMatchObject({
    status: 'completed',
    result: { content: [{ text: 'Attempt 2' }] },
  })
})

test.each([
  { mode: 'run', status: 'completed', attempts: [1, 2] },
  { mode: 'thread', status: 'failed', attempts: [1] },
] as const)(
  'continues the task of a dead process, but not within a conversation ($mode)',
  async (row) => {
    const engine = new EngineAtHand()
    const ada = { id: 'ada', scopes: ['agent:long:call'], isAnonymous: false, claims: {} }
    await using world = twoReplicas({
      engine,
      tools: { tasks: 'always' },
      runs: { mode: row.mode },
      auth: { authenticate: async () => ada },
    })
    const behaviour: Behaviour = async function* (agentCall) {
      if (agentCall.attempt === 1) yield* endless(agentCall)
      yield { type: 'done', text: 'Done' }
    }
    world.agents.join('long', behaviour, { canContinue: true })
    await world.assemblies[0].work()
    const long = (await call(world.a, 'long', { token: 'ada' })).result?.['taskId']
    const dead = engine.next()
    await vi.waitUntil(() => world.agents.calls.length === 1)
    await world.assemblies[1].work() // the engine now uses this process
    expect(await engine.next()).toBe('ended')
    expect((await get(world.b, long, { token: 'ada' })).result).toMatchObject({
      status: row.status,
      ...(row.status === 'failed' && { error: { data: { reason: 'outcome_unknown' } } }),
    })
    expect(world.agents.calls.map(({ attempt }) => attempt)).toEqual(row.attempts)
    await dead
  },
)

test('cancels a task of an engine whose client leaves before it has its id', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  const left = new AbortController()
  engine.onSubmit = () => left.abort()
  const message = request('tools/call', { name: 'echo', arguments: { message: 'Hi' } })
  await world.a(new Request(message, { signal: left.signal })).catch(() => {})
  await settled()
  const records = await world.store.records.list('task:')
  expect(records.map(({ value }) => isRecord(value) && value['status'])).toEqual(['cancelled'])
})

test('lets an agent delete the thread of a task that is cancelled while it waits for an answer', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  const forgotten: unknown[] = []
  Object.assign(world.agents, {
    forgetThread: async (...thread: unknown[]): Promise<void> => void forgotten.push(thread),
  })
  world.agents.join('asking', asking)
  await world.assemblies[0].work()
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  expect(await engine.next()).toBe('ended')
  expect(forgotten).toEqual([])
  await cancel(world.a, taskId)
  expect(forgotten).toEqual([['asking', world.agents.calls[0]?.runId]])
})

test('makes a call of an engine again if its agent did not get the first one', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  await world.assemblies[0].work()
  const meta = { 'io.github.x-mcp/idempotency-key': KEY }
  const args = { message: 'Hi', files: ['artifact://gone'] }
  const params = { name: 'echo', arguments: args, _meta: meta }
  const refused = (await send(world.a, request('tools/call', params))).result?.['taskId']
  expect(await engine.next()).toBe('ended')
  expect((await get(world.b, refused)).result).toMatchObject({
    status: 'completed',
    result: { isError: true, _meta: { reason: 'invalid_arguments' } },
  })
  await settled()
  const again = (await send(world.b, keyed('echo'))).result?.['taskId']
  expect(again).not.toBe(refused)
  expect(await engine.next()).toBe('ended')
  expect((await get(world.a, again)).result).toMatchObject({
    result: { content: [{ text: 'Hi' }] },
  })
})

test('hands the tasks of an engine over before the delay for load balancers', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, http: { drainDelayMs: 5000 } })
  await world.assemblies[0].work()
  const closing = Promise.all(world.assemblies.map((each) => each.close()))
  await settled()
  expect(engine.isStopped).toBe(true)
  await world.clock.advance(5000)
  await closing
})

test('leaves a task of an engine to a process that has its agent, for a minute', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
  await world.assemblies[0].work()
  const { result } = await call(world.a, 'echo')
  world.agents.leave('echo')
  await world.clock.advance(2000)
  const attempt = async (): Promise<unknown> => {
    const end = engine.next()
    await settled()
    await world.clock.advance(1000)
    return end
  }
  expect(await attempt()).toBe('released')
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({ status: 'working' })
  await world.clock.advance(60_000)
  expect(await attempt()).toBe('ended')
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({
    status: 'failed',
    error: { data: { reason: 'agent_gone' } },
  })
})
