import { deferred } from '@x/mcp-testing'
import { beforeAll, expect, test, vi } from 'vitest'

import { whenSchemasChecked } from '../src/agents/schemas.ts'
import { GatewayError } from '../src/errors.ts'
import type { GatewayOptions } from '../src/options.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { startNameOf } from '../src/tools/pair.ts'
import { AgentsAtHand, endless, type Behaviour } from './agents-at-hand.ts'
import { ManualClock, settled } from './manual-clock.ts'
import { startKillableGateway } from './killable-gateway.ts'
import { inSession, openSession, post } from './rpc-requests.ts'
import { request, send, type Fetch, type Json } from './task-requests.ts'
import { twoReplicas } from './two-replicas.ts'

// To load the library takes longer than `settled()` waits.
beforeAll(whenSchemasChecked)

const UNKNOWN = { isError: true, _meta: { reason: 'expired' } }

function pairs(options: Partial<GatewayOptions> = {}) {
  return twoReplicas({ tools: { tasks: 'pair' }, ...options })
}

/** A client that knows no tasks. */
function clientOf(fetch: Fetch, token?: string) {
  const over = { extensions: {}, ...(token !== undefined && { token }) }
  const call = async (name: string, args: Json = { message: 'Hi' }): Promise<Json | undefined> => {
    return (await send(fetch, request('tools/call', { name, arguments: args }, over))).result
  }
  return {
    call,
    /** Starts a tool. @returns the handle */
    start: async (tool: string): Promise<unknown> => {
      const result = await call(`${tool}_start`)
      expect(result).toMatchObject({ structuredContent: { status: 'working' } })
      const { structuredContent } = result as { readonly structuredContent: Json }
      return structuredContent['handle']
    },
    result: (handle: unknown, args: Json = {}) => call('agent_result', { handle, ...args }),
  }
}

/** Moves the clock until an answer is there. */
async function inTime<Value>(clock: ManualClock, answer: Promise<Value>): Promise<Value> {
  const state = { isThere: false }
  void answer.finally(() => (state.isThere = true))
  while (!state.isThere) await clock.advance(500)
  return answer
}

/** Works until the test lets it end. */
function slow(go: Promise<void>): Behaviour {
  return async function* () {
    yield { type: 'status', text: 'Counting' }
    await go
    yield { type: 'done', text: 'Three' }
  }
}

test('lists a start tool for each tool of a pair, and one result tool', async () => {
  await using world = twoReplicas({ tools: { overrides: { echo: { tasks: 'pair' } } } })
  const { result } = await send(world.a, request('tools/list', {}))
  const tools = result?.['tools'] as readonly Json[]
  expect(tools.map(({ name }) => name)).toEqual([
    'agent_result',
    'asking',
    'echo',
    'echo_start',
    'endless',
  ])
  expect(tools[3]).toMatchObject({
    description: expect.stringMatching(/^Starts echo, .* agent_result[^]*Does what echo does/),
    inputSchema: { required: ['message'] },
  })
  expect(tools[3]).not.toHaveProperty('inputSchema.properties.resume')
  expect(tools[1]).toHaveProperty('inputSchema.properties.resume')
})

test('offers no result tool where no tool has a pair', async () => {
  await using world = twoReplicas()
  const message = await send(world.a, request('tools/call', { name: 'agent_result' }))
  expect(message).toMatchObject({ error: { code: -32_602 } })
  await using other = twoReplicas({ tools: { overrides: { gone: { tasks: 'pair' } } } })
  const { result } = await send(other.a, request('tools/list', {}))
  expect(JSON.stringify(result)).not.toContain('agent_result')
})

test('gives no agent the name of a tool of the pair', async () => {
  await using world = pairs()
  world.agents.join('agent_result', () => [{ type: 'done', text: 'Mine' }])
  world.agents.join('echo_start', () => [{ type: 'done', text: 'Mine' }])
  const handle = await clientOf(world.a).start('echo')
  await settled()
  expect(await clientOf(world.a).result(handle)).toMatchObject({ content: [{ text: 'Hi' }] })
})

test('shortens the name of a start tool to what model providers accept', () => {
  const long = 'a'.repeat(64)
  expect(startNameOf(long)).toHaveLength(64)
  expect(startNameOf(long)).not.toBe(startNameOf(`${long.slice(0, 63)}b`))
  expect(startNameOf('a'.repeat(58))).toBe(`${'a'.repeat(58)}_start`)
})

test('waits for the result up to a limit, and says that it is not done', async () => {
  const go = deferred()
  await using world = pairs()
  world.agents.join('slow', slow(go.promise))
  const handle = await clientOf(world.a).start('slow')
  await world.clock.advance(1000)
  const before = world.clock.now()
  expect(await inTime(world.clock, clientOf(world.b).result(handle))).toMatchObject({
    content: [{ text: expect.stringMatching(/not done yet.*agent_result.*Still working/) }],
    structuredContent: { status: 'working', handle },
  })
  expect(world.clock.now() - before).toBeGreaterThanOrEqual(25_000)
  const late = clientOf(world.b).result(handle)
  go.resolve()
  expect(await inTime(world.clock, late)).toMatchObject({ content: [{ text: 'Three' }] })
  expect(await clientOf(world.a).result(handle)).toMatchObject({ content: [{ text: 'Three' }] })
  expect(world.agents.calls).toHaveLength(1)
})

test('returns the result of a call in another session of a caller without a name', async () => {
  await using world = pairs()
  const start = { name: 'echo_start', arguments: { message: 'Hi' } }
  const inNewSession = async (params: Json): Promise<Json> => {
    const session = inSession(await openSession(world.a))
    const response = await world.a(
      post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, session),
    )
    const text = await response.text()
    const data = text.startsWith('{') ? text : (/^data: (\{.*)$/m.exec(text)?.[1] ?? '')
    return (JSON.parse(data) as { result: Json }).result
  }
  const { structuredContent } = await inNewSession(start)
  await settled()
  const { handle } = structuredContent as Json
  expect(await inNewSession({ name: 'agent_result', arguments: { handle } })).toMatchObject({
    content: [{ text: 'Hi' }],
  })
})

/** Work that lasts until `go`, in gateways with one store, and with a checkpointer that they share. */
function longWork() {
  const memory = new MemoryGatewayStore()
  const { records, logs, blobs, rates } = memory
  const shared = { isShared: true, isDurable: true, isReady: () => memory.isReady() }
  const hasBegun = deferred()
  const go = deferred()
  /** Number of the attempt, and its run. */
  const attempts: [attempt: unknown, runId: unknown][] = []
  const behaviour: Behaviour = async function* ({ artifacts, attempt, runId }) {
    attempts.push([attempt, runId])
    // A step that has ended, and does not run again.
    if (attempt === 1) await artifacts.write({ name: 'one.txt', data: Buffer.from('One') })
    hasBegun.resolve()
    await go.promise
    yield { type: 'done', text: 'Three' }
  }
  const source = (): AgentsAtHand => {
    const agents = new AgentsAtHand()
    agents.join('slow', behaviour, { canContinue: true })
    return agents
  }
  return {
    store: { records, logs, blobs, rates, ...shared, close: async () => {} },
    source,
    hasBegun: hasBegun.promise,
    go: go.resolve,
    attempts,
    [Symbol.asyncDispose]: () => memory.close(),
  }
}

test('returns a long result with all files after the gateway was killed, and begins the work once', async () => {
  await using work = longWork()
  const { attempts, source, store } = work
  const first = startKillableGateway(store, source, { tasks: 'pair' })
  const handle = await clientOf(first.fetch).start('slow')
  await work.hasBegun
  await first.kill()
  await using second = startKillableGateway(store, source, { tasks: 'pair' })
  const late = clientOf(second.fetch).result(handle)
  await vi.waitUntil(() => attempts.length === 2)
  work.go()
  expect(await late).toMatchObject({
    content: [{ text: 'Three' }, { type: 'resource', resource: { text: 'One' } }],
  })
  const [[, runId] = []] = attempts
  expect(attempts).toEqual([
    [1, runId],
    [2, runId],
  ])
  await first[Symbol.asyncDispose]()
})

test('continues the work after a restart before a client asks for it', async () => {
  await using work = longWork()
  const { attempts, source, store } = work
  const clock = new ManualClock()
  const first = startKillableGateway(store, source, { tasks: 'pair', clock })
  await clientOf(first.fetch).start('slow')
  await work.hasBegun
  await first.kill()
  await using second = startKillableGateway(store, source, { tasks: 'pair', clock })
  await clock.advance(5000) // its agents are not there yet
  expect(attempts).toHaveLength(1)
  await send(second.fetch, request('tools/list', {}))
  await clock.advance(60_000)
  expect(attempts.map(([attempt]) => attempt)).toEqual([1, 2])
  work.go()
  await first[Symbol.asyncDispose]()
})

test('shows the questions of the work as text, and takes their answers', async () => {
  await using world = pairs()
  const handle = await clientOf(world.a).start('asking')
  await settled()
  const asked = await clientOf(world.a).result(handle)
  expect(asked).toMatchObject({
    content: [{ text: expect.stringMatching(/1\.i0: Name\?[^]*1\.i1: Colour\?[^]*agent_result/) }],
    structuredContent: { status: 'needs_input', handle, questions: [{ key: '1.i0' }, {}] },
    _meta: { reason: 'needs_input' },
  })
  // A value without a form, and only one of two.
  expect(await clientOf(world.b).result(handle, { answers: { '1.i0': 'Ada' } })).toMatchObject({
    structuredContent: { questions: [{ key: '1.i1' }] },
  })
  // Some models write JSON text for an object.
  const answers = JSON.stringify({ '1.i1': { answer: 'blue' } })
  const last = await clientOf(world.b).result(handle, { answers })
  const text = JSON.stringify({
    name: { action: 'accept', content: { answer: 'Ada' } },
    colour: { action: 'accept', content: { answer: 'blue' } },
  })
  expect(last).toMatchObject({ content: [{ text }] })
})

test('says which answers are not taken, and why', async () => {
  await using world = pairs()
  const schema = {
    type: 'object',
    properties: { sure: { type: 'boolean' } },
    required: ['sure'],
  }
  world.agents.join('strict', ({ resume }) => [
    resume
      ? { type: 'done', text: JSON.stringify(resume.answers) }
      : { type: 'asked', questions: [{ id: 'q', message: 'Sure?', schema }], state: {} },
  ])
  const { result, start } = clientOf(world.a)
  const handle = await start('strict')
  await settled()
  const unknown = await result(handle, { answers: { i0: { sure: true } } })
  expect(unknown).toMatchObject({
    content: [{ text: expect.stringMatching(/no open question has the key: "i0"\.\n/) }],
    structuredContent: { questions: [{ key: '1.i0', message: 'Sure?' }] },
  })
  const refused = await result(handle, { answers: { '1.i0': { sure: 'perhaps' } } })
  expect(refused).toMatchObject({
    content: [
      {
        text: expect.stringMatching(
          /^An answer was refused\.[^]*2\.i0: Sure\?\n\(The answer does not match the schema: .*sure/,
        ),
      },
    ],
  })
  const later = await result(handle)
  expect(JSON.stringify(later)).not.toMatch(/refused|not match/)
  expect(await result(handle, { answers: { '2.i0': { sure: true } } })).toMatchObject({
    content: [{ text: expect.stringContaining('"sure":true') }],
  })
})

test('says that nobody answered in time', async () => {
  await using world = pairs()
  const handle = await clientOf(world.a).start('asking')
  await settled()
  await world.clock.advance(3_600_000)
  expect(await clientOf(world.b).result(handle)).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('Nobody answered') }],
  })
})

test('refuses `resume` for a start tool, and other bad arguments', async () => {
  await using world = pairs()
  const invalid = { isError: true, _meta: { reason: 'invalid_arguments' } }
  const resume = { run: 'run_0000000000000000.1.x', answers: {} }
  expect(await clientOf(world.a).call('asking_start', { resume })).toMatchObject(invalid)
  expect(await clientOf(world.a).call('echo_start', { message: '' })).toMatchObject(invalid)
  expect(await clientOf(world.a).call('agent_result', { handle: 7 })).toMatchObject(invalid)
  expect(world.agents.calls).toEqual([])
})

test('cancels the work, but not when a client stops waiting for it', async () => {
  const hasEnded = vi.fn<() => void>()
  await using world = pairs()
  world.agents.join('watched', async function* (agentCall) {
    agentCall.signal.addEventListener('abort', () => hasEnded())
    yield* endless(agentCall)
  })
  const handle = await clientOf(world.a).start('watched')
  const leaving = new AbortController()
  const waiting = request('tools/call', { name: 'agent_result', arguments: { handle } })
  const waits = world.a(new Request(waiting, { signal: leaving.signal })).catch(() => {})
  await settled()
  leaving.abort()
  await waits
  expect(hasEnded).not.toHaveBeenCalled()
  const cancelled = { content: [{ text: expect.stringContaining('cancelled') }] }
  expect(await clientOf(world.a).result(handle, { cancel: true })).toMatchObject(cancelled)
  expect(hasEnded).toHaveBeenCalledOnce()
  expect(await clientOf(world.b).result(handle)).toMatchObject(cancelled)
})

test('gives the same answer for an unknown, a foreign and an expired handle', async () => {
  const ids: Readonly<Record<string, string>> = { 'token-of-ada': 'ada', 'token-of-bob': 'bob' }
  await using world = pairs({
    resultTtlMs: 60_000,
    auth: {
      authenticate: async ({ headers }: Request) => {
        const id = ids[headers.get('authorization')?.slice(7) ?? ''] ?? ''
        return { id, scopes: ['*'], isAnonymous: false, claims: {} }
      },
    },
  })
  const handle = await clientOf(world.a, 'token-of-ada').start('echo')
  await settled()
  const own = await clientOf(world.a, 'token-of-ada').result(handle)
  expect(own).toMatchObject({ content: [{ text: 'Hi' }] })
  const answers: unknown[] = []
  answers.push(await clientOf(world.a, 'token-of-ada').result('task_1'))
  answers.push(await clientOf(world.a, 'token-of-bob').result(handle))
  answers.push(await clientOf(world.a, 'token-of-bob').result(handle, { cancel: true }))
  answers.push(await clientOf(world.a, 'token-of-bob').result(handle, { answers: { '1.i0': 'x' } }))
  await world.clock.advance(60_000 + 300_000)
  answers.push(await clientOf(world.a, 'token-of-ada').result(handle))
  expect(answers[0]).toMatchObject(UNKNOWN)
  for (const answer of answers) expect(answer).toEqual(answers[0])
})

test('executes nothing where no result can be stored', async () => {
  await using world = pairs({ tasks: { maxPerPrincipal: 1 } })
  await clientOf(world.a).start('echo')
  await settled()
  const full = { isError: true, _meta: { reason: 'busy' } }
  expect(await clientOf(world.a).call('echo_start')).toMatchObject(full)
  expect(world.agents.calls).toHaveLength(1)
})

test('counts the started work of callers without a name by their network', async () => {
  const clientAddress = (given: Request): string | undefined =>
    given.headers.get('x-address') ?? undefined
  await using world = pairs({ tasks: { maxPerPrincipal: 1 }, clientAddress })
  const clientAt = (address: string) =>
    clientOf((given) => {
      given.headers.set('x-address', address)
      return world.a(given)
    })
  await clientAt('192.0.2.1').start('echo')
  await settled()
  const full = { isError: true, _meta: { reason: 'busy' } }
  expect(await clientAt('192.0.2.1').call('echo_start')).toMatchObject(full)
  const handle = await clientAt('198.51.100.7').start('echo')
  await settled()
  expect(await clientAt('192.0.2.1').result(handle)).toMatchObject({ content: [{ text: 'Hi' }] })
})

test('says that a result cannot be reached while the store is away', async () => {
  await using world = pairs()
  const handle = await clientOf(world.a).start('echo')
  await settled()
  const away = vi.spyOn(world.store.records, 'get').mockImplementation(async () => {
    throw new GatewayError('UNAVAILABLE', 'Redis is away')
  })
  const answer = await clientOf(world.a).result(handle)
  expect(answer).toMatchObject({ isError: true, _meta: { reason: 'unavailable' } })
  expect(JSON.stringify(answer)).not.toContain('Redis')
  away.mockRestore()
  expect(await clientOf(world.a).result(handle)).toMatchObject({ content: [{ text: 'Hi' }] })
})
