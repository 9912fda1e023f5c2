import { callsOf } from '../../test/settings.ts'
import { reasonOf, replicas } from '../../test/runs-world.ts'
import { deferred } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import {
  principalNamed,
  callRuns,
  requestOf,
  ScriptedSource,
  tool,
  type Script,
} from '../../test/scripted-source.ts'
import type { AgentUpdate } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import { newScopeId } from '../files/scopes.ts'
import { systemClock } from '../internal/clock.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import type { ToolOutcome } from './order.ts'

const order = requestOf('Order', { idempotencyKey: 'k1' })
const done: Script = () => [{ type: 'done', text: 'Ordered' }]

test('lets a repeated call join the call that runs, and returns its result later, in all processes', async () => {
  const go = deferred()
  const script: Script = async function* () {
    await go.promise
    yield { type: 'done', text: 'Ordered' }
  }
  await using world = replicas(script, { clock: systemClock })
  const first = callRuns(world.a, tool, order)
  const second = callRuns(world.a, tool, order)
  const third = callRuns(world.b, tool, order)
  await settled()
  go.resolve()
  const repeated = replayed(await first)
  expect(await second).toEqual(repeated)
  expect(await third).toEqual(repeated)
  expect(await callRuns(world.b, tool, order)).toEqual(repeated)
  expect(world.source.calls).toHaveLength(1)
})

/** The result that a repeat of a call gets. */
function replayed(outcome: ToolOutcome): object {
  const result = outcome.type === 'result' ? outcome.result : undefined
  const meta = { ...result?.['_meta'], 'io.github.x-mcp/idempotency': { replayed: true } }
  return { type: 'result', result: { ...result, _meta: meta } }
}

const hanging: Script = async function* ({ signal }) {
  await untilAborted(signal)
  yield { type: 'done' }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}

test('stops a call when the last of its repeats is cancelled', async () => {
  await using world = replicas(hanging)
  const [first, second] = [new AbortController(), new AbortController()]
  const outcomes = [first, second].map(({ signal }) =>
    callRuns(world.a, tool, { ...order, signal }),
  )
  await settled()
  first.abort()
  await settled()
  expect(world.source.calls.map(({ signal }) => signal.aborted)).toEqual([false])
  second.abort()
  expect(world.source.calls.map(({ signal }) => signal.aborted)).toEqual([true])
  for (const outcome of await Promise.all(outcomes)) {
    expect(outcome).toMatchObject({ result: { isError: true, _meta: { reason: 'cancelled' } } })
  }
  expect(world.a.parts.runs.size).toBe(0)
})

test('never makes a call again that was stopped, also while it is being stopped', async () => {
  const stopped = deferred()
  await using world = replicas(async function* (call) {
    await new Promise((resolve) => {
      call.signal.addEventListener('abort', resolve)
    })
    await stopped.promise
    yield { type: 'done', text: 'Ordered' }
  })
  const caller = new AbortController()
  const first = callRuns(world.a, tool, { ...order, signal: caller.signal })
  await settled()
  caller.abort()
  const second = callRuns(world.a, tool, order)
  await settled()
  stopped.resolve()
  for (const outcome of [await first, await second, await callRuns(world.b, tool, order)]) {
    expect(outcome).toMatchObject({ result: { _meta: { reason: 'cancelled' } } })
  }
  expect(world.source.calls).toHaveLength(1)
})

test('refuses a key that was used with other arguments, while the call runs and after it', async () => {
  const go = deferred()
  await using world = replicas(async function* () {
    await go.promise
    yield { type: 'done', text: 'Ordered' }
  })
  const other = { ...order, arguments: { message: 'Two' } }
  const conflict = { code: -32_602, data: { reason: 'idempotency_conflict' } }
  const first = callRuns(world.a, tool, order)
  await settled()
  await expect(callRuns(world.a, tool, other)).rejects.toMatchObject(conflict)
  await expect(callRuns(world.b, tool, other)).rejects.toMatchObject(conflict)
  go.resolve()
  await first
  await expect(callRuns(world.b, tool, other)).rejects.toMatchObject(conflict)
  expect(world.source.calls).toHaveLength(1)
})

test.each([
  { title: 'another caller', request: { ...order, principal: principalNamed('bob') } },
  { title: 'another key', request: { ...order, idempotencyKey: 'k2' } },
  { title: 'no key', request: { ...order, idempotencyKey: undefined } },
])('makes a call with $title', async ({ request }) => {
  await using world = replicas(done)
  await callRuns(world.a, tool, order)
  await callRuns(world.a, tool, request)
  expect(world.source.calls).toHaveLength(2)
})

test('gives callers without a name no result of another caller', async () => {
  await using world = replicas(done)
  const request = { ...order, principal: { ...principalNamed('everybody'), isAnonymous: true } }
  await callRuns(world.a, tool, request)
  await callRuns(world.a, tool, request)
  expect(world.source.calls).toHaveLength(2)
  const scope = newScopeId()
  await callRuns(world.a, tool, { ...request, scope })
  await callRuns(world.a, tool, { ...request, scope })
  expect(world.source.calls).toHaveLength(3)
})

test('knows a caller without a name by a key that nobody can guess', async () => {
  await using world = replicas(done)
  const principal = { ...principalNamed('everybody'), isAnonymous: true }
  const request = { ...order, principal, idempotencyKey: newScopeId() }
  await callRuns(world.a, tool, request)
  expect(await callRuns(world.b, tool, request)).toMatchObject({ type: 'result' })
  expect(world.source.calls).toHaveLength(1)
})

test('repeats an error of the agent, its questions and an error of the gateway', async () => {
  const updates: readonly AgentUpdate[] = [
    { type: 'failed', reason: 'Not now.' },
    { type: 'asked', questions: [{ id: 'q', message: 'Size?' }], state: {} },
    { type: 'done', structured: { value: 1n } },
  ]
  for (const update of updates) {
    await using world = replicas(() => [update])
    const request = { ...order, canAsk: true }
    const outcomes = []
    for (const runs of [world.a, world.b, world.a]) {
      outcomes.push(await callRuns(runs, tool, request).catch((error: unknown) => ({ error })))
    }
    expect(world.source.calls).toHaveLength(1)
    const [first, ...others] = outcomes.map((outcome) => JSON.stringify(withoutMark(outcome)))
    expect(others).toEqual([first, first])
  }
})

/** An outcome without the mark of a repeat. */
function withoutMark(outcome: object): object {
  const text = JSON.stringify(outcome, (key, value: unknown) =>
    ['io.github.x-mcp/idempotency', 'isStarted'].includes(key) ? undefined : value,
  )
  return JSON.parse(text) as object
}

test('makes a call again whose agent never got it', async () => {
  await using world = replicas(done)
  world.source.isGone = true
  expect(reasonOf(await callRuns(world.a, tool, order))).toBe('agent_gone')
  world.source.isGone = false
  expect(await callRuns(world.b, tool, order)).toMatchObject({
    result: { content: [{ text: 'Ordered' }] },
  })
})

test('never makes a call again whose result is not kept any more, and forgets its key later', async () => {
  let now = 1_000_000
  await using store = new MemoryGatewayStore({ now: () => now })
  const source = new ScriptedSource(done)
  const options = { agents: source, records: store.records, resultTtlMs: 60_000 }
  const runs = callsOf({ ...options, timeoutMs: 10_000 })
  await callRuns(runs, tool, order)
  now += 61_000
  expect(reasonOf(await callRuns(runs, tool, order))).toBe('expired')
  expect(source.calls).toHaveLength(1)
  now += 70_000
  expect(reasonOf(await callRuns(runs, tool, order))).toBeUndefined()
  expect(source.calls).toHaveLength(2)
  await runs.close()
})

const asking: Script = ({ resume }) => {
  if (resume) return [{ type: 'done', text: 'Ordered' }]
  return [{ type: 'asked', questions: [{ id: 'q', message: 'Size?' }], state: {} }]
}

test('keeps the outcome of a call whose question was declined as long as any other', async () => {
  await using world = replicas(asking, { needsInputTtlMs: 60_000, resultTtlMs: 600_000 })
  const outcome = await callRuns(world.a, tool, { ...order, canAsk: true })
  if (outcome.type !== 'input') throw new Error('it did not ask')
  const resume = { state: outcome.state, responses: { i0: { action: 'decline' } } }
  expect(reasonOf(await callRuns(world.a, tool, { ...order, resume }))).toBe('decline')
  await world.clock.advance(500_000)
  expect(reasonOf(await callRuns(world.b, tool, order))).toBe('decline')
})

test('knows the key of a call for as long as its question is open', async () => {
  await using world = replicas(asking, { resultTtlMs: 60_000, timeoutMs: 10_000 })
  const request = { ...order, canAsk: true }
  expect(await callRuns(world.a, tool, request)).toMatchObject({ type: 'input' })
  await world.clock.advance(3_000_000)
  expect(await callRuns(world.b, tool, request)).toMatchObject({ type: 'input' })
  expect(world.source.calls).toHaveLength(1)
})

test('claims a key that another call has released in the meantime', async () => {
  await using world = replicas(done)
  const { records } = world.store
  const put = records.put.bind(records)
  const other = vi.spyOn(records, 'put').mockImplementation(async (...entry) => {
    if (!entry[0].startsWith('call-key:')) return put(...entry)
    other.mockRestore()
    return undefined
  })
  await callRuns(world.a, tool, order)
  await callRuns(world.b, tool, order)
  expect(world.source.calls).toHaveLength(1)
})

test('makes a call once whose key was stored, although the store said that it was away', async () => {
  await using world = replicas(done)
  const { records } = world.store
  const put = records.put.bind(records)
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    await put(key, ...entry)
    if (key.startsWith('call-key:')) throw new GatewayError('UNAVAILABLE', 'The answer is lost')
    return 'written'
  })
  expect(reasonOf(await callRuns(world.a, tool, order))).toBe('unavailable')
  // Then, the process cannot show that it is alive.
  away.mockImplementation(() => Promise.reject(new GatewayError('UNAVAILABLE', 'Read only')))
  await world.clock.advance(1000)
  expect(reasonOf(await callRuns(world.a, tool, order))).toBe('unavailable')
  away.mockRestore()
  const again = await Promise.all([1, 2].map(() => callRuns(world.a, tool, order)))
  expect(again.map(reasonOf)).toEqual([undefined, undefined])
  expect(world.source.calls).toHaveLength(1)
})

test('asks a repeat of a call again if the agent did not get the answer', async () => {
  await using world = replicas(asking)
  const request = { ...order, canAsk: true }
  const outcome = await callRuns(world.a, tool, request)
  if (outcome.type !== 'input') throw new Error('it did not ask')
  const large = { i0: { action: 'accept', content: { answer: 'large' } } }
  world.source.isGone = true
  const resume = { state: outcome.state, responses: large }
  expect(reasonOf(await callRuns(world.a, tool, { ...request, resume }))).toBe('agent_gone')
  world.source.isGone = false
  expect(await callRuns(world.b, tool, request)).toMatchObject({ forms: [{ key: 'i0' }] })
  expect(reasonOf(await callRuns(world.b, tool, { ...request, resume }))).toBeUndefined()
  expect(world.source.calls).toHaveLength(2)
})

/** Two processes with one store. The clock of the first can stand still, as after `kill -9`. */
function killableWorld(script: Script, { isNotified = false } = {}) {
  const clocks = { store: new ManualClock(), a: new ManualClock(), b: new ManualClock() }
  const store = new MemoryGatewayStore({ now: () => clocks.store.now() })
  const source = new ScriptedSource(script)
  const [a, b] = [clocks.a, clocks.b].map((clock) => {
    const logs = isNotified ? store.logs : undefined
    return callsOf({ agents: source, records: store.records, logs, clock })
  })
  if (!a || !b) throw new Error('There are two')
  return {
    a,
    b,
    source,
    /** Advances the clock of the store, and that of the first process if it is alive. */
    async advance(ms: number, { isAlive }: { readonly isAlive: boolean }): Promise<void> {
      for (let passed = 0; passed < ms; passed += 500) {
        await clocks.store.advance(500)
        await clocks.b.advance(500)
        if (isAlive) await clocks.a.advance(500)
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([a.close(), b.close()])
      await store.close()
    },
  }
}

test('answers `outcome_unknown` within 5 s after the process of a call died, and never makes the call again', async () => {
  await using world = killableWorld(hanging)
  void callRuns(world.a, tool, order)
  await settled()
  await world.advance(5000, { isAlive: false })
  for (let n = 0; n < 3; n++) {
    expect(reasonOf(await callRuns(world.b, tool, order))).toBe('outcome_unknown')
  }
  await world.advance(540_000, { isAlive: false })
  expect(reasonOf(await callRuns(world.b, tool, order))).toBe('outcome_unknown')
  expect(world.source.calls).toHaveLength(1)
})

test('waits for the call of another process until the caller leaves or the process dies', async () => {
  await using world = killableWorld(hanging)
  void callRuns(world.a, tool, order)
  await settled()
  const caller = new AbortController()
  const [left, waiting] = [
    callRuns(world.b, tool, { ...order, signal: caller.signal }),
    callRuns(world.b, tool, order),
  ]
  await world.advance(60_000, { isAlive: true })
  caller.abort()
  await world.advance(5000, { isAlive: false })
  expect(reasonOf(await left)).toBe('cancelled')
  expect(reasonOf(await waiting)).toBe('outcome_unknown')
  expect(world.source.calls).toHaveLength(1)
})

test.each([
  ['learns of that at its end', false],
  ['learns of that at once', true],
])(
  'returns the result of a call whose process was blocked for 8 s, and %s',
  async (_, isNotified) => {
    const go = deferred()
    const script: Script = async function* ({ signal }) {
      await Promise.race([go.promise, untilAborted(signal)])
      yield { type: 'done', text: 'Ordered' }
    }
    await using world = killableWorld(script, { isNotified })
    await world.a.store.start()
    const first = callRuns(world.a, tool, order)
    await settled()
    await world.advance(8000, { isAlive: false })
    expect(reasonOf(await callRuns(world.b, tool, order))).toBe('outcome_unknown')
    await settled()
    go.resolve()
    await first
    expect(reasonOf(await first)).toBeUndefined()
    expect(await callRuns(world.b, tool, order)).toEqual(replayed(await first))
    expect(world.source.calls).toHaveLength(1)
  },
)

test('writes nothing for a call that has no key, asks nothing and ends in time', async () => {
  await using world = replicas(done)
  const writes = vi.spyOn(world.store.records, 'put')
  await callRuns(world.a, tool, { ...order, idempotencyKey: undefined })
  expect(writes).not.toHaveBeenCalled()
  await callRuns(world.a, tool, order)
  // The lease of the process, the call, its key, and its end.
  expect(writes.mock.calls.map(([key]) => key.split(':')[0])).toEqual([
    'process',
    'call',
    'call-key',
    'call',
  ])
})
