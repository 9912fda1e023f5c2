import { deferred } from '@x/mcp-testing'
import { beforeAll, expect, test, vi } from 'vitest'

import { whenSchemasChecked } from '../src/agents/schemas.ts'
import { GatewayError } from '../src/errors.ts'
import { bearerAuth } from '../src/index.ts'
import { asking, endless, type Behaviour } from './agents-at-hand.ts'
import { settled } from './manual-clock.ts'
import { post } from './rpc-requests.ts'
import {
  accepted,
  call,
  cancel,
  EXTENSION,
  get,
  request,
  send,
  update,
  type Message,
} from './task-requests.ts'
import { twoReplicas, type TwoReplicas } from './two-replicas.ts'

// To load the library takes longer than `settled()` waits.
beforeAll(whenSchemasChecked)

/** Begins a call that takes longer than two seconds. */
async function taskOf(world: TwoReplicas, name: string, over = {}): Promise<unknown> {
  const calling = call(world.a, name, over)
  await settled()
  await world.clock.advance(2000)
  const { result } = await calling
  expect(result).toMatchObject({ resultType: 'task', status: 'working' })
  return result?.['taskId']
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

test('writes a task when it begins and when it ends, if its own process executes it', async () => {
  await using world = twoReplicas({ tools: { overrides: { echo: { tasks: 'always' } } } })
  const put = vi.spyOn(world.store.records, 'put')
  const { result } = await call(world.a, 'echo')
  await settled()
  const done = { status: 'completed', result: { content: [{ text: 'Hi' }] } }
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject(done)
  const written = put.mock.calls.filter(([key]) => key.startsWith('call:'))
  expect(written).toMatchObject([
    [expect.any(String), { state: { status: 'running', claims: 1 } }, {}],
    [expect.any(String), { state: { status: 'ended' } }, {}],
  ])
})

test('stops the run of a task whose record the store has lost', async () => {
  await using world = twoReplicas()
  await taskOf(world, 'endless')
  const [{ runId, signal } = expect.fail('it was not called')] = world.agents.calls
  const { logs, records } = world.store
  await records.delete(`call:${runId}`)
  const limits = { maxEvents: 10, ttlMs: 60_000 }
  await logs.append('calls', { runId, by: 'another process' }, { limits, isLast: false })
  await settled()
  expect(signal.aborted).toBe(true)
})

test('keeps the credentials of a task whose first write has lost its answer', async () => {
  const token = 'a-token-for-these-tests'
  const credentials = { token: async () => ({ accessToken: 'another' }), rejected: () => {} }
  await using world = twoReplicas({
    auth: bearerAuth(token),
    credentials: { credentialsFor: () => credentials },
    tools: { overrides: { echo: { tasks: 'always' } } },
  })
  const { records } = world.store
  const put = records.put.bind(records)
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    const version = await put(key, ...entry)
    if (!key.startsWith('call:')) return version
    away.mockRestore()
    throw new GatewayError('UNAVAILABLE', 'Away')
  })
  const calling = call(world.a, 'echo', { token })
  await settled()
  await world.clock.advance(1000)
  const { result } = await calling
  expect(result).toMatchObject({ resultType: 'task' })
  await settled()
  expect(world.agents.calls).toMatchObject([{ credentials }])
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
    resultTtlMs: 60_000,
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

test('asks in a task that the call becomes while its question is stored', async () => {
  const [go, slow] = [deferred(), deferred()]
  await using world = twoReplicas()
  world.agents.join('late', async function* (agentCall) {
    if (!agentCall.resume) await go.promise
    yield* asking(agentCall)
  })
  const { records } = world.store
  const put = records.put.bind(records)
  let isAsking = false
  vi.spyOn(records, 'put').mockImplementation(async (...entry) => {
    const isQuestion = entry[0].startsWith('call:') && JSON.stringify(entry[1]).includes('"asking"')
    isAsking ||= isQuestion
    if (isQuestion) await slow.promise
    return put(...entry)
  })
  const calling = call(world.a, 'late')
  await settled()
  await world.clock.advance(1999)
  go.resolve()
  await vi.waitUntil(() => isAsking)
  await world.clock.advance(1)
  const taskId = (await calling).result?.['taskId']
  slow.resolve()
  await settled()
  await world.clock.advance(6000)
  expect((await get(world.b, taskId)).result).toMatchObject({
    status: 'input_required',
    inputRequests: { '1.i0': expect.anything() },
  })
})

test('continues a task once, whichever replicas get the last answer', async () => {
  await using world = twoReplicas()
  const { result } = await call(world.a, 'asking')
  const taskId = result?.['taskId']
  const both = { '1.i0': accepted({ answer: 'Ada' }), '1.i1': accepted({ answer: 'red' }) }
  await Promise.all([world.a, world.b, world.a].map((fetch) => update(fetch, taskId, both)))
  await settled()
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'completed' })
  expect(world.agents.calls).toHaveLength(2)
})

test('keeps answers until there is room to continue the call', async () => {
  await using world = twoReplicas({ runs: { maxConcurrent: 1 } })
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

test('ends a task whose questions are not answered in time', async () => {
  await using world = twoReplicas()
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  await world.clock.advance(3_600_000)
  expect((await get(world.b, taskId)).result).toMatchObject({
    status: 'completed',
    result: { isError: true, _meta: { reason: 'expired' } },
  })
})

test('takes answers for as long as questions are open, from a call that asked at once', async () => {
  await using world = twoReplicas()
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  await world.clock.advance(3_500_000)
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'input_required' })
  const both = { '1.i0': accepted({ answer: 'Ada' }), '1.i1': accepted({ answer: 'red' }) }
  await update(world.b, taskId, both)
  await settled()
  expect((await get(world.a, taskId)).result).toMatchObject({
    result: { content: [{ text: expect.stringContaining('Ada') }] },
  })
})

test('refuses answers that are no objects, and still waits for them', async () => {
  await using world = twoReplicas()
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  for (const answer of ['red', 5, null, ['red']]) {
    const { error } = await update(world.b, taskId, { '1.i0': answer })
    expect(error).toMatchObject({ code: -32_602 })
  }
  expect((await get(world.a, taskId)).result).toMatchObject({
    status: 'input_required',
    inputRequests: { '1.i0': expect.anything(), '1.i1': expect.anything() },
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

test.each([
  ['an agent that asks without end', 'Blue', 'more than 8 times'],
  ['a client whose answers never fit', 5, 'do not fit'],
])('ends the task of %s', async (_, answer, text) => {
  await using world = twoReplicas()
  world.agents.join('color', () => [
    { type: 'asked', questions: [{ id: 'color', message: 'Color?' }], state: {} },
  ])
  const taskId = (await call(world.a, 'color')).result?.['taskId']
  let task = (await get(world.a, taskId)).result
  let rounds = 0
  while (task?.['status'] === 'input_required' && rounds < 30) {
    rounds += 1
    await update(world.b, taskId, { [`${rounds}.i0`]: accepted({ answer }) })
    await settled()
    task = (await get(world.a, taskId)).result
  }
  expect(rounds).toBe(8)
  expect(task).toMatchObject({
    status: 'completed',
    result: {
      isError: true,
      content: [{ text: expect.stringContaining(text) }],
      _meta: { reason: 'too_many_questions' },
    },
  })
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
  await expect.poll(() => world.agents.calls).toHaveLength(2)
  await world.clock.advance(2000)
  const { result: task } = await calling
  expect(task).toMatchObject({ resultType: 'task' })
  go.resolve()
  await settled()
  const { result: done } = await get(world.a, task?.['taskId'])
  expect(JSON.stringify(done)).toContain('Ada')
})

test('keeps the result of a task that told its question, after the answer', async () => {
  await using world = twoReplicas()
  const [go, end] = [deferred(), deferred()]
  world.agents.join('late', async function* ({ resume, signal }) {
    if (resume) {
      await end.promise
      yield { type: 'done', text: signal.aborted ? 'Stopped' : 'Order placed' }
    } else {
      await go.promise
      yield { type: 'asked', questions: [{ id: 'q', message: 'Sure?' }], state: {} }
    }
  })
  const capabilities = { extensions: { [EXTENSION]: {} } }
  const meta = { 'io.modelcontextprotocol/clientCapabilities': capabilities }
  const message = (args: object): Request =>
    request('tools/call', { name: 'late', arguments: args, _meta: meta })
  const calling = send(world.a, message({ message: 'Hi' }))
  await settled()
  await world.clock.advance(2000)
  const taskId = (await calling).result?.['taskId']
  go.resolve()
  await settled()
  const { result: told } = await get(world.b, taskId)
  expect(told).toMatchObject({ status: 'completed', result: { _meta: { reason: 'needs_input' } } })
  const [, run] = /"run":"([^"]+)"/.exec(JSON.stringify(told)) ?? []
  const resume = { run, answers: { i0: { answer: 'yes' } } }
  const continuing = send(world.b, message({ resume }))
  await expect.poll(() => world.agents.calls).toHaveLength(2)
  await cancel(world.b, taskId) // has ended
  end.resolve()
  expect((await continuing).result).toMatchObject({ content: [{ text: 'Order placed' }] })
  expect((await get(world.a, taskId)).result).toMatchObject({ result: told?.['result'] })
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

test('follows no tasks for a listener, and ends a stream that asks for nothing else', async () => {
  await using world = twoReplicas()
  const { result } = await call(world.a, 'asking')
  const notifications = { taskIds: [result?.['taskId']] }
  const response = await world.a(request('subscriptions/listen', { notifications }))
  const text = await response.text()
  expect(text).toContain('"notifications":{}')
  expect(text).toContain('"resultType":"complete"')
})
