import { isRecord } from '@x/internal'
import { deferred } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'

import { GatewayError } from '../src/errors.ts'
import type { ExecuteRun, RunEngine } from '../src/runs/engine.ts'
import { echo, endless, type Behaviour } from './agents-at-hand.ts'
import { settled } from './manual-clock.ts'
import {
  accepted,
  call,
  cancel,
  EXTENSION,
  get,
  KEY,
  keyed,
  REPLAYED,
  request,
  send,
  type Fetch,
  type Message,
} from './task-requests.ts'
import { twoReplicas, type TwoReplicas } from './two-replicas.ts'

/** An engine in this process, whose runs the test executes. */
class EngineAtHand implements RunEngine {
  readonly queued = new Set<string>()
  execute: ExecuteRun | undefined
  isStopped = false
  onSubmit = (): void => {}
  onWork = (): void => {}

  async submit(runId: string): Promise<void> {
    this.queued.add(runId)
    this.onSubmit()
  }

  async countQueued(): Promise<number> {
    return this.queued.size
  }

  async cancel(): Promise<void> {}

  async work(execute: ExecuteRun): Promise<() => Promise<void>> {
    this.onWork()
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

/** Replicas that queue every call for an engine. */
function queueing() {
  const engine = new EngineAtHand()
  return { ...twoReplicas({ engine, tools: { tasks: 'always' } }), engine }
}

/** The first of them executes the calls. */
async function executing() {
  const world = queueing()
  await world.assemblies[0].work()
  return world
}

/** From now on, all processes look dead. Those that run go on, like frozen ones. */
async function freeze({ store }: TwoReplicas): Promise<void> {
  for (const { key } of await store.records.list('process:')) await store.records.delete(key)
}

/** An engine that cannot be reached now. */
function unreachable(): never {
  throw new GatewayError('UNAVAILABLE', 'Redis is away')
}

test('waits for its engine when it begins to work, and says so each time', async () => {
  await using world = queueing()
  const { assemblies, clock, engine, warnings } = world
  engine.onWork = unreachable
  const working = assemblies[0].work()
  await settled()
  for (const ms of [250, 500, 1000, 2000, 4000, 5000, 5000]) {
    const before = warnings.length
    expect(warnings.at(-1)).toBe(
      `Queued tasks are not executed here yet, because the engine cannot be reached. The next attempt is in ${ms} ms`,
    )
    await clock.advance(ms - 1)
    expect(warnings).toHaveLength(before)
    await clock.advance(1)
    expect(warnings).toHaveLength(before + 1)
  }
  engine.onWork = () => {}
  await clock.advance(5000)
  await working
  await send(world.a, keyed('echo'))
  expect(await engine.next()).toBe('ended')
})

test('rejects at once if its engine cannot work', async () => {
  await using world = queueing()
  world.engine.onWork = () => {
    throw new GatewayError('CONFIG', 'Redis refused access')
  }
  await expect(world.assemblies[0].work()).rejects.toThrow('Redis refused access')
  expect(world.warnings).toEqual([])
})

test('stops waiting for its engine when it is closed', async () => {
  await using world = queueing()
  world.engine.onWork = unreachable
  const working = world.assemblies[0].work()
  working.catch(() => {})
  await settled()
  await world.assemblies[0].close()
  await expect(working).rejects.toMatchObject({ code: 'CLOSED' })
})

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
  await using world = queueing()
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
  expect(world.engine.queued.size).toBe(1)
  expect(await world.engine.next()).toBe('ended')
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({ status: 'completed' })
  expect(world.agents.calls).toHaveLength(1)
})

test.each([
  ['with an engine', new EngineAtHand()],
  ['without an engine', undefined],
])(
  'executes a call once that became no task, although its record was written (%s)',
  async (_title, engine) => {
    await using world = twoReplicas({ engine, tools: { tasks: 'always' } })
    world.agents.join('echo', echo, { canContinue: true })
    if (engine) await world.assemblies[0].work()
    const { records } = world.store
    const put = records.put.bind(records)
    const absent = async () => {
      throw new GatewayError('UNAVAILABLE', 'Away')
    }
    const writes = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
      if (key.startsWith('call:')) {
        writes.mockImplementation(absent)
        vi.spyOn(records, 'get').mockImplementation(absent)
        await put(key, ...entry)
        return absent()
      }
      return put(key, ...entry)
    })
    const calling = call(world.a, 'echo')
    await settled()
    await world.clock.advance(6000)
    expect((await calling).result).toMatchObject({ content: [{ text: 'Hi' }] })
    vi.restoreAllMocks()
    await world.clock.advance(120_000) // all processes look for tasks of others
    if (engine?.queued.size) await engine.next()
    await world.clock.advance(5000)
    expect(world.agents.calls).toHaveLength(1)
  },
)

test('asks a store that is away with one request for all calls that became no tasks', async () => {
  await using world = twoReplicas({ tools: { tasks: 'always' } })
  const { records } = world.store
  vi.spyOn(records, 'put').mockImplementation(async () => unreachable())
  const reads = vi.spyOn(records, 'get').mockImplementation(async () => unreachable())
  const calling = [1, 2, 3].map(() => call(world.a, 'echo'))
  await settled()
  await world.clock.advance(120_000)
  for (const { result } of await Promise.all(calling)) {
    expect(result).toMatchObject({ content: [{ text: 'Hi' }] })
  }
  reads.mockClear()
  await world.clock.advance(250)
  expect(reads.mock.calls.filter(([key]) => key.startsWith('call:'))).toHaveLength(1)
  vi.restoreAllMocks()
})

test('executes a call with a key once that became no task, although its record was written', async () => {
  const go = deferred()
  await using world = queueing()
  world.agents.join('slow', async function* () {
    await go.promise
    yield { type: 'done', text: 'Three' }
  })
  await world.assemblies[0].work()
  const { records } = world.store
  const put = records.put.bind(records)
  const isGivenUp = (): boolean => world.warnings.join().includes('cannot become a task')
  vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    const version = await put(key, ...entry)
    // The write happens, but its answer is lost.
    if (!key.startsWith('call-key:') || isGivenUp()) return version
    throw new GatewayError('UNAVAILABLE', 'Away')
  })
  const calling = send(world.a, keyed('slow'))
  await settled()
  await world.clock.advance(6000)
  expect(isGivenUp()).toBe(true)
  const again = send(world.b, keyed('slow', 'Hi', { extensions: {} }))
  await settled()
  const runs = [...world.engine.queued].map(() => world.engine.next())
  go.resolve()
  await Promise.all(runs)
  await world.clock.advance(500)
  expect((await calling).result).toMatchObject({ content: [{ text: 'Three' }] })
  expect((await again).result).toMatchObject({ content: [{ text: 'Three' }], _meta: REPLAYED })
  expect(world.agents.calls).toHaveLength(1)
})

test.each(['tasks/get', 'tools/call'])(
  'queues a stored task that its process did not queue, at the next %s',
  async (method) => {
    await using world = queueing()
    vi.spyOn(world.engine, 'submit').mockRejectedValueOnce(new GatewayError('UNAVAILABLE', 'Away'))
    const { result } = await send(world.a, keyed('echo'))
    const taskId = String(result?.['taskId'])
    expect(world.engine.queued.size).toBe(0)
    if (method === 'tasks/get') await get(world.b, taskId)
    else await send(world.b, keyed('echo'))
    expect(world.engine.queued.size).toBe(1)
    await world.assemblies[0].work()
    expect(await world.engine.next()).toBe('ended')
    expect((await get(world.b, taskId)).result).toMatchObject({ status: 'completed' })
    expect(world.agents.calls).toHaveLength(1)
  },
)

test.each([
  { isRepeated: false, lost: 'call:' },
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
  await using world = await executing()
  const { result } = await call(world.a, 'echo')
  await world.clock.advance(1000)
  const { records } = world.store
  const put = records.put.bind(records)
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    if (key.startsWith('process:')) throw new GatewayError('UNAVAILABLE', 'Away')
    return put(key, ...entry)
  })
  let isReleased = false
  const attempt = world.engine.next().finally(() => {
    isReleased = true
  })
  await settled()
  expect(isReleased).toBe(false) // else processes would take it again and again while the store is away
  await world.clock.advance(1000)
  expect(await attempt).toBe('released')
  away.mockRestore()
  expect(await world.engine.next()).toBe('ended')
  expect(world.agents.calls).toHaveLength(1)
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({ status: 'completed' })
})

test('continues a run however often its processes are stopped', async () => {
  await using world = queueing()
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
  while (world.engine.queued.size > 0) {
    stop = new AbortController()
    await world.engine.next(stop.signal)
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
    await expect.poll(() => world.agents.calls).toHaveLength(1)
    await freeze(world)
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

test('has a file in the result of a task whose process died after the store was away for a moment', async () => {
  await using world = queueing()
  const text = Buffer.from('paid')
  world.agents.join(
    'long',
    async function* (agentCall) {
      if (agentCall.attempt === 1) {
        yield { type: 'file', file: { name: 'receipt.txt', mimeType: 'text/plain', data: text } }
        yield* endless(agentCall)
      }
      yield { type: 'done', text: 'Done' }
    },
    { canContinue: true },
  )
  await world.assemblies[0].work()
  const { records } = world.store
  const put = records.put.bind(records)
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    if (!key.startsWith('call:') || !JSON.stringify(entry).includes('receipt.txt')) {
      return put(key, ...entry)
    }
    away.mockRestore()
    return unreachable()
  })
  const long = (await call(world.a, 'long')).result?.['taskId']
  const dead = world.engine.next()
  await settled()
  await world.clock.advance(500)
  await freeze(world)
  await world.assemblies[1].work() // the engine now uses this process
  expect(await world.engine.next()).toBe('ended')
  const { result } = await get(world.b, long)
  expect(JSON.stringify(result)).toContain('receipt.txt')
  await dead
})

test('cancels a task of an engine whose client leaves before it has its id', async () => {
  await using world = queueing()
  const left = new AbortController()
  world.engine.onSubmit = () => left.abort()
  const message = request('tools/call', { name: 'echo', arguments: { message: 'Hi' } })
  await world.a(new Request(message, { signal: left.signal })).catch(() => {})
  await settled()
  const records = await world.store.records.list('call:')
  expect(records.map(({ value }) => isRecord(value) && value['state'])).toEqual([
    { status: 'ended', end: { type: 'cancelled' } },
  ])
})

test('lets an agent delete the thread of a task that is cancelled while it waits for an answer', async () => {
  await using world = queueing()
  const forgotten: unknown[] = []
  Object.assign(world.agents, {
    forgetThread: async (...thread: unknown[]): Promise<void> => void forgotten.push(thread),
  })
  await world.assemblies[0].work()
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  expect(await world.engine.next()).toBe('ended')
  expect(forgotten).toEqual([])
  await cancel(world.a, taskId)
  expect(forgotten).toEqual([['asking', world.agents.calls[0]?.runId]])
})

test('lets an agent delete the thread of a task that is cancelled while no process executes it', async () => {
  await using world = queueing()
  const forgotten: unknown[] = []
  Object.assign(world.agents, {
    forgetThread: async (...thread: unknown[]): Promise<void> => void forgotten.push(thread),
  })
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  await cancel(world.a, taskId)
  await settled()
  expect(forgotten).toEqual([['asking', expect.any(String)]])
})

test('lets an agent delete the thread of a plain call that an engine has continued', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine })
  const forgotten: unknown[] = []
  Object.assign(world.agents, {
    forget: async (...state: unknown[]): Promise<void> => void forgotten.push(state),
  })
  await world.assemblies[0].work()
  const params = { name: 'asking', arguments: { message: 'Hi' } }
  const plain = await send(world.a, request('tools/call', params, { extensions: {} }))
  const answer = accepted({ answer: 'red' })
  const inputResponses = { i0: answer, i1: answer }
  const requestState = plain.result?.['requestState']
  engine.onSubmit = () => void engine.next()
  await send(world.b, request('tools/call', { ...params, requestState, inputResponses }))
  expect(world.agents.calls.map(({ attempt }) => attempt)).toEqual([undefined, 1])
  expect(forgotten).toEqual([['asking', { at: 1 }]])
})

test('answers a quick call with its question if the client shows no forms', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine })
  await world.assemblies[0].work()
  engine.onSubmit = () => void engine.next()
  const capabilities = { extensions: { [EXTENSION]: {} } }
  const meta = { 'io.modelcontextprotocol/clientCapabilities': capabilities }
  const params = { name: 'asking', arguments: { message: 'Hi' }, _meta: meta }
  const { result } = await send(world.a, request('tools/call', params))
  expect(result).toMatchObject({ resultType: 'complete', _meta: { reason: 'needs_input' } })
})

test('makes a call of an engine again if its agent did not get the first one', async () => {
  await using world = await executing()
  const meta = { 'io.github.x-mcp/idempotency-key': KEY }
  const args = { message: 'Hi', files: ['artifact://gone'] }
  const params = { name: 'echo', arguments: args, _meta: meta }
  const refused = (await send(world.a, request('tools/call', params))).result?.['taskId']
  expect(await world.engine.next()).toBe('ended')
  expect((await get(world.b, refused)).result).toMatchObject({
    status: 'completed',
    result: { isError: true, _meta: { reason: 'invalid_arguments' } },
  })
  await settled()
  const again = (await send(world.b, keyed('echo'))).result?.['taskId']
  expect(again).not.toBe(refused)
  expect(await world.engine.next()).toBe('ended')
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
  await using world = await executing()
  const { result } = await call(world.a, 'echo')
  world.agents.leave('echo')
  await world.clock.advance(2000)
  const attempt = async (): Promise<unknown> => {
    const end = world.engine.next()
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

test('lets a client without the extension repeat a call that is a task of an engine', async () => {
  await using world = await executing()
  const repeat = (name: string) => send(world.b, keyed(name, 'Hi', { extensions: {} }))
  await send(world.a, keyed('echo'))
  const repeating = repeat('echo')
  await settled()
  expect(await world.engine.next()).toBe('ended')
  const { result } = await repeating
  expect(result).toMatchObject({ content: [{ text: 'Hi' }], _meta: REPLAYED })
  expect((await repeat('echo')).result).toEqual(result)
  const taskId = (await send(world.a, keyed('asking'))).result?.['taskId']
  expect(await world.engine.next()).toBe('ended')
  expect((await repeat('asking')).result).toMatchObject({ _meta: { reason: 'busy' } })
  await cancel(world.a, taskId)
  expect((await repeat('asking')).result).toMatchObject({ _meta: { reason: 'cancelled' } })
  expect(world.agents.calls.map(({ agentId }) => agentId)).toEqual(['echo', 'asking'])
})

test('shows tasks that wait for a process, and reports those that lose it', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({
    engine,
    tools: { tasks: 'always' },
    http: { metricsPath: '/metrics' },
  })
  world.agents.join('fragile', endless)
  const metrics = async (): Promise<string> =>
    (await world.a(new Request('http://localhost/metrics'))).text()
  const status = async (taskId: unknown): Promise<unknown> => (await get(world.b, taskId)).result
  const taskId = (await call(world.a, 'fragile')).result?.['taskId']
  const waiting = { status: 'working', statusMessage: 'Waits for a process that executes tasks' }
  expect(await status(taskId)).toMatchObject(waiting)
  expect(await metrics()).toContain('mcp_gateway_queued_tasks 1\n')
  await world.assemblies[0].work()
  const dead = engine.next()
  await expect.poll(() => world.agents.calls).toHaveLength(1)
  expect(await status(taskId)).not.toHaveProperty('statusMessage')
  await world.assemblies[1].work() // the engine now uses this process
  const early = engine.next()
  await settled()
  await world.clock.advance(1000)
  expect(await early).toBe('released') // the process lives: it may stop later than the engine thinks
  await freeze(world)
  await engine.next()
  await dead
  const run = world.agents.calls[0]?.runId
  expect(world.warnings).toEqual([
    `The run ${run} of fragile is taken over: its process died or froze`,
    expect.stringContaining(`The task of the run ${run} of fragile failed: The process that`),
  ])
  vi.spyOn(engine, 'countQueued').mockRejectedValue(new GatewayError('UNAVAILABLE', 'Away'))
  expect(await metrics()).toContain('mcp_gateway_queued_tasks Nan\n')
})

test('does not count calls with a key that ended before they were answered, and repeats none', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine, tasks: { maxPerPrincipal: 1 } })
  await world.assemblies[0].work()
  engine.onSubmit = () => void engine.next()
  const quick = (fetch: Fetch, index: number): Promise<Message> => {
    const meta = { 'io.github.x-mcp/idempotency-key': `${KEY}-${index}` }
    const params = { name: 'echo', arguments: { message: 'Hi' }, _meta: meta }
    return send(fetch, request('tools/call', params))
  }
  for (const index of [1, 2, 3]) {
    expect((await quick(world.a, index)).result).toMatchObject({ content: [{ text: 'Hi' }] })
  }
  const { records } = world.store
  const read = records.get.bind(records)
  for (const isAway of [false, true]) {
    // Then the repeat finds the key, but does not see the task at once.
    const away = vi.spyOn(records, 'get').mockImplementation(async (key) => {
      if (!isAway || !key.startsWith('call:')) return read(key)
      away.mockRestore()
      throw new GatewayError('UNAVAILABLE', 'Away')
    })
    const repeating = quick(world.b, 1)
    await settled()
    await world.clock.advance(250)
    const again = await repeating
    expect(again.result).toMatchObject({ content: [{ text: 'Hi' }], _meta: REPLAYED })
    away.mockRestore()
  }
  expect(world.agents.calls).toHaveLength(3)
  engine.onSubmit = () => {}
  const calling = call(world.a, 'endless')
  await settled()
  await world.clock.advance(2000)
  expect((await calling).result).toMatchObject({ resultType: 'task', status: 'working' })
})

test('gives a repeat of a call no task that the first request takes back', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine })
  await world.assemblies[0].work()
  const calls = [send(world.a, keyed('echo'))]
  await settled()
  calls.push(send(world.b, keyed('echo')))
  await settled()
  expect(await engine.next()).toBe('ended')
  await world.clock.advance(500)
  const [first, second] = await Promise.all(calls)
  expect(first?.result).toMatchObject({ content: [{ text: 'Hi' }] })
  expect(second?.result).toMatchObject({ content: [{ text: 'Hi' }], _meta: REPLAYED })
  const slow = [send(world.a, keyed('endless')), send(world.b, keyed('endless'))]
  await settled()
  await world.clock.advance(2000)
  const [taskId, ...others] = new Set(
    (await Promise.all(slow)).map(({ result }) => result?.['taskId']),
  )
  expect(others).toEqual([])
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'working' })
  expect(world.agents.calls).toHaveLength(1)
})

test('answers with the tasks of an engine when its process stops', async () => {
  const engine = new EngineAtHand()
  await using world = twoReplicas({ engine })
  const calling = call(world.a, 'endless')
  await settled()
  const closing = world.assemblies[0].close()
  await settled()
  await world.clock.advance(1000)
  const { result } = await calling
  expect(result).toMatchObject({ resultType: 'task', status: 'working' })
  expect((await get(world.b, result?.['taskId'])).result).toMatchObject({ status: 'working' })
  await closing
})

test('stores the question of a task when the store is back, and asks once', async () => {
  await using world = await executing()
  const { records } = world.store
  const put = records.put.bind(records)
  const taskId = (await call(world.a, 'asking')).result?.['taskId']
  let writes = 0
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    const isQuestion = JSON.stringify(entry).includes('asking') && key.startsWith('call:')
    const version = await put(key, ...entry)
    // The write happens, but its answer is lost.
    if (isQuestion && ++writes === 3) throw new GatewayError('UNAVAILABLE', 'Away')
    return version
  })
  const attempt = world.engine.next()
  await settled()
  await world.clock.advance(1000)
  expect(await attempt).toBe('ended')
  away.mockRestore()
  expect((await get(world.b, taskId)).result).toMatchObject({ status: 'input_required' })
  // An engine that gives the run to another process finds a question.
  await world.assemblies[1].work()
  const run = `${world.agents.calls[0]?.runId}/0`
  const { signal } = new AbortController()
  expect(await world.engine.execute?.(run, { signal })).toBe('ended')
  expect(world.agents.calls).toHaveLength(1)
})
